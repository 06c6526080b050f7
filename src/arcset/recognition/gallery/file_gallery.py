"""A gallery in a file: subjects and their samples, enrolled, changed and listed."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.base import Gallery
from arcset.recognition.gallery.beginning import finish_what_was_interrupted
from arcset.recognition.gallery.changes import (
    add_subject,
    move_samples,
    overwrite_samples,
    overwrite_subject,
)
from arcset.recognition.gallery.compacting import compact, finish_removal
from arcset.recognition.gallery.database import UNDONE, Database, create_database, discard_new
from arcset.recognition.gallery.enrolling import enroll_rows
from arcset.recognition.gallery.index import Numbers
from arcset.recognition.gallery.listing import find_image, list_samples, list_subjects, moment
from arcset.recognition.gallery.moving import migrate
from arcset.recognition.gallery.samples import Row, Sample, Subject
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.scoring import nearest_subjects
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.gallery.store import Store
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress

__all__ = ["FileGallery"]


class FileGallery(Gallery):
    """A gallery in one SQLite file and in memory.

    What a method that changes something has done is on the disk when it returns. Several processes
    may have the same gallery open: one writes at a time, and each sees what the others did at its
    next call.
    """

    path: Path

    def __init__(self, database: Database) -> None:
        self.path = database.path
        self.read_only = database.read_only
        self._store = Store(database)
        self._lock = threading.RLock()
        self.dim, self._epoch = self._store.settings.dim, self._store.settings.epoch

    @classmethod
    def _connect(cls, path: Path, *, read_only: bool) -> Self | None:
        if not path.exists():
            return None
        database = Database(path, read_only=read_only)
        try:
            gallery = cls(database)
            gallery._store.follow()
            if not database.read_only:
                finish_what_was_interrupted(gallery._store)
        except BaseException:
            database.close()
            raise
        return gallery

    @classmethod
    def _create(cls, path: Path, settings: dict[str, str]) -> Self:
        create_database(path, settings)
        try:
            gallery = cls._connect(path, read_only=False)
        except DataError:  # as on a disk that had just enough room for the file itself
            discard_new(path)
            raise
        assert gallery is not None
        return gallery

    def close(self) -> None:
        """Let go of the file; the gallery is of no use afterwards."""
        with self._lock:
            self._store.database.close()

    # Asking

    def _search(
        self, probes: Embeddings, k: int
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        with self._following():
            store = self._store
            while True:
                numbers, scores = nearest_subjects(store.index, probes, k, store.settings.scoring)
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

    def _rename(self, old: str, new: str) -> None:
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

    def _merge(self, source: str, into: str) -> None:
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

    def _write(self, **values: str | None) -> None:
        with self._changing():
            self._store.change_settings(**values)

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

    def _rows(self, images: bool) -> Iterator[Sequence[Row]]:
        with self._store.database.reading():
            self._store.refresh()
            list_subjects(self._store)  # raises where names are damaged, missing or double
            found = self._store.database.execute(
                "SELECT subjects.name, embedding, source, digest,"
                f" {'image' if images else 'NULL'}, samples.added, samples.id"
                " FROM samples JOIN subjects ON subjects.id = subject"
                f"{' LEFT JOIN images ON images.id = samples.id' if images else ''}"
                f" WHERE subject <> {NOBODY} ORDER BY samples.id"
            )
            while rows := [Row(*values) for values in found.fetchmany(256 if images else 4096)]:
                for row in rows:
                    self._check_sound(row)
                yield rows

    def _check_sound(self, row: Row) -> None:
        right = (
            isinstance(row.embedding, bytes)
            and len(row.embedding) == 4 * self.dim
            and isinstance(row.source, str | None)
            and all(isinstance(value, bytes | None) for value in (row.digest, row.image))
        )
        if not right:
            raise self._store.database.damaged(f"sample {row.id} holds values of a wrong type")
        moment(self._store, row.added)

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
                    self._recognizer = recognizer
                    self.dim, self._epoch = self._store.settings.dim, self._store.settings.epoch

    # What `Gallery` is made of

    @property
    def _settings(self) -> Settings:
        return self._store.settings

    def together(self) -> AbstractContextManager[None]:
        """Around several questions that are to be answered from the newest state."""
        return self._following()

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

    def _add(self, batches: Iterable[Sequence[Row]], **settings: str) -> list[int]:
        with self._lock, self._store.changing():  # as `_changing`, and quicker
            self._check_open()
            if settings:
                self._store.change_settings(**settings)
            made: list[int] = []
            for rows in batches:
                made += enroll_rows(self._store, rows, self._store.last_sample + 1 + len(made))
            return made

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
