"""Sets in InsightFace's form, without mxnet: `train.rec` and `train.idx`, and verification files.

A `.rec` file is RecordIO: records one after another, each behind a small head,

    magic ced7230a · flag (3 bits) and length (29 bits) · payload · zeros up to 4 bytes

all little-endian. A payload that holds the magic at a multiple of four bytes is cut there into
parts: flag 0 is a whole record, 1 the first part, 2 one in the middle and 3 the last, and the magic
belongs between them. An image record's payload starts with 24 bytes,

    flag u32 · label f32 · id u64 · id2 u64

and with `flag` > 0, that many float32 labels follow, which count instead of `label`. The rest is
the encoded image. The format is that of dmlc-core (`recordio.h`) and mxnet (`recordio.py`).

A verification file, as `lfw.bin`, holds pairs of images and who is the same person. It is a pickle,
and a pickle is a program that may call any function of any module. Here Python's own unpickler runs
it, and each of the seven names that Python and numpy write for bytes and for arrays of bytes leads
to a function of ours; there are no others. It is the unpickler in pure Python: the one in C keeps
its memo in an array, as long as the highest number in the file.
"""

import io
import mmap
import pickle
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from arcset.data.sources.base import Entry, Source
from arcset.errors import DataError

MAGIC = 0xCED7230A

_PREFIX = struct.Struct("<II")  # of a part: magic, flag and length
_HEADER = struct.Struct("<IfQQ")  # of an image: flag, label, id, id2
_LENGTH = (1 << 29) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_HEAD = np.dtype(
    {
        "names": ["key", "offset", "id", "label", "labels", "size"],
        "formats": ["i8", "i8", "u8", "f4", "u4", "i8"],
    }
)


class RecordSource(Source):
    """The images of a `.rec` file, by the numbers of their identities.

    path: a `.rec` file, or a folder that holds `train.rec`.

    The `.idx` file beside it says where the records are. Without one, the file is walked once from
    its start, and each record's own id is its key (its position, where ids come twice).

    Record 0 of InsightFace's sets holds no image but two labels: the first key past the images and
    the first past the records of the identities, which follow the images and hold none either.
    Where there is no such record, all records are images. An image's identity is its label, or the
    first of its labels. The file `property` says nothing that is needed, and is not read.

    All heads are read when the records are listed, and no image before it is asked for: the file is
    mapped into memory. Two processes or threads may share one source. Raises `DataError` with one
    sentence that names the file, and the record where it is about one.
    """

    kind = "InsightFace records"

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path / "train.rec" if path.is_dir() else path
        try:
            with self._path.open("rb") as file:
                self._size = file.seek(0, 2)
                if not self._size:
                    raise DataError(f"{self._path} is empty, and should hold records")
                self._bytes = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise DataError(f"cannot read {self._path}: {error.strerror or error}") from error

    def entries(self) -> Iterator[Entry]:
        heads, file = self._image_heads(), self._path.name
        names = {label: str(int(label)) for label in np.unique(heads["label"]).tolist()}
        columns = (heads[name].tolist() for name in ("key", "offset", "label"))
        for key, offset, label in zip(*columns, strict=True):
            yield Entry(f"{file}#{key}", names[label], record=offset)

    def content(self, entry: Entry) -> bytes:
        key = int((entry.path or "").rpartition("#")[2])
        payload, _ = self._payload(entry.record, key)
        image = payload[_HEADER.size + 4 * self._header(payload, key)[0] :]
        if not image:
            raise DataError(f"record {key} of {self._path} holds no image")
        return bytes(image)

    def stamp_of_all(self) -> str:
        return str(self._size)

    def _image_heads(self) -> npt.NDArray[Any]:
        """The heads (N,) of the records that are images, by rising key; see `_HEAD`."""
        index = self._path.with_suffix(".idx")
        heads = self._heads(_read_index(index) if index.exists() else self._walk())
        if not index.exists() and len(np.unique(heads["id"])) == len(heads):
            heads["key"] = heads["id"]
        heads = heads[np.argsort(heads["key"], kind="stable")]
        heads = _choose_images(heads, self._path)
        with np.errstate(invalid="ignore"):
            labels = heads["label"]
            wrong = ~((labels >= 0) & (labels < 2**53) & (labels % 1 == 0))  # NaN fits nothing
        if wrong.any():
            first = heads[wrong.argmax()]
            raise DataError(
                f"record {first['key']} of {self._path} has the label {first['label']:g}, "
                "and identities are numbered 0, 1, 2, …"
            )
        return heads

    def _walk(self) -> Iterator[tuple[int, int]]:
        """The position of each record, and the byte at which it starts."""
        offset = position = 0
        while offset < self._size:
            yield position, offset
            _, offset = self._payload(offset, position)
            position += 1

    def _heads(self, starts: Iterable[tuple[int, int]]) -> npt.NDArray[Any]:
        """What stands before the images of the records with these keys, at these bytes."""

        def read() -> Iterator[tuple[int, int, int, float, int, int]]:
            for key, offset in starts:
                payload, _ = self._payload(offset, key)
                labels, label, number = self._header(payload, key)
                size = len(payload) - _HEADER.size - 4 * labels
                yield key, offset, number, label, labels, size

        heads = np.fromiter(read(), _HEAD)
        if not len(heads):
            raise DataError(f"{self._path} holds no records")
        return heads

    def _header(self, payload: memoryview, key: int) -> tuple[int, float, int]:
        """How many labels follow the header, the first label, and the id."""
        is_whole = len(payload) >= _HEADER.size
        labels, label, number, _ = _HEADER.unpack_from(payload) if is_whole else (0, 0.0, 0, 0)
        if not is_whole or _HEADER.size + 4 * labels > len(payload):
            self._refuse(key, f"is no image record: {len(payload)} bytes with {labels:,} labels")
        if labels:
            (label,) = struct.unpack_from("<f", payload, _HEADER.size)
        return labels, label, number

    def _payload(self, offset: int, key: int) -> tuple[memoryview, int]:
        """All of the record at byte `offset`, its parts joined; and the byte behind it.

        `key` names it in errors. A whole one is not read before its bytes are used.
        """
        parts: list[memoryview] = []
        while True:
            flag, length = self._prefix(offset, key)
            if (flag in (_WHOLE, _FIRST)) == bool(parts):
                self._refuse(key, f"has a part out of order at byte {offset:,}")
            start = offset + _PREFIX.size
            parts.append(self._bytes[start : start + length])
            offset = start + (length + 3) // 4 * 4
            if flag in (_WHOLE, _LAST):
                break
        if len(parts) == 1:
            return parts[0], offset
        return memoryview(struct.pack("<I", MAGIC).join(parts)), offset

    def _prefix(self, offset: int, key: int) -> tuple[int, int]:
        """Flag and length of the part at `offset`, all of which lies within the file."""
        start = offset + _PREFIX.size
        is_inside = offset >= 0 and start <= self._size
        magic, packed = _PREFIX.unpack_from(self._bytes, offset) if is_inside else (0, 0)
        flag, length = packed >> 29, packed & _LENGTH
        if magic != MAGIC or flag > _LAST or offset % 4 or start + length > self._size:
            self._refuse(
                key,
                f"is not whole at byte {offset:,} of {self._size:,}: the file is cut short or "
                "damaged, or its index belongs to another one",
            )
        return flag, length

    def _refuse(self, key: int, what: str) -> NoReturn:
        raise DataError(f"record {key} of {self._path} {what}")


