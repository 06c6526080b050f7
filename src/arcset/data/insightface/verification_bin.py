"""InsightFace's verification sets, as `lfw.bin`: pairs of images, and who is the same person."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arcset.data.insightface.pickled import Array, RefusedError, read_pickled
from arcset.errors import DataError

__all__ = ["VerificationPairs", "read_verification_bin"]

_MOST_BYTES = 1 << 32  # of a file; those that are in use hold some 100 MB


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
    arrays of bytes, `same` a list or an array. It is read as data: nothing that it names is looked
    up or run. Memory stays within some 16 times the size of the file. The images are not decoded.
    Raises `DataError` with one sentence that names the file where it is anything else.

        >>> import pickle
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
        return _pairs(read_pickled(content))
    except RefusedError as error:
        raise DataError(f"{path} is no verification file: {error}") from error


def _pairs(found: object) -> VerificationPairs:
    match found:
        case (list() | tuple() as images, list() | tuple() | Array() as answers):
            contents = [_encoded(image, place) for place, image in enumerate(images)]
            same = _same(answers)
        case _:
            raise RefusedError("it does not hold a list of images and a list of answers")
    if len(contents) != 2 * len(same):
        raise RefusedError(
            f"it holds {len(contents):,} images and {len(same):,} answers, "
            "and each answer goes with two images"
        )
    if not len(same):
        raise RefusedError("it holds no pairs")
    return VerificationPairs(contents, same)


def _encoded(image: object, place: int) -> bytes:
    if isinstance(image, bytes):
        return image
    if isinstance(image, Array) and image.kind == "uint8" and image.elements is not None:
        if sum(length != 1 for length in image.shape) > 1:
            raise RefusedError(f"image {place} is an array of pixels, and not an encoded image")
        return image.elements
    raise RefusedError(f"image {place} is neither bytes nor an array of bytes")


def _same(answers: list[object] | tuple[object, ...] | Array) -> npt.NDArray[np.bool_]:
    values: list[object]
    if not isinstance(answers, Array):
        values = list(answers)
    elif answers.elements is None or len(answers.shape) != 1:
        raise RefusedError("its answers are no list of true and false")
    else:
        values = list(answers.elements)
    for place, value in enumerate(values):
        if not isinstance(value, int) or value not in (0, 1):
            raise RefusedError(f"answer {place} is neither true nor false")
    return np.array(values, np.bool_)
