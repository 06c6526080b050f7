"""InsightFace's verification sets, as `lfw.bin`: pairs of images, and who is the same person.

Such a file is a pickle, and a pickle is a program that may call any function of any module. Here
Python's own unpickler runs it, with the commands for plain data alone, and with a list of the six
functions that Python and numpy write for bytes and for arrays of bytes. It is the unpickler in
pure Python: the one in C keeps its memo in an array, as long as the highest number in the file.
"""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError

__all__ = ["VerificationPairs", "read_verification_bin"]

_MOST_BYTES = 1 << 32  # of a file; those that are in use hold some 100 MB

# Each command makes one object at most, of some 100 bytes: one per this many bytes of the file, and
# these many besides. Encoded images are far longer.
_BYTES_PER_COMMAND, _FEW_COMMANDS = 8, 1 << 16

# Commands that build None, bools, whole numbers, bytes, text, lists and tuples, and that make and
# complete arrays. Not among them: dicts, sets, objects, extensions, persistent ids.
_COMMANDS = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK),
    *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.INT, pickle.BININT, pickle.BININT1),
    *(pickle.BININT2, pickle.LONG, pickle.LONG1, pickle.LONG4),
    *(pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.BINBYTES),
    *(pickle.SHORT_BINBYTES, pickle.BINBYTES8, pickle.UNICODE, pickle.BINUNICODE),
    *(pickle.SHORT_BINUNICODE, pickle.BINUNICODE8),
    *(pickle.EMPTY_LIST, pickle.LIST, pickle.APPEND, pickle.APPENDS),
    *(pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
    *(pickle.PUT, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE),
    *(pickle.GET, pickle.BINGET, pickle.LONG_BINGET),
    *(pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.REDUCE),
)
_DTYPES = {
    **dict.fromkeys(("u1", "|u1", "uint8"), np.dtype(np.uint8)),
    **dict.fromkeys(("b1", "|b1", "?", "bool"), np.dtype(np.bool_)),
}


@dataclass(frozen=True, eq=False)
class VerificationPairs:
    """N pairs of encoded images: pair i is `contents[2 * i]` and `contents[2 * i + 1]`.

    contents: 2N images as their files' bytes, mostly JPEG. same: bool (N,), one person or two.
    """

    contents: list[bytes]
    same: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.same)


