"""A folder of images, with a sub-folder per identity: the one walk through folders."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path

from arcset.data.image import image_extensions, read_file
from arcset.data.sources.base import Entry, Listing, Source, printable
from arcset.errors import DataError

__all__ = ["FileSource", "FolderSource", "image_files"]

_STRAY = "lies in no sub-folder, so that nobody knows whose image it is"


class FileSource(Source):
    """Image files of their own below a folder, `root`."""

    root: Path

    def content(self, entry: Entry) -> bytes:
        return read_file(self.root / entry.file, entry.path or entry.file)

    def stamp(self, entries: Sequence[Entry]) -> Sequence[int]:
        """Sizes in bytes; −1 where there is no such file."""
        root = str(self.root)
        return [_size(root, entry.file) if entry.file else 0 for entry in entries]


class FolderSource(FileSource):
    """The images below a folder: the folder that an image lies in is its identity.

    The identity is named by its path below the root, with "/", so that `alphabet/character` works.
    Images directly in the root are one identity, ".", where no sub-folder holds any; otherwise
    they belong to nobody and are skipped, unless `labelled` is false. Files and folders whose names
    begin with a dot are passed over, as are files without the extension of an image. Links to
    folders are followed, and no folder is listed twice: one that lies below the root goes by its
    own name.

    In the stream, the files of a folder come sorted, and before its sub-folders; links to folders
    follow at the end, and after them the images directly in the root. A listing is sorted by path.
    Raises `DataError` where there is no image.
    """

    kind = "folder tree"
    grouped = True

    def __init__(self, folder: Path | str, *, labelled: bool = True) -> None:
        self.name = str(folder)
        self.root = Path(folder)
        self._labelled = labelled

    def entries(self) -> Iterator[Entry]:
        return self._entries(_Walk(self.name))

    def _entries(self, walk: "_Walk") -> Iterator[Entry]:
        empty = True
        for entry in walk.entries():
            empty = empty and bool(entry.why)
            yield entry
        for file in walk.stray:
            label, why = (".", "") if empty or not self._labelled else ("", _STRAY)
            yield Entry(printable(file), label, file, why=why)
        if empty and not walk.stray:
            others = walk.others.total()
            hint = f" ({others:,} files that are no images were found)" if others else ""
            raise DataError(
                f"{self.name} holds no image; put the images of each identity into a sub-folder "
                f"of its own{hint}"
            )

    def list_samples(self) -> Listing:
        """Sorted by path; notes say what was passed over."""
        walk = _Walk(self.name)
        listing = Listing.of(self, sorted(self._entries(walk), key=lambda entry: entry.file))
        listing.notes = [*walk.notes(), *_note_nested(set(listing.names))]
        return listing


def image_files(folder: Path | str) -> list[Path]:
    """All images below a folder, sorted, by the rules of `FolderSource`, whoever they show.

    Raises `DataError` where there are none, or a folder cannot be listed.
    """
    files = []
    for entry in FolderSource(folder, labelled=False).entries():
        path = Path(folder, entry.file)
        if entry.why:
            raise DataError(f"{path} {entry.why}")
        files.append(path)
    return sorted(files)


class _Walk:
    """One walk through the folder `root`; names are relative to it.

    stray: images directly in the root. others: files that are no images, by their extensions.
    repeated: links to folders that are listed under another name.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.stray: list[str] = []
        self.others: Counter[str] = Counter()
        self.repeated: list[str] = []
        self._links: list[str] = []

    def entries(self) -> Iterator[Entry]:
        """The images of every folder but the root; and folders that cannot be listed, with why.

        Links to folders come last, so that a folder below the root goes by its own name.
        """
        folders, visited = [""], set[tuple[int, int]]()
        while folders or self._links:
            folder = folders.pop() if folders else heappop(self._links)
            try:
                status = Path(self.root, folder).stat()
                if (status.st_dev, status.st_ino) in visited:
                    self.repeated.append(folder)
                    continue
                visited.add((status.st_dev, status.st_ino))
                images, below = self._scan(folder)
            except OSError as error:
                if not folder:
                    raise DataError(f"cannot read {self.root}: {error.strerror}") from None
                why = f"cannot be read: {error.strerror}"
                yield Entry(printable(folder), "", folder, why=why)
                continue
            folders += sorted(below, reverse=True)
            if folder:
                label = printable(folder)
                yield from (Entry(printable(file), label, file) for file in sorted(images))
            else:
                self.stray = sorted(images)

    def _scan(self, folder: str) -> tuple[list[str], list[str]]:
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
                    heappush(self._links, name)
                elif (extension := _extension(entry.name)) in image_extensions():
                    images.append(name)
                else:
                    self.others[extension] += 1
        return images, folders

    def notes(self) -> list[str]:
        """What was passed over, in sentences."""
        notes = []
        if count := self.others.total():
            often = sorted(self.others, key=lambda extension: (-self.others[extension], extension))
            usual = [extension or "none" for extension in often[:3]]
            more = " …" if len(self.others) > 3 else ""
            files = "file is no image by its" if count == 1 else "files are no images by their"
            kinds = printable(", ".join(usual))
            notes.append(f"{count:,} {files} extension, and ignored: {kinds}{more}")
        if self.repeated:
            notes.append(
                f"{len(self.repeated):,} links lead to folders that are listed already, as "
                f"{printable(min(self.repeated))}, and were not followed"
            )
        return notes


def _extension(name: str) -> str:
    stem, dot, extension = name.rpartition(".")
    return f".{extension.lower()}" if stem and dot else ""


def _size(root: str, file: str) -> int:
    # Without paths' objects: it is asked of millions.
    try:
        return os.stat(os.path.join(root, file)).st_size  # noqa: PTH116, PTH118
    except (OSError, ValueError):  # noticed when it is read
        return -1


def _note_nested(names: set[str]) -> list[str]:
    """A note where an identity lies within another, as a misplaced file makes it."""
    within = sorted(name for name in names if name.rpartition("/")[0] in names)
    if not within:
        return []
    above = within[0].rpartition("/")[0]
    return [
        f"{len(within):,} identities lie within the folder of another, as {within[0]} in {above}: "
        f"each folder that holds images is one"
    ]
