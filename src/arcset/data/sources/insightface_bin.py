"""InsightFace's verification sets, as `lfw.bin`: pairs of images, and who is the same person.

Such a file is a pickle, and a pickle is a program that may call any function of any module. Here
Python's own unpickler runs it, and each of the seven names that Python and numpy write for bytes
and for arrays of bytes leads to a function of ours; there are no others. It is the unpickler in
pure Python: the one in C keeps its memo in an array, as long as the highest number in the file.
"""

import io
import pickle
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError

__all__ = ["VerificationPairs", "read_verification_bin"]

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


@dataclass
class _Array:
    """A numpy array of bytes, which numpy makes first and gives shape and elements later."""

    elements: bytes = b""
    shape: tuple[int, ...] = ()

    def __setstate__(self, state: Any) -> None:
        _, self.shape, _, _, self.elements = state


class _Type:
    """A numpy type. Which one does not matter: elements of one byte are told by their number."""

    def __setstate__(self, state: Any) -> None:
        pass


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
            "builtins.bytes": self._empty_bytes,
            "numpy.ndarray": None,  # named in calls, never called
            "numpy.dtype": self._dtype,
            "numpy.core.multiarray._reconstruct": self._reconstruct,
            "numpy.core.multiarray.scalar": self._scalar,
            "numpy.core.numeric._frombuffer": self._frombuffer,
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

    def _empty_bytes(self) -> bytes:
        return b""

    def _dtype(self, *_: object) -> _Type:
        return _Type()

    def _reconstruct(self, *_: object) -> _Array:
        return _Array()

    def _scalar(self, _: object, value: bytes) -> int:
        (element,) = value
        return element

    def _frombuffer(
        self, elements: bytes, _: object, shape: tuple[int, ...], *__: object
    ) -> _Array:
        return _Array(elements, shape)


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
