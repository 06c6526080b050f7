"""Who is nearest, from what Milvus finds: exact scores of those found.

Milvus finds the samples nearest to a probe. Their subjects are candidates, and the cosines of these
are computed once more in float64, from all samples that the scoring asks for. So a score is never
higher than it would be if everybody was compared: what an approximate index overlooks can make
somebody known look unknown, but it lets in no stranger whom the exact search would keep out.

No subject scores more than its best sample. So if enough candidates reach more than the last sample
that Milvus gave, nobody else can be among the best; if not, more samples are asked for, up to as
many as Milvus gives at once. With a flat index the answer is the one of a gallery in a file, unless
so many samples do not suffice, which takes subjects of thousands of samples.
"""

import numpy as np

from arcset.recognition.gallery.index import Vectors
from arcset.recognition.gallery.milvus.connection import LONGEST_ANSWER
from arcset.recognition.gallery.milvus.samples import Hit, Samples
from arcset.recognition.gallery.milvus.subjects import Person, Subjects
from arcset.recognition.gallery.scoring import Scores, Scoring, exact_cosines, slack

__all__ = ["Found", "nearest_people"]

Found = tuple[list[str], list[float]]  # names and scores, falling

_PROBES = 1_024  # in one question


def nearest_people(
    samples: Samples,
    subjects: Subjects,
    probes: Vectors,
    wanted: int,
    scoring: Scoring,
    sizes: tuple[int, int],
) -> list[Found]:
    """The subjects of highest score for each probe, `wanted` of them, or as many as were found.

    probes: (n, D) unit rows. sizes: how many subjects and samples there are.
    """
    people, count = sizes
    wanted = min(wanted, people)
    answers: list[Found] = [([], []) for _ in probes]
    if not wanted:
        return answers
    most = min(LONGEST_ANSWER, samples.longest_answer, count)
    limit = min(most, max(32, 4 * wanted * -(-count // people)))
    due = list(range(len(probes)))
    while due:
        last = limit >= most
        again: list[int] = []
        step = max(1, min(_PROBES, samples.longest_answer // limit))
        for start in range(0, len(due), step):
            part = due[start : start + step]
            hits = samples.nearest(probes[part], limit)
            group = _Candidates(samples, subjects, hits, scoring)
            for place, hit in zip(part, hits, strict=True):
                answers[place], sure = group.best(hit, probes[place], wanted)
                if not (sure or last or len(hit.cosines) < limit):
                    again.append(place)
        due, limit = again, min(most, 8 * limit)
    return answers


class _Candidates:
    """The subjects of samples that are nearest to some probes."""

    def __init__(
        self, samples: Samples, subjects: Subjects, hits: list[Hit], scoring: Scoring
    ) -> None:
        self._scoring = scoring
        numbers = {number for hit in hits for number in hit.subjects}
        self._owners = subjects.owners(numbers)
        # Two rows may have the same name for a moment, and are one subject then.
        eldest: dict[str, Person] = {}
        for person in sorted(self._owners.values()):
            eldest.setdefault(person.name, person)
        self._person = {number: eldest[one.name] for number, one in self._owners.items()}
        self._names = {person.number: person.name for person in eldest.values()}
        self._rows: dict[int, Vectors] = {}
        if scoring.best != 1:
            self._read_all(samples, subjects)

    def _read_all(self, samples: Samples, subjects: Subjects) -> None:
        """All samples of all candidates."""
        people = {one.number: self._person[number].number for number, one in self._owners.items()}
        families = subjects.families(people)
        owners, vectors = samples.embeddings(sorted(families))
        whose = np.array([people[families[number]] for number in owners], np.int64)
        self._rows = {number: vectors[whose == number] for number in set(whose.tolist())}

    def best(self, hit: Hit, probe: Vectors, wanted: int) -> tuple[Found, bool]:
        """The best of a probe's candidates, and whether nobody else can be among them."""
        among = [number in self._person for number in hit.subjects]
        owners = [self._person[one].number for one in hit.subjects if one in self._person]
        if self._scoring.best != 1:  # others may have removed some since they were found
            owners = [number for number in owners if number in self._rows]
        if not owners:
            return ([], []), False
        whose, cosines = self._cosines(hit.vectors[among], owners, probe)
        found, scores = self._scoring.score(cosines, whose)
        order = np.lexsort((found, -scores))[:wanted]
        limit = hit.cosines[-1] + slack(len(probe))
        sure = len(order) == wanted and bool(scores[order[-1]] > limit)
        names = [self._names[number] for number in found[order].tolist()]
        return (names, scores[order].tolist()), sure

    def _cosines(
        self, vectors: Vectors, owners: list[int], probe: Vectors
    ) -> tuple[np.ndarray, Scores]:
        if self._scoring.best == 1:
            return np.array(owners, np.int64), exact_cosines(vectors, probe)
        known = list(dict.fromkeys(owners))
        whose = np.repeat(np.array(known, np.int64), [len(self._rows[one]) for one in known])
        return whose, exact_cosines(np.concatenate([self._rows[one] for one in known]), probe)
