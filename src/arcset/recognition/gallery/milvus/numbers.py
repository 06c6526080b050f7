"""Numbers of samples and subjects that nobody else gives, without a counter.

Milvus has no counter that many processes could share, and does not refuse a key that is there
already. So a gallery claims a range of numbers: it writes down which, in `NAME_about`, and then
reads all claims again, in the strongest consistency. If none of the others is as high, it has the
range; of two who claim at the same moment, at least the later one sees the other, leaves its claim
and tries again. What is left of a range when a gallery is closed is never given: numbers have gaps.
"""

import random
import secrets
import threading
import time

from arcset.errors import DataError
from arcset.recognition.gallery.milvus.collections import NOTHING, Collections
from arcset.recognition.gallery.milvus.connection import Connection

__all__ = ["Numbers"]

_AT_ONCE = 1_000  # numbers that are claimed at least
_TRIES = 30


class Numbers:
    """Numbers of one kind, `sample` or `subject`, each given once. Threads may share one."""

    def __init__(self, connection: Connection, collections: Collections, kind: str) -> None:
        self._connection = connection.strongly()
        self._about, self._kind = collections.about, kind
        self._lock = threading.Lock()
        self._next = self._stop = 1  # what is left of the claim

    def take(self, count: int) -> range:
        """So many numbers in a row, higher than all that this gallery object gave before."""
        with self._lock:
            if self._stop - self._next < count:
                self._claim(max(count, _AT_ONCE))
            self._next += count
            return range(self._next - count, self._next)

    def reserve(self, count: int) -> None:
        """Claim as many as will be needed, at once."""
        with self._lock:
            if self._stop - self._next < count:
                self._claim(max(count, _AT_ONCE))

    def take_given(self, first: int, last: int) -> bool:
        """Claim the numbers from `first` to `last`; whether all that were given are lower."""
        with self._lock:
            claimed = max(self._claims().values(), default=0)
            mine = self._next < self._stop == claimed + 1
            if first <= (self._next - 1 if mine else claimed):
                return False
            if not mine or last >= self._stop:
                self._claim(last - claimed)
                if self._next != claimed + 1:  # somebody else came in between
                    return False
            self._next = last + 1
            return True

    def _claim(self, count: int) -> None:
        for attempt in range(_TRIES):
            before = self._claims()
            start = max(before.values(), default=0) + 1
            mine = f"{self._kind}:{start}:{start + count - 1}:{secrets.token_hex(8)}"
            row = {"key": mine, "value": str(time.time_ns() // 1000), "nothing": NOTHING}
            self._connection.insert(self._about, [row])
            others = {key: last for key, last in self._claims().items() if key != mine}
            if max(others.values(), default=0) < start:
                self._next, self._stop = start, start + count
                # Those below are of no use any more: the highest one tells where to go on.
                self._connection.delete(self._about, [key for key in others if key in before])
                return
            self._connection.delete(self._about, [mine])
            time.sleep(random.uniform(0, 0.05 * (attempt + 1)))
        raise DataError(
            f"{self._connection.address} is being written by too many at once: no numbers could be"
            " had; nothing was changed, try again"
        )

    def _claims(self) -> dict[str, int]:
        """The highest number of each claim."""
        rows = self._connection.query(self._about, f'key like "{self._kind}:%"', ["key"])
        try:
            return {str(row["key"]): int(str(row["key"]).split(":")[2]) for row in rows}
        except (IndexError, ValueError):
            raise DataError(
                f"{self._connection.address} is damaged: a claim in it is none"
            ) from None
