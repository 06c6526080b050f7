"""Folders and tables of images into a gallery: what it holds already is not stored again."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from arcset.data.decode import reason
from arcset.data.embeddings import holds_shards, read_embeddings, read_manifest
from arcset.errors import DataError, InputError, OptionError
from arcset.recognition.gallery.base import Gallery, GalleryPath, drop_gallery
from arcset.recognition.gallery.parquet import GalleryFile, is_export
from arcset.recognition.gallery.samples import check_name, original
from arcset.recognition.inputs import ImageFile, list_images
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress, load_model
from arcset.text import plural

__all__ = ["Enrolled", "enroll_images", "import_embeddings"]

_AT_ONCE = 256  # images that are embedded, and then stored

_Fresh = tuple[str, str, ImageFile]  # subject, digest and file of an image to enroll


@dataclass
class Enrolled:
    """What became of the images that were to be enrolled.

    Fields:
        samples: how many were stored. subjects: of whom. new: those of them who were new.
        already: how many the gallery held already for the same subject.
        shared: images whose bytes were given for several subjects, and for whom.
        skipped: those that cannot be read, and why.
        notes: which face was taken of photos that show several; what folders hold besides images.
        total_subjects, total_samples: of the gallery now.
    """

    samples: int = 0
    subjects: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    already: int = 0
    shared: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
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
        return "; ".join(parts)

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def enroll_images(
    path: GalleryPath,
    sources: Sequence[Path],
    *,
    name: str | None = None,
    model: Path | None = None,
    faces: str | None = None,
    scoring: str | None = None,
    keep_images: bool | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Enrolled:
    """Enroll the images of folders, tables, records, packs, arrays and files.

    name: whom all of them show; left out, the sources say it. model, faces: as `Gallery.open`
    takes them, with scoring and keep_images.

    Some images at a time are embedded and stored: should this be interrupted, what is stored stays,
    and is not stored again the next time. Raises `OptionError` where nobody says who is shown, and
    `DataError` where no image can be enrolled; a gallery that is not there yet is not made then.
    """
    result = Enrolled()
    images = _list_images(sources, name, result)
    options: dict[str, Any] = {"scoring": scoring, "keep_images": keep_images}
    with ExitStack() as stack:
        gallery: Gallery | None = None
        if Gallery.exists(path):
            gallery = Gallery.open(path, model, faces=faces, device=device, **options)
            recognizer: Any = stack.enter_context(gallery).recognizer
            if recognizer is None:
                raise OptionError(f"{path} does not remember its model: name it with --model")
        elif model is not None:
            recognizer = load_model(model, faces, device=device)
        else:
            raise OptionError(f"{path} does not exist yet: name its model with --model")
        held = _Held(gallery)
        for start in range(0, len(images), _AT_ONCE):
            fresh = held.leave_out(images[start : start + _AT_ONCE], result)
            embedded, vectors = _embed(recognizer, fresh, result)
            if embedded and gallery is None and model is not None:
                gallery = stack.enter_context(Gallery.open(path, recognizer, **options))
                gallery.set_model_path(model, faces)
            if embedded and gallery is not None:
                names, _, files = zip(*embedded, strict=True)
                gallery.enroll_many(names, files, embeddings=vectors)
                held.add(embedded, result)
            if progress is not None:
                progress(min(start + _AT_ONCE, len(images)), len(images))
        if not result.samples and not result.already:
            why = ": ".join(next(iter(result.skipped.items())))
            raise DataError(f"none of {plural(len(result.skipped), 'file')} can be enrolled: {why}")
        if gallery is not None:
            result.total_subjects, result.total_samples = len(gallery), gallery.sample_count
    return result


def _embed(
    recognizer: ImageEmbedder, fresh: Sequence[_Fresh], result: Enrolled
) -> tuple[list[_Fresh], Embeddings]:
    """Those that could be embedded, and their embeddings (n, D)."""
    embedded = recognizer.embed_files([image for _, _, image in fresh])
    result.skipped |= {str(image): why for image, why in embedded.skipped.items()}
    result.notes |= {str(image): note for image, note in embedded.notes.items()}
    rows = {image: row for row, image in enumerate(embedded.paths)}
    found = [item for item in fresh if item[2] in rows]
    return found, embedded.embeddings[[rows[image] for _, _, image in found]]


def _list_images(
    sources: Sequence[Path], name: str | None, result: Enrolled
) -> list[tuple[str, ImageFile]]:
    """The subject and the file of each image."""
    images: list[tuple[str, ImageFile]] = []
    for source in sources:
        listed = list_images(source, labelled=name is None)
        names = listed.names if name is None else [name] * len(listed.names)
        if "" in names:
            raise OptionError(
                f"whom does {source} show? Name the subject with --name, or give a folder with a "
                "sub-folder per subject"
            )
        images += zip(names, listed.images, strict=True)
        result.skipped |= listed.skipped
        result.notes |= {f"{source} ({number})": note for number, note in enumerate(listed.notes)}
    for subject in {subject: None for subject, _ in images}:
        check_name(subject)
    return images


class _Held:
    """The images that a gallery holds, by subject and digest."""

    def __init__(self, gallery: Gallery | None) -> None:
        self._gallery = gallery
        self._digests: dict[str, set[str]] = {}
        self._new: set[str] = set()
        self._given: dict[str, dict[str, str]] = {}  # by digest, an image of each subject

    def leave_out(self, images: Sequence[tuple[str, ImageFile]], result: Enrolled) -> list[_Fresh]:
        """Subject, digest and file of those that the gallery does not hold yet."""
        fresh: dict[tuple[str, str], ImageFile] = {}
        for subject, image in images:
            try:
                digest = original(image).digest.hex()
            except (DataError, InputError) as error:
                result.skipped[str(image)] = reason(error, str(image))
                continue
            if digest in self._of(subject) or (subject, digest) in fresh:
                result.already += 1
            else:
                fresh[subject, digest] = image
        return [(*key, image) for key, image in fresh.items()]

    def add(self, fresh: Sequence[_Fresh], result: Enrolled) -> None:
        """Remember what was stored."""
        subjects = {*result.subjects}
        for subject, digest, image in fresh:
            self._of(subject).add(digest)
            subjects.add(subject)
            given = self._given.setdefault(digest, {})
            given[subject] = str(image)
            if len(given) > 1:
                result.shared[next(iter(given.values()))] = list(given)
        result.samples += len(fresh)
        result.subjects = sorted(subjects)
        result.new = sorted(subjects & self._new)

    def _of(self, subject: str) -> set[str]:
        if subject not in self._digests:
            is_known = self._gallery is not None and subject in self._gallery
            samples = self._gallery.samples(subject) if self._gallery and is_known else ()
            self._digests[subject] = {sample.digest for sample in samples if sample.digest}
            if not is_known:
                self._new.add(subject)
        return self._digests[subject]


def import_embeddings(path: GalleryPath, source: Path) -> tuple[int, int]:
    """All embeddings of a file into a gallery, or none; a new one is made where there is none.

    source: what `Gallery.export` wrote; or embeddings of any tool, for a gallery without a model;
        or a folder of `arcset embed` by the gallery's model.
    Returns how many were imported, and how many subjects there are then. Raises `OptionError` for
    embeddings of another model.
    """
    is_new = not Gallery.exists(path)
    try:
        return _import(path, source, is_new)
    except BaseException:
        if is_new:
            drop_gallery(path)
        raise


def _import(path: GalleryPath, source: Path, is_new: bool) -> tuple[int, int]:
    if is_export(source):
        settings = GalleryFile(source).settings
        options: Any = {"dim": settings.dim, "scoring": settings.scoring.word} if is_new else {}
        with Gallery.open(path, **options) as gallery:
            return len(gallery.import_file(source)), len(gallery)
    embedded = read_embeddings(source)
    with Gallery.open(path, dim=embedded.embeddings.shape[1] if is_new else None) as gallery:
        digest = read_manifest(source).digest if holds_shards(source) else None
        if gallery.model_digest and digest != gallery.model_digest:
            made_by = "does not say which model made its embeddings"
            made_by = made_by if digest is None else "was embedded by another model"
            raise OptionError(
                f"{source} {made_by}, and {path} belongs to {gallery.model_name}: enroll the "
                "images instead"
            )
        names, rows = embedded.names.tolist(), embedded.embeddings
        ids = gallery.enroll_many(names, embeddings=rows, sources=embedded.paths)
        return len(ids), len(gallery)
