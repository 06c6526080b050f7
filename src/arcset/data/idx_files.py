"""Datasets laid out as MNIST is: four idx files, images and labels for training and for testing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.download import download
from arcset.data.idx import read_idx
from arcset.data.places import cache_folder, data_folders

__all__ = ["FILES", "IdxDownload", "read_idx_dataset"]

# The names that MNIST gave them, in the order (train, test) × (images, labels).
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read_idx_dataset(
    name: str,
    licence: str,
    class_names: tuple[str, ...],
    checksums: Mapping[str, str],
    find: Callable[[str], Path | Traversable],
) -> Dataset:
    """Read the four files that `find` turns names from `FILES` into.

    checksums: the sha256 of each file's uncompressed bytes, in hex; verified here, every time.
    Raises `DataError` as `read_idx` does.
    """

    def part(images: str, labels: str) -> ImageSet:
        return ImageSet(
            read_idx(find(images), rank=3, sha256=checksums[images]),  # (N, H, W)
            read_idx(find(labels), rank=1, sha256=checksums[labels]).astype(np.int64),  # (N,)
            class_names,
        )

    return Dataset(name, train=part(*FILES[:2]), test=part(*FILES[2:]), licence=licence)


@dataclass(frozen=True)
class IdxDownload:
    """A public set of four idx files: found on this machine, or fetched into the cache.

    mirrors: addresses of folders, tried in this order, that hold each file as NAME.gz.
    Each file is looked for by itself, as NAME and as NAME.gz, so that a broken-off download goes
    on where it stopped. A file that is found is never replaced, whatever its checksum.
    """

    name: str
    licence: str
    class_names: tuple[str, ...]
    checksums: Mapping[str, str]
    mirrors: tuple[str, ...]

    def load(self) -> Dataset:
        """Read the set, after downloading what is not here; raises `DataError`."""
        return read_idx_dataset(
            self.name, self.licence, self.class_names, self.checksums, self._fetch
        )

    def download(self) -> str:
        """Download what is not here; says where the files are, as `locate` does."""
        for file in FILES:
            self._fetch(file)
        return self.locate()

    def locate(self) -> str:
        """The folder (or folders) of the files, or where those would come from; no network."""
        found = [path for path in map(self._find, FILES) if path is not None]
        folders = " and ".join(dict.fromkeys(str(path.parent) for path in found))
        missing = len(FILES) - len(found)
        if not missing:
            return folders
        source = f"would be downloaded from {self.mirrors[0]}"
        if not found:
            return f"not here: {source}"
        return f"{folders}, but {missing} of {len(FILES)} files are missing: {source}"

    def _find(self, file: str) -> Path | None:
        for folder in data_folders(self.name):
            for path in (folder / file, folder / f"{file}.gz"):
                if path.exists():
                    return path
        return None

    def _fetch(self, file: str) -> Path:
        return self._find(file) or download(
            [f"{mirror.rstrip('/')}/{file}.gz" for mirror in self.mirrors],
            cache_folder() / self.name / file,
            sha256=self.checksums[file],
        )
