"""`arcset enroll`: add subjects to a gallery."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from arcset.cli import options as o
from arcset.cli.output import (
    one_line,
    print_json,
    print_text,
    progress_bar,
    say,
    tell_notes,
    tell_skipped,
)
from arcset.data import open_source
from arcset.data.decode import reason
from arcset.data.embeddings import holds_embeddings
from arcset.data.sources.base import kind_of
from arcset.data.sources.folder import FolderSource, image_files
from arcset.errors import DataError, InputError, OptionError
from arcset.recognition.embedder import Progress
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.names import check_name
from arcset.recognition.gallery.open import (
    GalleryPath,
    find_settings,
    load_model,
    open_with_model,
    remember_model,
)
from arcset.recognition.gallery.originals import original
from arcset.recognition.inputs import ImageFile, SourceImage
from arcset.text import plural

__all__ = ["LabelledImages", "enroll", "list_images"]

_AT_ONCE = 256  # files that are embedded, and then stored


def enroll(
    gallery: o.GalleryArgument,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA|IMAGE…",
            help="A folder with a sub-folder per subject, a table, records, a pack or arrays of "
            "images; or images of the subject --name.",
        ),
    ],
    model: o.ModelOption = None,
    name: Annotated[
        str | None,
        typer.Option(help="Whom all these images show, instead of the folders' names."),
    ] = None,
    faces: o.FacesOption = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            help="How a subject of several samples is scored: max, mean, or top-3 (the mean of its "
            "best 3). Kept in the gallery. Default: max."
        ),
    ] = None,
    keep_images: Annotated[
        bool | None,
        typer.Option(
            "--keep-images/--no-keep-images",
            help="Keep the images in the gallery, so that it can move to another model.",
        ),
    ] = None,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Add subjects to a gallery, or further images of them; a new gallery is created.

    The deepest folder that holds images is the subject. Images that cannot be
    read are skipped and named. Those that the gallery holds already, byte for
    byte, are not stored twice.

    Example: arcset enroll people.db photos/ --model runs/faces
    """
    images = list_images(sources, name)
    for note in images.notes:
        say(f"note: {note}")
    settings = {"scoring": scoring, "keep_images": keep_images}
    with (
        _Target(gallery, model, faces, device, settings) as target,
        progress_bar("enrolling") as progress,
    ):
        result = _enroll_images(images, target, progress)
    if not result.samples and not result.already:
        tell_skipped(result.skipped)
        raise DataError(f"none of {plural(len(result.skipped), 'file')} can be enrolled")
    if json:
        print_json({"gallery": str(gallery), **result.json()})
        return
    print_text(
        f"{result}\n{gallery}: {plural(result.total_subjects, 'subject')}, "
        f"{plural(result.total_samples, 'sample')}"
    )
    tell_skipped(result.skipped)
    tell_notes(list(result.notes.values()))
    for path, names in result.shared.items():
        say(f"note: {one_line(path)} was given for {' and '.join(names)}: one of them is wrong")


