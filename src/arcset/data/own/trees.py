"""A folder of images, with a sub-folder per identity."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from arcset.data.image import image_extensions, read_file
from arcset.data.own.listing import Listing
from arcset.errors import DataError

__all__ = ["STRAY", "TreeListing", "no_image", "shown"]

#: Why an image directly in the root is skipped, where sub-folders hold others.
STRAY = "lies in no sub-folder, so that nobody knows whose image it is"

_NO_IMAGES = "files are no images by their"


class TreeListing(Listing):
    """The images below a folder: the folder that an image lies in is its identity.

    The identity is named by its path below the root, with "/", so that `alphabet/character` works.
    Images directly in the root are one identity, ".", where no sub-folder holds any; otherwise
    they belong to nobody and are skipped. Files and folders whose names begin with a dot are passed
    over, as are files without the extension of an image; `notes` counts the latter. Links to
    folders are followed, and no folder is listed twice. Sorted by path. Raises `DataError` where
    there is no image.
    """

    kind = "folder tree"

    def __init__(self, place: Path | str) -> None:
        self.place = Path(place)
        tree = _Tree(str(self.place))
        tree.walk()
        files, stray = tree.images()
        if not files:
            raise no_image(self.place, tree.others.total())
        self._files = files
        self.paths = [shown(file) for file in files]
        self.names = [shown(file.rpartition("/")[0]) or "." for file in files]
        self.skipped = [*tree.unlisted, *((shown(file), STRAY) for file in stray)]
        self.notes = [*tree.notes(), *_nested(set(self.names))]

    def content(self, index: int) -> bytes:
        """See `Listing`."""
        return read_file(f"{self.place}/{self._files[index]}", self.paths[index])


def no_image(place: Path | str, others: int) -> DataError:
    """For a folder without images, in which so many other files were found."""
    found = f" ({others:,} files that are no images were found)" if others else ""
    return DataError(
        f"{place} holds no image; put the images of each identity into a sub-folder of its "
        f"own{found}"
    )


def shown(name: str) -> str:
    r"""A name from the file system as valid Unicode, bytes that are none written as \xff."""
    if name.isascii():
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")


@dataclass
class _Tree:
    """What a walk through the folder `root` meets; names are relative to it."""

    root: str
    files: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)  # files that are no images, by extension
    unlisted: list[tuple[str, str]] = field(default_factory=list)  # folders, and why
    again: list[str] = field(default_factory=list)  # links to folders that were listed already

    def walk(self) -> None:
        """Every folder once. Links come last, so that a folder goes by its own name, not theirs."""
        folders, links = [""], list[str]()
        known = set[tuple[int, int]]()
        while folders or links:
            linked = not folders
            folder = (folders or links).pop()
            try:
                status = Path(self.root, folder).stat()
                if (status.st_dev, status.st_ino) in known:
                    self.again += [folder] * linked
                    continue
                known.add((status.st_dev, status.st_ino))
                within = self._within(folder)
            except OSError as error:
                if not folder:
                    raise DataError(f"cannot read {self.root}: {error.strerror}") from None
                self.unlisted.append((shown(folder), f"cannot be read: {error.strerror}"))
                continue
            folders += within[0]
            links = sorted([*links, *within[1]], reverse=True) if within[1] else links

    def _within(self, folder: str) -> tuple[list[str], list[str]]:
        """The sub-folders and the links to folders; files are noted."""
        folders, links = [], []
        with os.scandir(f"{self.root}/{folder}") as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif _leads_to_folder(entry):
                    links.append(name)
                else:
                    self._file(name, entry.name)
        return folders, links

    def _file(self, name: str, last: str) -> None:
        stem, dot, extension = last.rpartition(".")
        extension = f".{extension.lower()}" if stem and dot else ""
        if extension in image_extensions():
            self.files.append(name)
        else:
            self.others[extension] += 1

    def images(self) -> tuple[list[str], list[str]]:
        """The images that have an identity, and those that have none; both sorted."""
        self.files.sort()
        inner = [file for file in self.files if "/" in file]
        if not inner:
            return self.files, []
        return inner, [file for file in self.files if "/" not in file]

    def notes(self) -> list[str]:
        """What was passed over, in sentences."""
        notes = []
        if count := self.others.total():
            usual = sorted(self.others, key=lambda extension: (-self.others[extension], extension))
            kinds = [extension or "none" for extension in usual[:3]]
            more = " …" if len(self.others) > 3 else ""
            named = shown(", ".join(kinds))
            notes.append(
                f"{count:,} {'file is no image by its' if count == 1 else _NO_IMAGES} extension, "
                f"and ignored: {named}{more}"
            )
        if self.again:
            notes.append(
                f"{len(self.again):,} links lead to folders that are listed already, as "
                f"{shown(self.again[0])}, and were not followed"
            )
        return notes


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _nested(names: set[str]) -> list[str]:
    """A note where an identity lies within another, as a misplaced file makes it."""
    within = sorted(name for name in names if name.rpartition("/")[0] in names)
    if not within:
        return []
    above = within[0].rpartition("/")[0]
    return [
        f"{len(within):,} identities lie within the folder of another, as {within[0]} in {above}: "
        f"each folder that holds images is one"
    ]