def _choose_images(heads: npt.NDArray[Any], path: Path) -> npt.NDArray[Any]:
    """The heads of the records that are images."""
    first = heads[0]
    announces = first["key"] == 0 and first["labels"] >= 2 and first["size"] == 0
    if not announces:
        return heads
    past = float(first["label"])
    if not (1 <= past < 2**62) or past % 1:
        raise DataError(f"record 0 of {path} announces {past:g} as the first key past the images")
    images = heads[heads["size"] > 0]
    # From 2²⁴ on, the number was rounded when it was written.
    if past < 2**24 and len(images) != past - 1:
        raise DataError(
            f"record 0 of {path} announces {int(past) - 1:,} images, and its index has "
            f"{len(images):,} of them: one of the two files is cut short or belongs elsewhere"
        )
    if not len(images):
        raise DataError(f"{path} holds no images")
    return images


def _read_index(path: Path) -> Iterable[tuple[int, int]]:
    """The key of each record and the byte at which it starts, in the order of the file.

    Raises `DataError`, naming the file, where a line is anything else.
    """
    try:
        index = np.loadtxt(path, np.int64, delimiter="\t", ndmin=2) if path.stat().st_size else None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as an index of records: {error}") from error
    if index is None or index.shape[1] != 2:
        raise DataError(f"{path} is no index of records, a key and a byte per line")
    return zip(*index.T.tolist(), strict=True)


_MOST_BYTES = 1 << 30  # of a file; those that are in use hold some 100 MB


@dataclass(frozen=True, eq=False)
class VerificationPairs:
    """N pairs of encoded images: pair i is `contents[2 * i]` and `contents[2 * i + 1]`.

    contents: 2N images as their files' bytes, mostly JPEG. same: bool (N,), one person or two.
    """

    contents: list[bytes]
    same: npt.NDArray[np.bool_]


