"""Everything there is to say about one embedding set, in one go.

What thresholds from validation identities do on others: the rate promised, and the rate seen. And
which of several models is ahead, measure by measure, with one assessment per seed:

    compare_assessments({"softmax": [assessment, …], "arcface": [assessment, …]})
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import fmean
from textwrap import indent
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    as_array,
    class_numbers,
    embedding_matrix,
    normalize_rows,
    read_labelled,
)
from arcset.evaluation.bootstrap import DRAWS, SEED, Difference, groups_of, paired
from arcset.evaluation.calibration import (
    Reliability,
    Thresholds,
    make_thresholds,
)
from arcset.evaluation.calibration.templates import SCORINGS
from arcset.evaluation.few_shot import FewShot, few_shot
from arcset.evaluation.geometry import Angles, angle_samples, angles
from arcset.evaluation.groups import ByGroup
from arcset.evaluation.identification import Identification, identification, trial
from arcset.evaluation.measures import PARTS, measure_of, measures_of, short_name, weighty
from arcset.evaluation.realized import (
    HEADING,
    Realized,
    cross_fit,
    measure_far,
    measure_fpir,
    measure_reliability,
)
from arcset.evaluation.results import Missing, Result
from arcset.evaluation.retrieval import Retrieval, retrieval
from arcset.evaluation.verification import Verification, verification
from arcset.files import finite
from arcset.text import columns, html_table

FEW = 20  # identities below which an interval over them is itself a guess
FEW_FOR_THRESHOLDS = 50  # validation identities below which those evaluated help


@dataclass(frozen=True, eq=False, kw_only=True)
class Assessment:
    """What `assess` found. A part that the data cannot answer is None, and `missing` says why.

    samples, identities, dim: size of the set.
    shape: the Dunn index, trimmed and not, the silhouette, and whatever else `evaluation.measures`
        has a function for, of unit embeddings; NaN where it is not defined.
    own_angles, other_angles: of each sample to its class's mean and to the nearest other (N,).
    thresholds: made from the validation identities, and from those evaluated where there are fewer
        than 50; None without validation.
    realized: what those thresholds do on this set, of which they know nothing.
    reliability: how well their probabilities keep what they say on this set, likewise.
    by_group: rates of each group, where they were asked for.
    cross_fitted: whether realized and reliability are from four fifths of the identities, tried on
        the last.
    """

    samples: int
    identities: int
    dim: int
    verification: Verification | None = None
    identification: Identification | None = None
    retrieval: Retrieval | None = None
    few_shot: FewShot | None = None
    angles: Angles | None = None
    shape: Mapping[str, float] = field(default_factory=dict)
    own_angles: npt.NDArray[np.float64] | None = field(default=None, repr=False)
    other_angles: npt.NDArray[np.float64] | None = field(default=None, repr=False)
    thresholds: Thresholds | None = None
    realized: tuple[Realized, ...] = ()
    reliability: Reliability | None = None
    by_group: ByGroup | None = None
    cross_fitted: bool = False
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def dunn(self) -> float:
        return self.shape.get("dunn", math.nan)

    @property
    def dunn_trimmed(self) -> float:
        return self.shape.get("dunn_trimmed", math.nan)

    @property
    def silhouette(self) -> float:
        return self.shape.get("silhouette", math.nan)

    def results(self) -> dict[str, Result]:
        """The parts that there are, by name, in the order in which they are shown."""
        parts: dict[str, Result | None] = {
            "verification": self.verification,
            "identification": self.identification,
            "retrieval": self.retrieval,
            "few_shot": self.few_shot,
            "angles": self.angles,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def table(self) -> str:
        head = f"{self.samples:,} samples of {self.identities:,} identities, {self.dim}-D"
        if self.identities < FEW:
            head += f"\nfewer than {FEW} identities: intervals are rough"
        blocks = {PARTS[name]: part.table() for name, part in self.results().items()}
        shape = [
            [short_name(name), f"{value:.4f}"]
            for name, value in self.shape.items()
            if not math.isnan(value)
        ]
        if shape:
            blocks[PARTS["shape"]] = columns(["measure", "value"], shape)
        where = (
            "each fifth of the identities left out in turn" if self.cross_fitted else "used here"
        )
        if self.realized:
            rows = [item.cells() for item in self.realized]
            blocks[f"Thresholds from validation, {where}"] = columns(HEADING, rows)
        if self.reliability is not None:
            blocks[f"{PARTS['reliability']}, {where}"] = self.reliability.table()
        if self.by_group is not None:
            blocks[f"By {self.by_group.column}"] = self.by_group.table()
        if self.missing:
            reasons = [f"{name.replace('_', ' ')}: {why}" for name, why in self.missing.items()]
            blocks["Not measured"] = "\n".join(reasons)
        texts = [f"{name}\n{indent(text, '  ')}" for name, text in blocks.items()]
        return "\n\n".join([head, *texts])

    def _repr_html_(self) -> str:
        """The main figures with their 95 % intervals, for notebooks."""
        rows = []
        for result in self.results().values():
            for name, value in result.measures().items():
                measure = measure_of(name)
                if measure.weight in ("headline", "main") and not math.isnan(value):
                    between = ""
                    if result.replicates is not None:
                        low, high = result.interval(name)
                        between = f"{measure.format_bare(low)} to {measure.format(high)}"
                    rows.append([short_name(name), measure.format(value), between])
        caption = f"{self.samples:,} samples of {self.identities:,} identities"
        return html_table(rows, ["measure", "value", "95 % interval"], caption)

    def json(self) -> dict[str, Any]:
        """As one object; what is not defined is None."""
        return {
            "samples": self.samples,
            "identities": self.identities,
            "dim": self.dim,
            **{name: part.json() for name, part in self.results().items()},
            "shape": finite(dict(self.shape)),
            "thresholds": None if self.thresholds is None else self.thresholds.summary(),
            "cross_fitted": self.cross_fitted,
            "realized": [item.json() for item in self.realized],
            "reliability": None if self.reliability is None else self.reliability.json(),
            "by_group": None if self.by_group is None else self.by_group.json(),
            "missing": dict(self.missing),
        }


def assess(
    embeddings: Array,
    labels: Array,
    *,
    centers: Array | None = None,
    center_labels: Array | None = None,
    validation: tuple[Array, Array] | None = None,
    groups: Array | None = None,
    validation_groups: Array | None = None,
    made_from: dict[str, Any] | None = None,
    intervals: bool = True,
    draws: int = DRAWS,
    seed: int = SEED,
    enrolled: float = 0.5,
    shots: int = 1,
    ways: int = 20,
) -> Assessment:
    """Measure an embedding set in every way that it allows.

    Parameters:
        embeddings, labels: (N, D) and (N,) integers.
        centers, center_labels: (C, D) and (C,), the classifier's, for the table of angles.
        validation: embeddings and labels of *other* identities, to make thresholds from.
        groups: (N,), of which whole ones are drawn for intervals, see `bootstrap`.
        validation_groups: those of the validation embeddings, as `make_thresholds` takes them.
        made_from: what to write into these thresholds about their origin.
        intervals, draws, seed: 95 % intervals over draws of identities.
        enrolled: share of the identities that the identification trial enrolls.
        shots, ways: of few-shot episodes; fewer ways where there are fewer identities.

    Raises `InputError` for arrays that cannot be measured at all, for an identity in two groups,
    and where validation and evaluation share identities.
    """
    matrix, distinct, numbers = read_labelled(embeddings, labels)
    missing = Missing()
    owners = groups_of(numbers, groups)
    each = None if owners is None else owners[numbers]
    drawing: dict[str, Any] = {"intervals": intervals, "draws": draws, "seed": seed}
    options = {**drawing, "groups": each}

    def search() -> Identification:
        chosen = trial(numbers, enrolled=enrolled, seed=seed)
        gallery, probes = chosen.gallery, chosen.probes
        return identification(
            matrix[gallery],
            numbers[gallery],
            matrix[probes],
            numbers[probes],
            probe_groups=None if each is None else each[probes],
            **drawing,
        )

    def play_episodes() -> FewShot:
        eligible = int((np.bincount(numbers) > shots).sum())
        most = max(2, min(ways, eligible))
        return few_shot(matrix, numbers, ways=most, shots=shots, **options)

    def measure_angles() -> Angles:
        return angles(matrix, distinct[numbers], centers, center_labels=center_labels, **options)

    spread = missing.attempt("angle_samples", lambda: angle_samples(matrix, numbers))
    own_angles, other_angles = (None, None) if spread is None else spread
    made = None
    if validation is not None:
        known = matrix, distinct[numbers]
        both = None
        if groups is not None and validation_groups is not None:
            groups_of(read_labelled(*validation)[2], validation_groups)  # refuse what is no group
            both = as_array(validation_groups, "groups"), as_array(groups, "groups")
        made = missing.attempt(
            "thresholds", lambda: _make(validation, known, made_from or {}, both)
        )
    searched = missing.attempt("identification", search)
    assessment = Assessment(
        samples=len(matrix),
        identities=len(distinct),
        dim=matrix.shape[1],
        verification=missing.attempt(
            "verification", lambda: verification(matrix, numbers, **options)
        ),
        identification=searched,
        retrieval=missing.attempt("retrieval", lambda: retrieval(matrix, numbers, **options)),
        few_shot=missing.attempt("few_shot", play_episodes),
        angles=missing.attempt("angles", measure_angles),
        shape=measure_shape(matrix, numbers, missing),
        own_angles=own_angles,
        other_angles=other_angles,
        missing=missing,
    )
    if made is None:
        return assessment
    thresholds, pooled = made

    def try_thresholds() -> tuple[list[Realized], Reliability]:
        if pooled is not None:
            return cross_fit(thresholds, *pooled)
        realized = measure_far(thresholds, matrix, numbers)
        if searched is not None:
            realized += measure_fpir(thresholds, searched)
        return realized, measure_reliability(thresholds, matrix, numbers)

    realized, kept = missing.attempt("reliability", try_thresholds) or ([], None)
    return replace(
        assessment,
        thresholds=thresholds,
        realized=tuple(realized),
        reliability=kept,
        cross_fitted=pooled is not None,
    )


def measure_shape(
    embeddings: Array, labels: Array, missing: Missing, *, keyed: bool = False
) -> dict[str, float]:
    """By name, the measures that are mere functions of unit embeddings and labels.

    NaN where the data do not allow one; `missing` is told why. keyed: only those that are among a
    run's figures.
    """
    functions = {
        one.name: one.function
        for one in measures_of("shape")
        if one.function is not None and (one.key or not keyed)
    }
    if not functions:
        return {}
    units = np.array(embedding_matrix(embeddings), dtype=np.float64)
    normalize_rows(units)
    numbers = class_numbers(labels, len(units))[1]
    values = {
        name: missing.attempt(name, partial(function, units, numbers))
        for name, function in functions.items()
    }
    return {name: math.nan if value is None else value for name, value in values.items()}


def differences(first: Assessment, second: Assessment) -> list[Difference]:
    """How much better the first is, measure by measure, on the same draws of identities.

    Measures that one of them lacks are left out. Raises `InputError` as `paired` does.
    """
    ours, theirs = first.results(), second.results()
    gains = []
    for part in [name for name in ours if name in theirs]:
        values = theirs[part].measures()
        wanted = {measure.name for measure in measures_of(part) if measure.weight != "detail"}
        for name, value in ours[part].measures().items():
            both = not math.isnan(value + values.get(name, math.nan))
            if name.partition("[")[0] in wanted and both:
                gains.append(paired(ours[part], theirs[part], name))
    return gains


def _make(
    validation: tuple[Array, Array],
    known: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    made_from: dict[str, Any],
    groups: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None,
) -> tuple[Thresholds, tuple[npt.NDArray[Any], ...] | None]:
    """Thresholds from validation identities; where these are few, from those evaluated as well.

    Then also the embeddings, labels and groups that they were made from. groups: of both.
    """
    matrix, distinct, numbers = read_labelled(*validation)
    shared = np.intersect1d(distinct, known[1])
    if len(shared):
        raise InputError(
            f"{len(shared)} identities are in validation and evaluation alike, the first "
            f"{shared[0]}; thresholds chosen on what is reported on promise too much"
        )
    if len(distinct) >= FEW_FOR_THRESHOLDS:
        own = None if groups is None else groups[0]
        made = make_thresholds(*validation, groups=own, scorings=SCORINGS, made_from=made_from)
        return made, None
    rows = np.concatenate((matrix, known[0]))
    labels = np.concatenate((distinct[numbers], known[1]))
    pooled = rows, np.unique(labels, return_inverse=True)[1]
    together = None if groups is None else np.concatenate(groups)
    described = {**made_from, "part": "held-out"}
    options: dict[str, Any] = {"groups": together, "scorings": SCORINGS, "made_from": described}
    made = make_thresholds(*pooled, **options)
    return made, pooled if together is None else (*pooled, together)


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
