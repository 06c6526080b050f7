"""A folder of images, with a sub-folder per identity: the one walk through folders."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from arcset.data.image import image_extensions, read_file
from arcset.data.sources.base import Entry, Listing, Source, printable
from arcset.errors import DataError

_STRAY = "lies in no sub-folder, so its identity is unknown"


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
    they belong to no identity and are skipped, unless `labelled` is false. Files and folders whose
    names begin with a dot are passed over, as are files without the extension of an image. Links to
    folders are followed, and no folder is listed twice.

    In the stream, the files of a folder come sorted, and before its sub-folders; the images
    directly in the root come last. A listing is sorted by path.
    Raises `DataError` where there is no image.
    """

    kind = "folder tree"

    def __init__(self, folder: Path | str, *, labelled: bool = True) -> None:
        self.name = str(folder)
        self.root = Path(folder)
        self._labelled = labelled

    def entries(self) -> Iterator[Entry]:
        return self._walk(Counter())

    def list_samples(self) -> Listing:
        """Sorted by path; notes say what was passed over."""
        others: Counter[str] = Counter()
        listing = Listing.of(self, sorted(self._walk(others), key=lambda entry: entry.file))
        listing.notes = [*_note_others(others), *_note_nested(set(listing.names))]
        return listing

    def _walk(self, others: Counter[str]) -> Iterator[Entry]:
        """All images, and folders that cannot be listed; `others` counts files by extension."""
        unreadable: list[OSError] = []
        stray: list[str] = []
        empty = True
        for label, images in self._folders(others, unreadable):
            if label == ".":
                stray = images
                continue
            empty = empty and not images
            for file in images:
                yield Entry(printable(file), printable(label), file)
        for error in unreadable:
            folder = Path(error.filename)
            if folder == self.root:
                raise DataError(f"cannot read {self.name}: {error.strerror}")
            file = folder.relative_to(self.root).as_posix()
            yield Entry(printable(file), "", file, why=f"cannot be read: {error.strerror}")
        for file in stray:
            label, why = (".", "") if empty or not self._labelled else ("", _STRAY)
            yield Entry(printable(file), label, file, why=why)
        if empty and not stray:
            hint = f" ({others.total():,} files that are no images were found)" if others else ""
            raise DataError(
                f"{self.name} holds no image; put the images of each identity into a sub-folder "
                f"of its own{hint}"
            )

    def _folders(
        self, others: Counter[str], unreadable: list[OSError]
    ) -> Iterator[tuple[str, list[str]]]:
        """Every folder once, by its path below the root, with its images, sorted."""
        visited = set[tuple[int, int]]()
        for where, folders, names in os.walk(self.root, True, unreadable.append, followlinks=True):
            folder = Path(where)
            status = folder.stat()
            if (status.st_dev, status.st_ino) in visited:
                folders.clear()
                continue
            visited.add((status.st_dev, status.st_ino))
            # Links after folders, so that these go by their own names.
            folders[:] = sorted(
                (name for name in folders if not name.startswith(".")),
                key=lambda name: ((folder / name).is_symlink(), name),
            )
            label = folder.relative_to(self.root).as_posix()
            images = []
            for name in sorted(name for name in names if not name.startswith(".")):
                if (extension := _extension(name)) in image_extensions():
                    images.append(name if label == "." else f"{label}/{name}")
                else:
                    others[extension] += 1
            yield label, images


def image_files(folder: Path | str) -> list[Path]:
    """All images below a folder, sorted, by the rules of `FolderSource`, without their identities.

    Raises `DataError` where there are none, or a folder cannot be listed.
    """
    files = []
    for entry in FolderSource(folder, labelled=False).entries():
        path = Path(folder, entry.file)
        if entry.why:
            raise DataError(f"{path} {entry.why}")
        files.append(path)
    return sorted(files)


def _note_others(others: Counter[str]) -> list[str]:
    """A note where there are files that are no images by their extensions."""
    count = others.total()
    if not count:
        return []
    often = sorted(others, key=lambda extension: (-others[extension], extension))
    kinds = printable(", ".join(extension or "none" for extension in often[:3]))
    files = "file is no image by its" if count == 1 else "files are no images by their"
    more = " …" if len(others) > 3 else ""
    return [f"{count:,} {files} extension, and ignored: {kinds}{more}"]


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
