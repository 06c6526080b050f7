"""Everything there is to say about one embedding set, in one go.

What thresholds from validation identities do on others: the rate promised, and the rate seen.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from arcset.errors import ArcsetError, InputError
from arcset.evaluation.arrays import (
    Array,
    class_numbers,
    embedding_matrix,
    normalize_rows,
    refuse_zero_rows,
)
from arcset.evaluation.bootstrap import DRAWS, SEED, Difference, paired
from arcset.evaluation.calibration import (
    Reliability,
    Thresholds,
    make_thresholds,
    pair_cosines,
    reliability,
)
from arcset.evaluation.few_shot import FewShot, few_shot
from arcset.evaluation.geometry import Angles, angle_samples, angles
from arcset.evaluation.identification import Identification, identification, trial
from arcset.evaluation.measures import measures_of, short_name
from arcset.evaluation.pairs import SortedRows, count_all_pairs
from arcset.evaluation.rates import Roc
from arcset.evaluation.results import Interval, Result
from arcset.evaluation.retrieval import Retrieval, retrieval
from arcset.evaluation.verification import Verification, verification
from arcset.files import finite

__all__ = [
    "Assessment",
    "Realized",
    "assess",
    "differences",
    "measure_shape",
    "pair_rates",
    "realized_far",
    "realized_fpir",
    "realized_reliability",
]

FEW = 20  # identities below which an interval over them is itself a guess
_Found = TypeVar("_Found")
_MOST_WAYS = 20
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Realized:
    """One threshold, used on identities of which it knows nothing.

    kind: FAR (pairs) or FPIR (search in a gallery). wanted: the rate it was made for.
    expected: the 95 % prediction interval of the rate on a set like this one.
    seen: the rate. accepted: the share of genuine pairs (TAR) or of enrolled probes (DIR) accepted.
    gallery: subjects in the gallery; None for FAR.
    extrapolated: whether the gallery is larger than the validation identities can fill.
    """

    kind: str
    wanted: float
    threshold: float
    expected: Interval
    seen: float
    accepted: float
    gallery: int | None = None
    extrapolated: bool = False

    @property
    def kept(self) -> bool:
        """Whether the rate seen lies in the interval."""
        return self.expected.low <= self.seen <= self.expected.high

    @staticmethod
    def heading() -> str:
        """What stands over `line`."""
        return f"{'wanted':<14}{'threshold':>9}  {'seen':>9}  {'expected':<24}{'accepted':>9}"

    def line(self) -> str:
        """In one line of text."""
        expected = f"[{self.expected.low:.2g}, {self.expected.high:.2g}]"
        mark = "" if self.kept else "  outside"
        mark += "  extrapolated" if self.extrapolated else ""
        return (
            f"{f'{self.kind} {self.wanted:g}':<14}{self.threshold:>9.4f}  {self.seen:>9.2g}  "
            f"{expected:<24}{self.accepted:>9.4f}{mark}"
        )

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        content = {**self.__dict__, "expected": list(self.expected), "kept": self.kept}
        return dict(finite(content))


def realized_far(
    thresholds: Thresholds, embeddings: npt.NDArray[Any], labels: npt.NDArray[np.intp]
) -> list[Realized]:
    """Every FAR that `thresholds` know, on all pairs of other identities."""
    made = thresholds.fars
    far, tar = pair_rates(embeddings, labels, np.array([item.threshold for item in made]))
    sizes = np.bincount(labels)
    each = max(1, round(len(labels) / len(sizes)))
    return [
        Realized(
            "FAR",
            item.far,
            item.threshold,
            item.expect(len(sizes), samples_per_identity=each),
            float(far[place]),
            float(tar[place]),
        )
        for place, item in enumerate(made)
    ]


def realized_fpir(thresholds: Thresholds, found: Identification) -> list[Realized]:
    """Every FPIR that `thresholds` know and can tell for the gallery of `found`."""
    results = []
    if not found.unmated or not found.mated:
        return []
    each = max(1, round(found.unmated / found.unmated_identities))
    for rate in dict.fromkeys(item.fpir for item in thresholds.fpirs):
        try:
            item = thresholds.for_fpir(rate, gallery=found.subjects)
        except ArcsetError:  # the validation identities do not support it at this size
            continue
        fpir, hits = found.rates_at(item.threshold)
        expected = item.expect(found.unmated_identities, probes_per_identity=each)
        results.append(
            Realized(
                "FPIR",
                rate,
                item.threshold,
                expected,
                fpir,
                hits,
                gallery=found.subjects,
                extrapolated=item.extrapolated,
            )
        )
    return results


def realized_reliability(
    thresholds: Thresholds, embeddings: npt.NDArray[Any], labels: npt.NDArray[np.intp]
) -> Reliability:
    """Whether the probabilities keep what they say, on pairs of other identities.

    Genuine and impostor pairs are weighted to the prior that the probabilities are for.
    """
    cosines, same, weights = pair_cosines(embeddings, labels)
    prior = thresholds.calibration.prior
    for kind, share in ((same, prior), (~same, 1 - prior)):
        weights[kind] *= share * len(weights) / weights[kind].sum()
    return reliability(thresholds.probability(cosines), same, weights=weights)


def pair_rates(
    embeddings: npt.NDArray[Any], labels: npt.NDArray[np.intp], thresholds: Floats
) -> tuple[Floats, Floats]:
    """FAR and TAR over all pairs at each threshold (T,); accept when cosine ≥ threshold.

    >>> rows = np.array([[1.0, 0], [1, 0.1], [0, 1]])
    >>> far, tar = pair_rates(rows, np.array([0, 0, 1]), np.array([0.5, 0.05]))
    >>> far.tolist(), tar.tolist()
    ([0.0, 0.5], [1.0, 1.0])
    """
    counts = count_all_pairs(SortedRows.build(embeddings, labels))
    roc = Roc.of(counts)
    accepted = len(counts.scores) - np.searchsorted(counts.scores, thresholds)
    return roc.far[accepted], roc.tar[accepted]


@dataclass(frozen=True, eq=False, kw_only=True)
class Assessment:
    """What `assess` found. A part that the data cannot answer is None, and `missing` says why.

    samples, identities, dim: size of the set.
    shape: the Dunn index, trimmed and not, the silhouette, and whatever else `evaluation.measures`
        has a function for, of unit embeddings; NaN where it is not defined.
    own_angles, other_angles: of each sample to its class's mean and to the nearest other (N,).
    thresholds: made from the validation identities; None without these.
    realized: what those thresholds do on this set, of which they know nothing.
    reliability: how well their probabilities keep what they say on this set.
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
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def dunn(self) -> float:
        """Dunn index of unit embeddings."""
        return self.shape.get("dunn", math.nan)

    @property
    def dunn_trimmed(self) -> float:
        """The same without each class's most distant samples."""
        return self.shape.get("dunn_trimmed", math.nan)

    @property
    def silhouette(self) -> float:
        """Silhouette of unit embeddings, by cosines."""
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
        """All parts as plain text."""
        blocks = [f"{self.samples:,} samples of {self.identities:,} identities, {self.dim}-D"]
        if self.identities < FEW:
            blocks[0] += f"\nfewer than {FEW} identities: intervals are rough"
        for name, part in self.results().items():
            blocks.append(f"{name.replace('_', ' ')}\n{_indented(part.table())}")
        lines = [
            f"{short_name(name):<20}{value:>13.4f}"
            for name, value in self.shape.items()
            if not math.isnan(value)
        ]
        if lines:
            blocks.append("shape of the classes\n" + _indented("\n".join(lines)))
        if self.realized:
            lines = [Realized.heading(), *(item.line() for item in self.realized)]
            blocks.append("thresholds from validation, used here\n" + _indented("\n".join(lines)))
        if self.reliability is not None:
            blocks.append("probabilities, used here\n" + _indented(self.reliability.table()))
        if self.missing:
            lines = [f"{name.replace('_', ' ')}: {why}" for name, why in self.missing.items()]
            blocks.append("not measured\n" + _indented("\n".join(lines)))
        return "\n\n".join(blocks)

    def json(self) -> dict[str, Any]:
        """As one object; what is not defined is None."""
        return {
            "samples": self.samples,
            "identities": self.identities,
            "dim": self.dim,
            **{name: part.json() for name, part in self.results().items()},
            "shape": {
                name: value if math.isfinite(value) else None for name, value in self.shape.items()
            },
            "thresholds": None if self.thresholds is None else self.thresholds.summary(),
            "realized": [item.json() for item in self.realized],
            "reliability": None if self.reliability is None else self.reliability.json(),
            "missing": dict(self.missing),
        }


