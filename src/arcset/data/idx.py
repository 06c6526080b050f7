"""The idx format that MNIST comes in: a big-endian header, then unsigned bytes.

    00 00 08 RANK, then RANK sizes of four bytes each, then the elements, last axis fastest

08 means "unsigned byte"; the format has other element types, which no dataset here uses.
"""

import gzip
import hashlib
import io
import math
import struct
import zlib
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError, InputError
from arcset.files import write_bytes

__all__ = ["GZIP_MAGIC", "read_idx", "write_idx"]

GZIP_MAGIC = b"\x1f\x8b"

_RANKS = range(1, 33)  # numpy itself ends at 32 or 64 axes, depending on its version


def read_idx(
    path: Path | Traversable, *, rank: int | None = None, sha256: str | None = None
) -> npt.NDArray[np.uint8]:
    """The array in an idx file, read-only, gzipped or not (its first bytes tell, not its name).

    rank: how many axes it must have. sha256: checksum of the *uncompressed* bytes, in hex.
    Raises `DataError`, naming the file, where it cannot be read, is cut short, goes on past its
    end, is no idx file of unsigned bytes, or is not what `rank` and `sha256` say.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_idx(Path(folder, "labels.gz"), np.array([7, 2, 1], np.uint8))
        ...     read_idx(Path(folder, "labels.gz"), rank=1)
        array([7, 2, 1], dtype=uint8)
    """
    content = _uncompressed(path)
    array = _decode(content, str(path), rank)
    if sha256 is not None and (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise DataError(
            f"{path} is not the original file: the sha256 of its uncompressed bytes is {found}, "
            f"and should be {sha256}; replace or remove it"
        )
    return array


def write_idx(path: Path, array: npt.NDArray[np.uint8]) -> None:
    """Write `array` (uint8, at least one axis), gzipped if the name ends in `.gz`.

    The same array always gives the same bytes: the gzip header holds neither time nor name.
    """
    if array.dtype != np.uint8 or array.ndim not in _RANKS:
        raise InputError(
            f"an idx file is written from uint8 with 1 to 32 axes, not {array.dtype} {array.shape}"
        )
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    content = header + array.tobytes()
    write_bytes(path, _gzipped(content) if path.suffix == ".gz" else content)


def _uncompressed(path: Path | Traversable) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except EOFError as error:
        raise DataError(
            f"{path} is truncated: its gzip stream breaks off after {len(content)} bytes"
        ) from error
    except (gzip.BadGzipFile, zlib.error, struct.error) as error:
        raise DataError(f"{path} is a damaged gzip file: {error}") from error


def _decode(content: bytes, source: str, rank: int | None) -> npt.NDArray[np.uint8]:
    if len(content) < 4:
        raise DataError(f"{source} is no idx file: it holds {len(content)} bytes")
    if content[:3] != b"\x00\x00\x08" or content[3] not in _RANKS:
        raise DataError(
            f"{source} is no idx file of unsigned bytes: it starts with {content[:4].hex(' ')}, "
            f"and not with 00 00 08 and the number of axes"
        )
    axes = content[3]
    if rank is not None and axes != rank:
        raise DataError(f"{source} holds an array of {axes} axes, and {rank} were expected")
    start = 4 + 4 * axes
    if len(content) < start:
        raise DataError(f"{source} is truncated: it ends within its header")
    shape = struct.unpack_from(f">{axes}I", content, 4)
    elements = math.prod(shape)
    if len(content) != start + elements:
        wrong = "is truncated" if len(content) < start + elements else "has bytes past its end"
        raise DataError(
            f"{source} {wrong}: {len(content) - start} bytes follow its header, "
            f"and its shape {shape} needs {elements}"
        )
    try:
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    except ValueError as error:  # no elements, and still axes longer than numpy allows
        raise DataError(f"{source} has the impossible shape {shape}") from error


def _gzipped(content: bytes) -> bytes:
    # Not gzip.compress: the header it writes differs between Python versions.
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as stream:
        stream.write(content)
    return packed.getvalue()
