"""What is to be grouped: images of any source, the faces in them, or embeddings from a file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.cli.gallery_sources import source_of_images
from arcset.data import Reading
from arcset.data.embeddings import read_embeddings
from arcset.data.sources.base import printable
from arcset.errors import DataError, InputError
from arcset.recognition.embedder import Embedder, Progress
from arcset.recognition.inputs import ImageFile, SourceImage, read_image

__all__ = ["Items", "embedding_items", "image_items"]

_SIDE = 112  # pixels of a picture on the contact sheet


@dataclass(frozen=True, eq=False)
class Items:
    """What is to be grouped, row by row.

    Fields:
        names: (N,) where each comes from: its path below the folder.
        embeddings: (N, D).
        labels: (N,) who it is, as far as anybody says; all None where nobody does.
        boxes: (N,) left, top, width and height of faces; empty where whole images are grouped.
        skipped: what could not be read, and why.
        picture: from a row to its pixels for people to look at; None where there are none.
    """

    names: tuple[str, ...]
    embeddings: npt.NDArray[Any]
    labels: tuple[str | None, ...]
    boxes: tuple[tuple[float, ...], ...]
    skipped: Mapping[str, str]
    picture: Callable[[int], npt.NDArray[np.uint8] | None] | None

    def __len__(self) -> int:
        return len(self.names)


def embedding_items(source: Path) -> Items:
    """The rows of a file of embeddings; raises `DataError` where it cannot be read."""
    found = read_embeddings(source)
    names = found.paths or tuple(f"row {row}" for row in range(len(found)))
    labels = tuple(str(name) for name in found.names) if len(found.class_names) > 1 else None
    return Items(names, found.embeddings, labels or (None,) * len(names), (), {}, None)


def image_items(data: Path, model: Embedder, labelled: bool, progress: Progress) -> Items:
    """All images below a folder or of another source, or all faces in them where the model finds
    faces.

    labelled: whether sub-folders are identities; the path of the deepest is the name. Of several
    faces on a photo only the main one is taken for the one that the folder names.
    Raises `DataError` where there is no image, or none that can be read.
    """
    source = source_of_images(data)
    if source is None and not data.is_dir():
        why = "is no folder" if data.exists() else "does not exist"
        raise DataError(f"{data} {why}: name a folder of images, or a file of embeddings")
    entries = [] if source is None else list(source.entries())
    images: list[ImageFile] = [data]
    if source is not None:
        images = [SourceImage(source, entry) for entry in entries if not entry.why]
    embed: Any = getattr(model, "embed_all", model.embed_files)  # all faces of a photo
    found = embed(images, progress=progress)
    left = {**found.skipped, **getattr(found, "faceless", {})}
    skipped = {entry.path or "": entry.why for entry in entries if entry.why}
    skipped |= {_name(image, data): why for image, why in left.items()}
    if not len(found):
        path, why = next(iter(skipped.items()))
        raise DataError(f"none of the {len(skipped):,} images in {data} can be used: {path} {why}")
    names = tuple(_name(image, data) for image in found.paths)
    faces = getattr(found, "faces", ())

    def picture(row: int) -> npt.NDArray[np.uint8] | None:
        try:
            if not faces:
                return read_image(found.paths[row], Reading(3, _SIDE, _SIDE))
            from arcset.recognition.faces import align, read_photo

            return align(read_photo(found.paths[row]), faces[row].points)
        except (DataError, InputError):
            return None

    labels = _labels(found.paths, names) if labelled else (None,) * len(names)
    boxes = tuple(tuple(round(value, 1) for value in face.box) for face in faces)
    return Items(names, found.embeddings, labels, boxes, skipped, picture)


def _labels(images: Sequence[ImageFile], names: Sequence[str]) -> tuple[str | None, ...]:
    """Whom each image shows: what its source says, or its folder.

    None for images in no folder, and for all where there is one identity only.
    """
    identities = [
        image.entry.label if isinstance(image, SourceImage) else name.rpartition("/")[0] or None
        for image, name in zip(images, names, strict=True)
    ]
    if len(set(identities) - {None}) < 2:
        return (None,) * len(names)
    # The faces of a photo follow each other, the main one first.
    first = [row == 0 or images[row - 1] != image for row, image in enumerate(images)]
    return tuple(
        label if is_first else None for label, is_first in zip(identities, first, strict=True)
    )


def _name(image: ImageFile, folder: Path) -> str:
    if isinstance(image, SourceImage):
        return str(image)
    return printable(image.relative_to(folder).as_posix())
