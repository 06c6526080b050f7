"""What a gallery in Milvus says of itself: rows of `NAME_about`."""

import json
import secrets

from arcset.errors import DataError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.gallery.milvus.collections import LONGEST_TEXT, NOTHING, Collections
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.gallery.settings import Settings

__all__ = ["About"]

_SETTING, _CALIBRATION = "setting:", "calibration:"
_PART = LONGEST_TEXT - 535  # bytes of a calibration in one row


class About:
    """The settings of a gallery, by the names that they have in a file's `meta` table."""

    def __init__(self, connection: Connection, collections: Collections) -> None:
        self._connection, self._name = connection, collections.about

    def read(self) -> Settings | None:
        """The settings; None where there are none yet."""
        rows = self._connection.query(self._name, f'key like "{_SETTING}%"', ["key", "value"])
        if not rows:
            return None
        found = {str(row["key"])[len(_SETTING) :]: row["value"] for row in rows}
        return Settings.of(found, self._connection.address)

    def write(self, **values: str | None) -> None:
        """Write some settings; None takes one away."""
        rows = {f"{_SETTING}{name}": value for name, value in values.items()}
        kept = [
            {"key": key, "value": value, "nothing": NOTHING}
            for key, value in rows.items()
            if value is not None
        ]
        if kept:
            self._connection.upsert(self._name, kept)
        gone = [key for key, value in rows.items() if value is None]
        if gone:
            self._connection.delete(self._name, gone)

    def calibration(self, stamp: str) -> str:
        """The text of a calibration; raises `DataError` where it is not whole."""
        prefix = f"{_CALIBRATION}{stamp}:"
        rows = self._connection.query(self._name, f'key like "{prefix}%"', ["key", "value"])
        found = {str(row["key"]).removeprefix(prefix): str(row["value"]) for row in rows}
        count = int(stamp.partition("-")[2] or 0)
        try:
            return "".join(found[str(number)] for number in range(count))
        except KeyError:
            raise DataError(
                f"{self._connection.address} is damaged: its calibration is not whole"
            ) from None

    def set_calibration(self, thresholds: Thresholds | None) -> None:
        """Keep a calibration: its text first, in parts, and then one row that says which it is."""
        stamp = None
        if thresholds is not None:
            text = json.dumps(thresholds.json(), allow_nan=False)  # one byte for each character
            parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
            stamp = f"{secrets.token_hex(8)}-{len(parts)}"
            rows = [
                {"key": f"{_CALIBRATION}{stamp}:{number}", "value": part, "nothing": NOTHING}
                for number, part in enumerate(parts)
            ]
            for row in rows:  # one at a time, so that no message is too large
                self._connection.upsert(self._name, [row])
        self.write(calibrated=stamp)
        old = self._connection.query(self._name, f'key like "{_CALIBRATION}%"', ["key"])
        keys = [str(row["key"]) for row in old]
        gone = [
            key for key in keys if stamp is None or not key.startswith(f"{_CALIBRATION}{stamp}")
        ]
        if gone:
            self._connection.delete(self._name, gone)
