"""A pack: own images decoded once into one file, and used from there without being loaded.

PACK/  images.npy       uint8 (N, H, W) or (N, H, W, 3): those for training, then for testing
       labels.npy       int64 (N,)
       paths.parquet    one column, path (N)
       pack.json        everything else, see `PackFile`
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from arcset.data.dataset import Dataset
from arcset.data.image import Reading
from arcset.data.own.assembly import Assembly
from arcset.errors import DataError
from arcset.files import one_line, wrong_entry

__all__ = [
    "IMAGES",
    "LABELS",
    "PATHS",
    "REST",
    "VERSION",
    "PackFile",
    "is_pack",
    "load_pack",
    "open_pack",
]

VERSION = 1
IMAGES, LABELS, PATHS, REST = "images.npy", "labels.npy", "paths.parquet", "pack.json"


class PackFile(BaseModel):
    """What pack.json says: where the images came from, how they were read, and whom they show.

    sha256: of the files that are small enough to be checked whenever a pack is opened.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int
    name: str
    source: str
    kind: str
    images: int
    training: int
    reading: Reading
    class_names: tuple[str, ...]
    apart: dict[str, tuple[str, ...]]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    sha256: dict[str, str]


def is_pack(place: Path | str) -> bool:
    """Whether a folder says that it is a pack."""
    return (Path(place) / REST).is_file()


def load_pack(place: Path | str) -> Dataset:
    """Open a pack. Its images stay in their file, both parts are read-only views of it.

    Raises `DataError` with one sentence where it is damaged, incomplete or of a newer version.
    """
    place = Path(place)
    if not is_pack(place):
        raise DataError(f"{place} is no pack: it holds no {REST}")
    said, images = open_pack(place)
    try:
        labels = np.load(_checked(place, LABELS, said), allow_pickle=False)
        paths = _read_paths(_checked(place, PATHS, said))
        assembly = Assembly(
            name=said.name,
            labels=labels,
            class_names=said.class_names,
            paths=paths,
            training=said.training,
            apart=said.apart,
            skipped=said.skipped,
        )
        return assembly.dataset(images, said.reading)
    except Exception as error:  # numpy and Arrow raise errors of many types at damaged files
        raise _damaged(place, one_line(error)) from error


def open_pack(place: Path) -> tuple[PackFile, npt.NDArray[np.uint8]]:
    """What a pack says of itself, and its images, which stay in their file.

    Labels and paths are not read, of which there may be many. Raises `DataError` as `load_pack`.
    """
    try:
        said = PackFile.model_validate_json((place / REST).read_bytes())
        if said.version != VERSION:
            raise ValueError(f"it has version {said.version}, and this arcset reads {VERSION}")
        if not 0 < said.training <= said.images:
            raise ValueError(f"{said.training} of {said.images} images are for training")
        return said, _mapped(place / IMAGES, (said.images, *said.reading.shape))
    except ValidationError as error:
        raise _damaged(place, f"{REST} is damaged: {wrong_entry(error)}") from None
    except Exception as error:
        raise _damaged(place, one_line(error)) from error


def _damaged(place: Path, why: str) -> DataError:
    return DataError(
        f"{place} is no complete pack: {why}; make it anew with `arcset data pack --force`"
    )


def _checked(place: Path, file: str, said: PackFile) -> Path:
    """The file, whose checksum is right."""
    with (place / file).open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != said.sha256.get(file):
            raise ValueError(f"{file} is not what its checksum in {REST} says")
    return place / file


def _mapped(path: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    images: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    if images.shape != shape or images.dtype != np.uint8 or not images.flags.c_contiguous:
        raise ValueError(
            f"{path.name} holds {images.dtype} of shape {images.shape}, and {REST} says uint8 of "
            f"{shape}"
        )
    if path.stat().st_size != images.offset + images.nbytes:
        raise ValueError(f"{path.name} is longer than its {shape[0]:,} images")
    mapped: npt.NDArray[np.uint8] = images
    return mapped


def _read_paths(path: Path) -> tuple[str, ...]:
    from pyarrow import parquet

    paths = parquet.read_table(path, columns=["path"])["path"].to_pylist()
    if not all(isinstance(one, str) for one in paths):
        raise ValueError(f"{path.name} holds paths that are not text")
    return tuple(paths)
