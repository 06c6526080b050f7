"""A gallery's file and its embeddings in memory, kept equal."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from arcset.errors import DataError
from arcset.recognition.gallery.database import Database
from arcset.recognition.gallery.index import Index
from arcset.recognition.gallery.loading import Loader, Part
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.settings import Settings, write_settings

__all__ = ["Store"]


class Store:
    """The newest state of the file that this process has seen.

    Attributes:
        database: the file. settings: what it says as a whole. index: its embeddings.

    To be used by one thread at a time. Memory always follows the file, whoever changed it: what is
    new has higher numbers than before, and the journal names what was removed or moved.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        with database.reading():
            self.settings = Settings.read(database)
        self.index = Index(self.settings.dim)
        self.last_sample = 0  # the highest number that a sample ever had
        self._numbers: dict[str, int] = {}  # of subjects; read when first needed
        self._last_subject = 0  # of those in _numbers
        self._revision = 0
        self._added: list[Part] | None = None  # in this transaction; None: more was changed
        self._epoch = -1  # nothing was read yet
        self._seen = -1

    # Following the file

    def follow(self) -> bool:
        """Take in what other processes committed since the last call; whether there was any."""
        with self.database.explained():
            if self.database.data_version() == self._seen:
                return False
        with self.database.reading():
            self.refresh()
        return True

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A transaction on the newest state; memory follows when it is on the disk."""
        with self.database.writing():
            self.refresh()
            seen, self._seen = self._seen, -1  # whatever happens from here on, memory is to follow
            self._added = []
            try:
                yield
            except BaseException:
                self._numbers, self._last_subject = {}, 0  # some may be of subjects that never were
                raise
        if self._added is None:
            with self.database.reading():
                self.refresh()
        else:
            self.take_in(self._added)
            self._seen = seen

    def will_add(self, part: Part) -> None:
        """Tell that rows were added in this transaction, so that they need not be read again."""
        if self._added is not None:
            self._added.append(part)

    def change_settings(self, **values: str | None) -> None:
        """Write settings by their names in the `meta` table, in this transaction."""
        self.will_change()
        write_settings(self.database, **values)

    def will_change(self) -> None:
        """Tell that something else was changed in this transaction."""
        self._added = None

    def take_in(self, parts: Iterable[Part]) -> None:
        """Add samples that are in the file to memory."""
        for part in parts:
            self.index.add(*part)
            self.last_sample = int(part[0][-1])

    def refresh(self) -> None:
        """Bring memory to the state of the file; inside `reading` or `writing`."""
        seen = self.database.data_version()
        if seen == self._seen:
            return
        self._seen = -1  # until all of it is done
        settings = Settings.read(self.database)
        oldest, newest = self.database.execute(
            "SELECT (SELECT min(revision) FROM journal), (SELECT max(revision) FROM journal)"
        ).fetchone()
        if settings.epoch != self._epoch or (oldest or 0) > self._revision + 1:
            self._epoch = -1
            self.index = self._load(settings)
            self._numbers, self._last_subject = {}, 0
        else:
            self._catch_up(settings)
        self.last_sample = self._highest()
        self.settings, self._epoch, self._revision = settings, settings.epoch, newest or 0
        self._seen = seen

    def _load(self, settings: Settings) -> Index:
        return Loader(self.database, settings.dim).all(self._highest() - settings.gone)

    def _highest(self) -> int:
        return int(self.database.execute("SELECT max(id) FROM samples").fetchone()[0] or 0)

    def _catch_up(self, settings: Settings) -> None:
        changed = self.database.execute(
            "SELECT DISTINCT sample FROM journal WHERE revision > ?", (self._revision,)
        ).fetchall()
        gone, moved = [], {}
        for (sample,) in changed:
            subject = self.subject_of(sample)
            if subject is None:
                gone.append(sample)
            else:
                moved[sample] = subject
        if gone:
            self.index.remove(np.array(gone, np.int64))
        if moved:
            self.index.move(np.array(list(moved), np.int64), np.array(list(moved.values())))
        self.take_in(Loader(self.database, settings.dim).after(self.last_sample))

    # Names

    def number(self, name: str) -> int | None:
        """The number of a subject, or None where nobody is called so."""
        return self.numbers([name]).get(name)

    def numbers(self, names: Iterable[str]) -> dict[str, int]:
        """The numbers of those subjects that there are."""
        for number, name in self.database.execute(
            f"SELECT id - {NOBODY}, name FROM subjects WHERE id > ? ORDER BY id",
            (self._last_subject + NOBODY,),
        ):
            self._last_subject = number
            if isinstance(name, str):
                self._numbers[name] = number
        found = {}
        for name in names:
            known = self._numbers.get(name)
            if known is not None and self.name(known) == name:  # not removed since, or renamed
                found[name] = known
        return found

    def name(self, number: int) -> str | None:
        """The name of a subject, or None where it is gone."""
        found = self.database.execute(
            "SELECT name FROM subjects WHERE id = ?", (number + NOBODY,)
        ).fetchone()
        return found[0] if found is not None and isinstance(found[0], str) else None

    def names(self, numbers: Iterable[int]) -> dict[int, str]:
        """The names of subjects that were in the index just now, as far as they still exist."""
        with self.database.explained():
            found = {number: self.name(number) for number in numbers}
        return {number: name for number, name in found.items() if name is not None}

    def samples_of(self, subject: int) -> list[int]:
        """The numbers of a subject's samples, rising."""
        return sorted(self.index.ids[self.index.rows_of(subject)].tolist())

    def subject_of(self, sample: int) -> int | None:
        """The number of a sample's subject, or None where there is no such sample."""
        found = self.database.execute(
            "SELECT subject FROM samples WHERE id = ?", (sample,)
        ).fetchone()
        return None if found is None or found[0] == NOBODY else int(found[0]) - NOBODY

    def check_equal(self) -> None:
        """Raise `DataError` unless memory and file hold the same; for tests, and for doubts."""
        with self.database.reading():
            self.refresh()
            anew = self._load(self.settings)
        orders: Sequence[np.ndarray] = [np.argsort(index.ids) for index in (self.index, anew)]
        for one, other in (
            (self.index.ids, anew.ids),
            (self.index.subjects, anew.subjects),
            (self.index.matrix, anew.matrix),
        ):
            if not np.array_equal(one[orders[0]], other[orders[1]]):
                raise DataError(f"{self.database.path} holds something else than memory does")
