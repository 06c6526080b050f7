"""What every gallery does, wherever it stores what it knows: enroll, identify, change, list.

A store, `sqlite` or `milvus`, adds little to it: rows in and out, the nearest subjects, settings,
and what makes a change whole. See the end of `Gallery`.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from arcset.checks import check_count
from arcset.errors import ArcsetError, DataError, InputError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.evaluation.calibration.templates import Scoring
from arcset.files import parse_json
from arcset.recognition.calibration import calibrate
from arcset.recognition.decisions import (
    RIVALS,
    Match,
    Verification,
    WorkingPoint,
    answer,
    decide,
    uncalibrated_note,
    working_point,
)
from arcset.recognition.gallery.parquet import GalleryFile, write_rows
from arcset.recognition.gallery.samples import (
    Row,
    Sample,
    Subject,
    as_time,
    check_name,
    make_rows,
    single_vector,
    unit_rows,
)
from arcset.recognition.gallery.scoring import exact_cosines
from arcset.recognition.gallery.settings import LARGEST_DIM, Settings
from arcset.recognition.inputs import Published, as_sources
from arcset.recognition.recognizer import (
    EmbeddedImage,
    Embeddings,
    ImageEmbedder,
    Progress,
    load_model,
)

if TYPE_CHECKING:
    from arcset.recognition.gallery.milvus_address import Address

#: Where a gallery is: its file, or its address in Milvus.
GalleryPath: TypeAlias = "Path | Address"

_BATCH = 4096  # samples that `enroll_many` adds at a time


class Gallery(ABC):
    """Subjects and their embeddings: in one file, or in Milvus; see `Gallery.open`.

    What a method that changes something has done is there when it returns, and others who have
    the same gallery open see it at their next call. Threads may share one gallery. `FileGallery`
    says what a file promises beyond that, and `MilvusGallery` what Milvus cannot do.

    Attributes:
        path: the file, or the address in Milvus. dim: length of an embedding.
        read_only: whether it was opened for reading only, or is where nothing can be written.

        >>> gallery = Gallery.open(getfixture("tmp_path") / "people.db", dim=2)
        >>> gallery.enroll("anna", embeddings=[[1.0, 0.1], [1.0, -0.1]])
        (1, 2)
        >>> gallery.enroll("ben", embeddings=[0.0, 1.0])
        (3,)
        >>> print(gallery.identify(embedding=[0.9, 0.0], threshold=0.5))
        anna: cosine 0.9950, threshold 0.5000
        >>> gallery.close()
    """

    path: "GalleryPath"
    dim: int
    read_only: bool
    #: Whether images can be stored with their embeddings at all.
    can_hold_images: ClassVar[bool] = True

    _recognizer: ImageEmbedder | None = None
    _device = "auto"
    _loading = threading.Lock()
    _point: tuple[Any, Thresholds | None, WorkingPoint] | None = None  # and what it was made for

    # Opening

    @staticmethod
    def open(
        path: "Path | str | Address",
        recognizer: "ImageEmbedder | Path | str | None" = None,
        *,
        faces: str | None = None,
        device: str = "auto",
        dim: int | None = None,
        scoring: str | None = None,
        keep_images: bool | None = None,
        read_only: bool = False,
        create: bool = True,
    ) -> "Gallery":
        """Open a gallery; one that does not exist is created.

        Parameters:
            path: its file; or where it is in Milvus, as `milvus://host:port/collection`, see
                `Address`.
            recognizer: what makes embeddings of images, or the run or ONNX file of one. A gallery
                belongs to one model. It remembers where that lies, so that it need not be named
                again; the model is then loaded when it is first needed. Of one made by
                `Recognizer.from_module`, or with options of its own, nothing can be remembered.
            faces: for a recognizer from a file: "auto" or a detector's file to find and align the
                faces in photos, "none" where images are aligned faces. Remembered, too.
            device: where a recognizer from a file computes: auto, cpu, cuda or mps.
            dim: length of embeddings, for a new gallery without a recognizer.
            scoring: how a subject of several samples is scored: by the best of its cosines (`max`,
                the default), by their `mean`, or by the mean of the best few, as `top-3`. Stored in
                the gallery.
            keep_images: whether images are stored with their embeddings, so that the gallery can
                move to another model. A setting of the gallery, too; Milvus stores none.
            read_only: to change nothing.
            create: whether a gallery that does not exist is created.

        Raises `OptionError` for another model or dimension than the gallery's, and for a new one
        without either; `DataError` for a file or collection that is damaged, out of reach or no
        gallery.
        """
        word = None if scoring is None else Scoring.of(scoring).word
        store, where = _store(path)
        if keep_images and not store.can_hold_images:
            raise OptionError(
                f"{where} cannot keep images, which Milvus has no room for: keep the files, or a"
                " gallery in a file"
            )
        gallery = store._connect(where, read_only=read_only)
        if gallery is None and (read_only or not create):
            raise DataError(
                f"there is no gallery {where}: it does not exist; `arcset enroll {where} FOLDER"
                " --model RUN` creates one"
            )
        try:
            if isinstance(recognizer, str | Path):
                if faces is None and gallery is not None:
                    faces = gallery.faces
                recognizer = load_model(recognizer, faces, device=device)
            if gallery is None:
                gallery = store._create(where, _first_settings(where, recognizer, dim))
            gallery._device = device
            keep = None if keep_images is None else "yes" if keep_images else "no"
            gallery._adopt(recognizer, dim, {"scoring": word, "keep_images": keep})
        except BaseException:
            if gallery is not None:
                gallery.close()
            raise
        return gallery

    @staticmethod
    def exists(path: "Path | str | Address") -> bool:
        """Whether there is a gallery; raises `DataError` for what is damaged or out of reach."""
        store, where = _store(path)
        gallery = store._connect(where, read_only=True)
        if gallery is None:
            return False
        gallery.close()
        return True

    def _adopt(
        self, recognizer: ImageEmbedder | None, dim: int | None, values: dict[str, str | None]
    ) -> None:
        """Check what `open` was called with, and store what is new; None is not stored."""
        settings, self._recognizer = self._settings, recognizer
        if dim not in (None, settings.dim):
            raise OptionError(
                f"dim={dim!r}, but the embeddings in {self.path} have {settings.dim} numbers"
            )
        if recognizer is not None:
            settings.check_fits(recognizer, self.path)
            if not settings.model_digest and self.sample_count:
                raise OptionError(
                    f"{self.path} holds embeddings from elsewhere, and {recognizer.name!r} may not"
                    " be what made them: open it without a model, or make a new one"
                )
            if not self.read_only:
                model = {"model": settings.model_name or recognizer.name}
                values |= {**model, "digest": recognizer.digest, **model_location(recognizer)}
        written = settings.written
        new = {
            key: value
            for key, value in values.items()
            if value is not None and written.get(key) != value
        }
        if new:
            self._write(**new)

    @property
    def recognizer(self) -> ImageEmbedder | None:
        """What makes embeddings of images: as given, or the model that the gallery remembers.

        Raises `OptionError` for a model that is no longer where it was, or another one.
        """
        if self._recognizer is None and self._settings.model_path:
            with self._loading:
                if self._recognizer is None:
                    self._recognizer = self._load_model(self._settings)
        return self._recognizer

    def _load_model(self, settings: Settings) -> ImageEmbedder:
        model = Path(str(settings.model_path))
        if not model.exists():
            raise OptionError(
                f"{self.path}: its model is no longer at {model}: name it with --model"
            )
        loaded = load_model(model, settings.faces, device=self._device)
        settings.check_fits(loaded, self.path)
        return loaded

    @abstractmethod
    def close(self) -> None:
        """Let go of file or connection; the gallery is of no use afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Enrolling

    def enroll(
        self, name: str, images: Any = None, *, embeddings: Any = None, sources: Any = None
    ) -> tuple[int, ...]:
        """Add samples to a subject, new or known, and return their numbers.

        Parameters:
            name: 1 to 256 characters.
            images: one or many, as the recognizer takes them.
            embeddings: (N, D) or (D,) instead; or those of the images, where they are known.
            sources: where they come from, a text each; by default the images' paths.

        They are all there when this returns, or none is. Raises `OptionError` for what is no
        name, and `InputError` or `DataError` for what are no embeddings or images.
        """
        check_name(name)
        images = None if images is None else as_sources(images)
        vectors = self._embedded(images, embeddings)
        keep_images = images is not None and self.keep_images
        rows = make_rows([name] * len(vectors), vectors, images, sources, keep_images)
        return tuple(self._add([rows]))

    def enroll_many(
        self,
        names: Sequence[str],
        images: Any = None,
        *,
        embeddings: Any = None,
        sources: Any = None,
        progress: Progress | None = None,
    ) -> tuple[int, ...]:
        """Add one sample for each of the names, as `enroll` does, in batches of some thousands.

        A batch is there whole or not at all. `progress` is told after each.
        """
        names = [check_name(name) for name in names]
        images = None if images is None else as_sources(images)
        if embeddings is not None and (len(names) or len(embeddings)):
            embeddings = unit_rows(embeddings, self.dim)  # all are checked before the first is in
        for what, items in (("images", images), ("embeddings", embeddings), ("sources", sources)):
            if items is not None and len(items) != len(names):
                raise InputError(f"there are {len(names):,} names, but {len(items):,} {what}")
        samples: list[int] = []
        for start in range(0, len(names), _BATCH):
            part = slice(start, start + _BATCH)
            images_here = None if images is None else images[part]
            sources_here = None if sources is None else sources[part]
            vectors = self._embedded(images_here, None) if embeddings is None else embeddings[part]
            rows = make_rows(names[part], vectors, images_here, sources_here, self.keep_images)
            try:
                samples += self._add([rows])
            except DataError as error:
                if not samples:
                    raise
                raise DataError(
                    f"the first {len(samples):,} of {len(names):,} samples were enrolled, and then:"
                    f" {error}"
                ) from None
            if progress is not None:
                progress(len(samples), len(names))
        return tuple(samples)

    # Asking

    def search(
        self, embeddings: Any, k: int = 5
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        """The nearest subjects of each probe and their scores, falling.

        embeddings: (N, D) or (D,), of any length. Returns N tuples of names, and scores (N, K),
        where K is k, or the number of subjects if that is less. Scores are exact under the
        gallery's scoring; equal ones are ordered by the age of the subjects.
        """
        check_count("k", k)
        return self._search(unit_rows(embeddings, self.dim), int(k))

    def identify(
        self,
        image: Any = None,
        *,
        embedding: Any = None,
        fpir: float | None = None,
        threshold: float | None = None,
        candidates: int = 5,
    ) -> Match:
        """Who an image, or an embedding (D,), shows: see `identify_many`.

        Where the model finds faces in photos, it is the face in the middle that is asked about:
        `Match.box` says where it is, and `Match.faces` how many there are.
        """
        return self.identify_many(
            None if image is None else [image],
            embeddings=None if embedding is None else single_vector(embedding),
            fpir=fpir,
            threshold=threshold,
            candidates=candidates,
        )[0]

    def identify_all(
        self,
        image: Any,
        *,
        fpir: float | None = None,
        threshold: float | None = None,
        candidates: int = 5,
    ) -> list[Match]:
        """Who each face of a photo shows, the one in the middle first; none where there is no face.

        Without faces it is `identify`, as a list of one.
        """
        check_count("candidates", candidates)
        (photo,) = self.model().embed_each([image])
        _, matches = self._answers(photo.embeddings, fpir, threshold, candidates)
        return [_with_face(match, photo, row) for row, match in enumerate(matches)]

    def identify_many(
        self,
        images: Any = None,
        *,
        embeddings: Any = None,
        fpir: float | None = None,
        threshold: float | None = None,
        candidates: int = 5,
    ) -> list[Match]:
        """Who each of many images, or embeddings (N, D), shows; or that nobody known is shown.

        Parameters:
            fpir: the share of unknown probes that may be taken for someone, by default 0.01. The
                threshold for it depends on the gallery's present size.
            threshold: a cosine instead.
            candidates: how many of the nearest subjects are listed.

        Without a calibration, a rate and a threshold the nearest subjects are listed, and who it
        is stays undecided: `subject` is None and `decided` is False.
        """
        check_count("candidates", candidates)
        if embeddings is not None or images is None:
            return self._answers(self._embedded(None, embeddings), fpir, threshold, candidates)[1]
        photos = self.model().embed_each(as_sources(images), most=1)
        probes = np.concatenate([photo.embeddings for photo in photos])
        point, matches = self._answers(probes, fpir, threshold, candidates)
        remaining = iter(matches)
        return [
            _with_face(next(remaining), photo, 0)
            if len(photo.embeddings)
            else Match.without_face(point)
            for photo in photos
        ]

    def _answers(
        self, probes: Embeddings, fpir: float | None, threshold: float | None, candidates: int
    ) -> tuple[WorkingPoint | None, list[Match]]:
        """Where "known" begins, and who each of the probes (N, D) shows; N may be 0."""
        with self.together():
            point = self.point_for(fpir, threshold)
            if not len(probes):
                return point, []
            names, scores = self._search(unit_rows(probes, self.dim), max(RIVALS, candidates))
            subjects, samples = self._sizes()
            thresholds = self._fitting(samples / max(1, subjects))
        return point, [
            answer(
                nearest,
                row[: len(nearest)],
                point=point,
                thresholds=thresholds,
                subjects=subjects,
                candidates=candidates,
            )
            for nearest, row in zip(names, scores.tolist(), strict=True)
        ]

    def verify(
        self,
        name: str,
        image: Any = None,
        *,
        embedding: Any = None,
        far: float | None = None,
        threshold: float | None = None,
    ) -> Verification:
        """Whether an image, or an embedding (D,), shows the subject of this name.

        far, threshold: as in `Recognizer.verify`. Raises `OptionError` where nobody is called so.
        """
        vector = None if embedding is None else single_vector(embedding)
        probe = self._embedded(None if image is None else [image], vector)[0]
        with self.together():
            cosines = exact_cosines(self._stacked(self._find(name)), probe)
            _, scores = self._settings.scoring.score(cosines, np.zeros(len(cosines), np.int64))
            thresholds = self._fitting(len(cosines))
        return decide(
            scores[0],
            thresholds,
            far=far,
            threshold=threshold,
            model=self.model_name,
            published=self.published,
        )

    def _embedded(self, images: Sequence[Any] | None, embeddings: Any) -> Embeddings:
        if embeddings is not None:
            return unit_rows(embeddings, self.dim)
        if images is None:
            raise OptionError("neither images nor embeddings are given")
        return unit_rows(self.model().embed(images), self.dim)

    def model(self) -> ImageEmbedder:
        """The recognizer; raises `OptionError` where the gallery has none."""
        if self.recognizer is None:
            raise OptionError(
                f"{self.path} does not remember its model, which images need: name it (--model), or"
                " give embeddings"
            )
        return self.recognizer

    # Thresholds

    def point_for(self, fpir: float | None, threshold: float | None) -> WorkingPoint | None:
        """The threshold for an FPIR, or the one named; None with neither and no calibration.

        Raises `OptionError` for both, and for an FPIR without a calibration.
        """
        if threshold is not None and fpir is not None:
            raise OptionError(
                f"fpir={fpir!r} and threshold={threshold!r} both say where 'known' begins; leave"
                " one out"
            )
        if threshold is not None:
            return WorkingPoint.by_hand(threshold)
        if self.thresholds is None and fpir is not None:
            raise OptionError(f"fpir={fpir:g}: {uncalibrated_note(self.model_name, self.path)}")
        is_there = self.thresholds is not None or self.published is not None
        return self.working_point(fpir) if is_there else None

    def working_point(self, fpir: float | None = None) -> WorkingPoint:
        """The threshold for an FPIR, by default 0.01, at the gallery's present size.

        Without a calibration, and for no FPIR, that which the makers of the network published.
        """
        if fpir is None and (published := self.published) is not None:
            return WorkingPoint.of_published(published)
        with self.together():
            thresholds, key = self.thresholds, (*self._sizes(), self.scoring, fpir)
            known = self._point  # which another thread may replace
            if known is None or known[0] != key or known[1] is not thresholds:
                point = working_point(thresholds, **self.extent(), fpir=fpir)
                self._point = known = key, thresholds, point
            return known[2]

    def extent(self) -> dict[str, Any]:
        """Subjects, samples and scoring, as `working_point` takes them.

        Where the best sample counts, it does not matter how the samples are shared out.
        """
        with self.together():
            subjects, samples = self._sizes()
            images = None if self.scoring == "max" else self._image_counts()
        return {"subjects": subjects, "samples": samples, "scoring": self.scoring, "images": images}

    def _fitting(self, images: float) -> Thresholds | None:
        """Thresholds and probabilities for subjects of so many samples."""
        known = self.thresholds
        return None if known is None else known.for_template(self.scoring, images)

    @property
    def thresholds(self) -> Thresholds | None:
        """The gallery's own calibration; the recognizer's where it has none."""
        text = self._settings.thresholds
        if text is None:
            return None if self.recognizer is None else self.recognizer.thresholds
        return _read_thresholds(text, str(self.path))

    @property
    def published(self) -> Published | None:
        """The threshold of the network's makers, where there is no calibration."""
        if self.thresholds is not None or self.recognizer is None:
            return None
        return self.recognizer.published

    def set_thresholds(self, thresholds: Thresholds | None) -> None:
        """Give the gallery a calibration of its own, or take it away."""
        text = None
        if thresholds is not None:
            text = json.dumps(thresholds.json(), ensure_ascii=False, allow_nan=False)
        self._write(thresholds=text)

    def calibrate(self, **options: Any) -> Thresholds:
        """Calibrate from the subjects enrolled, and keep that; options as in `calibrating`.

        Raises `InputError` where too few subjects have several samples.
        """
        embeddings, names = self.labelled()
        if not names:
            raise OptionError(f"{self.path} is empty: enroll subjects to calibrate from")
        thresholds = calibrate(embeddings, names, **{"scoring": self.scoring, **options})
        self.set_thresholds(thresholds)
        return thresholds

    # Changing

    def remove(self, name: str) -> int:
        """Remove a subject, and return how many samples it had.

        Of a gallery in a file, name, embeddings and images are in none of its files any more when
        this returns; above 100 MB a warning says that `compact` has to erase the last copies.
        Raises `OptionError` where nobody is called so, and `DataError` where another process or a
        full disk keeps the bytes from being erased; it says whether the subject was removed.
        """
        with self._changing(f"{name!r} was removed from {self.path}"):
            rows = self._find(name)
            self._delete(rows)
        return len(rows)

    def remove_sample(self, sample: int) -> None:
        """Remove one sample, likewise; with the last one of a subject goes the subject."""
        with self._changing(f"sample {sample} was removed from {self.path}"):
            self._delete([self._find_sample(sample)])

    def rename(self, old: str, new: str) -> None:
        """Give a subject another name, which nobody has."""
        check_name(new)
        if old == new:
            return
        with self._changing(f"{old!r} was renamed to {new!r} in {self.path}"):
            rows = self._find(old)
            if new in self:
                raise OptionError(
                    f"{new!r} is enrolled in {self.path} already: merge {old!r} into that subject"
                )
            self._move(rows, new)

    def merge(self, source: str, into: str) -> None:
        """Give all samples of the subject `source` to the subject `into`; `source` goes."""
        if source == into:
            raise OptionError(f"{source!r} cannot be merged into itself")
        with self._changing(f"{source!r} was merged into {into!r} in {self.path}"):
            rows, _ = self._find(source), self._find(into)
            self._move(rows, into)

    @abstractmethod
    def compact(self) -> None:
        """Give back the room that removed samples leave."""

    def migrate(self, recognizer: ImageEmbedder, progress: Progress | None = None) -> None:
        """Move to another model: embed all images anew, all of them or none.

        A calibration of the gallery's own is lost. Raises `OptionError` where the images of some
        samples were not stored, and `DataError` for one that the model cannot embed.
        """
        raise OptionError(
            f"{self.path} keeps no images to embed anew: enroll them again, in a gallery for"
            f" {recognizer.name}"
        )

    # Listing

    def __len__(self) -> int:
        """How many subjects there are."""
        return self._sizes()[0]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        with self.together():
            return any(self._rows([name]))

    @property
    def sample_count(self) -> int:
        """How many samples all subjects have together."""
        return self._sizes()[1]

    @property
    @abstractmethod
    def byte_count(self) -> int | None:
        """How many bytes the gallery takes on this machine's disk; None where it lies elsewhere."""

    @abstractmethod
    def subjects(self) -> tuple[Subject, ...]:
        """All subjects, the first enrolled first."""

    def samples(self, name: str) -> tuple[Sample, ...]:
        """All samples of a subject; raises `OptionError` where nobody is called so."""
        with self.together():
            rows = self._find(name)
        return tuple(
            Sample(
                row.id,
                row.source,
                None if row.digest is None else row.digest.hex(),
                as_time(row.added),
                row.image is not None,
            )
            for row in rows
        )

    def image(self, sample: int) -> bytes | None:
        """The image of a sample as a file's bytes; None where it was not stored.

        Raises `OptionError` for a sample that is not there.
        """
        with self.together():
            return self._find_sample(sample, images=True).image

    def labelled(self) -> tuple[Embeddings, tuple[str, ...]]:
        """A copy of all embeddings, (N, D), in the order of their numbers, and whose they are."""
        with self.together():
            rows = [row for part in self._rows() for row in part]
        return self._stacked(rows), tuple(row.name for row in rows)

    def repeated(self, most: int) -> tuple[Embeddings, npt.NDArray[np.int64]]:
        """A copy of the embeddings, (n, D), of subjects with two samples or more, and numbers of
        these subjects, (n,). Where there are more than `most` of them, so many are drawn evenly.
        """
        with self.together():
            names = [subject.name for subject in self.subjects() if subject.samples > 1]
            if len(names) > most:
                drawn = np.linspace(0, len(names) - 1, most).round().astype(int)
                names = [names[number] for number in drawn]
            numbers = {name: number for number, name in enumerate(names)}
            rows = [row for part in self._rows(names) for row in part]
        return self._stacked(rows), np.array([numbers[row.name] for row in rows], np.int64)

    def _find(self, name: str) -> list[Row]:
        """All samples of a subject; raises `OptionError` where nobody is called so."""
        rows = [row for part in self._rows([name]) for row in part]
        if not rows:
            raise OptionError(f"nobody called {name!r} is enrolled in {self.path}")
        return rows

    def _find_sample(self, sample: int, *, images: bool = False) -> Row:
        if isinstance(sample, int | np.integer) and 0 < sample < 2**63:
            for (row,) in self._rows(sample=int(sample), images=images):
                return row
        raise OptionError(f"there is no sample {sample!r} in {self.path}")

    def _stacked(self, rows: Sequence[Row]) -> Embeddings:
        return np.array([row.embedding for row in rows], np.float32).reshape(-1, self.dim)

    @property
    def scoring(self) -> str:
        """How a subject of several samples is scored: `max`, `mean` or `top-K`."""
        return self._settings.scoring.word

    @property
    def keep_images(self) -> bool:
        """Whether images are stored with their embeddings."""
        return self._settings.keep_images

    @property
    def model_name(self) -> str:
        """What people call the model that made the embeddings; empty where that is unknown."""
        return self._settings.model_name

    @property
    def model_digest(self) -> str:
        """What tells that model from all others; empty where that is unknown."""
        return self._settings.model_digest

    @property
    def model_path(self) -> str | None:
        """Where that model lies, if the gallery remembers it."""
        return self._settings.model_path

    @property
    def faces(self) -> str | None:
        """How that model finds faces in photos: "auto", a detector's file, "none" or None."""
        return self._settings.faces

    def describe(self) -> dict[str, Any]:
        """What it holds, its model, its calibration and its threshold as plain values.

        Most is known without the model: where that is gone, `note` says so.
        """
        settings, thresholds, point, note = self._settings, None, None, ""
        with self.together():
            try:
                thresholds = self.thresholds
                point = self.working_point()
                note = point.note
            except ArcsetError as error:
                note = str(error)
            own = settings.thresholds is not None
            return {
                "file": str(self.path),
                "bytes": self.byte_count,
                "subjects": len(self),
                "samples": self.sample_count,
                "scoring": self.scoring,
                "keeps_images": self.keep_images,
                "model": self.model_name,
                "model_digest": self.model_digest,
                "dim": self.dim,
                "model_path": settings.model_path,
                "faces": settings.faces,
                "calibration": thresholds and {**thresholds.made_from, "own": own},
                "point": None if point is None else point.json(),
                "note": note,
            }

    # Parquet

    def export(self, path: Path | str, *, images: bool = True) -> int:
        """Write all samples to a Parquet file, and return how many: see `parquet`.

        Whoever has this file has names, embeddings and, unless `images` says no, stored images;
        removing somebody from the gallery does not remove them from it.
        """
        with self.together():
            images = images and self._holds_images()
            return write_rows(Path(path), self._settings, self._rows(images=images), images=images)

    def import_file(self, path: Path | str) -> tuple[int, ...]:
        """Add all samples of a file that `export` wrote, or none, and return their numbers.

        Raises `OptionError` for embeddings of another model, and `DataError` for another file.
        """
        file = GalleryFile(path)
        if file.has_images and not self.can_hold_images:
            raise OptionError(
                f"{path} holds images, which {self.path} cannot keep: export it without them"
            )
        theirs, ours, changes = file.settings, self._settings, dict[str, str]()
        if theirs.dim != ours.dim:
            raise OptionError(
                f"{path} holds embeddings of {theirs.dim} numbers, and {self.path} of {ours.dim}"
            )
        if theirs.model_digest != ours.model_digest:
            if ours.model_digest or self.sample_count:
                raise OptionError(
                    f"the embeddings in {path} are of {theirs.model_words}, and those in"
                    f" {self.path} of {ours.model_words}"
                )
            changes = {"model": theirs.model_name, "digest": theirs.model_digest}
        return tuple(self._add(file.batches(), **changes))

    # What a store implements: these, `close`, `compact`, `subjects` and `byte_count`

    @classmethod
    @abstractmethod
    def _connect(cls, path: Any, *, read_only: bool) -> Self | None:
        """Open the gallery at a path or an address; None where there is none."""

    @classmethod
    @abstractmethod
    def _create(cls, path: Any, settings: dict[str, str]) -> Self:
        """Create an empty gallery, whole or not at all, and open it."""

    @staticmethod
    @abstractmethod
    def _drop(path: Any) -> None:
        """As `drop_gallery`."""

    @property
    @abstractmethod
    def _settings(self) -> Settings:
        """The settings as they are now."""

    @abstractmethod
    def _write(self, **values: str | None) -> None:
        """Write some settings, as `Settings.of` takes them; None takes one away.

        Raises `DataError` for a gallery that is opened for reading.
        """

    @abstractmethod
    def together(self) -> AbstractContextManager[None]:
        """Around several questions that are to be answered from one, the newest, state."""

    @abstractmethod
    def _changing(self, what: str) -> AbstractContextManager[None]:
        """Around `_delete` or `_move`, and the questions before it; `what` is done at the end.

        Raises `DataError` for a gallery that is opened for reading.
        """

    @abstractmethod
    def _add(self, batches: Iterable[Sequence[Row]], **settings: str) -> list[int]:
        """Enroll all rows and write the settings, or nothing, and return the samples' numbers."""

    @abstractmethod
    def _delete(self, rows: Sequence[Row]) -> None:
        """Remove these samples."""

    @abstractmethod
    def _move(self, rows: Sequence[Row], name: str) -> None:
        """Give all samples of one subject to the one of this name, who may be new."""

    @abstractmethod
    def _rows(
        self,
        names: Collection[str] | None = None,
        *,
        sample: int | None = None,
        images: bool = False,
    ) -> Iterator[Sequence[Row]]:
        """All samples, those of some subjects, or one; some at a time, by their numbers."""

    @abstractmethod
    def _search(
        self, probes: Embeddings, k: int
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        """As `search`, of unit rows (N, D)."""

    def _is_empty(self) -> bool:
        """Whether it holds nothing at all, whoever enrolled it."""
        return not self.sample_count

    def _holds_images(self) -> bool:
        """Whether any image is stored."""
        return False

    @abstractmethod
    def _sizes(self) -> tuple[int, int]:
        """How many subjects and samples there are."""

    @abstractmethod
    def _image_counts(self) -> dict[int, int]:
        """How many subjects have so many samples."""


def drop_gallery(path: "Path | str | Address") -> None:
    """Delete a gallery that nobody has open, if there is one."""
    store, where = _store(path)
    store._drop(where)


def _store(path: "Path | str | Address") -> "tuple[type[Gallery], GalleryPath]":
    """The class of a gallery, and its path or address as that takes it."""
    if not isinstance(path, Path) and str(path).startswith("milvus:"):
        from arcset.recognition.gallery.milvus import MilvusGallery
        from arcset.recognition.gallery.milvus_address import Address

        return MilvusGallery, Address.parse(path)
    from arcset.recognition.gallery.sqlite import FileGallery

    return FileGallery, Path(str(path))


@lru_cache(maxsize=8)
def _read_thresholds(text: str, path: str) -> Thresholds:
    try:
        return Thresholds.from_json(parse_json(text), f"the calibration in {path}")
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} is damaged in its calibration: {error}") from None


def _with_face(match: Match, photo: EmbeddedImage, row: int) -> Match:
    if photo.count is None:
        return match
    return replace(match, box=photo.faces[row].box, faces=photo.count)


def _first_settings(
    path: object, recognizer: ImageEmbedder | None, dim: int | None
) -> dict[str, str]:
    """Those of a new gallery; raises `OptionError` where its dimension is unknown."""
    name = digest = ""
    if recognizer is not None:
        name, digest = recognizer.name, recognizer.digest
        if dim not in (None, recognizer.dim):
            raise OptionError(f"dim={dim!r}, but {name} has {recognizer.dim} dimensions")
        dim = recognizer.dim
    if dim is None:
        raise OptionError(
            f"{path} does not exist: to create it, name a model or the dimension of embeddings"
        )
    return {"dim": str(check_count("dim", dim, 1, LARGEST_DIM)), "model": name, "digest": digest}


def model_location(recognizer: ImageEmbedder) -> dict[str, str | None]:
    """The settings that tell where a model lies; nothing for one of which that is unknown."""
    if recognizer.origin is None:
        return {}
    path, faces = recognizer.origin
    if faces not in (None, "auto", "none"):
        faces = str(Path(faces).resolve())
    return {"model_path": str(path.resolve()), "faces": faces}
