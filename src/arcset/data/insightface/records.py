"""Training sets in InsightFace's form: `train.rec`, `train.idx` and `property`, without mxnet.

A `.rec` file is RecordIO: records one after another, each behind a small head,

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from arcset.data.sources.base import Entry, Listing, Source
from arcset.errors import DataError

__all__ = ["RecordFile", "RecordSource"]

T = TypeVar("T")

MAGIC = 0xCED7230A

_PREFIX = struct.Struct("<II")  # of a part: magic, flag and length
_HEADER = struct.Struct("<IfQQ")  # of an image: flag, label, id, id2
_LENGTH = (1 << 29) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_AT_ONCE = 1 << 20  # heads: what is gathered of them stays below 50 MB
_EXACT = 1 << 24  # from here on, float32 no longer holds every whole number


@dataclass(frozen=True, eq=False)
class _Heads:
    """What stands before the images of N records.

    labels: float32 (N, 2), the first two labels; NaN where there are fewer.
    counts: int64 (N,), the header's flag: how many labels follow it. ids: uint64 (N,).
    sizes: int64 (N,), bytes of the image behind the labels.
    """

    labels: npt.NDArray[np.float32]
    counts: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.int64]

    def at(self, rows: npt.NDArray[np.int64]) -> "_Heads":
        """Those of these rows (n,), in this order."""
        return _Heads(self.labels[rows], self.counts[rows], self.ids[rows], self.sizes[rows])


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

    def heads(self, offsets: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> _Heads:
        """The heads of the records at byte `offsets` (N,); `keys` (N,) name them in errors."""
        count = len(offsets)
        heads = _Heads(
            np.full((count, 2), np.nan, np.float32),
            np.zeros(count, np.int64),
            np.zeros(count, np.uint64),
            np.zeros(count, np.int64),
        )
        for start in range(0, count, _AT_ONCE):
            rows = np.arange(start, min(start + _AT_ONCE, count))
            for row in self._fill_heads(heads, rows, offsets[rows]).tolist():
                self._fill_head(heads, row, int(offsets[row]), int(keys[row]))
        return heads

    def scan(self) -> npt.NDArray[np.int64]:
        """Where the records start (N,), found by walking from head to head."""
        starts: list[int] = []
        unpack, last = _PREFIX.unpack_from, self.size - _PREFIX.size
        offset, open_record = 0, False
        while offset < self.size:
            if not open_record and offset <= last:
                magic, packed = unpack(self._bytes, offset)
                if magic == MAGIC and packed <= _LENGTH and offset + packed <= last:
                    starts.append(offset)  # whole, as nearly all are: millions of them, so in haste
                    offset += _PREFIX.size + _padded(packed)
                    continue
            flag, length = self._prefix(offset, len(starts) - open_record)
            if open_record != (flag in (_MIDDLE, _LAST)):
                self._refuse(
                    len(starts) - open_record, f"has a part out of order at byte {offset:,}"
                )
            if flag == _FIRST:
                starts.append(offset)
            open_record = flag in (_FIRST, _MIDDLE)
            offset += _PREFIX.size + _padded(length)
        if open_record:
            self._refuse(len(starts) - 1, "lacks its last part: the file is cut short")
        return np.array(starts, np.int64)

    def _prefix(self, offset: int, key: int) -> tuple[int, int]:
        """Flag and length of the part at `offset`, all of which lies within the file."""
        if offset < 0 or offset + _PREFIX.size > self.size:
            self._refuse(
                key,
                f"should start at byte {offset:,}, and the file ends at byte {self.size:,}: it is "
                "cut short, or its index belongs to another file",
            )
        magic, packed = _PREFIX.unpack_from(self._bytes, offset)
        flag, length = packed >> 29, packed & _LENGTH
        if magic != MAGIC or flag > _LAST or offset % 4:
            content = self._bytes[offset : offset + 8].hex(" ")
            self._refuse(
                key,
                f"does not start at byte {offset:,}, where {content} stands: the file is damaged, "
                "is no RecordIO file, or its index belongs to another one",
            )
        if offset + _PREFIX.size + length > self.size:
            self._refuse(
                key,
                f"is cut short: its {length:,} bytes from byte {offset + _PREFIX.size:,} on reach "
                f"past the end of the file at byte {self.size:,}",
            )
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
            self._refuse(
                key,
                f"is no image record: it holds {len(payload)} bytes, and its header alone takes 24",
            )
        count, label, number, _ = _HEADER.unpack_from(payload)
        if _HEADER.size + 4 * count > len(payload):
            self._refuse(
                key, f"is damaged: it announces {count:,} labels, more than its bytes hold"
            )
        return count, label, number

    def _fill_heads(
        self, heads: _Heads, rows: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Fill in these rows (n,) at once; returns those that are damaged or in several parts."""
        inside = (offsets >= 0) & (offsets % 4 == 0) & (offsets <= self.size - 32)
        first = offsets[inside] // 4  # (m,)
        words = self._words[first[:, None] + np.arange(8)]  # (m, 8): prefix and header
        lengths, counts = words[:, 1].astype(np.int64), words[:, 2].astype(np.int64)
        sizes = lengths - _HEADER.size - 4 * counts
        whole = (words[:, 0] == MAGIC) & (lengths <= _LENGTH) & (sizes >= 0)
        whole &= offsets[inside] + _PREFIX.size + lengths <= self.size
        filled = rows[inside][whole]
        first, words, counts = first[whole], words[whole], counts[whole]
        heads.counts[filled], heads.sizes[filled] = counts, sizes[whole]
        heads.ids[filled] = words[:, 4] | (words[:, 5].astype(np.uint64) << np.uint64(32))
        numbers = self._words.view("<f4")
        heads.labels[filled, 0] = numbers[first + 3]
        for column in range(2):  # labels behind the header
            more = counts > column
            heads.labels[filled[more], column] = numbers[first[more] + 8 + column]
        return np.setdiff1d(rows, filled, assume_unique=True)

    def _fill_head(self, heads: _Heads, row: int, offset: int, key: int) -> None:
        """The same for one record, whose parts are joined; raises where it is damaged."""
        payload = self._payload(offset, key)
        count, label, number = self._header(payload, key)
        labels = np.frombuffer(payload, "<f4", min(count, 2), _HEADER.size)
        heads.labels[row, : max(len(labels), 1)] = labels if count else label
        heads.counts[row], heads.ids[row] = count, number
        heads.sizes[row] = len(payload) - _HEADER.size - 4 * count

    def _refuse(self, key: int, what: str) -> NoReturn:
        raise DataError(f"record {key} of {self.path} {what}")


