"""A user's own data as a stream: one sample after the other, however many there are.

`list_samples` holds all names in memory, which takes gigabytes for tens of millions of files. Here
no more than the names in one folder, or some rows of a table, are held at a time.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from arcset.data.image import image_extensions
from arcset.data.own.tables import cell_text, table_rows
from arcset.data.own.trees import STRAY, no_image, shown
from arcset.errors import DataError

__all__ = ["Entry", "stream_table", "stream_tree"]


class Entry(NamedTuple):
    """One sample that is not read yet.

    path: where it is, as shown to people; None where nobody says. label: its identity.
    file: its name for the file system, relative to the place or to the folder of the table.
    record: where it is within a file of many; −1 for a file of its own.
    why: of what looks like a sample and cannot be one, the reason.
    """

    path: str | None
    label: str
    file: str = ""
    record: int = -1
    why: str = ""


def stream_tree(place: Path | str) -> Iterator[Entry]:
    """The images below a folder, as `TreeListing` finds them, folder by folder.

    Within a folder files come sorted, and before its sub-folders. Links to folders follow at the
    end, and after them the images directly in the root. Raises `DataError` where there is none.
    """
    tree = _Tree(os.fspath(place))
    found = False
    for entry in tree.entries():
        found = found or not entry.why
        yield entry
    for name in tree.stray:
        label, why = ("", STRAY) if found else (".", "")
        yield Entry(shown(name), label, name, why=why)
    if not found and not tree.stray:
        raise no_image(place, tree.others)


class _Tree:
    """A walk through the folder `root`; names are relative to it.

    stray: images directly in the root. others: how many files are no images.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.stray: list[str] = []
        self.others = 0
        self._real = os.path.realpath(root)
        self._links: list[str] = []
        self._linked: set[tuple[int, int]] = set()

    def entries(self) -> Iterator[Entry]:
        """The images of every folder, each folder once; and those that cannot be listed."""
        yield from self._below("", linked=False)
        while self._links:
            self._links.sort(reverse=True)
            link = self._links.pop()
            if not self._met(link):
                yield from self._below(link, linked=True)

    def _below(self, top: str, *, linked: bool) -> Iterator[Entry]:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            try:
                if linked and self._again(folder):
                    continue
                images, within = self._within(folder)
            except OSError as error:
                if not folder:
                    raise DataError(f"cannot read {self.root}: {error.strerror}") from None
                yield Entry(shown(folder), "", folder, why=f"cannot be read: {error.strerror}")
                continue
            waiting += sorted(within, reverse=True)
            if folder:
                label = shown(folder)
                yield from (Entry(shown(name), label, name) for name in sorted(images))
            else:
                self.stray = sorted(images)

    def _within(self, folder: str) -> tuple[list[str], list[str]]:
        """The images and the sub-folders; links to folders are put off."""
        images, folders = [], []
        with os.scandir(f"{self.root}/{folder}") as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.is_symlink() and Path(self.root, name).is_dir():
                    self._links.append(name)
                elif _is_image(entry.name):
                    images.append(name)
                else:
                    self.others += 1
        return images, folders

    def _met(self, link: str) -> bool:
        """Whether a link leads to a folder that goes by its own name: below the root, not hidden.

        So that only folders outside, which links lead to, have to be remembered.
        """
        real = os.path.realpath(f"{self.root}/{link}")
        if real == self._real:
            return True
        if not real.startswith(self._real.rstrip("/") + "/"):
            return False
        below = real[len(self._real.rstrip("/")) + 1 :]
        return not any(part.startswith(".") for part in below.split("/"))

    def _again(self, folder: str) -> bool:
        status = Path(self.root, folder).stat()
        known = (status.st_dev, status.st_ino)
        met = known in self._linked
        self._linked.add(known)
        return met


def _is_image(name: str) -> bool:
    stem, dot, extension = name.rpartition(".")
    return bool(stem and dot) and f".{extension.lower()}" in image_extensions()


def stream_table(place: Path | str) -> Iterator[Entry]:
    """The rows of a CSV or Parquet table, as `TableListing` reads them; what split says is left.

    Raises `DataError` for a table that cannot be read, lacks a column, or has no row to use.
    """
    found = False
    for number, (path, label, _) in enumerate(table_rows(Path(place)), 1):
        file, name = cell_text(path), shown(cell_text(label))
        if not file:
            yield Entry(f"row {number}", name, why="has no path")
        elif not name:
            yield Entry(shown(file), "", file, why=f"has no label in row {number}")
        else:
            found = True
            yield Entry(shown(file), name, file)
    if not found:
        raise DataError(f"{place} holds no row with a path and a label")