def read_verification_bin(path: Path | str) -> VerificationPairs:
    """The pairs of a `.bin` file of InsightFace.

    Such a file is a pickle of (images, same), written by Python 2 or 3: images are bytes or numpy
    arrays of bytes, `same` a list or an array. Nothing else that it names is looked up or run. The
    images are not decoded. Raises `DataError` with one sentence that names the file where it is
    anything else.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "two.bin")
        ...     _ = file.write_bytes(pickle.dumps(([b"a", b"b", b"c", b"d"], [True, False])))
        ...     pairs = read_verification_bin(file)
        >>> pairs.contents[2:], pairs.same
        ([b'c', b'd'], array([ True, False]))
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise DataError(f"{path} is no verification file: it holds {size:,} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return _parse_pairs(_Unpickler(content).load())
    except pickle.UnpicklingError as error:
        raise DataError(f"{path} is no verification file: {error}") from error
    except Exception as error:  # the unpickler raises any kind where a file is damaged
        raise DataError(f"{path} is no verification file: it is damaged or cut short") from error


class _Array:
    """A numpy array of bytes, which numpy makes first and gives shape and elements later."""

    elements: bytes = b""
    shape: tuple[int, ...] = ()

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        _, self.shape, _, _, self.elements = state


class _Type:
    """A numpy type. Which one does not matter: elements of one byte are told by their number."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


def _from_buffer(elements: bytes, _: object, shape: tuple[int, ...], *__: object) -> _Array:
    array = _Array()
    array.elements, array.shape = elements, shape
    return array


def _scalar(_: object, value: bytes) -> int:
    (element,) = value
    return element


_STEPS = pickle._Unpickler.dispatch
# No file of pairs needs keys, and those of ((…, …), (…, …)) take twice as long with every level.
_WITH_KEYS = pickle.DICT + pickle.SETITEM + pickle.SETITEMS + pickle.ADDITEMS + pickle.FROZENSET


class _Unpickler(pickle._Unpickler):
    dispatch = {
        **{code: step for code, step in _STEPS.items() if code not in _WITH_KEYS},
        # Python's own makes room for a bytearray before it has seen the bytes.
        pickle.BYTEARRAY8[0]: _STEPS[pickle.BINBYTES8[0]],
    }

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._left = len(content)  # bytes that may be made of text

    def find_class(self, module: str, name: str) -> Any:
        """Ours for what the file calls by this name; Python 2 and numpy 1 have other names."""
        known = {
            "_codecs.encode": self._encode,
            "builtins.bytes": lambda: b"",
            "numpy.ndarray": None,  # named in calls, never called
            "numpy.dtype": _Type,
            "numpy.core.multiarray._reconstruct": _Array,
            "numpy.core.multiarray.scalar": _scalar,
            "numpy.core.numeric._frombuffer": _from_buffer,
        }
        asked = f"{module}.{name}"
        renamed = asked.replace("__builtin__", "builtins").replace("numpy._core", "numpy.core")
        if renamed not in known:
            raise pickle.UnpicklingError(f"it asks for {asked!r:.100}, and nothing is run")
        return known[renamed]

    def _encode(self, text: str, encoding: str) -> bytes:
        """Python 3 writes bytes as text in the older protocols; one text may be named often."""
        self._left -= len(text)
        if self._left < 0 or encoding != "latin1":
            raise pickle.UnpicklingError("it makes more bytes than it holds, or other text")
        return text.encode("latin1")


def _parse_pairs(data: Any) -> VerificationPairs:
    if not isinstance(data, list | tuple) or len(data) != 2:
        raise pickle.UnpicklingError("it does not hold a list of images and a list of answers")
    images, answers = data
    if isinstance(answers, _Array):
        answers = list(_vector(answers, "its array of answers"))
    if not isinstance(images, list | tuple) or not isinstance(answers, list | tuple):
        raise pickle.UnpicklingError("it does not hold a list of images and a list of answers")
    contents = [_vector(image, f"image {number}") for number, image in enumerate(images)]
    for number, answer in enumerate(answers):
        if not isinstance(answer, int) or answer not in (0, 1):
            raise pickle.UnpicklingError(f"answer {number} is neither true nor false")
    if len(contents) != 2 * len(answers) or not answers:
        raise pickle.UnpicklingError(
            f"it holds {len(contents):,} images and {len(answers):,} answers, "
            "and each answer goes with two images"
        )
    return VerificationPairs(contents, np.array(answers, np.bool_))


def _vector(value: object, what: str) -> bytes:
    """Bytes as they are, or those of an array that has one axis, or one that is not of length 1."""
    if isinstance(value, _Array):
        elements, shape = value.elements, value.shape
        if prod(shape) == len(elements) and sum(length != 1 for length in shape) <= 1:
            value = elements
    if not isinstance(value, bytes):
        raise pickle.UnpicklingError(f"{what} is neither bytes nor an array of bytes in a row")
    return value
