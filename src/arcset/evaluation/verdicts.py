"""Which of several models is ahead, measure by measure, and how sure that is.

compare_assessments({"softmax": [assessment, …], "arcface": [assessment, …]})     one per seed
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from arcset.evaluation.assessment import Assessment
from arcset.evaluation.bootstrap import Difference, paired
from arcset.evaluation.measures import measure_of, short_name, weighty
from arcset.evaluation.results import Result

__all__ = ["Verdict", "compare_assessments"]


@dataclass(frozen=True)
class Verdict:
    """One measure: which variant is ahead, and how sure that is.

    part, name: of the measure, as results have it. results: by variant, one per seed.
    """

    part: str
    name: str
    results: dict[str, list[Result]] = field(repr=False)

    @property
    def title(self) -> str:
        """The measure as people call it."""
        return short_name(self.name)

    @cached_property
    def values(self) -> dict[str, list[float]]:
        """By variant, the measure of each seed."""
        return {
            label: [result.measures()[self.name] for result in results]
            for label, results in self.results.items()
        }

    @property
    def means(self) -> dict[str, float]:
        """By variant, the mean over its seeds."""
        return {label: fmean(values) for label, values in self.values.items()}

    @property
    def best(self) -> str:
        """The variant with the best mean."""
        sign = -1 if measure_of(self.name).lower_is_better else 1
        return max(self.means, key=lambda label: sign * self.means[label])

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """By other variant, how much better the best one is."""
        return {other: self.between(self.best, other) for other in self.means if other != self.best}

    def between(self, first: str, second: str) -> Difference:
        """How much better one variant is than another, over draws of identities and seeds.

        The interval is wide enough for all pairs of variants, as the reader picks one of them. With
        several seeds it covers the luck of training, too: variants are taken to depend on the seed
        equally much, so that all of them tell how much. Two seeds of one say next to nothing.
        """
        values = np.array(list(self.values.values()))  # (V, S)
        count, seeds = values.shape
        luck = None
        if seeds > 1:
            error = (2 * values.var(axis=1, ddof=1).mean() / seeds) ** 0.5  # of a mean difference
            luck = float(error), count * (seeds - 1)
        pairs = count * (count - 1) // 2
        results = self.results[first], self.results[second]
        return paired(*results, self.name, comparisons=pairs, luck=luck)

    def sentence(self) -> str:
        """In words: than which others the best is shown to be better, and by how much."""
        better = [
            f"{label} ({difference.sentence().removeprefix('better ')})"
            for label, difference in self.differences.items()
            if difference.shown
        ]
        unclear = {
            k: difference for k, difference in self.differences.items() if not difference.shown
        }
        text = f"{self.best} has the best mean, {self.means[self.best]:.3f}"
        text += f", and is better than {', '.join(better)}" if better else ""
        if unclear:
            others = next(iter(unclear)) if len(unclear) == 1 else "the others"
            text += f"{'; ' if better else ', but '}no difference to {others} is shown"
            reasons = sorted({difference.why for difference in unclear.values() if difference.why})
            text += f" ({'; '.join(reasons)})" if reasons else ""
        return f"{text}."

    def json(self) -> dict[str, Any]:
        """As one object."""
        return {
            "measure": f"{self.part}.{self.name}",
            "means": self.means,
            "best": self.best,
            "differences": {label: found.json() for label, found in self.differences.items()},
            "sentence": self.sentence(),
        }


def compare_assessments(assessments: Mapping[str, Sequence[Assessment]]) -> list[Verdict]:
    """One verdict for each important measure that all runs of two or more variants have."""
    verdicts = []
    for entry in weighty("headline", "main") if len(assessments) > 1 else []:
        part, name = entry.part, entry.full_name
        every = [run.results().get(part) for runs in assessments.values() for run in runs]
        if all(r is not None and not math.isnan(r.measures().get(name, math.nan)) for r in every):
            results = {
                label: [run.results()[part] for run in runs] for label, runs in assessments.items()
            }
            verdicts.append(Verdict(part, name, results))
    return verdicts
