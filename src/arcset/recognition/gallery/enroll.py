"""Folders and tables of images into a gallery: what it holds already is not stored again."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from arcset.data.decode_many import reason
from arcset.data.embeddings import EmbeddingSet, holds_shards, read_embeddings, read_manifest
from arcset.errors import DataError, InputError, OptionError
from arcset.recognition.gallery.base import Gallery, GalleryPath, drop_gallery
from arcset.recognition.gallery.parquet import GalleryFile, is_export
from arcset.recognition.gallery.samples import Row, check_name, make_rows, original, unit_rows
from arcset.recognition.inputs import ImageFile, list_images
from arcset.recognition.recognizer import ImageEmbedder, Progress, load_model
from arcset.text import plural

_AT_ONCE = 256  # images that are embedded, and then stored
_ROWS = 4096  # embeddings that are imported at a time


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
            recognizer = stack.enter_context(gallery).model()
        elif model is not None:
            recognizer = load_model(model, faces, device=device)
        else:
            raise OptionError(f"{path} does not exist yet: name its model with --model")

        def create() -> Gallery:
            return stack.enter_context(Gallery.open(path, recognizer, **options))

        enrollment = _Enrollment(recognizer, gallery, create, result)
        for start in range(0, len(images), _AT_ONCE):
            enrollment.add(images[start : start + _AT_ONCE])
            if progress is not None:
                progress(min(start + _AT_ONCE, len(images)), len(images))
        gallery = enrollment.gallery
        if gallery is None or not (result.samples or result.already):
            why = ": ".join(next(iter(result.skipped.items())))
            raise DataError(f"none of {plural(len(result.skipped), 'file')} can be enrolled: {why}")
        result.total_subjects, result.total_samples = len(gallery), gallery.sample_count
    return result


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


class _Enrollment:
    """Images into a gallery, but for those that it holds already.

    A gallery that is not there yet, None, is created with the first images that can be embedded.
    """

    def __init__(
        self,
        recognizer: ImageEmbedder,
        gallery: Gallery | None,
        create: Callable[[], Gallery],
        result: Enrolled,
    ) -> None:
        self._recognizer, self.gallery, self._create = recognizer, gallery, create
        self._result = result
        self._digests: dict[str, set[str]] = {}  # of the images that the gallery holds, by subject
        self._images: defaultdict[str, dict[str, str]] = defaultdict(dict)  # by digest and subject
        self._new: set[str] = set()

    def add(self, images: Sequence[tuple[str, ImageFile]]) -> None:
        """Embed the new ones of these, and store them."""
        result, fresh = self._result, self._leave_out(images)
        embedded = self._recognizer.embed_files(fresh.values())
        result.skipped |= {str(image): why for image, why in embedded.skipped.items()}
        result.notes |= {str(image): note for image, note in embedded.notes.items()}
        row_of = {image: row for row, image in enumerate(embedded.paths)}
        stored = {key: image for key, image in fresh.items() if image in row_of}
        if not stored:
            return
        files = [*stored.values()]
        vectors = embedded.embeddings[[row_of[image] for image in files]]
        if self.gallery is None:
            self.gallery = self._create()
        self.gallery.enroll_many([subject for subject, _ in stored], files, embeddings=vectors)
        for (subject, digest), image in stored.items():
            self._digests[subject].add(digest)
            given = self._images[digest]
            given[subject] = str(image)
            if len(given) > 1:
                result.shared[next(iter(given.values()))] = list(given)
        subjects = {*result.subjects, *(subject for subject, _ in stored)}
        result.samples += len(stored)
        result.subjects, result.new = sorted(subjects), sorted(subjects & self._new)

    def _leave_out(
        self, images: Sequence[tuple[str, ImageFile]]
    ) -> dict[tuple[str, str], ImageFile]:
        """Those that the gallery does not hold yet, by subject and digest."""
        fresh: dict[tuple[str, str], ImageFile] = {}
        for subject, image in images:
            try:
                digest = original(image).digest.hex()
            except (DataError, InputError) as error:
                self._result.skipped[str(image)] = reason(error, str(image))
                continue
            if digest in self._digests_of(subject) or (subject, digest) in fresh:
                self._result.already += 1
            else:
                fresh[subject, digest] = image
        return fresh

    def _digests_of(self, subject: str) -> set[str]:
        if subject not in self._digests:
            gallery = self.gallery
            is_known = gallery is not None and subject in gallery
            samples = gallery.samples(subject) if gallery is not None and is_known else ()
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
    if is_export(source):
        settings = GalleryFile(source).settings
        options: Any = {"dim": settings.dim, "scoring": settings.scoring.word} if is_new else {}
        with _open_to_import(path, is_new, **options) as gallery:
            return len(gallery.import_file(source)), len(gallery)
    embedded = read_embeddings(source)
    with _open_to_import(
        path, is_new, dim=embedded.embeddings.shape[1] if is_new else None
    ) as gallery:
        digest = read_manifest(source).digest if holds_shards(source) else None
        if gallery.model_digest and digest != gallery.model_digest:
            made_by = "does not say which model made its embeddings"
            made_by = made_by if digest is None else "was embedded by another model"
            raise OptionError(
                f"{source} {made_by}, and {path} belongs to {gallery.model_name}: enroll the "
                "images instead"
            )
        return len(gallery._add(_batches(embedded, gallery.dim))), len(gallery)


@contextmanager
def _open_to_import(path: GalleryPath, is_new: bool, **options: Any) -> Iterator[Gallery]:
    """A gallery. If an error leaves a new one empty, it is dropped."""
    is_empty = False
    try:
        with Gallery.open(path, **options) as gallery:
            try:
                yield gallery
            except BaseException:
                is_empty = gallery._is_empty()
                raise
    finally:
        if is_new and is_empty:
            drop_gallery(path)


def _batches(embedded: EmbeddingSet, dim: int) -> Iterator[list[Row]]:
    vectors = unit_rows(embedded.embeddings, dim)
    names = [check_name(name) for name in embedded.names.tolist()]
    for start in range(0, len(names), _ROWS):
        part = slice(start, start + _ROWS)
        sources = None if embedded.paths is None else embedded.paths[part]
        yield make_rows(names[part], vectors[part], None, sources, keep_images=False)