@dataclass
class LabelledImages:
    """Images, and the subject of each.

    Fields:
        names, paths: (N,).
        skipped: what looks like an image and cannot be one, and why.
        notes: sentences about whatever else was passed over.
    """

    names: list[str] = field(default_factory=list)
    paths: list[ImageFile] = field(default_factory=list)
    skipped: dict[ImageFile, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def list_images(sources: Sequence[Path], name: str | None) -> LabelledImages:
    """The images of folders, tables, records, packs, arrays and files.

    Without a name, each folder is a tree whose deepest folders are the subjects; one without
    sub-folders is itself the subject. Other sources name the subject of each image themselves.
    Raises `DataError` or `OptionError` for what cannot be meant.
    """
    images = LabelledImages()
    for path in sources:
        kind = kind_of(path)
        if holds_embeddings(path):
            raise OptionError(f"{path} holds embeddings: import them with `arcset gallery import`")
        if kind == "folder":
            _add_folder(images, path, name)
        elif kind is not None:
            _add_source(images, path, name)
        elif name is None:
            raise OptionError(
                f"whom does {path} show? Name the subject with --name, or give a folder with a "
                "sub-folder per subject"
            )
        else:
            images.names.append(name)
            images.paths.append(path)
    for subject in dict.fromkeys(images.names):
        check_name(subject)
    return images


def _add_source(images: LabelledImages, path: Path, name: str | None) -> None:
    source = open_source(path)
    for entry in source.entries():
        image = SourceImage(source, entry)
        if entry.why:
            images.skipped[image] = entry.why
        else:
            images.paths.append(image)
            images.names.append(name or entry.label)


def _add_folder(images: LabelledImages, folder: Path, name: str | None) -> None:
    if name is not None:
        files = image_files(folder)
        images.paths += files
        images.names += [name] * len(files)
        return
    tree = FolderSource(folder).list_samples()
    whole = folder.resolve().name
    images.names += [whole if label == "." else label for label in tree.names]
    images.paths += [folder / path for path in tree.paths]
    images.skipped |= {folder / path: why for path, why in tree.skipped}
    images.notes += tree.notes


@dataclass
class _Enrolled:
    """What became of the images.

    Fields:
        samples: how many were stored. subjects: of whom. new: those of them who were new.
        already: how many the gallery held already for the same subject.
        shared: images whose bytes were given for several subjects, and for whom.
        skipped: those that cannot be read, and why.
        notes: which face was taken of photos that show several.
        total_subjects, total_samples: of the gallery now.
    """

    samples: int = 0
    subjects: set[str] = field(default_factory=set)
    new: set[str] = field(default_factory=set)
    already: int = 0
    shared: dict[ImageFile, tuple[str, ...]] = field(default_factory=dict)
    skipped: dict[ImageFile, str] = field(default_factory=dict)
    notes: dict[ImageFile, str] = field(default_factory=dict)
    total_subjects: int = 0
    total_samples: int = 0

    def __str__(self) -> str:
        parts = []
        if self.samples:
            who = plural(len(self.subjects), "subject")
            new = f", {len(self.new):,} of them new" if len(self.new) < len(self.subjects) else ""
            parts.append(f"enrolled {plural(self.samples, 'image')} of {who}{new}")
        if self.already:
            were = "was" if self.already == 1 else "were"
            parts.append(f"{plural(self.already, 'image')} {were} enrolled already")
        return "; ".join(parts) or "nothing was enrolled"

    def json(self) -> dict[str, Any]:
        """Plain values, paths as text and subjects in order."""
        return {
            **vars(self),
            "subjects": sorted(self.subjects),
            "new": sorted(self.new),
            "shared": {str(path): list(names) for path, names in self.shared.items()},
            "skipped": {str(path): why for path, why in self.skipped.items()},
            "notes": {str(path): note for path, note in self.notes.items()},
        }


class _Target:
    """The gallery to enroll into, and its model. A new one is created by `open`, so that none is
    left behind where nothing can be enrolled.
    """

    def __init__(
        self,
        path: GalleryPath,
        model: Path | None,
        faces: str | None,
        device: str,
        settings: Mapping[str, Any],
    ) -> None:
        self._path, self._model, self._faces, self._settings = path, model, faces, settings
        self.gallery: Gallery | None = None
        self.recognizer: Any
        if find_settings(path) is not None:
            self.gallery = open_with_model(path, model, faces, device=device, **settings)
            self.recognizer = self.gallery.recognizer
        elif model is not None:
            self.recognizer = load_model(model, faces, device=device)
        else:
            raise OptionError(f"{path} does not exist yet: name its model with --model")

    def open(self) -> Gallery:
        """The gallery, created if need be."""
        if self.gallery is None:
            self.gallery = Gallery.open(self._path, self.recognizer, **self._settings)
            if self._model is not None:
                remember_model(self.gallery, self._model, self._faces)
        return self.gallery

    def digests(self, name: str) -> set[str] | None:
        """Of the images that a subject has, as far as the gallery knows them; None if unknown."""
        if self.gallery is None or name not in self.gallery:
            return None
        return {sample.digest for sample in self.gallery.samples(name) if sample.digest}

    def __enter__(self) -> "_Target":
        return self

    def __exit__(self, *_: object) -> None:
        if self.gallery is not None:
            self.gallery.close()


def _enroll_images(images: LabelledImages, target: _Target, progress: Progress) -> _Enrolled:
    """Embed and store what is not there yet, some files at a time: what is stored stays, should
    this be interrupted, and is not stored again the next time.
    """
    result = _Enrolled(skipped=dict(images.skipped))
    digests: dict[str, set[str]] = {}  # by subject, those of its images
    owners: dict[str, dict[str, ImageFile]] = {}  # by digest, the subjects that it was given for
    pairs = list(zip(images.names, images.paths, strict=True))
    for start in range(0, len(pairs), _AT_ONCE):
        fresh: dict[ImageFile, tuple[str, str]] = {}
        for name, path in pairs[start : start + _AT_ONCE]:
            digest = _digest(path, result)
            if digest is None:
                continue
            if name not in digests:
                known = target.digests(name)
                digests[name] = known or set()
                if known is None:
                    result.new.add(name)
            if digest in digests[name]:
                result.already += 1
                continue
            digests[name].add(digest)
            owners.setdefault(digest, {})[name] = path
            fresh[path] = name, digest
        if fresh:
            embedded = target.recognizer.embed_files(list(fresh))
            for path, why in embedded.skipped.items():
                name, digest = fresh[path]
                result.skipped[path] = why
                digests[name].discard(digest)
                del owners[digest][name]
            result.notes.update(embedded.notes)
            names = [fresh[path][0] for path in embedded.paths]
            if names:
                target.open().enroll_many(names, embedded.paths, embeddings=embedded.embeddings)
            result.samples += len(names)
            result.subjects.update(names)
        progress(min(start + _AT_ONCE, len(pairs)), len(pairs))
    result.new &= result.subjects
    shared = [paths for paths in owners.values() if len(paths) > 1]
    result.shared = {next(iter(paths.values())): tuple(paths) for paths in shared}
    if target.gallery is not None:
        result.total_subjects = len(target.gallery)
        result.total_samples = target.gallery.sample_count
    return result


def _digest(image: ImageFile, result: _Enrolled) -> str | None:
    """SHA-256 of an image's bytes, as a gallery keeps it; None if it cannot be read."""
    try:
        return original(image).digest.hex()
    except (DataError, InputError) as error:
        result.skipped[image] = reason(error, str(image))
        return None
