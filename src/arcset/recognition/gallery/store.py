"""A gallery's file and its embeddings in memory, kept equal."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import TracebackType
from typing import NamedTuple

import numpy as np

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.database import SQLITE_ERRORS, Database
from arcset.recognition.gallery.index import Index
from arcset.recognition.gallery.loading import Loader
from arcset.recognition.gallery.samples import check_name
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.settings import Settings, write_settings

__all__ = ["Added", "Store"]

_MOST_WAITING = 64  # calls, and samples of one, that are put into the index when it is needed


class Added(NamedTuple):
    """New samples, with numbers that rise, their subjects and embeddings: one each."""

    samples: Sequence[int]
    subjects: Sequence[int]
    embeddings: Sequence[bytes]


class Store:
    """The newest state of the file that this process has seen.

    Attributes:
        database: the file. settings: what it says as a whole.

    To be used by one thread at a time. Memory always follows the file, whoever changed it: what is
    new has higher numbers than before, and the journal names what was removed or moved.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        with database.reading():
            self.settings = Settings.read(database)
        self._index = Index(self.settings.dim)
        self._waiting: list[Added] = []  # in the file, and to be put into the index
        self.last_sample = 0  # the highest number that a sample ever had
        self._numbers: dict[str, int] = {}  # of subjects; read when first needed
        self._last_subject = 0  # of those in _numbers
        self._names_due = True  # whether there may be more
        self._named: dict[str, int] = {}  # subjects made in this transaction
        self._revision = 0
        self._before = -1
        self._added: list[Added] | None = None  # in this transaction; None: more was changed
        self._epoch = -1  # nothing was read yet
        self._seen = -1

    @property
    def index(self) -> Index:
        """All embeddings."""
        if self._waiting:
            self._take_waiting()
        return self._index

    # Following the file

    def follow(self) -> bool:
        """Take in what other processes committed since the last call; whether there was any."""
        with self.database.explained():
            if self.database.data_version() == self._seen:
                return False
        with self.database.reading():
            self.refresh()
        return True

    def changing(self) -> "_Changing":
        """A transaction on the newest state; memory follows when it is on the disk."""
        return _Changing(self)

    def _begin(self) -> None:
        self.database.begin()
        try:
            self.refresh()
        except BaseException as error:
            self._roll_back(error)
            raise
        self._before, self._seen = self._seen, -1  # from here on memory is to follow in any case
        self._added, self._named = [], {}

    def _commit(self) -> None:
        self.database.commit()
        if self._added is None:
            with self.database.reading():
                self.refresh()
            return
        for added in self._added:
            self._waiting.append(added)
            self.last_sample = added.samples[-1]
            if len(self._waiting) > _MOST_WAITING or len(added.samples) > _MOST_WAITING:
                self._take_waiting()
        if self._named and not self._names_due:
            self._numbers |= self._named
            self._last_subject = max(self._named.values())
        self._seen = self._before

    def _roll_back(self, error: BaseException) -> None:
        self._numbers, self._last_subject, self._names_due = {}, 0, True  # some may never have been
        self._named = {}
        self.database.roll_back()
        if isinstance(error, SQLITE_ERRORS):
            raise self.database.undone(error) from None

    def will_add(self, added: Added) -> None:
        """Tell that samples were added in this transaction, so that they need not be read again."""
        if self._added is not None:
            self._added.append(added)

    def will_name(self, name: str, number: int) -> None:
        """Tell that a subject was made in this transaction."""
        self._named[name] = number

    def change_settings(self, **values: str | None) -> None:
        """Write settings by their names in the `meta` table, in this transaction."""
        self.will_change()
        write_settings(self.database, **values)

    def will_change(self) -> None:
        """Tell that something else was changed in this transaction."""
        self._added = None

    def _take_waiting(self) -> None:
        samples, subjects, embeddings = (
            list(chain.from_iterable(column)) for column in zip(*self._waiting, strict=True)
        )
        vectors = np.frombuffer(b"".join(embeddings), "<f4").reshape(len(samples), -1)
        self._index.add(np.array(samples, np.int64), np.array(subjects, np.int64), vectors)
        self._waiting = []

    def refresh(self) -> None:
        """Bring memory to the state of the file; inside a transaction or `reading`."""
        seen = self.database.data_version()
        if seen == self._seen:
            return
        self._seen, self._names_due, self._named = -1, True, {}  # until all of it is done
        settings = Settings.read(self.database)
        oldest, newest = self.database.execute(
            "SELECT (SELECT min(revision) FROM journal), (SELECT max(revision) FROM journal)"
        ).fetchone()
        if settings.epoch != self._epoch or (oldest or 0) > self._revision + 1:
            self._epoch = -1
            self._index, self._waiting = self._load(settings), []
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
        loader = Loader(self.database, settings.dim)
        for (sample,) in changed:
            if not isinstance(sample, int):
                raise self.database.damaged(f"its journal names the sample {sample!r}")
            subject = self.subject_of(sample)
            if subject is None:
                gone.append(sample)
            else:
                moved[sample] = subject
        if gone:
            self.index.remove(np.array(gone, np.int64))
        if moved:
            samples, subjects = np.array(list(moved)), np.array(list(moved.values()))
            loader.check_numbers(samples, subjects)
            self.index.move(samples, subjects)
        for part in loader.after(self.last_sample):
            self.index.add(*part)
            self.last_sample = int(part[0][-1])

    # Names

    def number(self, name: str) -> int | None:
        """The number of a subject, or None where nobody is called so."""
        return self.numbers([name]).get(name)

    def numbers(self, names: Iterable[str]) -> dict[str, int]:
        """The numbers of those subjects that there are."""
        if self._names_due:
            self._read_names()
        found = {}
        for name in names:
            known = self._numbers.get(name)
            if known is not None and self.name(known) == name:  # not removed since, or renamed
                found[name] = known
            elif name in self._named:
                found[name] = self._named[name]
        return found

    def _read_names(self) -> None:
        rows = self.database.execute(
            f"SELECT id - {NOBODY}, name FROM subjects WHERE id > ? ORDER BY id",
            (self._last_subject + NOBODY,),
        )
        stored = dict(rows.fetchall())
        for number, name in self.checked_names(stored).items():
            other = self._numbers.get(name)
            if other is not None and self.name(other) == name:  # not removed since
                raise self.database.damaged(f"two subjects are called {name!r}")
            self._numbers[name] = number
        self._last_subject = max(stored, default=self._last_subject)
        self._names_due = False

    def name(self, number: int) -> str | None:
        """The name of a subject, or None where it is gone."""
        return self._checked(self._stored_name(number))

    def _stored_name(self, number: int) -> object:
        found = self.database.execute(
            "SELECT name FROM subjects WHERE id = ?", (number + NOBODY,)
        ).fetchone()
        return b"" if found is None else found[0]

    def _checked(self, name: object) -> str | None:
        """A name as the file has it: None for the zeros of one that is gone, else as on enrolling.

        The file may come from anybody.
        """
        if isinstance(name, bytes):
            return None
        try:
            return check_name(name)
        except OptionError as error:
            raise self.database.damaged(str(error)) from None

    def checked_names(self, names: Mapping[int, object]) -> dict[int, str]:
        """The names of several subjects, by number, without those that are gone."""
        found = {number: self._checked(name) for number, name in names.items()}
        known = {number: name for number, name in found.items() if name is not None}
        if len(set(known.values())) < len(known):
            twice = next(name for name, count in Counter(known.values()).items() if count > 1)
            raise self.database.damaged(f"two subjects are called {twice!r}")
        return known

    def names(self, numbers: Iterable[int]) -> dict[int, str]:
        """The names of subjects that were in the index just now, as far as they still exist."""
        with self.database.explained():
            return self.checked_names({number: self._stored_name(number) for number in numbers})

    def samples_of(self, subject: int) -> list[int]:
        """The numbers of a subject's samples, rising."""
        return sorted(self.index.ids[self.index.rows_of(subject)].tolist())

    def subject_of(self, sample: int) -> int | None:
        """The number of a sample's subject, or None where there is no such sample."""
        found = self.database.execute(
            "SELECT subject FROM samples WHERE id = ?", (sample,)
        ).fetchone()
        if found is None or found[0] == NOBODY:
            return None
        if not isinstance(found[0], int):
            raise self.database.damaged(f"sample {sample} belongs to the subject {found[0]!r}")
        return found[0] - NOBODY

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


class _Changing:
    """What `Store.changing` returns; a class, because it is quicker than a generator."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> None:
        self._store._begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._store._commit()
        else:
            self._store._roll_back(error)
