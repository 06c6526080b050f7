"""Which differences between losses are real, on classes that none of them has seen."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arcset.evaluation import Assessment, Difference, Result, paired
from arcset.evaluation.measures import short_name, weighty

__all__ = ["Verdict", "untold", "verdicts"]


@dataclass(frozen=True)
class Verdict:
    """One measure: who is ahead, and how sure that is.

    means: by loss, the mean over its seeds. best: the loss that is ahead.
    differences: by other loss, how much better the best is, over draws of identities and seeds;
        with intervals wide enough for all pairs of losses, as the best was picked from them.
    """

    measure: str
    title: str
    means: dict[str, float]
    best: str
    differences: dict[str, Difference]

    def sentence(self) -> str:
        """In words: of whom it is shown, by how much, and of whom not."""
        shown = [
            f"{label} ({difference.sentence().removeprefix('better ')})"
            for label, difference in self.differences.items()
            if difference.shown
        ]
        others = {label: found for label, found in self.differences.items() if not found.shown}
        open_ = f"no difference to {', '.join(others)} is shown{untold(others.values())}."
        mean = f"{self.best} has the best mean, {self.means[self.best]:.3f}"
        if not shown:
            return f"{mean}, but {open_}"
        text = f"{mean}, and is better than {', '.join(shown)}"
        return text + (f"; {open_}" if others else ".")

    def between(
        self, unseen: Mapping[str, Sequence[Assessment]], first: str, second: str
    ) -> Difference:
        """How much better one loss is than another in this measure."""
        if first == self.best:
            return self.differences[second]
        part, _, measure = self.measure.partition(".")
        results = {
            label: [assessment.results()[part] for assessment in assessments]
            for label, assessments in unseen.items()
        }
        pairs = len(unseen) * (len(unseen) - 1) // 2
        luck = _luck(list(results.values()), measure)
        return paired(results[first], results[second], measure, comparisons=pairs, luck=luck)

    def json(self) -> dict[str, Any]:
        """As one object."""
        differences = {label: found.json() for label, found in self.differences.items()}
        return {
            "measure": self.measure,
            "means": self.means,
            "best": self.best,
            "differences": differences,
            "sentence": self.sentence(),
        }


def verdicts(unseen: Mapping[str, Sequence[Assessment]]) -> list[Verdict]:
    """One verdict for each measure that all runs of two or more losses have."""
    found = []
    for entry in weighty("headline", "main"):
        part, measure = entry.part, entry.full_name
        results: dict[str, list[Result]] = {}
        for label, assessments in unseen.items():
            parts = [assessment.results().get(part) for assessment in assessments]
            results[label] = [result for result in parts if result is not None]
        complete = all(
            len(results[label]) == len(unseen[label])
            and all(not math.isnan(r.measures().get(measure, math.nan)) for r in results[label])
            for label in unseen
        )
        if len(unseen) < 2 or not complete:
            continue
        means = {
            label: float(np.mean([result.measures()[measure] for result in ours]))
            for label, ours in results.items()
        }
        sign = -1 if entry.lower_is_better else 1
        best = max(means, key=lambda label: sign * means[label])
        pairs = len(results) * (len(results) - 1) // 2  # the best was picked from so many
        luck = _luck(list(results.values()), measure)
        differences = {
            label: paired(results[best], ours, measure, comparisons=pairs, luck=luck)
            for label, ours in results.items()
            if label != best
        }
        found.append(Verdict(f"{part}.{measure}", short_name(measure), means, best, differences))
    return found


def untold(differences: Iterable[Difference]) -> str:
    """Why some differences could not be told, in brackets, to stand behind what says so."""
    reasons = sorted({found.why for found in differences if found.why})
    return f" ({'; '.join(reasons)})" if reasons else ""


def _luck(results: Sequence[Sequence[Result]], measure: str) -> tuple[float, int] | None:
    """The standard error of a difference of means over seeds, and its degrees of freedom.

    Losses are taken to depend on the seed equally much, so that all of them tell how much: two
    seeds of one loss say next to nothing. None with one seed.
    """
    values = np.array([[result.measures()[measure] for result in ours] for ours in results])
    losses, seeds = values.shape
    if seeds < 2:
        return None
    variance = values.var(axis=1, ddof=1).mean()
    return float((2 * variance / seeds) ** 0.5), losses * (seeds - 1)
