"""What people hand in as images, brought to arrays of one shape, some at a time."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.data import Reading, open_source
from arcset.data.decode import decode_many, in_chunks
from arcset.data.embeddings import holds_embeddings
from arcset.data.sources.base import Entry, Source, kind_of
from arcset.data.sources.folder import FileSource, image_files
from arcset.errors import DataError, InputError, OptionError

__all__ = [
    "ImageFile",
    "ImageList",
    "Outcome",
    "SourceImage",
    "as_sources",
    "files_of",
    "list_images",
    "read_image",
    "read_in_chunks",
]

#: An image that was read, (H, W) or (H, W, 3), or why it could not be.
Outcome = npt.NDArray[np.uint8] | DataError | InputError


@dataclass(frozen=True)
class SourceImage:
    """An image of a source, fetched when it is read: a row of a table, a record, an array.

    str() is what people call it: its path, or its number.
    """

    source: Source
    entry: Entry

    def content(self) -> bytes | npt.NDArray[Any]:
        """The bytes of an image file, or pixels as the picture shows them."""
        return self.source.picture(self.entry)

    def __str__(self) -> str:
        return self.entry.path or f"sample {self.entry.record}"


#: An image that has a name, and is read when it is needed.
ImageFile = Path | SourceImage


@dataclass(frozen=True)
class ImageList:
    """The images of a source, not read yet.

    Fields:
        images: (N,). names: the identity of each; "" where nobody says. paths: as the source calls
            them, below its folder.
        skipped: what looks like an image and cannot be one, and why.
        notes: sentences about whatever else was passed over.
    """

    images: list[ImageFile]
    names: list[str]
    paths: list[str]
    skipped: dict[str, str]
    notes: Sequence[str]


def list_images(path: Path, *, labelled: bool = True) -> ImageList:
    """The images of a folder, a table, records, a pack, arrays, or of one file.

    The deepest folder that holds an image is its identity; a folder without sub-folders is itself
    one. labelled: whether images beside such folders are skipped; if not, they have no name.
    Raises `DataError` where there is no image, and `OptionError` for embeddings.
    """
    if holds_embeddings(path):
        raise OptionError(f"{path} holds embeddings: import them with `arcset gallery import`")
    if kind_of(path) is None:
        return ImageList([path], [""], [str(path)], {}, ())
    source = open_source(path, labelled=labelled)
    listing = source.list_samples()
    root = source.root if isinstance(source, FileSource) else None
    whole = path.resolve().name if labelled else ""
    return ImageList(
        [SourceImage(source, one) if root is None else root / one.file for one in listing.entries],
        [whole if name == "." else name for name in listing.names],
        listing.paths,
        {path if root is None else str(root / path): why for path, why in listing.skipped},
        listing.notes,
    )


_KINDS = (str, Path, bytes, Image.Image, np.ndarray, SourceImage)  # of one image
_CHUNK_BYTES, _CHUNK_IMAGES = 1 << 24, 512  # that are read before they are embedded


def as_sources(images: Any) -> Sequence[Any]:
    """One image or many as a sequence of single ones; a folder as the files below it.

    An array of three axes is one image (H, W, C) if its last axis has 1, 3 or 4 values, and a stack
    of grey ones (N, H, W) otherwise. Raises `InputError` for what holds no image, or is none.

        >>> len(as_sources(np.zeros((5, 8, 3), np.uint8))), len(as_sources(np.zeros((5, 8, 8))))
        (1, 5)
    """
    if isinstance(images, str | Path) and Path(images).is_dir():
        return image_files(images)
    if isinstance(images, np.ndarray):
        return _rows(images)
    if isinstance(images, _KINDS):
        return [images]
    if not isinstance(images, Iterable):
        raise _no_image(images)
    sources = list(images)
    if not sources:
        raise InputError("there is no image to embed: the list is empty")
    return sources


def _rows(array: npt.NDArray[Any]) -> Sequence[Any]:
    if array.ndim not in (2, 3, 4):
        raise InputError(
            "images as an array are uint8, (H, W), (H, W, C), (N, H, W) or (N, H, W, C), and this "
            f"one is {array.dtype}, {array.shape}"
        )
    if not array.size:
        raise InputError(f"there is no image to embed: the array is {array.shape}")
    single = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    return [array] if single else list(array)


def _no_image(thing: Any) -> InputError:
    return InputError(
        "an image is a path, the bytes of a file, a PIL image or a uint8 array, not "
        f"{type(thing).__name__}"
    )


def files_of(paths: ImageFile | str | Iterable[ImageFile | str]) -> list[ImageFile]:
    """Files as they are and, for each folder, the images below it; each file once.

    Raises `DataError` for a folder without images and `InputError` for what is no path.
    """
    given = [paths] if isinstance(paths, str | ImageFile) else list(paths)
    files: dict[ImageFile, None] = {}
    for path in given:
        if isinstance(path, SourceImage):
            files[path] = None
        elif isinstance(path, str | Path):
            folder = Path(path).is_dir()
            files |= dict.fromkeys(image_files(path) if folder else [Path(path)])
        else:
            raise InputError(f"files are named by paths, not by {type(path).__name__}")
    return list(files)


def read_in_chunks(sources: Sequence[Any], reading: Reading) -> Iterator[list[tuple[Any, Outcome]]]:
    """The images in order, some at a time, read by several threads.

    Each with its array, or why there is none.
    """
    size = max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // math.prod(reading.shape)))
    return decode_many(in_chunks(sources, size), lambda source: read_image(source, reading))


def read_image(source: Any, reading: Reading) -> npt.NDArray[np.uint8]:
    """One image as `reading` wants it; raises `DataError` or `InputError` where that fails."""
    if not isinstance(source, _KINDS):
        raise _no_image(source)
    name = ""
    if isinstance(source, SourceImage):
        source, name = source.content(), str(source)
    if isinstance(source, np.ndarray) and source.dtype == np.uint8:
        fitting = source[..., 0] if reading.channels == 1 and source.ndim == 3 else source
        if source.shape[2:] in ((), (reading.channels,)) and fitting.shape == reading.shape:
            return 255 - fitting if reading.invert else fitting  # nothing to resize
    return reading.read(source, name)
