"""A gallery in a file: subjects and their samples, enrolled, changed and listed."""

import json
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcset.checks import check_count
from arcset.errors import DataError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.gallery.beginning import begin
from arcset.recognition.gallery.changes import (
    Row,
    add_subject,
    move_samples,
    overwrite_samples,
    overwrite_subject,
)
from arcset.recognition.gallery.compacting import compact, finish_removal
from arcset.recognition.gallery.database import UNDONE, Database, create_database, discard_new
from arcset.recognition.gallery.enrolling import enroll_rows
from arcset.recognition.gallery.gallery import Gallery
from arcset.recognition.gallery.index import Numbers
from arcset.recognition.gallery.listing import find_image, list_samples, list_subjects
from arcset.recognition.gallery.moving import import_samples, migrate
from arcset.recognition.gallery.names import check_name
from arcset.recognition.gallery.parquet_files import write_gallery
from arcset.recognition.gallery.records import Sample, Subject
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.scoring import nearest_subjects
from arcset.recognition.gallery.settings import Settings, first_settings
from arcset.recognition.gallery.store import Store
from arcset.recognition.gallery.vectors import unit_rows
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress

__all__ = ["FileGallery"]


class FileGallery(Gallery):
    """A gallery in one SQLite file and in memory.

    What a method that changes something has done is on the disk when it returns. Several processes
    may have the same gallery open: one writes at a time, and each sees what the others did at its
    next call.
    """

    path: Path

    def __init__(self, database: Database, recognizer: ImageEmbedder | None) -> None:
        self.path = database.path
        self.recognizer = recognizer
        self.read_only = database.read_only
        self._store = Store(database)
        self._lock = threading.RLock()
        self.dim, self._epoch = self._store.settings.dim, self._store.settings.epoch

    @classmethod
    def begin(
        cls,
        path: Path,
        recognizer: ImageEmbedder | None,
        dim: int | None,
        scoring: str | None,
        keep_images: bool | None,
        read_only: bool,
    ) -> Self:
        """Open a file, made if there is none: see `Gallery.open`."""
        made = not path.exists()
        if made:
            if read_only:
                raise DataError(f"{path} does not exist")
            create_database(path, first_settings(path, recognizer, dim, scoring, keep_images))
        try:
            database = Database(path, read_only=read_only)
            try:
                gallery = cls(database, recognizer)
                begin(gallery._store, recognizer, dim, scoring, keep_images)
            except BaseException:
                database.close()
                raise
        except DataError:  # as on a disk that had just enough room for the file itself
            if made:
                discard_new(path)
            raise
        return gallery

    def close(self) -> None:
        """Let go of the file; the gallery is of no use afterwards."""
        with self._lock:
            self._store.database.close()

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
                        raise store.database.damaged("a subject has no name") from None

    # Changing

    def remove(self, name: str) -> int:
        """Remove a subject, and return how many samples it had.

        Name, embeddings and images are overwritten in the gallery's files when this returns.
        Raises `OptionError` where nobody is called so. Raises `DataError` where another process or
        a full disk keeps the bytes from being overwritten; it says whether the subject was removed.
        """
        with self._lock:
            with self._changing():
                subject = self._known(name)
                samples = self._store.samples_of(subject)
                overwrite_samples(self._store, samples)
                overwrite_subject(self._store, subject)
            finish_removal(self._store, f"{name!r} was removed from {self.path}")
        return len(samples)

    def remove_sample(self, sample: int) -> None:
        """Remove one sample, likewise; with the last one of a subject goes the subject."""
        with self._lock:
            with self._changing():
                subject = self._owner(sample)
                overwrite_samples(self._store, [int(sample)])
                if self._store.samples_of(subject) == [sample]:
                    overwrite_subject(self._store, subject)
            finish_removal(self._store, f"sample {sample} was removed from {self.path}")

    def rename(self, old: str, new: str) -> None:
        """Give a subject another name, which nobody has; the old one is overwritten."""
        check_name(new)
        if old == new:
            return
        with self._lock:
            with self._changing():
                subject = self._known(old)
                if self._store.number(new) is not None:
                    raise OptionError(
                        f"somebody called {new!r} is enrolled already: merge {old!r} into that"
                    )
                (added,) = self._store.database.execute(
                    "SELECT max(added) FROM subjects WHERE id = ?", (subject + NOBODY,)
                ).fetchone()  # max: a row in any case, also of a damaged file
                # A name of another length would make SQLite move others, see `schema`.
                self._move(subject, add_subject(self._store, new, added))
            finish_removal(self._store, f"{old!r} was renamed to {new!r} in {self.path}")

    def merge(self, source: str, into: str) -> None:
        """Give all samples of the subject `source` to the subject `into`; `source` goes."""
        if source == into:
            raise OptionError(f"{source!r} cannot be merged into itself")
        with self._lock:
            with self._changing():
                self._move(self._known(source), self._known(into))
            finish_removal(self._store, f"{source!r} was merged into {into!r} in {self.path}")

    def compact(self) -> None:
        """Write the file anew, without the room that removed samples leave.

        A gallery does so by itself when more samples were removed than are left.
        """
        with self._lock:
            try:
                compact(self._store)
            except DataError as error:
                why = str(error).removesuffix(UNDONE)
                raise DataError(f"{self.path} could not be compacted: {why}") from None

    def set_thresholds(self, thresholds: Thresholds | None) -> None:
        """Give the gallery a calibration of its own, or take it away."""
        text = stamp = None
        if thresholds is not None:
            text = json.dumps(thresholds.json(), ensure_ascii=False, allow_nan=False)
            stamp = secrets.token_hex(8)
        with self._changing():
            self._store.change_settings(thresholds=text, calibrated=stamp)

    # Looking

    def __len__(self) -> int:
        with self._following():
            return self._store.index.subject_count

    def __contains__(self, name: object) -> bool:
        with self._reading():
            return isinstance(name, str) and self._store.number(name) is not None

    @property
    def byte_count(self) -> int:
        """How many bytes the file takes, log and all."""
        return self._store.database.size()

    @property
    def sample_count(self) -> int:
        """How many samples all subjects have together."""
        with self._following():
            return len(self._store.index)

    def set_model_path(self, path: Path | str) -> None:
        """Note where the model lies."""
        with self._changing():
            self._store.change_settings(model_path=str(path))

    def subjects(self) -> tuple[Subject, ...]:
        """All subjects, the first enrolled first."""
        with self._reading():
            return list_subjects(self._store)

    def samples(self, name: str) -> tuple[Sample, ...]:
        """All samples of a subject; raises `OptionError` where nobody is called so."""
        with self._reading():
            return list_samples(self._store, self._known(name))

    def image(self, sample: int) -> bytes | None:
        """The image of a sample as a file's bytes; None where it was not kept."""
        with self._reading():
            self._owner(sample)
            return find_image(self._store, int(sample))

    def labelled(self) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
        """A copy of all embeddings, (N, D), in the order of their numbers, and whose they are."""
        with self._reading():
            index = self._store.index
            order = np.argsort(index.ids)
            names = self._store.names(np.unique(index.subjects).tolist())
            if len(names) < index.subject_count:
                raise self._store.database.damaged("a subject has no name")
            owners = tuple(names[number] for number in index.subjects[order].tolist())
            return index.matrix[order], owners

    def repeated(self, most: int) -> tuple[npt.NDArray[np.float32], Numbers]:
        """Embeddings of subjects with two samples or more: see `Kept`."""
        with self._following():  # a million rows are not copied for the sake of a few thousand
            index = self._store.index
            several = np.flatnonzero(index.counts > 1)
            if len(several) > most:
                places = np.linspace(0, len(several) - 1, most).round().astype(int)
                several = several[places]
            among = np.zeros(len(index.counts), bool)
            among[several] = True
            rows = np.flatnonzero(among[index.subjects])
            return index.matrix[rows], index.subjects[rows]

    # Moving

    def export(self, path: Path | str, *, images: bool = True) -> int:
        """Write all samples to a Parquet file: see `Kept`."""
        with self._reading():
            return write_gallery(self._store, Path(path), images)

    def import_file(self, path: Path | str) -> tuple[int, ...]:
        """Add all samples of a file that `export` wrote, or none: see `Kept`."""
        with self._lock:
            self._check_open()
            return import_samples(self._store, path)

    def migrate(self, recognizer: ImageEmbedder, progress: Progress | None = None) -> None:
        """Move to another model: embed all images anew, all of them or none.

        Other processes can read, but not write, for so long; they have to open the gallery again
        when it is done. A calibration of its own is lost. Raises `OptionError` where the images of
        some samples were not kept, and `DataError` for one that the model cannot embed.
        """
        with self._lock:
            self._check_open()
            try:
                migrate(self._store, recognizer, progress)
            finally:
                if self._store.settings.epoch != self._epoch:  # done, even if the disk is full now
                    self.recognizer = recognizer
                    self.dim, self._epoch = self._store.settings.dim, self._store.settings.epoch

    # What `Gallery` is made of

    @property
    def _settings(self) -> Settings:
        return self._store.settings

    def together(self) -> AbstractContextManager[None]:
        """Around several questions that are to be answered from the newest state."""
        return self._following()

    def _sizes(self) -> tuple[int, int]:
        return self._store.index.subject_count, len(self._store.index)

    def _calibration(self) -> str | None:
        with self._store.database.reading():
            found = self._store.database.execute(
                "SELECT value FROM meta WHERE key = 'thresholds'"
            ).fetchone()
        return None if found is None else found[0]

    def _embeddings_of(self, name: str) -> Embeddings:
        with self._reading():
            index = self._store.index
            return index.matrix[index.rows_of(self._known(name))]

    def _reserve(self, count: int) -> None:
        with self._lock:  # room for all at once, rather than for twice as many again and again
            self._store.index.reserve(len(self._store.index) + count)

    def _add(self, names: Sequence[str], rows: Sequence[Row]) -> list[int]:
        with self._lock, self._store.changing():  # as `_changing`, and quicker
            self._check_open()
            return enroll_rows(self._store, names, rows)

    # Within

    @contextmanager
    def _following(self) -> Iterator[None]:
        """One thread at a time, in the newest state."""
        with self._lock:
            self._store.follow()
            self._check_open()
            yield

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """One thread at a time, in one state of the file for all that is asked."""
        with self._lock, self._store.database.reading():
            self._store.refresh()
            self._check_open()
            yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One thread at a time, in a transaction."""
        with self._lock, self._store.changing():
            self._check_open()
            yield

    def _check_open(self) -> None:
        if self._store.settings.epoch != self._epoch:
            raise DataError(
                f"{self.path} was moved to the model {self.model_name!r} by another process: open"
                " it again, with that model"
            )

    def _known(self, name: str) -> int:
        subject = self._store.number(name)
        if subject is None:
            raise OptionError(f"nobody called {name!r} is enrolled in {self.path}")
        return subject

    def _owner(self, sample: int) -> int:
        fits = isinstance(sample, int | np.integer) and 0 < sample < 2**63
        subject = self._store.subject_of(int(sample)) if fits else None
        if subject is None:
            raise OptionError(f"there is no sample {sample!r} in {self.path}")
        return subject

    def _move(self, source: int, into: int) -> None:
        move_samples(self._store, self._store.samples_of(source), into)
        overwrite_subject(self._store, source)