def assess(
    embeddings: Array,
    labels: Array,
    *,
    centers: Array | None = None,
    center_labels: Array | None = None,
    validation: tuple[Array, Array] | None = None,
    made_from: dict[str, Any] | None = None,
    intervals: bool = True,
    draws: int = DRAWS,
    seed: int = SEED,
    enrolled: float = 0.5,
    shots: int = 1,
    ways: int = _MOST_WAYS,
) -> Assessment:
    """Measure an embedding set in every way that it allows.

    Parameters:
        embeddings, labels: (N, D) and (N,) integers.
        centers, center_labels: (C, D) and (C,), the classifier's, for the table of angles.
        validation: embeddings and labels of *other* identities, to make thresholds from.
        made_from: what to write into these thresholds about their origin.
        intervals, draws, seed: 95 % intervals over draws of identities.
        enrolled: share of the identities that the identification trial enrolls.
        shots, ways: of few-shot episodes; fewer ways where there are fewer identities.

    Raises `InputError` for arrays that cannot be measured at all, and where validation and
    evaluation share identities.
    """
    matrix = embedding_matrix(embeddings)
    refuse_zero_rows(matrix)
    distinct, numbers = class_numbers(labels, len(matrix))
    missing: dict[str, str] = {}
    chance: dict[str, Any] = {"intervals": intervals, "draws": draws, "seed": seed}

    def part(name: str, work: Callable[[], _Found]) -> _Found | None:
        try:
            return work()
        except InputError as error:
            missing[name] = str(error)
            return None

    def identified() -> Identification:
        chosen = trial(numbers, enrolled=enrolled, seed=seed)
        return identification(
            matrix[chosen.gallery],
            numbers[chosen.gallery],
            matrix[chosen.probes],
            numbers[chosen.probes],
            **chance,
        )

    def episodes() -> FewShot:
        eligible = int((np.bincount(numbers) > shots).sum())
        if eligible < 2:
            raise InputError(
                f"{eligible} of {len(distinct)} identities have {shots + 1} samples, expected two"
            )
        return few_shot(matrix, numbers, ways=min(ways, eligible), shots=shots, **chance)

    spread = part("angle_samples", lambda: angle_samples(matrix, numbers))
    thresholds = None
    if validation is not None:
        thresholds = part("thresholds", lambda: _thresholds(validation, distinct, made_from or {}))
    searched = part("identification", identified)
    return Assessment(
        samples=len(matrix),
        identities=len(distinct),
        dim=matrix.shape[1],
        verification=part("verification", lambda: verification(matrix, numbers, **chance)),
        identification=searched,
        retrieval=part("retrieval", lambda: retrieval(matrix, numbers, **chance)),
        few_shot=part("few_shot", episodes),
        angles=part(
            "angles",
            lambda: angles(
                matrix, distinct[numbers], centers, center_labels=center_labels, **chance
            ),
        ),
        shape=measure_shape(matrix, numbers, part),
        own_angles=None if spread is None else spread[0],
        other_angles=None if spread is None else spread[1],
        thresholds=thresholds,
        realized=()
        if thresholds is None
        else (
            *realized_far(thresholds, matrix, numbers),
            *(() if searched is None else realized_fpir(thresholds, searched)),
        ),
        reliability=None
        if thresholds is None
        else part("reliability", lambda: realized_reliability(thresholds, matrix, numbers)),
        missing=missing,
    )


