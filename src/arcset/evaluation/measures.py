"""The one table of measures: what each is called, what it means, when it misleads, how it runs.

Result tables, the columns of comparisons, captions, the model card, what a validation measures and
`best_by` derive from it. A new measure is one entry; if no result has it yet, the entry names the
function that computes it, from unit embeddings and labels:

    >>> import numpy as np
    >>> entry = Measure(
    ...     "norm",
    ...     "shape",
    ...     "mean length",
    ...     "length of the mean embedding",
    ...     "it says nothing of classes",
    ...     unit="number",
    ...     function=lambda units, labels: float(np.linalg.norm(units.mean(axis=0))),
    ... )
    >>> MEASURES["norm"] = entry
    >>> print(short_name("norm"), MEASURES["norm"].format(0.5))
    mean length 0.5000
    >>> del MEASURES["norm"]
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from arcset.text import percent

Array = Any

#: The parts of an evaluation, in the order in which they are shown, as headings.
PARTS = {
    "verification": "Same or different",
    "identification": "Who is it, if anyone",
    "retrieval": "Search by example",
    "few_shot": "From a few examples",
    "angles": "Angles",
    "shape": "Shape of the classes",
    "reliability": "Probabilities",
    "known": "The known classes",
}


@dataclass(frozen=True)
class Measure:
    """One kind of figure.

    Fields:
        name: the field of the result that holds it, as `tar_at_far`.
        part: the part of an evaluation that it belongs to, one of `PARTS`.
        short: what people call it; {} is the rate, rank or number that it is taken at.
        meaning: what it says, in half a sentence; {} as above.
        misleads: when it says less than it seems to, in half a sentence.
        unit: a share (shown in percent), a plain number, or degrees.
        lower_is_better: which way it runs.
        at_one: the meaning where it is taken at 1, if the plural would be odd.
        at: the rate or rank that stands for all, where one figure is wanted.
        strict: the same where strictness counts: in validation, and in an evaluation's report.
        weight: `headline`: among the few figures to look at first; `main`: among those of a card
            and of a report's beginning; `compared`: among those that two models are compared in, as
            the former are; `detail`: in full tables only.
        key: its name among a run's figures (`unseen_KEY`) and in `best_by`; empty if it is in none.
        validate: whether it is measured on the validation identities during training.
        trials: how many independent trials an identity stands for in its interval, as long as few
            errors were seen (`results.share_interval`). Chosen by simulation.
        function: computes it from unit embeddings (N, D) and labels (N,), for measures that no
            result has; raises `InputError` where the data do not allow it.
    """

    name: str
    part: str
    short: str
    meaning: str
    misleads: str
    unit: Literal["share", "number", "degrees"] = "share"
    lower_is_better: bool = False
    at_one: str = ""
    at: float | None = None
    strict: float | None = None
    weight: Literal["headline", "main", "compared", "detail"] = "detail"
    key: str = ""
    validate: bool = False
    trials: float = 4.0
    function: Callable[[Array, Array], float] | None = None

    @property
    def is_rate(self) -> bool:
        """Whether it is taken at rates of false accepts, as many as were asked for."""
        return self.name.endswith(("_far", "_fpir"))

    @property
    def full_name(self) -> str:
        """As results name it in text, at the rate or rank that stands for all."""
        return self.name if self.at is None else f"{self.name}[{self.at:g}]"

    @property
    def title(self) -> str:
        """What people call it where the rate goes without saying: `TAR`, `recall@1`."""
        return self.short.partition(" at ")[0] if self.is_rate else short_name(self.full_name)

    @property
    def strict_name(self) -> str:
        """The same at the stricter one."""
        return self.name if self.strict is None else f"{self.name}[{self.strict:g}]"

    def format(self, value: float, digits: int = 2) -> str:
        """A value for people: percent, degrees, or a plain number with two digits more."""
        return self.format_bare(value, digits) + {"share": " %", "degrees": "°"}.get(self.unit, "")

    def format_bare(self, value: float, digits: int = 2) -> str:
        """The same without its unit."""
        if self.unit == "share":
            return f"{100 * value:.{digits}f}"
        return f"{value:.{digits}f}" if self.unit == "degrees" else f"{value:.{digits + 2}f}"


def _geometry(name: str, **options: Any) -> Callable[[Array, Array], float]:
    """A function of `evaluation.geometry`, which imports this module."""

    def compute(units: Array, labels: Array) -> float:
        from arcset.evaluation import geometry

        return float(getattr(geometry, name)(units, labels, **options))

    return compute


_TABLE = (
    Measure(
        "tar_at_far",
        "verification",
        "TAR at FAR {}",
        "same pairs that are accepted at a threshold that accepts {} of the different pairs",
        "low rates rest on the few most similar different pairs, often of a few identities",
        at=0.01,
        strict=0.001,
        weight="headline",
        key="tar",
        validate=True,
    ),
    Measure(
        "eer",
        "verification",
        "EER",
        "the rate at which false accepts and false rejects are equally frequent",
        "hardly any use accepts as many strangers as it rejects friends",
        lower_is_better=True,
        weight="headline",
        key="eer",
        trials=6.0,
    ),
    Measure(
        "auc",
        "verification",
        "AUC",
        "chance that a same pair has a higher cosine than a different pair",
        "ruled by pairs that no use cares about: two models of equal AUC can differ tenfold at the "
        "low false accept rates that matter",
        unit="number",
        weight="headline",
        key="auc",
        validate=True,
        trials=12.0,
    ),
    Measure(
        "rank",
        "identification",
        "rank {}",
        "probes of enrolled subjects that find their own among the first {}",
        "it holds for a gallery of this size, and hides the unknown",
        at_one="probes of enrolled subjects that find their own first",
        at=1,
        strict=1,
        weight="headline",
    ),
    Measure(
        "dir_at_fpir",
        "identification",
        "DIR at FPIR {}",
        "probes of enrolled subjects that are named rightly at a threshold that gives {} of the "
        "unknown probes a name",
        "it holds for a gallery of this size: with more subjects there are more chances to be "
        "wrong",
        at=0.1,
        strict=0.01,
        weight="main",
    ),
    Measure(
        "recall_at",
        "retrieval",
        "recall@{}",
        "queries with one of their class among the {} nearest",
        "queries of large classes are easier and more, so that a few large classes can decide",
        at_one="queries whose nearest is of their class",
        at=1,
        strict=1,
        weight="headline",
        key="recall",
        validate=True,
    ),
    Measure(
        "precision_at",
        "retrieval",
        "precision@{}",
        "share of the {} nearest that are of the query's class",
        "where a class has fewer than k others it cannot reach 100 %",
        at_one="queries whose nearest is of their class",
        at=1,
    ),
    Measure(
        "r_precision",
        "retrieval",
        "R-precision",
        "share of the R nearest that are of the query's class",
        "R differs from class to class, and so does how hard it is",
    ),
    Measure(
        "map_at_r",
        "retrieval",
        "MAP@R",
        "how early those of the class come among the R nearest, R being as many as there are",
        "large classes are harder here and count more",
        weight="headline",
        key="map",
        validate=True,
    ),
    Measure(
        "accuracy",
        "few_shot",
        "few-shot",
        "queries that lie nearest to the right one of a few prototypes, each made of a few samples",
        "easy by design: a gallery of a few, and nobody unknown",
        weight="main",
    ),
    Measure(
        "w_ec",
        "angles",
        "W-EC",
        "angle between a class's center and the mean of its samples, averaged",
        "angles of spaces of different dimension do not compare",
        unit="degrees",
        lower_is_better=True,
    ),
    Measure(
        "w_inter",
        "angles",
        "W-Inter",
        "angle between a center and the nearest other, averaged",
        "angles of spaces of different dimension do not compare",
        unit="degrees",
    ),
    Measure(
        "intra",
        "angles",
        "Intra",
        "angle between a sample and the mean of its class, averaged",
        "averages hide the few samples that cause the errors",
        unit="degrees",
        lower_is_better=True,
        weight="compared",
    ),
    Measure(
        "inter",
        "angles",
        "Inter",
        "angle between a class's mean and the nearest other, averaged",
        "averages hide the few classes that lie close",
        unit="degrees",
        weight="compared",
    ),
    Measure(
        "dunn",
        "shape",
        "Dunn index",
        "distance between the closest classes over the size of the largest",
        "one pair of close classes, or one wide class, decides it",
        unit="number",
        function=_geometry("dunn_index", trim=None),
    ),
    Measure(
        "dunn_trimmed",
        "shape",
        "Dunn index, trimmed",
        "the same without each class's most distant samples",
        "the samples left out may be the ones that cause the errors",
        unit="number",
        function=_geometry("dunn_index", trim=0.95),
    ),
    Measure(
        "silhouette",
        "shape",
        "silhouette",
        "how much nearer samples are to their own class than to others",
        "large classes count more, and distances of many dimensions are all alike",
        unit="number",
        function=_geometry("silhouette", metric="cosine"),
    ),
    Measure(
        "ece",
        "reliability",
        "calibration error",
        "mean distance between a stated probability and how often it comes true",
        "bins of few pairs are off by chance",
        lower_is_better=True,
    ),
    Measure(
        "brier",
        "reliability",
        "Brier score",
        "mean squared distance between a probability and what came true",
        "how many pairs are the same rules it as much as the model does",
        unit="number",
        lower_is_better=True,
    ),
    Measure(
        "cllr",
        "reliability",
        "Cllr",
        "what the likelihood ratios behind the probabilities cost, in bits; 1 says nothing",
        "a few pairs that are certain and wrong can rule it",
        unit="number",
        lower_is_better=True,
    ),
    Measure(
        "min_dcf",
        "reliability",
        "minDCF",
        "lowest cost of decisions where one pair in a hundred is the same; 1 accepts nobody",
        "it takes the best threshold for this very set, which nobody knows beforehand",
        unit="number",
        lower_is_better=True,
    ),
    Measure(
        "known_accuracy",
        "known",
        "accuracy",
        "share of test samples of the known classes that the classifier names rightly",
        "it says nothing about classes that were not in training",
        key="accuracy",
    ),
    Measure(
        "known_dunn",
        "known",
        "Dunn",
        "Dunn index of the known test samples: least distance of class centroids over the largest "
        "mean radius; raw embeddings for softmax and center, unit ones otherwise",
        "one pair of close classes, or one wide class, decides it",
        unit="number",
        key="dunn",
    ),
    Measure(
        "known_dunn_trimmed",
        "known",
        "Dunn trimmed",
        "the same without the 5 % of each class that lie farthest out",
        "the samples left out may be the ones that cause the errors",
        unit="number",
        key="dunn_trimmed",
    ),
    Measure(
        "known_dunn_trimmed_unit",
        "known",
        "… on unit",
        "the same on unit embeddings, whatever the loss",
        "the samples left out may be the ones that cause the errors",
        unit="number",
        key="dunn_trimmed_unit",
    ),
)

#: Every measure by its name, in the order in which they are shown.
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _TABLE}


def measures_of(part: str) -> list[Measure]:
    """Those of a part, in their order."""
    return [measure for measure in MEASURES.values() if measure.part == part]


def validated() -> dict[str, Measure]:
    """What a validation during training measures, by key: what `best_by` may name."""
    return {measure.key: measure for measure in MEASURES.values() if measure.validate}


def weighty(*weights: str) -> list[Measure]:
    """Those of such weights on what was not in training, in their order."""
    return [one for one in MEASURES.values() if one.weight in weights and one.part != "known"]


def run_figures() -> dict[str, Measure]:
    """The figures of a run by key: on the known classes first, then on the unseen ones."""
    unseen = {
        f"unseen_{measure.key}": measure
        for measure in MEASURES.values()
        if measure.key and measure.part != "known"
    }
    return {**{measure.key: measure for measure in measures_of("known")}, **unseen}


def figure_meanings() -> dict[str, str]:
    """What each of a run's figures means, by key."""
    return {
        key: meaning(one.full_name) + ("" if one.part == "known" else ", on the unseen classes")
        for key, one in run_figures().items()
    }


def measure_of(full_name: str) -> Measure:
    """The entry of a measure as results name it, as `tar_at_far[0.001]`."""
    return MEASURES[full_name.partition("[")[0]]


def short_name(full_name: str) -> str:
    """What people call a measure.

    >>> short_name("tar_at_far[0.001]"), short_name("rank[1]"), short_name("eer")
    ('TAR at FAR 0.1 %', 'rank 1', 'EER')
    """
    return measure_of(full_name).short.format(_taken_at(full_name))


def meaning(full_name: str) -> str:
    """What a measure says, in half a sentence.

    >>> meaning("rank[5]")
    'probes of enrolled subjects that find their own among the first 5'
    """
    measure, at = measure_of(full_name), _taken_at(full_name)
    return measure.at_one if at == "1" and measure.at_one else measure.meaning.format(at)


def _taken_at(full_name: str) -> str:
    """The rate in percent, the rank or the number in brackets; empty without any."""
    at = full_name.partition("[")[2].removesuffix("]")
    return percent(float(at)) if at and measure_of(full_name).is_rate else at
