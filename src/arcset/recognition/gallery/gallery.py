"""Those a recognizer knows: enrolled once, kept on the disk, found again."""

import json
import secrets
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.evaluation.checks import check_count
from arcset.recognition.answers import RIVALS, Match, answer
from arcset.recognition.calibrating import calibrate
from arcset.recognition.gallery.keeping import Keeping
from arcset.recognition.gallery.scoring import nearest_subjects
from arcset.recognition.gallery.vectors import single_vector, unit_rows
from arcset.recognition.inputs import as_sources
from arcset.recognition.verification import Verification, decide
from arcset.recognition.working_point import WorkingPoint, working_point

__all__ = ["Gallery"]


class Gallery(Keeping):
    """Subjects and their embeddings, in one SQLite file and in memory: see `Gallery.open`.

    What a method that changes something has done is on the disk when it returns. Several processes
    may have the same gallery open: one writes at a time, and each sees what the others did at its
    next call. Threads may share one gallery.

    Attributes:
        path: the file. dim: length of an embedding.
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

    def search(
        self, embeddings: Any, k: int = 5
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        """The nearest subjects of each probe and their scores, falling.

        embeddings: (N, D) or (D,), of any length. Returns N tuples of names, and scores (N, K),
        where K is k, or the number of subjects if that is less. Scores are exact under the
        gallery's scoring; equal ones are ordered by the age of the subjects.
        """
        check_count("k", k)
        probes = unit_rows(embeddings, self.dim)
        with self._following():
            store = self._store
            while True:
                numbers, scores = nearest_subjects(
                    store.index, probes, int(k), store.settings.scoring
                )
                names = store.names(set(numbers.ravel().tolist()))
                try:
                    return [tuple(names[one] for one in row) for row in numbers.tolist()], scores
                except KeyError:  # another process removed it just now
                    if not store.follow():
                        raise DataError(f"{self.path} is damaged: a subject has no name") from None

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
        """
        if fpir is not None and threshold is not None:
            raise OptionError(
                f"fpir={fpir!r} and threshold={threshold!r} both say where 'known' begins; leave"
                " one out"
            )
        check_count("candidates", candidates)
        given = None if images is None else as_sources(images)
        probes = self._embedded(given, embeddings)
        with self._lock:
            if threshold is None:
                point = self.working_point(fpir)
            else:
                point = WorkingPoint.by_hand(threshold)
            names, scores = self.search(probes, max(RIVALS, candidates))
            count, thresholds = len(self), self.thresholds
        return [
            answer(
                found,
                row,
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
        with self._reading():
            index = self._store.index
            rows = index.rows_of(self._known(name))
            cosines = index.matrix[rows].astype(np.float64) @ probe
            _, scores = self._store.settings.scoring.score(cosines, index.subjects[rows])
        return decide(
            scores[0], self.thresholds, far=far, threshold=threshold, model=self.model_name
        )

    # Calibration

    def working_point(self, fpir: float | None = None) -> WorkingPoint:
        """The threshold for an FPIR, by default 0.01, at the gallery's present size."""
        with self._following():
            index, thresholds = self._store.index, self.thresholds
            key = (index.subject_count, len(index), self.scoring, fpir, id(thresholds))
            known, point = self._point
            if point is None or known != key:
                point = working_point(
                    thresholds,
                    subjects=index.subject_count,
                    samples=len(index),
                    scoring=self.scoring,
                    fpir=fpir,
                )
                self._point = key, point
            return point

    @property
    def thresholds(self) -> Thresholds | None:
        """The gallery's own calibration; the recognizer's where it has none."""
        with self._following():
            stamp = self._store.settings.calibrated
            if not stamp:
                return None if self.recognizer is None else self.recognizer.thresholds
            if stamp != self._parsed[0]:
                with self._store.database.reading():
                    found = self._store.database.execute(
                        "SELECT value FROM meta WHERE key = 'thresholds'"
                    ).fetchone()
                self._parsed = stamp, self._parse(found)
            return self._parsed[1]

    def _parse(self, found: Any) -> Thresholds:
        try:
            return Thresholds.from_json(json.loads(found[0]), f"the calibration in {self.path}")
        except (TypeError, ValueError) as error:
            raise DataError(f"{self.path} is damaged in its calibration: {error}") from None

    def set_thresholds(self, thresholds: Thresholds | None) -> None:
        """Give the gallery a calibration of its own, or take it away."""
        text = stamp = None
        if thresholds is not None:
            text = json.dumps(thresholds.json(), ensure_ascii=False, allow_nan=False)
            stamp = secrets.token_hex(8)
        with self._changing():
            self._store.change_settings(thresholds=text, calibrated=stamp)

    def labelled(self) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
        """A copy of all embeddings, (N, D), in the order of their numbers, and whose they are."""
        with self._reading():
            index = self._store.index
            order = np.argsort(index.ids)
            names = self._store.names(np.unique(index.subjects).tolist())
            owners = tuple(names[number] for number in index.subjects[order].tolist())
            return index.matrix[order], owners

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