def _padded(length: int) -> int:
    return (length + 3) // 4 * 4


class RecordSource(Source):
    """The images of a `.rec` file, by the numbers of their identities.

    path: a `.rec` file, or a folder that holds `train.rec`.

    The `.idx` file beside it says where the records are. Without one, the file is walked once from
    its start, and each record's own id is its key (its position, where ids come twice).

    Record 0 of InsightFace's sets holds no image but two labels: the first key past the images and
    the first past the records of the identities, which follow the images. Then the images are the
    records from 1 up to the former. Where there is no such record, all records are images. An
    image's identity is its label, or the first of its labels. Where the file `property` beside it
    is wrong about the number of identities, a listing's notes say so.

    All heads are read when the records are listed, and no image before it is asked for. Two
    processes or threads may share one source. Raises `DataError` with one sentence that names the
    file, and the record where it is about one.
    """

    kind = "InsightFace records"

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._file = RecordFile(path / "train.rec" if path.is_dir() else path)

    def entries(self) -> Iterator[Entry]:
        return iter(self.list_samples().entries)

    def content(self, entry: Entry) -> bytes:
        key = int((entry.path or "").rpartition("#")[2])
        image = self._file.image(entry.record, key)
        if not image:
            raise DataError(f"record {key} of {self._file.path} holds no image")
        return image

    def list_samples(self) -> Listing:
        """Names, paths and entries are made when looked at: millions take no memory as text."""
        path = self._file.path
        keys, offsets, heads = _read_heads(self._file)
        chosen = _choose_images(keys, heads, path)
        keys, offsets = keys[chosen], offsets[chosen]
        labels = _parse_identities(keys, heads.labels[chosen, 0], path)
        names = _Lazy(len(keys), lambda row: str(labels[row]))
        paths = _Lazy(len(keys), lambda row: f"{path.name}#{keys[row]}")
        entries = _Lazy(
            len(keys), lambda row: Entry(paths[row], names[row], record=int(offsets[row]))
        )
        notes = _note_property(path, len(np.unique(labels)))
        return Listing(self, entries, names, paths, notes=notes)

    def stamp_of_all(self) -> str:
        return str(self._file.size)


