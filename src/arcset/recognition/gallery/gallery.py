"""Those a recognizer knows: enrolled once, kept on the disk, found again."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.answers import Match, answer
from arcset.recognition.embedder import Embedder, Embeddings, Progress
from arcset.recognition.gallery.database import Database, create_database
from arcset.recognition.gallery.names import check_name
from arcset.recognition.gallery.originals import original
from arcset.recognition.gallery.records import Subject, as_time
from arcset.recognition.gallery.scoring import Scoring, nearest_subjects
from arcset.recognition.gallery.store import Row, Store
from arcset.recognition.gallery.vectors import single_vector, unit_rows
from arcset.recognition.inputs import as_sources
from arcset.recognition.verification import Verification, decide
from arcset.recognition.working_point import WorkingPoint, working_point

__all__ = ["Gallery"]

_BATCH = 4096  # samples per transaction


class Gallery:
    """Subjects and their embeddings, in one SQLite file and in memory: see `Gallery.open`.

    What a method that changes something has done is on the disk when it returns. Several processes
    may have the same gallery open, of which one writes at a time, and each sees what the others
    did at its next call. Threads may share one gallery.

    Attributes:
        path: the file. dim: length of an embedding.
        recognizer: what makes embeddings of images, or None.
        read_only: whether it was opened for reading, or lies where nothing can be written.
    """

    def __init__(self, database: Database, recognizer: Embedder | None) -> None:
        self.path = database.path
        self.recognizer = recognizer
        self.read_only = database.read_only
        self._database = database
        self._lock = threading.RLock()
        self._points: dict[Any, WorkingPoint] = {}
        self._thresholds: tuple[str, Thresholds | None] = ("", None)
        with database.reading():
            found = dict(database.execute("SELECT key, value FROM meta"))
        try:
            self.dim = int(found["dim"])
            self.model_name, self.model_digest = str(found["model"]), str(found["digest"])
            self._scoring = Scoring.of(found["scoring"])
            self.keep_images = found["keep_images"] == "yes"
        except (KeyError, ValueError, OptionError) as error:
            raise DataError(f"{self.path} is damaged: its settings do not fit: {error}") from None
        self._store = Store(database, self.dim)

    @classmethod
    def open(
        cls,
        path: Path | str,
        recognizer: Embedder | None = None,
        *,
        dim: int | None = None,
        scoring: str | None = None,
        keep_images: bool | None = None,
        read_only: bool = False,
    ) -> "Gallery":
        """Open a gallery; one that does not exist is made.

        Parameters:
            path: its file.
            recognizer: what makes embeddings of images. A gallery belongs to one model for good.
            dim: length of embeddings, for a new gallery without a recognizer.
            scoring: how a subject of several samples is scored: `max` (by default), `mean`, or the
                mean of the best few, as `top-3`. It is kept in the file.
            keep_images: whether images are kept with their embeddings, so that the gallery can
                move to another model; by default not. It is kept in the file.
            read_only: to change nothing.

        Raises `OptionError` for another model or dimension than the gallery's, and where a new one
        is to be made of neither; `DataError` for a file that is damaged or no gallery.

            >>> gallery = Gallery.open(getfixture("tmp_path") / "people.db", dim=2)
            >>> gallery.enroll("anna", embeddings=[[1.0, 0.1], [1.0, -0.1]])
            (1, 2)
            >>> gallery.search([[1.0, 0.0]], 5)
            ([('anna',)], array([[0.995...]]))
            >>> gallery.close()
        """
        path = Path(path)
        word = None if scoring is None else Scoring.of(scoring).word
        if not path.exists():
            if read_only:
                raise DataError(f"{path} does not exist")
            create_database(path, _first_meta(path, recognizer, dim, word, keep_images))
        database = Database(path, read_only=read_only)
        try:
            gallery = cls(database, recognizer)
            gallery._check_model(recognizer, dim)
            gallery._settle(word, keep_images)
            gallery._store.follow()
        except BaseException:
            database.close()
            raise
        return gallery

    def close(self) -> None:
        """Let go of the file; the gallery is of no use afterwards."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> "Gallery":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Enrolling

    def enroll(
        self, name: str, images: Any = None, *, embeddings: Any = None, sources: Any = None
    ) -> tuple[int, ...]:
        """Add samples to a subject, which is new or known; the numbers of these samples.

        Parameters:
            name: 1 to 256 characters.
            images: one or many, as the recognizer takes them.
            embeddings: (N, D) or (D,), instead; or of these images, where they are known already.
            sources: where the embeddings come from, one text each; by default the images' paths.

        They are all on the disk when this returns, or none is. Raises `OptionError` for a name
        that is none, `InputError` for embeddings and `DataError` for images that are none.
        """
        check_name(name)
        rows, vectors = self._samples(images, embeddings, sources)
        with self._lock, self._store.changing():
            return tuple(self._add([name] * len(vectors), vectors, rows))

    def enroll_many(
        self,
        names: Sequence[str],
        images: Any = None,
        *,
        embeddings: Any = None,
        sources: Any = None,
        progress: Progress | None = None,
    ) -> tuple[int, ...]:
        """Add one sample for each of the names, as `enroll` does; in batches of some thousands.

        A batch is on the disk whole or not at all. `progress` is told after each.
        """
        names = [check_name(name) for name in names]
        given = None if images is None else as_sources(images)
        for what, items in (("images", given), ("embeddings", embeddings), ("sources", sources)):
            if items is not None and len(items) != len(names):
                raise InputError(f"there are {len(names):,} names, but {len(items):,} {what}")
        if embeddings is not None:
            embeddings = unit_rows(embeddings, self.dim)  # all are checked before the first is in
        ids: list[int] = []
        for start in range(0, len(names), _BATCH):
            part = slice(start, start + _BATCH)
            rows, vectors = self._samples(
                *(None if items is None else items[part] for items in (given, embeddings, sources)),
            )
            with self._lock, self._store.changing():
                ids += self._add(names[part], vectors, rows)
            if progress is not None:
                progress(min(part.stop, len(names)), len(names))
        return tuple(ids)

    # Changing

    def remove(self, name: str) -> int:
        """Remove a subject: name, embeddings and images are overwritten; how many samples it had.

        Raises `OptionError` where nobody is called so.
        """
        with self._lock:
            with self._store.changing():
                subject = self._known(name)
                ids = self._ids_of(subject)
                self._store.remove_samples(ids)
                self._store.remove_subject(subject)
            self._empty_log(f"{name!r} is")
        return len(ids)

    # Asking

    def __len__(self) -> int:
        with self._following():
            return self._store.index.subject_count

    @property
    def sample_count(self) -> int:
        """How many samples all subjects have together."""
        with self._following():
            return len(self._store.index)

    @property
    def scoring(self) -> str:
        """How a subject of several samples is scored: `max`, `mean` or `top-K`."""
        return self._scoring.word

    def subjects(self) -> tuple[Subject, ...]:
        """All subjects, in the order of enrolling."""
        with self._following(), self._database.reading():
            counts = self._store.index.counts
            rows = self._database.execute("SELECT id, name, added FROM subjects ORDER BY id")
            return tuple(
                Subject(name, int(counts[number]), as_time(added))
                for number, name, added in rows
                if isinstance(name, str) and number < len(counts) and counts[number]
            )

    def search(
        self, embeddings: Any, k: int = 5
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        """The nearest subjects of each probe, and their scores, falling.

        embeddings: (N, D), of any length. Returns N tuples of names, and scores (N, K), where K is
        k, or the number of subjects if that is less. Equal scores are ordered by age.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise OptionError(f"k={k!r} is out of range, expected an integer ≥ 1")
        probes = unit_rows(embeddings, self.dim)
        with self._following():
            while True:
                subjects, scores = nearest_subjects(self._store.index, probes, k, self._scoring)
                names = self._store.names(set(subjects.ravel().tolist()))
                if None not in names.values():
                    break
                if not self._store.follow():
                    raise DataError(f"{self.path} is damaged: a subject has no name")
            return [tuple(str(names[one]) for one in row) for row in subjects.tolist()], scores

    def identify(
        self,
        image: Any = None,
        *,
        embedding: Any = None,
        fpir: float | None = None,
        threshold: float | None = None,
        candidates: int = 5,
    ) -> Match:
        """Who an image shows, or nobody known."""
        given = None if embedding is None else single_vector(embedding)
        images = None if image is None else [image]
        return self.identify_many(
            images, embeddings=given, fpir=fpir, threshold=threshold, candidates=candidates
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
        """Who each of many images, or embeddings (N, D), shows.

        Parameters:
            fpir: the share of unknown probes that may be taken for someone, 0.01 by default: the
                threshold for it is that for the gallery's present size.
            threshold: a cosine instead.
            candidates: how many of the nearest subjects are named.
        """
        if fpir is not None and threshold is not None:
            raise OptionError(
                f"fpir={fpir!r} and threshold={threshold!r} both say where 'known' begins; leave "
                "one out"
            )
        probes = self._embedded(images, embeddings)
        with self._following():
            point = (
                self.working_point(fpir) if threshold is None else WorkingPoint.by_hand(threshold)
            )
            names, scores = self.search(probes, candidates)
            count = self._store.index.subject_count
            thresholds = self.thresholds
        return [
            answer(found, row, point=point, thresholds=thresholds, subjects=count)
            for found, row in zip(names, scores.tolist(), strict=True)
        ]

    def working_point(self, fpir: float | None = None) -> WorkingPoint:
        """The threshold for an FPIR at the gallery's present size."""
        with self._following():
            index, thresholds = self._store.index, self.thresholds
            key = (index.subject_count, len(index), fpir, id(thresholds))
            if key not in self._points:
                self._points.clear()
                self._points[key] = working_point(
                    thresholds,
                    subjects=index.subject_count,
                    samples=len(index),
                    scoring=self.scoring,
                    fpir=fpir,
                )
            return self._points[key]

    def verify(
        self,
        name: str,
        image: Any = None,
        *,
        embedding: Any = None,
        far: float | None = None,
        threshold: float | None = None,
    ) -> Verification:
        """Whether an image shows the subject called `name`."""
        given = None if embedding is None else single_vector(embedding)
        probe = self._embedded(None if image is None else [image], given)[0]
        with self._following():
            rows = self._store.index.rows_of(self._known(name))
            cosines = self._store.index.matrix[rows].astype(np.float64) @ probe
            score = self._scoring.score(cosines, self._store.index.subjects[rows])[1][0]
            thresholds = self.thresholds
        return decide(score, thresholds, far=far, threshold=threshold, model=self.model_name)

    # Calibration

    @property
    def thresholds(self) -> Thresholds | None:
        """The gallery's own calibration; the recognizer's where it has none."""
        with self._following(), self._database.explained():
            found = self._database.execute(
                "SELECT value FROM meta WHERE key = 'thresholds'"
            ).fetchone()
            if found is None:
                return None if self.recognizer is None else self.recognizer.thresholds
            if found[0] != self._thresholds[0]:
                self._thresholds = (found[0], _thresholds(found[0], self.path))
            return self._thresholds[1]

    def set_thresholds(self, thresholds: Thresholds | None) -> None:
        """Give the gallery a calibration of its own, or take it away."""
        with self._lock, self._store.changing():
            self._database.execute("DELETE FROM meta WHERE key = 'thresholds'")
            if thresholds is not None:
                text = json.dumps(thresholds.json(), ensure_ascii=False, allow_nan=False)
                self._database.execute("INSERT INTO meta VALUES ('thresholds', ?)", (text,))

    # Within

    @contextmanager
    def _following(self) -> Iterator[None]:
        """One thread at a time, in the newest state."""
        with self._lock:
            self._store.follow()
            yield

    def _known(self, name: str) -> int:
        subject = self._store.subject(name)
        if subject is None:
            raise OptionError(f"nobody called {name!r} is enrolled in {self.path}")
        return subject

    def _ids_of(self, subject: int) -> list[int]:
        index = self._store.index
        return sorted(index.ids[index.rows_of(subject)].tolist())

    def _empty_log(self, what: str) -> None:
        if not self._database.checkpoint():
            raise DataError(
                f"{what} removed from {self.path}, but another process is still reading an older"
                f" state, so that {self.path.name}-wal keeps the bytes until it is done: let it"
                " finish, and open the gallery again"
            )

    def _embedded(self, images: Any, embeddings: Any) -> Embeddings:
        if embeddings is not None:
            return unit_rows(embeddings, self.dim)
        if images is None:
            raise OptionError("neither an image nor an embedding is given")
        if self.recognizer is None:
            raise OptionError(
                f"{self.path} was opened without a recognizer, which images need: open it with"
                " one, or give embeddings"
            )
        return unit_rows(self.recognizer.embed(images), self.dim)

    def _samples(self, images: Any, embeddings: Any, sources: Any) -> tuple[list[Row], Embeddings]:
        given = None if images is None else as_sources(images)
        vectors = self._embedded(given, embeddings)
        for what, items in (("images", given), ("sources", sources)):
            if items is not None and len(items) != len(vectors):
                raise InputError(
                    f"there are {len(vectors):,} embeddings, but {len(items):,} {what}"
                )
        rows = []
        for number, vector in enumerate(vectors.astype("<f4", copy=False)):
            source = None if sources is None or sources[number] is None else str(sources[number])
            if given is None:
                rows.append(Row(0, vector.tobytes(), source, None, None))
            else:
                kept = original(given[number])
                content = kept.content if self.keep_images else None
                rows.append(Row(0, vector.tobytes(), source or kept.source, kept.digest, content))
        return rows, vectors

    def _add(self, names: Sequence[str], vectors: Embeddings, rows: list[Row]) -> list[int]:
        now = time.time_ns() // 1000
        numbers: dict[str, int] = {}
        for name in names:
            if name not in numbers:
                known = self._store.subject(name)
                numbers[name] = self._store.add_subject(name, now) if known is None else known
        whole = [row._replace(subject=numbers[name]) for name, row in zip(names, rows, strict=True)]
        return self._store.add_samples(whole, now)

    def _check_model(self, recognizer: Embedder | None, dim: int | None) -> None:
        if dim is not None and dim != self.dim:
            raise OptionError(f"dim={dim!r}, and {self.path} holds {self.dim} dimensions")
        if recognizer is None:
            return
        if recognizer.digest == self.model_digest:
            return
        raise OptionError(
            f"{self.path} belongs to the model {self.model_name} ({self.model_digest[:12]}), not to"
            f" {recognizer.name} ({recognizer.digest[:12]}): use that one, or migrate the gallery"
        )

    def _settle(self, scoring: str | None, keep_images: bool | None) -> None:
        wanted = {}
        if scoring is not None and scoring != self.scoring:
            wanted["scoring"], self._scoring = scoring, Scoring.of(scoring)
        if keep_images is not None and keep_images != self.keep_images:
            wanted["keep_images"], self.keep_images = "yes" if keep_images else "no", keep_images
        if wanted and not self.read_only:
            with self._store.changing():
                for key, value in wanted.items():
                    self._database.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))


def _first_meta(
    path: Path,
    recognizer: Embedder | None,
    dim: int | None,
    scoring: str | None,
    keep_images: bool | None,
) -> dict[str, object]:
    if recognizer is None and dim is None:
        raise OptionError(
            f"{path} does not exist: to make it, name a recognizer or the dimension of embeddings"
        )
    if recognizer is not None:
        if dim not in (None, recognizer.dim):
            raise OptionError(f"dim={dim!r}, and {recognizer.name} has {recognizer.dim} dimensions")
        dim = recognizer.dim
    if isinstance(dim, bool) or not isinstance(dim, int) or not 1 <= dim <= 65536:
        raise OptionError(f"dim={dim!r} is out of range, expected an integer in 1 … 65536")
    return {
        "dim": str(dim),
        "model": "" if recognizer is None else recognizer.name,
        "digest": "" if recognizer is None else recognizer.digest,
        "scoring": scoring or "max",
        "keep_images": "yes" if keep_images else "no",
        "epoch": "0",
    }


def _thresholds(text: Any, path: Path) -> Thresholds:
    try:
        return Thresholds.from_json(json.loads(text), f"the calibration in {path}")
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} is damaged: its calibration is no JSON: {error}") from None
