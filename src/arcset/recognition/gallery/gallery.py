"""Those a recognizer knows: enrolled once, kept, found again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arcset.checks import check_count
from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.files import parse_json
from arcset.recognition.calibrating import calibrate
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
from arcset.recognition.gallery.enrolling import make_rows
from arcset.recognition.gallery.interface import Kept
from arcset.recognition.gallery.milvus.address import Address, is_address
from arcset.recognition.gallery.names import check_name
from arcset.recognition.gallery.scoring import Scoring, exact_cosines
from arcset.recognition.gallery.vectors import single_vector, unit_rows
from arcset.recognition.inputs import as_sources
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress

__all__ = ["Gallery"]

_BATCH = 4096  # samples that `enroll_many` adds at a time


class Gallery(Kept):
    """Subjects and their embeddings: in one file, or in Milvus; see `Gallery.open`.

    What a method that changes something has done is there when it returns, and others who have
    the same gallery open see it at their next call. Threads may share one gallery. What more a
    file promises is told by `FileGallery`, and what Milvus cannot by `MilvusGallery`.

    Attributes:
        path: the file, or the address in Milvus. dim: length of an embedding.
        recognizer: what makes embeddings of images, or None.
        read_only: whether it was opened for reading, or lies where nothing can be written.

        >>> gallery = Gallery.open(getfixture("tmp_path") / "people.db", dim=2)
        >>> gallery.enroll("anna", embeddings=[[1.0, 0.1], [1.0, -0.1]])
        (1, 2)
        >>> gallery.enroll("ben", embeddings=[0.0, 1.0])
        (3,)
        >>> print(gallery.identify(embedding=[0.9, 0.0], threshold=0.5))
        anna: cosine 0.9950, threshold 0.5000
        >>> gallery.close()
    """

    _point: tuple[Any, WorkingPoint | None] = (None, None)
    _parsed: tuple[str, Thresholds | None] = ("", None)

    @staticmethod
    def open(
        path: Path | str | Address,
        recognizer: ImageEmbedder | None = None,
        *,
        dim: int | None = None,
        scoring: str | None = None,
        keep_images: bool | None = None,
        read_only: bool = False,
    ) -> "Gallery":
        """Open a gallery; one that does not exist is made.

        Parameters:
            path: its file; or where it is in Milvus, as `milvus://host:port/collection`, see
                `Address`.
            recognizer: what makes embeddings of images. A gallery belongs to one model.
            dim: length of embeddings, for a new gallery without a recognizer.
            scoring: how a subject of several samples is scored: by the best of its cosines (`max`,
                if nobody says otherwise), by their `mean`, or by the mean of the best few, as
                `top-3`. Kept in the gallery.
            keep_images: whether images are kept with their embeddings, so that the gallery can
                move to another model. Kept in the gallery; Milvus keeps none.
            read_only: to change nothing.

        Raises `OptionError` for another model or dimension than the gallery's, and where a new one
        is to be made of neither; `DataError` for what is damaged, no gallery, or out of reach.
        """
        word = None if scoring is None else Scoring.of(scoring).word
        if is_address(path):
            from arcset.recognition.gallery.milvus.gallery import MilvusGallery

            return MilvusGallery.begin(
                Address.parse(path), recognizer, dim, word, keep_images, read_only
            )
        from arcset.recognition.gallery.file_gallery import FileGallery

        return FileGallery.begin(Path(str(path)), recognizer, dim, word, keep_images, read_only)

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
        given = None if images is None else as_sources(images)
        vectors = self._embedded(given, embeddings)
        rows = make_rows(vectors, given, sources, self.keep_images)
        return tuple(self._add([name] * len(rows), rows))

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
        given = None if images is None else as_sources(images)
        if embeddings is not None and (len(names) or len(embeddings)):
            embeddings = unit_rows(embeddings, self.dim)  # all are checked before the first is in
        for what, items in (("images", given), ("embeddings", embeddings), ("sources", sources)):
            if items is not None and len(items) != len(names):
                raise InputError(f"there are {len(names):,} names, but {len(items):,} {what}")
        self._reserve(len(names))
        samples: list[int] = []
        for start in range(0, len(names), _BATCH):
            part = slice(start, start + _BATCH)
            some = None if given is None else given[part]
            vectors = self._embedded(some, None) if embeddings is None else embeddings[part]
            places = None if sources is None else sources[part]
            rows = make_rows(vectors, some, places, self.keep_images)
            try:
                samples += self._add(names[part], rows)
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

    def identify(
        self,
        image: Any = None,
        *,
        embedding: Any = None,
        fpir: float | None = None,
        threshold: float | None = None,
        candidates: int = 5,
    ) -> Match:
        """Who an image, or an embedding (D,), shows: see `identify_many`."""
        return self.identify_many(
            None if image is None else [image],
            embeddings=None if embedding is None else single_vector(embedding),
            fpir=fpir,
            threshold=threshold,
            candidates=candidates,
        )[0]

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
        is stays undecided.
        """
        check_count("candidates", candidates)
        given = None if images is None else as_sources(images)
        probes = self._embedded(given, embeddings)
        with self.together():
            point = self.point_for(fpir, threshold)
            names, scores = self.search(probes, max(RIVALS, candidates))
            count, thresholds = self._sizes()[0], self.thresholds
        return [
            answer(
                found,
                row[: len(found)],
                point=point,
                thresholds=thresholds,
                subjects=count,
                candidates=candidates,
            )
            for found, row in zip(names, scores.tolist(), strict=True)
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
        given = None if embedding is None else single_vector(embedding)
        probe = self._embedded(None if image is None else [image], given)[0]
        with self.together():
            cosines = exact_cosines(self._embeddings_of(name), probe)
            _, scores = self._settings.scoring.score(cosines, np.zeros(len(cosines), np.int64))
            thresholds = self.thresholds
        return decide(scores[0], thresholds, far=far, threshold=threshold, model=self.model_name)

    # Calibration

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
        return None if self.thresholds is None else self.working_point(fpir)

    def working_point(self, fpir: float | None = None) -> WorkingPoint:
        """The threshold for an FPIR, by default 0.01, at the gallery's present size."""
        with self.together():
            (subjects, samples), thresholds = self._sizes(), self.thresholds
            key = (subjects, samples, self.scoring, fpir, id(thresholds))
            known, point = self._point
            if point is None or known != key:
                point = working_point(
                    thresholds,
                    subjects=subjects,
                    samples=samples,
                    scoring=self.scoring,
                    fpir=fpir,
                )
                self._point = key, point
            return point

    @property
    def thresholds(self) -> Thresholds | None:
        """The gallery's own calibration; the recognizer's where it has none."""
        with self.together():
            stamp = self._settings.calibrated
            if not stamp:
                return None if self.recognizer is None else self.recognizer.thresholds
            known, parsed = self._parsed
            if stamp != known:
                parsed = self._parse(self._calibration())
                self._parsed = stamp, parsed
            return parsed

    def _parse(self, text: str | None) -> Thresholds:
        try:
            content = parse_json(text)  # type: ignore[arg-type]
            return Thresholds.from_json(content, f"the calibration in {self.path}")
        except (TypeError, ValueError) as error:
            raise DataError(f"{self.path} is damaged in its calibration: {error}") from None

    def calibrate(self, **options: Any) -> Thresholds:
        """Calibrate from the subjects enrolled, and keep that; options as in `calibrating`.

        Raises `InputError` where too few subjects have several samples.
        """
        embeddings, names = self.labelled()
        if not names:
            raise OptionError(f"{self.path} is empty: enroll subjects to calibrate from")
        made = calibrate(embeddings, names, **options)
        self.set_thresholds(made)
        return made

    # What the gallery says of itself

    @property
    def scoring(self) -> str:
        """How a subject of several samples is scored: `max`, `mean` or `top-K`."""
        return self._settings.scoring.word

    @property
    def keep_images(self) -> bool:
        """Whether images are kept with their embeddings."""
        return self._settings.keep_images

    @property
    def model_name(self) -> str:
        """What people call the model that made the embeddings; empty where nobody said."""
        return self._settings.model_name

    @property
    def model_digest(self) -> str:
        """What tells that model from all others; empty where nobody said."""
        return self._settings.model_digest

    @property
    def model_path(self) -> str | None:
        """Where that model was last found, if anybody noted it with `set_model_path`."""
        return self._settings.model_path

    # Within

    def _embedded(self, images: Sequence[Any] | None, embeddings: Any) -> Embeddings:
        if embeddings is not None:
            return unit_rows(embeddings, self.dim)
        if images is None:
            raise OptionError("neither images nor embeddings are given")
        if self.recognizer is None:
            raise OptionError(
                f"{self.path} was opened without a model, which images need: open it with one, or"
                " give embeddings"
            )
        return unit_rows(self.recognizer.embed(images), self.dim)
