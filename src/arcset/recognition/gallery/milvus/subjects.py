"""The subjects of a gallery in Milvus: a row for each, and what is being done to it.

Milvus changes one row at a time, and a subject with its samples is many. So its row decides: by the
row's state, all samples of the subject count, or none does, or they count for another subject. What
remains to be done to the samples is done afterwards, and if a process is killed meanwhile, by
whoever opens the gallery next.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from arcset.errors import DataError
from arcset.recognition.gallery.milvus.collections import NOTHING, Collections
from arcset.recognition.gallery.milvus.connection import Connection, Record

__all__ = ["COMING", "GONE", "HERE", "Person", "Subjects", "listed"]

HERE = 0  # the subject is enrolled
GONE = -1  # it was removed, and its samples are to go
COMING = -2  # its samples are being written; a higher state is the number that it is merged into

_FIELDS = ("id", "name", "state", "added", "changed")
_AT_ONCE = 1_000  # numbers in one question
_DEEPEST = 50  # mergers that follow each other before anybody finished the first


class Person(NamedTuple):
    """The row of a subject: its number, name, state, and when it was added and last changed."""

    number: int
    name: str
    state: int
    added: int
    changed: int


class Subjects:
    """The rows of all subjects."""

    def __init__(self, connection: Connection, collections: Collections) -> None:
        self._connection, self._name = connection, collections.subjects

    def count(self) -> int:
        """How many are enrolled."""
        return self._connection.count(self._name, f"state == {HERE}")

    def find(self, names: Iterable[str], *, coming: bool = False) -> dict[str, list[Person]]:
        """Those enrolled under these names, rising by number; if wanted, also those to come.

        There is one, unless whoever was enrolling took so long that others thought it had ended.
        """
        wanted = dict.fromkeys(names)
        found: dict[str, list[Person]] = {}
        states = (HERE, COMING) if coming else (HERE,)
        for part in _parts([_key(name) for name in wanted]):
            condition = f"key in {listed(part)} and state in {listed(states)}"
            for person in self._ask(condition):
                if person.name in wanted:  # and not only of the same key
                    found.setdefault(person.name, []).append(person)
        return {name: sorted(found[name]) for name in wanted if name in found}

    def rows(self, numbers: Iterable[int]) -> dict[int, Person]:
        """The rows of these numbers, as far as they are there."""
        parts = _parts(sorted(set(numbers)))
        found = [one for part in parts for one in self._ask(f"id in {listed(part)}")]
        return {person.number: person for person in found}

    def owners(self, numbers: Iterable[int]) -> dict[int, Person]:
        """Whose samples those of these numbers are: the subject, or that it was merged into.

        Numbers of nobody who is enrolled are left out.
        """
        rows: dict[int, Person] = {}
        due = set(numbers)
        for _ in range(_DEEPEST):
            rows |= self.rows(due)
            due = {one.state for one in rows.values() if one.state > 0} - rows.keys() - due
            if not due:
                break
        return _resolved(rows)

    def all_owners(self) -> dict[int, Person]:
        """As `owners`, of all numbers that there are."""
        parts = self._connection.parts(self._name, "id > 0", _FIELDS)
        return _resolved({person.number: person for part in parts for person in self._people(part)})

    def families(self, numbers: Iterable[int]) -> dict[int, int]:
        """The numbers whose samples are those of these subjects, and of which of them each is."""
        found = {number: number for number in numbers}
        due = sorted(found)
        while due:
            more: dict[int, int] = {}
            for part in _parts(due):
                merged = self._ask(f"state in {listed(part)}")
                more |= {one.number: found[one.state] for one in merged if one.number not in found}
            found |= more
            due = sorted(more)
        return found

    def unfinished(self, *, coming: int | None = None, merged: int | None = None) -> list[Person]:
        """Those that something remains to be done to.

        coming, merged: of those to come, and those merged, only what is as old as that moment.
        """
        parts = [f"state == {GONE}"]
        for condition, moment in ((f"state == {COMING}", coming), ("state > 0", merged)):
            old = "" if moment is None else f" and changed <= {moment}"
            parts.append(f"({condition}{old})")
        return self._ask(" or ".join(parts))

    def add(self, people: Sequence[Person]) -> None:
        """Write new rows."""
        self._connection.insert(self._name, [_row(person) for person in people])

    def put(self, people: Sequence[Person]) -> None:
        """Write rows in the place of those of the same numbers."""
        self._connection.upsert(self._name, [_row(person) for person in people])

    def take_away(self, numbers: Sequence[int]) -> None:
        """Take away rows."""
        self._connection.delete(self._name, list(numbers))

    def _ask(self, condition: str) -> list[Person]:
        return self._people(self._connection.query(self._name, condition, _FIELDS))

    def _people(self, rows: Sequence[Record]) -> list[Person]:
        try:
            return [_person(row) for row in rows]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{self._connection.address} is damaged: the row of a subject is none ({error})"
            ) from None


def _resolved(rows: Mapping[int, Person]) -> dict[int, Person]:
    """By number, the subject itself, or the one that it was merged into; those enrolled only."""
    found = {}
    for number, person in rows.items():
        seen = {number}
        while person.state > 0 and person.state in rows and person.state not in seen:
            seen.add(person.state)
            person = rows[person.state]
        if person.state == HERE:
            found[number] = person
    return found


def listed(numbers: Iterable[int]) -> str:
    """Numbers as a list in a condition."""
    return f"[{', '.join(map(str, numbers))}]"


def _parts(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _AT_ONCE):
        yield numbers[start : start + _AT_ONCE]


def _key(name: str) -> int:
    """A number for a name, to look for: names may hold whatever a condition gives a meaning to."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def _person(row: Record) -> Person:
    return Person(
        int(row["id"]), str(row["name"]), int(row["state"]), int(row["added"]), int(row["changed"])
    )


def _row(person: Person) -> Record:
    return {
        "id": person.number,
        "key": _key(person.name) if person.name else 0,
        "name": person.name,
        "state": person.state,
        "added": person.added,
        "changed": person.changed,
        "nothing": NOTHING,
    }
