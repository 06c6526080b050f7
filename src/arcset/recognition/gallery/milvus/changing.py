"""Enrolling, removing, renaming and merging in Milvus: one row decides, the others follow."""

import time
from collections.abc import Sequence
from contextlib import suppress

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.changes import Row
from arcset.recognition.gallery.enrolling import now
from arcset.recognition.gallery.milvus.collections import Collections
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.gallery.milvus.numbers import Numbers
from arcset.recognition.gallery.milvus.rows import Rows
from arcset.recognition.gallery.milvus.samples import check_sources
from arcset.recognition.gallery.milvus.subjects import COMING, GONE, HERE, Person

__all__ = ["Changes"]

#: Seconds after which somebody who began something has surely finished it, or never will.
LONGEST_ENROLLMENT = 24 * 3600.0
LONGEST_MERGE = 60.0


class Changes(Rows):
    """What is done to the rows of a gallery, in the strongest consistency. Threads may share one.

    Attributes:
        sample_numbers: of samples to come.
    """

    def __init__(self, connection: Connection, collections: Collections, dim: int) -> None:
        super().__init__(connection.strongly(), collections, dim)
        self.sample_numbers = Numbers(connection, collections, "sample")
        self._subject_numbers = Numbers(connection, collections, "subject")

    def enroll(
        self,
        names: Sequence[str],
        rows: Sequence[Row],
        *,
        numbers: Sequence[int] | None = None,
        added: Sequence[int] | None = None,
    ) -> list[int]:
        """Add samples, and the subjects that are new; the numbers of the samples.

        A new subject counts when all its samples are written. Where Milvus refuses something, what
        was written is taken away again.
        """
        newcomers, numbers = self.write(names, rows, numbers=numbers, added=added)
        self.welcome(newcomers)
        return list(numbers)

    def write(
        self,
        names: Sequence[str],
        rows: Sequence[Row],
        *,
        numbers: Sequence[int] | None = None,
        added: Sequence[int] | None = None,
        newcomers: dict[str, Person] | None = None,
    ) -> tuple[dict[str, Person], Sequence[int]]:
        """The first half: those of new subjects do not count yet.

        newcomers: new subjects of earlier calls. Returns them and those of this call, by name, and
        the numbers of the samples.
        """
        check_sources(rows)
        newcomers = dict(newcomers or {})
        added = [now()] * len(rows) if added is None else added
        unknown = [name for name in dict.fromkeys(names) if name not in newcomers]
        known = {name: found[0] for name, found in self.subjects.find(unknown).items()}
        first = dict(zip(reversed(names), reversed(added), strict=True))
        unknown = [name for name in unknown if name not in known]
        fresh = [
            Person(number, name, COMING, first[name], now())
            for name, number in zip(unknown, self._subject_numbers.take(len(unknown)), strict=True)
        ]
        numbers = self.sample_numbers.take(len(rows)) if numbers is None else numbers
        owners = known | newcomers | {person.name: person for person in fresh}
        try:
            self.subjects.add(fresh)
            self.samples.add(numbers, [owners[name].number for name in names], rows, added)
        except BaseException:
            self.forget(fresh, numbers)
            raise
        self._check_still_there(known)
        return newcomers | {person.name: person for person in fresh}, numbers

    def welcome(self, newcomers: dict[str, Person]) -> None:
        """The second half: from now on new subjects count."""
        here = [one._replace(state=HERE, changed=now()) for one in newcomers.values()]
        self.subjects.put(here)
        found = self.subjects.find(newcomers)
        for person in here:
            first = found.get(person.name, [person])[0]
            if first.number < person.number:  # somebody else enrolled the same name just now
                self._merge(person, first)

    def forget(self, newcomers: Sequence[Person], numbers: Sequence[int]) -> None:
        """Take away what was written, as far as Milvus lets us; the rest is found later."""
        with suppress(DataError):
            self.samples.take_away(numbers)
            self.subjects.take_away([person.number for person in newcomers])

    def _check_still_there(self, known: dict[str, Person]) -> None:
        """Those who were removed while samples of theirs were written are enrolled anew."""
        if not known:
            return
        found = self.subjects.find(known)
        for name, person in known.items():
            if any(one.number == person.number for one in found.get(name, [])):
                continue
            if person.number in self.subjects.owners([person.number]):  # it has another name now
                continue
            anew = person._replace(state=HERE, changed=now())
            self.subjects.put([anew])
            if name in found:
                self._merge(anew, found[name][0])

    def remove(self, people: Sequence[Person]) -> int:
        """Remove subjects; how many samples they had."""
        numbers = list(self.subjects.families([person.number for person in people]))
        self.subjects.put([one._replace(name="", state=GONE, changed=now()) for one in people])
        samples = self.samples.numbers_of(numbers)
        self.samples.take_away(samples)
        self.subjects.take_away(numbers)
        return len(samples)

    def remove_sample(self, sample: int, person: Person) -> None:
        """Remove one sample of a subject, and the subject where it was the last one."""
        family = self.subjects.families([person.number])
        if self.samples.numbers_of(family) != [sample]:
            self.samples.take_away([sample])
        if self.samples.numbers_of(family) in ([], [sample]):
            self.remove([person])

    def rename(self, people: Sequence[Person], new: str) -> None:
        """Give a subject another name; raises `OptionError` where somebody has it."""
        taken = OptionError(
            f"somebody called {new!r} is enrolled already: merge {people[0].name!r} into that"
        )
        if self.subjects.find([new]):
            raise taken
        self.subjects.put([one._replace(name=new, changed=now()) for one in people])
        found = self.subjects.find([new]).get(new, people)
        if found[0].number < people[0].number:  # somebody took it just now
            self.subjects.put([one._replace(changed=now()) for one in people])
            raise taken

    def merge(self, people: Sequence[Person], into: Person) -> None:
        """Give all samples of subjects to another one."""
        for person in people:
            self._merge(person, into)

    def _merge(self, person: Person, into: Person) -> None:
        merged = person._replace(name="", state=into.number, changed=now())
        self.subjects.put([merged])
        self._finish(merged)

    def heal(self) -> None:
        """Finish what others began, and have not finished for so long that they never will."""
        late = time.time_ns() // 1000
        for person in self.subjects.unfinished():
            age = (late - person.changed) / 1e6
            if person.state == COMING and age < LONGEST_ENROLLMENT:
                continue
            if person.state > 0 and age < LONGEST_MERGE:
                continue
            self._finish(person)

    def _finish(self, person: Person) -> None:
        """Do to the samples what the row of their subject says."""
        family = list(self.subjects.families([person.number]))
        if person.state > 0:
            self.samples.move(family, person.state)
        else:
            self.samples.take_away(self.samples.numbers_of(family))
        self.subjects.take_away(family)