def read_verification_bin(path: Path | str) -> VerificationPairs:
    """The pairs of a `.bin` file of InsightFace.

    Such a file is a pickle of (images, same), written by Python 2 or 3: images are bytes or numpy
    arrays of bytes, `same` a list or an array. Nothing else that it names is looked up or run.
    Memory stays within some 16 times the size of the file. The images are not decoded. Raises
    `DataError` with one sentence that names the file where it is anything else.

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
        return _parse_pairs(_PlainUnpickler(content).load())
    except _RefusedError as error:
        raise DataError(f"{path} is no verification file: {error}") from error
    except Exception as error:  # the unpickler raises any kind where a file is damaged
        raise DataError(f"{path} is no verification file: it is damaged or cut short") from error


class _RefusedError(Exception):
    """The file holds something else; says what, to stand after a colon."""


class _Array:
    """A numpy array, of which the pickle gives shape and elements after it has made it."""

    values: npt.NDArray[Any] | None = None


class _PlainUnpickler(pickle._Unpickler):
    """Reads tuples, lists, bytes (also for Python 2's str), str, bool, int, None and `_Array`."""

    stack: list[Any]

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        most = _FEW_COMMANDS + len(content) // _BYTES_PER_COMMAND
        self.dispatch = _Commands(most)  # type: ignore[misc]
        self._left = len(content)  # bytes that may be made of text
        self._known: dict[str, Any] = {
            "_codecs.encode": self._encode,
            "builtins.bytes": _empty_bytes,
            "numpy.ndarray": "numpy.ndarray",  # named in calls, never called
            "numpy.dtype": _dtype,
            "numpy.core.multiarray._reconstruct": _new_array,
            "numpy.core.multiarray.scalar": _scalar,
            "numpy.core.numeric._frombuffer": _fill_array,
        }

    def find_class(self, module: str, name: str) -> Any:
        """Ours for what the file calls by this name; Python 2 and numpy 1 have other names."""
        renamed = module.replace("__builtin__", "builtins").replace("numpy._core", "numpy.core")
        if f"{renamed}.{name}" not in self._known:
            asked = f"{module}.{name}"[:100]
            asked = asked if asked.isprintable() else ascii(asked)
            raise _RefusedError(f"it asks for {asked}, and nothing is run")
        return self._known[f"{renamed}.{name}"]

    def _encode(self, text: str, encoding: str) -> bytes:
        """Python 3 writes bytes as text in the older protocols; one text may be named often."""
        if encoding != "latin1":
            raise _RefusedError(f"it encodes text as {encoding[:20]!r}, and bytes are latin1")
        self._left -= len(text)
        if self._left < 0:
            raise _RefusedError("it makes more bytes than it holds")
        return text.encode("latin1")


class _Commands(dict[int, Callable[[Any], None]]):
    """What each command does; after the given number of them, the file is refused."""

    def __init__(self, most: int) -> None:
        known = pickle._Unpickler.dispatch
        super().__init__({ord(code): known[ord(code)] for code in _COMMANDS})
        # Python's own makes room for a bytearray before it has seen the bytes.
        self[ord(pickle.BYTEARRAY8)] = known[ord(pickle.BINBYTES8)]
        self[ord(pickle.BUILD)] = _complete
        self._left = most

    def __getitem__(self, code: int) -> Callable[[Any], None]:
        self._left -= 1
        if self._left < 0:
            raise _RefusedError("it has too many commands for its size")
        if code not in self:
            raise _RefusedError(f"it holds the command {bytes([code])!r}, which none needs")
        return super().__getitem__(code)


def _complete(unpickler: _PlainUnpickler) -> None:
    """BUILD: what numpy's `__setstate__` does to an array; a one-byte type has no state."""
    state = unpickler.stack.pop()
    target = unpickler.stack[-1]
    if isinstance(target, _Array):
        _, shape, dtype, _, elements = state
        target.values = _fill_array(elements, dtype, shape).values
    elif not isinstance(target, np.dtype):
        raise _RefusedError("it sets the state of an object, and nothing is run")


def _empty_bytes() -> bytes:
    return b""


def _dtype(code: str | bytes, *_: object) -> "np.dtype[Any]":
    text = code.decode("latin1") if isinstance(code, bytes) else code
    if text not in _DTYPES:
        raise _RefusedError(f"it holds numpy data of type {text[:20]!a}, and not of bytes")
    return _DTYPES[text]


def _new_array(kind: object, shape: object, _: object) -> _Array:
    if kind != "numpy.ndarray" or shape != (0,):
        raise _RefusedError("it makes an array as numpy does not")
    return _Array()


def _fill_array(elements: bytes, dtype: "np.dtype[Any]", shape: Any, *_: object) -> _Array:
    """An array over elements that are there already: a shape that does not fit fails.

    The order of the elements is not kept: it says something only beyond one axis.
    """
    if not isinstance(elements, bytes) or dtype not in _DTYPES.values() or min(shape) < 0:
        raise _RefusedError("it fills an array as numpy does not")
    array = _Array()
    array.values = np.frombuffer(elements, dtype).reshape(shape)
    return array


def _scalar(dtype: "np.dtype[Any]", value: bytes) -> object:
    (element,) = value
    return bool(element) if dtype == np.bool_ else element


def _parse_pairs(data: object) -> VerificationPairs:
    match data:
        case (list() | tuple() as images, list() | tuple() | _Array() as answers):
            contents = [_image_bytes(image, position) for position, image in enumerate(images)]
            same = _parse_answers(answers)
        case _:
            raise _RefusedError("it does not hold a list of images and a list of answers")
    if len(contents) != 2 * len(same):
        raise _RefusedError(
            f"it holds {len(contents):,} images and {len(same):,} answers, "
            "and each answer goes with two images"
        )
    if not len(same):
        raise _RefusedError("it holds no pairs")
    return VerificationPairs(contents, same)


def _image_bytes(image: object, position: int) -> bytes:
    if isinstance(image, bytes):
        return image
    values = image.values if isinstance(image, _Array) else None
    if values is None or values.dtype != np.uint8:
        raise _RefusedError(f"image {position} is neither bytes nor an array of bytes")
    if sum(length != 1 for length in values.shape) > 1:
        raise _RefusedError(f"image {position} is an array of pixels, and not an encoded image")
    return values.tobytes()


def _parse_answers(answers: list[object] | tuple[object, ...] | _Array) -> npt.NDArray[np.bool_]:
    values: Any = answers.values if isinstance(answers, _Array) else answers
    if values is None or (isinstance(values, np.ndarray) and values.ndim != 1):
        raise _RefusedError("its answers are no list of true and false")
    for position, value in enumerate(values):
        if not isinstance(value, int | np.integer | np.bool_) or value not in (0, 1):
            raise _RefusedError(f"answer {position} is neither true nor false")
    return np.array(values, np.bool_)
