"""What a gallery in Milvus says of itself: rows of `NAME_about`."""

import json
import secrets

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

    def calibration(self, stamp: str) -> str | None:
        """The text of a calibration; None where it is not whole."""
        prefix = f"{_CALIBRATION}{stamp}:"
        rows = self._connection.query(self._name, f'key like "{prefix}%"', ["key", "value"])
        found = {str(row["key"]): str(row["value"]) for row in rows}
        keys = _keys(stamp)
        whole = bool(keys) and all(key in found for key in keys)
        return "".join(found[key] for key in keys) if whole else None

    def set_calibration(self, text: str | None) -> None:
        """Keep a calibration: its text first, in parts, and then one row that says which it is."""
        settings = self.read()
        before = "" if settings is None else settings.calibrated
        stamp = None
        if text is not None:
            text = json.dumps(json.loads(text))  # one byte for each character
            parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
            stamp = f"{secrets.token_hex(8)}-{len(parts)}"
            for key, part in zip(_keys(stamp), parts, strict=True):
                # One at a time, so that no message is too large.
                row = {"key": key, "value": part, "nothing": NOTHING}
                self._connection.upsert(self._name, [row])
        self.write(calibrated=stamp)
        # No others: somebody may be writing one at this moment.
        self._connection.delete(self._name, _keys(before))


def _keys(stamp: str) -> list[str]:
    """Of the rows with the text of a calibration; none where that is no stamp."""
    count = stamp.partition("-")[2]
    numbers = range(int(count)) if count.isdecimal() else ()
    return [f"{_CALIBRATION}{stamp}:{number}" for number in numbers]
