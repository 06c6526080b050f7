"""Datasets that lie in a folder and have no public address to be downloaded from."""

from dataclasses import dataclass
from pathlib import Path

from arcset.data.places import data_folders
from arcset.errors import DataError

__all__ = ["LocalFolder"]


@dataclass(frozen=True)
class LocalFolder:
    """Where a dataset of the user's own copying is, or would have to be.

    name: of the dataset. layout: how its files are called below the folder, for messages.
    """

    name: str
    layout: str

    def find(self) -> Path:
        """The first of the places that is there; raises `DataError` where none is."""
        found = self._first()
        if found is None:
            raise DataError(
                f"{self.name} is not on this machine and cannot be downloaded in this form: "
                f"put its files ({self.layout}) into {self._places()}"
            )
        return found

    def locate(self) -> str:
        """The folder, or where it would have to be."""
        found = self._first()
        if found is None:
            return f"not here: put {self.layout} into {self._places()}"
        return str(found)

    def download(self) -> str:
        """Says where the folder is; raises `DataError` as `find` does."""
        return str(self.find())

    def _first(self) -> Path | None:
        return next((folder for folder in data_folders(self.name) if folder.is_dir()), None)

    def _places(self) -> str:
        return " or ".join(str(folder) for folder in data_folders(self.name))
