"""Enrolling, removing, renaming and merging in Milvus: one row decides, the others follow."""

import random
import time
from collections.abc import Sequence
from contextlib import suppress

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery.milvus.collections import Collections
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.gallery.milvus.numbers import Numbers
from arcset.recognition.gallery.milvus.rows import Rows
from arcset.recognition.gallery.milvus.samples import check_sources
from arcset.recognition.gallery.milvus.subjects import COMING, GONE, HERE, Person
from arcset.recognition.gallery.samples import Row, now

__all__ = ["Changes"]

#: Seconds after which somebody who began to enroll some has most likely ended otherwise.
LONGEST_BATCH = 20.0

#: Seconds after which what somebody began is finished by others: enrollments, with imports of
#: whole files among them, are taken back then, and mergers done.
LONGEST_ENROLLMENT = 24 * 3600.0
LONGEST_MERGE = 60.0

_AT_ONCE = 1_000  # subjects that are taken out together


class Changes(Rows):
    """What is done to the rows of a gallery, in the strongest consistency. Threads may share one.

    Attributes:
        sample_numbers: of samples to come.
    """

    def __init__(self, connection: Connection, collections: Collections, dim: int) -> None:
        super().__init__(connection.strongly(), collections, dim)
        self.sample_numbers = Numbers(connection, collections, "sample")
        self._subject_numbers = Numbers(connection, collections, "subject")

    def enroll(self, names: Sequence[str], rows: Sequence[Row]) -> list[int]:
        """Add samples, and the subjects that are new; the numbers of the samples.

        A new subject counts when all its samples are written. Where Milvus refuses something, what
        was written is taken away again.
        """
        newcomers: dict[str, Person] = {}
        numbers = self.write(names, rows, newcomers)
        self.welcome(newcomers, numbers)
        return numbers

    def write(
        self,
        names: Sequence[str],
        rows: Sequence[Row],
        newcomers: dict[str, Person],
        *,
        numbers: Sequence[int] | None = None,
        added: Sequence[int] | None = None,
    ) -> list[int]:
        """The first half: those of new subjects do not count yet. The numbers of the samples.

        newcomers: new subjects of earlier calls, by name; those of this call are added to them.
        """
        check_sources(rows)
        added = [now()] * len(rows) if added is None else added
        first = dict(zip(reversed(names), reversed(added), strict=True))
        ours = {name: newcomers[name] for name in first if name in newcomers}
        unknown = {name: first[name] for name in dict.fromkeys(names) if name not in ours}
        known, fresh = self._announced(unknown)
        owners = ours | known | {person.name: person for person in fresh}
        try:
            if numbers is None:
                numbers = self.sample_numbers.take(len(rows))
            self.samples.add(numbers, [owners[name].number for name in names], rows, added)
            made, others = list(numbers), self._changed(known)
            again = [place for place, name in enumerate(names) if name in others]
            if again:
                # Whoever removes or merges somebody may have read the samples before these came,
                # so that they are written once more, for whoever has the name now.
                self.samples.take_away([made[place] for place in again])
                later = self.write(
                    [names[place] for place in again],
                    [rows[place] for place in again],
                    newcomers,
                    added=[added[place] for place in again],
                )
                for place, number in zip(again, later, strict=True):
                    made[place] = number
        except BaseException:
            self.forget(fresh, numbers or [])
            raise
        newcomers |= {person.name: person for person in fresh}
        return made

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

    def _changed(self, known: dict[str, Person]) -> set[str]:
        """Those of the known who were removed, renamed or merged since they were found."""
        if not known:
            return set()
        rows = self.subjects.rows([person.number for person in known.values()])
        there = {(one.number, one.name) for one in rows.values() if one.state == HERE}
        return {name for name, person in known.items() if (person.number, name) not in there}

    def welcome(self, newcomers: dict[str, Person], numbers: Sequence[int]) -> None:
        """The second half: from now on new subjects count.

        numbers: of the samples that were written, to be taken away where Milvus refuses.
        """
        if not newcomers:
            return
        people = list(newcomers.values())
        try:
            self.subjects.put([one._replace(state=HERE, changed=now()) for one in people])
        except BaseException:
            self.forget(people, numbers)
            raise
        # All are enrolled. It may have taken so long, though, that others came under the same name:
        # together they count as one subject, and where they cannot be merged, stay so.
        with suppress(DataError):
            for eldest, *others in self.subjects.find(newcomers).values():
                self.merge(others, eldest)

    def forget(self, newcomers: Sequence[Person], numbers: Sequence[int]) -> None:
        """Take away what was written, as far as Milvus lets us; the rest is found later."""
        with suppress(DataError):
            self.samples.take_away(numbers)
            self.subjects.take_away([person.number for person in newcomers])

    def remove(self, people: Sequence[Person]) -> int:
        """Remove subjects; how many samples they had."""
        self.subjects.put([one._replace(name="", state=GONE, changed=now()) for one in people])
        return self._take_out([person.number for person in people])

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
        if self._others(new, people, coming=True):
            raise taken
        self.subjects.put([one._replace(name=new, changed=now()) for one in people])
        # Somebody may take the name at this moment. Who is only to come sees us, and has to give
        # way: its samples may be ours by now, and would get the old name if we did.
        if self._others(new, people, coming=False):
            self.subjects.put([one._replace(changed=now()) for one in people])
            raise taken

    def _others(self, name: str, people: Sequence[Person], *, coming: bool) -> bool:
        numbers = {person.number for person in people}
        found = self.subjects.find([name], coming=coming).get(name, [])
        return any(one.number not in numbers and not _ended(one) for one in found)

    def merge(self, people: Sequence[Person], into: Person) -> None:
        """Give all samples of subjects to another one.

        Raises `DataError` where others remove or merge that one at the same moment.
        """
        for person in people:
            merged = person._replace(name="", state=into.number, changed=now())
            self.subjects.put([merged])
            if person.number not in self.subjects.owners([person.number]):
                self.subjects.put([person])
                raise DataError(
                    f"{self._address}: {into.name!r} is being removed or merged by others;"
                    f" {person.name!r} was not changed, try again"
                )
            self._finish([merged])

    def heal(self) -> None:
        """Finish what others began, and have not finished for so long that they never will."""
        moment = now()
        self._finish(
            self.subjects.unfinished(
                coming=moment - round(1e6 * LONGEST_ENROLLMENT),
                merged=moment - round(1e6 * LONGEST_MERGE),
            )
        )

    def _finish(self, people: Sequence[Person]) -> None:
        """Do to the samples what the rows of their subjects say."""
        owners = self.subjects.owners([one.number for one in people if one.state > 0])
        merged = [one.number for one in people if one.number in owners]
        for number in merged:
            family = list(self.subjects.families([number]))
            self.samples.move(family, owners[number].number)
            self.subjects.take_away(family)
        # Also those who were merged into somebody who was removed thereafter.
        self._take_out([one.number for one in people if one.number not in owners])

    def _take_out(self, subjects: Sequence[int]) -> int:
        """Remove all samples of subjects, and their rows; how many samples there were."""
        count = 0
        for start in range(0, len(subjects), _AT_ONCE):
            family = list(self.subjects.families(subjects[start : start + _AT_ONCE]))
            samples = self.samples.numbers_of(family)
            self.samples.take_away(samples)
            self.subjects.take_away(family)
            count += len(samples)
        return count


def _ended(person: Person) -> bool:
    """Whether whoever was to come will most likely not."""
    return person.state == COMING and now() - person.changed > 1e6 * LONGEST_BATCH
