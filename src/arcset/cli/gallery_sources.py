"""Which files are to be enrolled, and as whom."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from arcset.data.embeddings import holds_embeddings
from arcset.errors import DataError, OptionError

__all__ = ["Wanted", "list_wanted"]


@dataclass
class Wanted:
    """Image files, and the subject of each.

    Fields:
        names, paths: (N,).
        skipped: what looks like an image and cannot be enrolled, and why.
        notes: sentences about whatever else was passed over.
    """

    names: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    skipped: dict[Path, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.paths)

    def parts(self, size: int) -> Iterator[list[tuple[str, Path]]]:
        """Name and path of all, some at a time."""
        both = list(zip(self.names, self.paths, strict=True))
        for start in range(0, len(both), size):
            yield both[start : start + size]


def list_wanted(sources: Sequence[Path], name: str | None) -> Wanted:
    """The files of folders and files; raises `DataError` or `OptionError` for what cannot be meant.

    Without a name, each folder is a tree whose deepest folders are the subjects; one without
    sub-folders is itself the subject.
    """
    from arcset.recognition.gallery.names import check_name

    wanted = Wanted()
    for source in sources:
        if not source.exists():
            raise DataError(f"{source} does not exist; name a folder or images")
        if holds_embeddings(source):
            raise OptionError(
                f"{source} holds embeddings: take them in with `arcset gallery import`"
            )
        if source.is_dir():
            _add_folder(wanted, source, name)
        elif name is None:
            raise OptionError(
                f"nobody knows whom {source} shows: name the subject with --name, or give a folder "
                "with a sub-folder per subject"
            )
        else:
            wanted.names.append(name)
            wanted.paths.append(source)
    for found in dict.fromkeys(wanted.names):
        check_name(found)
    return wanted


def _add_folder(wanted: Wanted, folder: Path, name: str | None) -> None:
    from arcset.data.sources.folder import FolderSource, image_files

    if name is not None:
        files = image_files(folder)
        wanted.paths += files
        wanted.names += [name] * len(files)
        return
    tree = FolderSource(folder).list_samples()
    own = folder.resolve().name
    wanted.names += [own if found == "." else found for found in tree.names]
    wanted.paths += [folder / path for path in tree.paths]
    wanted.skipped |= {folder / path: why for path, why in tree.skipped}
    wanted.notes += tree.notes