class _Lazy(Sequence[T]):
    """`count` values, each made when it is looked at."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._rows, self._make = range(count), make

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._make(row) for row in self._rows[index]]
        return self._make(self._rows[index])


def _read_heads(
    file: RecordFile,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], _Heads]:
    """Keys (N,), offsets (N,) and heads of all records, by rising key."""
    index = file.path.with_suffix(".idx")
    if index.exists():
        keys, offsets = _read_index(index)
        heads = None
    else:
        offsets = file.scan()
        positions = np.arange(len(offsets))
        heads = file.heads(offsets, positions)
        keys = heads.ids.astype(np.int64)
        if (keys < 0).any() or len(np.unique(keys)) < len(keys):
            keys = positions
    order = np.argsort(keys, kind="stable")
    keys, offsets = keys[order], offsets[order]
    if heads is None:
        return keys, offsets, file.heads(offsets, keys)
    return keys, offsets, heads.at(order)


def _choose_images(keys: npt.NDArray[np.int64], heads: _Heads, path: Path) -> npt.NDArray[np.bool_]:
    """Which records (N,) are images."""
    if not len(keys):
        raise DataError(f"{path} holds no records")
    announces = keys[0] == 0 and heads.counts[0] >= 2 and heads.sizes[0] == 0
    if not announces:
        return np.ones(len(keys), np.bool_)
    label = heads.labels[0, 0]
    if not (1 <= label < 2**62) or label % 1:
        raise DataError(f"record 0 of {path} announces {label:g} as the first key past the images")
    past = int(label)
    chosen = (keys > 0) & (keys < past)
    if past >= _EXACT:
        # The number was rounded, by this much at most; records without an image tell the rest.
        off = int(np.spacing(label))
        near = (keys >= past - off) & (keys <= past + off)
        return (chosen & ~near) | (near & (heads.sizes > 0))
    if chosen.sum() != past - 1:
        raise DataError(
            f"record 0 of {path} announces {past - 1:,} images, and its index has "
            f"{chosen.sum():,} of them: one of the two files is cut short or belongs elsewhere"
        )
    if not chosen.any():
        raise DataError(f"{path} holds no images")
    return chosen


def _parse_identities(
    keys: npt.NDArray[np.int64], labels: npt.NDArray[np.float32], path: Path
) -> npt.NDArray[np.int64]:
    """Labels (N,) as whole numbers."""
    with np.errstate(invalid="ignore"):
        wrong = ~((labels >= 0) & (labels < 2**53) & (labels % 1 == 0))  # NaN fits nothing
    if wrong.any():
        first = int(wrong.argmax())
        raise DataError(
            f"record {keys[first]} of {path} has the label {labels[first]:g}, "
            "and identities are numbered 0, 1, 2, …"
        )
    return labels.astype(np.int64)


def _note_property(records: Path, identities: int) -> list[str]:
    """A note where the file `property`, "classes,height,width", announces other identities."""
    path = records.parent / "property"
    try:
        text = path.read_text("ascii").strip()
        announced, _, _ = (int(number) for number in text.split(","))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(
            f"{path} should hold one line as 10572,112,112: identities, height, width; "
            "mend or remove it, it is not needed"
        ) from error
    if announced == identities:
        return []
    return [f"{path} announces {announced:,} identities, and {records.name} holds {identities:,}"]


def _read_index(path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Keys (N,) and offsets (N,), in the order of the file; millions of lines take a moment.

    Raises `DataError`, naming the file, where a line is anything else or a key comes twice.
    """
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=["key", "offset"]),
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types={"key": pa.int64(), "offset": pa.int64()}, null_values=[]
            ),
        )
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except pa.ArrowInvalid as error:
        words = str(error).partition("\n")[0]
        raise DataError(f"{path} is no index of records, a key and a byte per line: {words}") from (
            error
        )
    keys, offsets = (table[name].to_numpy() for name in ("key", "offset"))
    rising = np.sort(keys)
    twice = rising[1:][rising[1:] == rising[:-1]]
    if len(twice):
        raise DataError(f"{path} lists record {twice[0]} more than once")
    return keys, offsets
