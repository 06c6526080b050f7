"""Enrolling, removing, renaming and merging in Milvus: one row decides, the others follow."""

import random
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

#: Seconds after which somebody who began to enroll some has most likely ended otherwise.
LONGEST_BATCH = 20.0

#: Seconds after which what somebody began is finished by others: enrollments, with imports of
#: whole files among them, are taken back then, and mergers done.
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
        try:
            self.welcome(newcomers)
        except BaseException:
            self.forget(list(newcomers.values()), numbers)
            raise
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
        first = dict(zip(reversed(names), reversed(added), strict=True))
        unknown = [name for name in dict.fromkeys(names) if name not in newcomers]
        known, fresh = self._announced({name: first[name] for name in unknown})
        owners = known | newcomers | {person.name: person for person in fresh}
        try:
            if numbers is None:
                numbers = self.sample_numbers.take(len(rows))
            self.samples.add(numbers, [owners[name].number for name in names], rows, added)
            self._check_still_there(known)
        except BaseException:
            self.forget(fresh, numbers or [])
            raise
        return newcomers | {person.name: person for person in fresh}, numbers

    def _announced(self, added: dict[str, int]) -> tuple[dict[str, Person], list[Person]]:
        """Those of some names who are enrolled, and rows for those who are to come.

        Who comes is written down before anybody looks who else does. So of two who enroll the same
        name at the same moment, at least one sees the other, and gives way to it.
        """
        patience = time.monotonic() + 3 * LONGEST_BATCH
        while time.monotonic() < patience:
            known = {name: found[0] for name, found in self.subjects.find(added).items()}
            names = [name for name in added if name not in known]
            numbers = self._subject_numbers.take(len(names))
            fresh = [
                Person(number, name, COMING, added[name], now())
                for name, number in zip(names, numbers, strict=True)
            ]
            if not fresh:
                return known, fresh
            try:
                self.subjects.add(fresh)
                while (way := self._way(fresh)) == "wait" and time.monotonic() < patience:
                    time.sleep(0.02)
            except BaseException:
                self.forget(fresh, [])
                raise
            if way == "free":
                return known, fresh
            self.forget(fresh, [])
            time.sleep(random.uniform(0, 0.1))
        raise DataError(
            f"{self._address}: others have been enrolling the same names for too long; nothing was"
            " changed, try again"
        )

    def _way(self, fresh: Sequence[Person]) -> str:
        """Whether those who come are the only ones of their names: `free`, `wait` or `yield`."""
        mine, way = {person.name: person.number for person in fresh}, "free"
        for name, found in self.subjects.find(mine, coming=True).items():
            for other in found:
                if other.number == mine[name] or _ended(other):
                    continue
                if other.state == HERE or other.number < mine[name]:
                    return "yield"
                way = "wait"  # until it has seen us and gives way, or is enrolled
        return way

    def welcome(self, newcomers: dict[str, Person]) -> None:
        """The second half: from now on new subjects count."""
        if not newcomers:
            return
        found = self.subjects.find(newcomers)  # it may have taken so long that others came first
        self.subjects.put(
            [
                person._replace(state=HERE, changed=now())
                for name, person in newcomers.items()
                if name not in found
            ]
        )
        for name, others in found.items():
            self._merge(newcomers[name], others[0])

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
        if self._others(new, people):
            raise taken
        self.subjects.put([one._replace(name=new, changed=now()) for one in people])
        if self._others(new, people):  # somebody takes it at this moment
            self.subjects.put([one._replace(changed=now()) for one in people])
            raise taken

    def _others(self, name: str, people: Sequence[Person]) -> bool:
        numbers = {person.number for person in people}
        found = self.subjects.find([name], coming=True).get(name, [])
        return any(one.number not in numbers and not _ended(one) for one in found)

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
        for person in self.subjects.unfinished():
            age = (now() - person.changed) / 1e6
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


def _ended(person: Person) -> bool:
    """Whether whoever was to come will most likely not."""
    return person.state == COMING and now() - person.changed > 1e6 * LONGEST_BATCH
