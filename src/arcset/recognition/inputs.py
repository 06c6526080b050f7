"""What people hand in as images, brought to arrays of one shape, some at a time."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.data import Reading
from arcset.data.opening import extensions
from arcset.errors import DataError, InputError

__all__ = ["as_sources", "image_files", "read_in_chunks"]

#: One image: a file, the content of one, a PIL image, or an array.
Source = Any

_CHUNK_BYTES = 1 << 24  # of images that are ready for the network
_MOST_THREADS = 16


def as_sources(images: Any) -> Sequence[Source]:
    """One image or many as a sequence of single ones; a folder as the files below it.

    An array of three axes is one image (H, W, C) if its last axis has 1, 3 or 4 values, and a stack
    of grey ones (N, H, W) otherwise. Raises `InputError` for what holds no image, or is none.
    """
    if isinstance(images, str | Path):
        return image_files(images) if Path(images).is_dir() else [images]
    if isinstance(images, bytes | Image.Image):
        return [images]
    if isinstance(images, np.ndarray):
        return _rows(images)
    if not isinstance(images, Iterable):
        raise InputError(
            f"an image is a path, a PIL image, bytes or a uint8 array, not {type(images).__name__}"
        )
    sources = list(images)
    if not sources:
        raise InputError("there is no image to embed: the list is empty")
    return sources


def _rows(array: npt.NDArray[Any]) -> Sequence[Source]:
    single = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if array.ndim not in (2, 3, 4):
        raise InputError(
            "images as an array are uint8, (H, W), (H, W, C), (N, H, W) or (N, H, W, C), and this "
            f"one is {array.dtype}, {array.shape}"
        )
    if not array.size:
        raise InputError(f"there is no image to embed: the array is {array.shape}")
    return [array] if single else list(array)


def image_files(folder: Path | str) -> list[Path]:
    """All files below a folder with the extension of an image, sorted; hidden ones are left out.

    Raises `DataError` where there are none, or the folder cannot be listed.
    """
    root = Path(folder)
    found = []

    def refuse(error: OSError) -> None:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from None

    for place, folders, files in os.walk(root, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(place, name)
            for name in files
            if not name.startswith(".") and Path(name).suffix.lower() in extensions()
        ]
    if not found:
        raise DataError(f"{root} holds no image")
    return sorted(found)


def read_in_chunks(
    sources: Sequence[Source], reading: Reading
) -> Iterator[tuple[slice, list[npt.NDArray[np.uint8] | DataError | InputError]]]:
    """The images in order, some at a time, read by several threads; or why one cannot be read."""
    size = min(512, max(_threads(), _CHUNK_BYTES // math.prod(reading.shape)))

    def read(source: Source) -> npt.NDArray[np.uint8] | DataError | InputError:
        try:
            return reading.read(_source(source))
        except (DataError, InputError) as error:
            return error

    with ThreadPoolExecutor(_threads(), "read") as pool:
        for start in range(0, len(sources), size):
            chunk = slice(start, min(start + size, len(sources)))
            yield chunk, list(pool.map(read, sources[chunk]))


def _source(source: Source) -> Any:
    if isinstance(source, str | Path | bytes | Image.Image | np.ndarray):
        return source
    raise InputError(
        f"an image is a path, a PIL image, bytes or a uint8 array, not {type(source).__name__}"
    )


def _threads() -> int:
    """PIL decodes without holding the interpreter's lock; one more waits for the disk."""
    return min(len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else 2, 16)
