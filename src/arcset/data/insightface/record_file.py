"""RecordIO, the format of `.rec` files: records one after another, each behind a small head.

    magic ced7230a · flag (3 bits) and length (29 bits) · payload · zeros up to 4 bytes

all little-endian. A payload that holds the magic at a multiple of four bytes is cut there into
parts: flag 0 is a whole record, 1 the first part, 2 one in the middle and 3 the last, and the magic
belongs between them. An image record's payload starts with 24 bytes,

    flag u32 · label f32 · id u64 · id2 u64

and with `flag` > 0, that many float32 labels follow, which count instead of `label`. The rest is
the encoded image. The format is that of dmlc-core (`recordio.h`) and mxnet (`recordio.py`).
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError

__all__ = ["Heads", "RecordFile"]

MAGIC = 0xCED7230A

_PREFIX = struct.Struct("<II")  # of a part: magic, flag and length
_HEADER = struct.Struct("<IfQQ")  # of an image: flag, label, id, id2
_LENGTH = (1 << 29) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_AT_ONCE = 1 << 20  # heads: what is gathered of them stays below 50 MB


@dataclass(frozen=True, eq=False)
class Heads:
    """What stands before the images of N records.

    labels: float32 (N, 2), the first two labels; NaN where there are fewer.
    counts: int64 (N,), the header's flag: how many labels follow it. ids: uint64 (N,).
    sizes: int64 (N,), bytes of the image behind the labels.
    """

    labels: npt.NDArray[np.float32]
    counts: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.int64]

    def at(self, places: npt.NDArray[np.int64]) -> "Heads":
        """The heads at these places (n,), in this order."""
        return Heads(self.labels[places], self.counts[places], self.ids[places], self.sizes[places])


class RecordFile:
    """A `.rec` file, mapped into memory: only what is asked for is read from the disk.

    Raises `DataError` where the file is missing or empty; and later, naming the file and the
    record, where a record is not where it should be, or is cut short.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.size = file.seek(0, 2)
                if not self.size:
                    raise DataError(f"{path} is empty, and should hold records")
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from error
        self._words = np.frombuffer(self._bytes, "<u4", self.size // 4)

    def image(self, offset: int, key: int) -> bytes:
        """The encoded image of the record at byte `offset`; `key` names it in errors."""
        payload = self._payload(offset, key)
        count = self._header(payload, key)[0]
        return payload[_HEADER.size + 4 * count :]

    def heads(self, offsets: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> Heads:
        """The heads of the records at byte `offsets` (N,); `keys` (N,) name them in errors."""
        count = len(offsets)
        heads = Heads(
            np.full((count, 2), np.nan, np.float32),
            np.zeros(count, np.int64),
            np.zeros(count, np.uint64),
            np.zeros(count, np.int64),
        )
        for start in range(0, count, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            whole = self._whole(offsets[part], keys[part])
            for place in (start + np.flatnonzero(~whole)).tolist():
                self._put_parted(heads, place, int(offsets[place]), int(keys[place]))
            places = start + np.flatnonzero(whole)
            self._put_whole(heads, places, offsets[places], keys[places])
        return heads

    def scan(self) -> npt.NDArray[np.int64]:
        """Where the records start (N,), found by walking from head to head."""
        found: list[int] = []
        unpack, last = _PREFIX.unpack_from, self.size - _PREFIX.size
        offset, open_record = 0, False
        while offset < self.size:
            if not open_record and offset <= last:
                magic, packed = unpack(self._bytes, offset)
                if magic == MAGIC and packed <= _LENGTH and offset + packed <= last:
                    found.append(offset)  # whole, as nearly all are: millions of them, so in haste
                    offset += _PREFIX.size + _padded(packed)
                    continue
            flag, length = self._prefix(offset, len(found) - open_record)
            if open_record != (flag in (_MIDDLE, _LAST)):
                self._refuse(
                    len(found) - open_record, f"has a part out of order at byte {offset:,}"
                )
            if flag == _FIRST:
                found.append(offset)
            open_record = flag in (_FIRST, _MIDDLE)
            offset += _PREFIX.size + _padded(length)
        if open_record:
            self._refuse(len(found) - 1, "lacks its last part: the file is cut short")
        return np.array(found, np.int64)

    def _prefix(self, offset: int, key: int) -> tuple[int, int]:
        """Flag and length of the part at `offset`, all of which lies within the file."""
        if offset < 0 or offset + _PREFIX.size > self.size:
            self._refuse_place(offset, key)
        magic, packed = _PREFIX.unpack_from(self._bytes, offset)
        flag, length = packed >> 29, packed & _LENGTH
        if magic != MAGIC or flag > _LAST:
            self._refuse_magic(offset, key)
        if offset + _PREFIX.size + length > self.size:
            self._refuse_length(offset, key, length)
        return flag, length

    def _payload(self, offset: int, key: int) -> bytes:
        """All of a record, its parts joined."""
        flag, length = self._prefix(offset, key)
        if flag not in (_WHOLE, _FIRST):
            self._refuse(key, f"has a part out of order at byte {offset:,}")
        start = offset + _PREFIX.size
        parts = [self._bytes[start : start + length]]
        while flag in (_FIRST, _MIDDLE):
            offset = start + _padded(length)
            flag, length = self._prefix(offset, key)
            if flag not in (_MIDDLE, _LAST):
                self._refuse(key, f"has a part out of order at byte {offset:,}")
            start = offset + _PREFIX.size
            parts.append(self._bytes[start : start + length])
        return struct.pack("<I", MAGIC).join(parts)

    def _header(self, payload: bytes, key: int) -> tuple[int, float, int]:
        """How many labels follow the header, its own label, and its id."""
        if len(payload) < _HEADER.size:
            self._refuse_header(key, len(payload))
        count, label, number, _ = _HEADER.unpack_from(payload)
        if _HEADER.size + 4 * count > len(payload):
            self._refuse_labels(key, count)
        return count, label, number

    def _whole(
        self, offsets: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Which of these records (n,) are in one part; every one is checked to lie in the file."""
        outside = (offsets < 0) | (offsets > self.size - _PREFIX.size)
        if outside.any():
            first = int(outside.argmax())
            self._refuse_place(int(offsets[first]), int(keys[first]))
        words = offsets // 4
        flags = self._words[words + 1] >> 29
        wrong = (offsets % 4 != 0) | (self._words[words] != MAGIC) | (flags > _FIRST)
        if wrong.any():
            first = int(wrong.argmax())
            self._refuse_magic(int(offsets[first]), int(keys[first]))
        lengths = (self._words[words + 1] & _LENGTH).astype(np.int64)
        beyond = offsets + _PREFIX.size + lengths > self.size
        if beyond.any():
            first = int(beyond.argmax())
            self._refuse_length(int(offsets[first]), int(keys[first]), int(lengths[first]))
        whole: npt.NDArray[np.bool_] = flags == _WHOLE
        return whole

    def _put_whole(
        self,
        heads: Heads,
        places: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        keys: npt.NDArray[np.int64],
    ) -> None:
        """Fill in the heads of records in one part, which lie in the file."""
        words = offsets // 4
        lengths = (self._words[words + 1] & _LENGTH).astype(np.int64)
        short = lengths < _HEADER.size
        if short.any():
            self._refuse_header(int(keys[short.argmax()]), int(lengths[short.argmax()]))
        counts = self._words[words + 2].astype(np.int64)
        sizes = lengths - _HEADER.size - 4 * counts
        if (sizes < 0).any():
            first = int((sizes < 0).argmax())
            self._refuse_labels(int(keys[first]), int(counts[first]))
        numbers = self._words.view("<f4")
        heads.labels[places, 0] = numbers[words + 3]
        for column in range(2):  # labels behind the header, which is six words long
            more = counts > column
            heads.labels[places[more], column] = numbers[words[more] + 8 + column]
        heads.counts[places], heads.sizes[places] = counts, sizes
        low, high = (self._words[words + place].astype(np.uint64) for place in (4, 5))
        heads.ids[places] = low | (high << np.uint64(32))

    def _put_parted(self, heads: Heads, place: int, offset: int, key: int) -> None:
        """The same for one record in several parts, which are rare."""
        payload = self._payload(offset, key)
        count, label, number = self._header(payload, key)
        follow = np.frombuffer(payload, "<f4", min(count, 2), _HEADER.size)
        heads.labels[place, : max(len(follow), 1)] = follow if count else label
        heads.counts[place], heads.ids[place] = count, number
        heads.sizes[place] = len(payload) - _HEADER.size - 4 * count

    def _refuse(self, key: int, what: str) -> NoReturn:
        raise DataError(f"record {key} of {self.path} {what}")

    def _refuse_place(self, offset: int, key: int) -> NoReturn:
        self._refuse(
            key,
            f"should start at byte {offset:,}, and the file ends at byte {self.size:,}: it is cut "
            "short, or its index belongs to another file",
        )

    def _refuse_magic(self, offset: int, key: int) -> NoReturn:
        found = self._bytes[offset : offset + 8].hex(" ")
        self._refuse(
            key,
            f"does not start at byte {offset:,}, where {found} stands: the file is damaged, is no "
            "RecordIO file, or its index belongs to another one",
        )

    def _refuse_length(self, offset: int, key: int, length: int) -> NoReturn:
        self._refuse(
            key,
            f"is cut short: its {length:,} bytes from byte {offset + _PREFIX.size:,} on reach past "
            f"the end of the file at byte {self.size:,}",
        )

    def _refuse_header(self, key: int, length: int) -> NoReturn:
        self._refuse(
            key, f"is no image record: it holds {length} bytes, and its header alone takes 24"
        )

    def _refuse_labels(self, key: int, count: int) -> NoReturn:
        self._refuse(key, f"is damaged: it announces {count:,} labels, more than its bytes hold")


def _padded(length: int) -> int:
    return (length + 3) // 4 * 4