def measure_shape(
    embeddings: Array,
    labels: Array,
    attempt: Callable[[str, Callable[[], float]], float | None],
    *,
    keyed: bool = False,
) -> dict[str, float]:
    """By name, the measures that are mere functions of unit embeddings and labels.

    attempt: does what it is given, and returns None where the data do not allow it. keyed: only
    those that are among a run's figures.
    """
    wanted = [one for one in measures_of("shape") if one.function and (one.key or not keyed)]
    if not wanted:
        return {}
    units = np.array(embedding_matrix(embeddings), dtype=np.float64)
    normalize_rows(units)
    numbers = class_numbers(labels, len(units))[1]
    return {
        one.name: _number(attempt(one.name, partial(one.function, units, numbers)))
        for one in wanted
        if one.function is not None
    }


def differences(first: Assessment, second: Assessment) -> list[Difference]:
    """How much better the first is, measure by measure, on the same draws of identities.

    Measures that one of them lacks are left out. Raises `InputError` as `paired` does.
    """
    ours, theirs = first.results(), second.results()
    found = []
    for part in [name for name in ours if name in theirs]:
        values = theirs[part].measures()
        wanted = {measure.name for measure in measures_of(part) if measure.weight != "detail"}
        for name, value in ours[part].measures().items():
            both = not math.isnan(value + values.get(name, math.nan))
            if name.partition("[")[0] in wanted and both:
                found.append(paired(ours[part], theirs[part], name))
    return found


def _thresholds(
    validation: tuple[Array, Array], distinct: npt.NDArray[Any], made_from: dict[str, Any]
) -> Thresholds:
    names = np.unique(np.asarray(validation[1]))
    shared = np.intersect1d(names, distinct)
    if len(shared):
        raise InputError(
            f"{len(shared)} identities are in validation and evaluation alike, the first "
            f"{shared[0]}; thresholds chosen on what is reported on promise too much"
        )
    return make_thresholds(*validation, made_from=made_from)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else line for line in text.splitlines())
