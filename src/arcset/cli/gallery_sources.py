"""Which images are to be enrolled or grouped, and whom they show."""

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from arcset.data import Source, open_source
from arcset.data.embeddings import holds_embeddings
from arcset.data.sources.folder import FolderSource, image_files
from arcset.errors import DataError, OptionError
from arcset.recognition.inputs import ImageFile, SourceImage

__all__ = ["Wanted", "list_wanted", "source_of_images"]

_NAMED_BY_SUFFIX = (".csv", ".tsv", ".rec")


@dataclass
class Wanted:
    """Images, and the subject of each.

    Fields:
        names, paths: (N,).
        skipped: what looks like an image and cannot be enrolled, and why.
        notes: sentences about whatever else was passed over.
    """

    names: list[str] = field(default_factory=list)
    paths: list[ImageFile] = field(default_factory=list)
    skipped: dict[ImageFile, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.paths)

    def parts(self, size: int) -> Iterator[list[tuple[str, ImageFile]]]:
        """Name and path of all, some at a time."""
        both = list(zip(self.names, self.paths, strict=True))
        for start in range(0, len(both), size):
            yield both[start : start + size]


def list_wanted(sources: Sequence[Path], name: str | None) -> Wanted:
    """The images of folders, tables, records, packs, arrays and files.

    Without a name, each folder is a tree whose deepest folders are the subjects; one without
    sub-folders is itself the subject. Other sources name the subject of each image themselves.
    Raises `DataError` or `OptionError` for what cannot be meant.
    """
    from arcset.recognition.gallery.names import check_name

    wanted = Wanted()
    for source in sources:
        if not source.exists():
            raise DataError(f"{source} does not exist; name a folder or images")
        if (data := source_of_images(source)) is not None:
            _add_source(wanted, data, name)
        elif holds_embeddings(source):
            raise OptionError(
                f"{source} holds embeddings: take them in with `arcset gallery import`"
            )
        elif source.is_dir():
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


def source_of_images(path: Path) -> Source | None:
    """A table, records, a pack or pictures in an npz file; None for a folder and anything else.

    A Parquet or npz file that holds embeddings is none of these.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet" and path.is_file():
        from pyarrow import ArrowException, parquet

        try:
            columns = {name.lower() for name in parquet.read_schema(path).names}
        except (ArrowException, OSError):
            return None
        if "path" not in columns or columns & {"embedding", "embeddings", "features"}:
            return None
    elif suffix == ".npz" and path.is_file():
        source = open_source(path) if _names_images(path) else None
        return None if source is None or source.features else source
    elif not (path.is_dir() or suffix in _NAMED_BY_SUFFIX):
        return None
    source = open_source(path)
    return None if isinstance(source, FolderSource) else source


def _names_images(path: Path) -> bool:
    try:
        return "images.npy" in zipfile.ZipFile(path).namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _add_source(wanted: Wanted, source: Source, name: str | None) -> None:
    for entry in source.entries():
        image = SourceImage(source, entry)
        if entry.why:
            wanted.skipped[image] = entry.why
        else:
            wanted.paths.append(image)
            wanted.names.append(name or entry.label)


def _add_folder(wanted: Wanted, folder: Path, name: str | None) -> None:
    if name is not None:
        files = image_files(folder)
        wanted.paths += files
        wanted.names += [name] * len(files)
        return
    tree = FolderSource(folder).list_samples()
    own = folder.resolve().name
    wanted.names += [own if label == "." else label for label in tree.names]
    wanted.paths += [folder / path for path in tree.paths]
    wanted.skipped |= {folder / path: why for path, why in tree.skipped}
    wanted.notes += tree.notes
