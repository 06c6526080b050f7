"""How sure a closed-set classifier is: of the classes it knows, and of what it has never seen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter
from scipy.special import expit, logsumexp

from arcset.checks import check_count
from arcset.errors import InputError
from arcset.evaluation.arrays import Array, class_numbers, embedding_matrix
from arcset.evaluation.pairs import ScoreCounts
from arcset.evaluation.rates import Roc, area
from arcset.text import columns

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
LEVELS = (0.9, 0.99)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """The largest softmax probability of each sample, summed up.

    `quantiles` are interpolated linearly; `above` holds the share of samples whose probability
    exceeds each level.
    """

    count: int
    mean: float
    median: float
    quantiles: dict[float, float]
    above: dict[float, float]


@dataclass(frozen=True)
class Mistake:
    """An unseen sample by its row, the known class it is taken for, and how surely."""

    index: int
    label: int
    probability: float


@dataclass(frozen=True)
class Confidence:
    """The largest softmax probability on known samples against that on unseen ones.

    Fields:
        known, unseen: how it is distributed.
        auc: chance that it is higher for a known sample than for an unseen one; ties count half.
            With 0.5, being unsure says nothing about being unknown.
        accuracy: share of the known samples whose most probable class is theirs.
        examples: the unseen samples with the highest probability, surest first. Whatever they are
            called, it is wrong: their class is not among the known ones.
    """

    known: Spread
    unseen: Spread
    auc: float
    accuracy: float
    examples: tuple[Mistake, ...]

    def table(self) -> str:
        known, unseen = self.known, self.unseen
        rows = [["samples", f"{known.count:,}", f"{unseen.count:,}"]]
        values = {"mean": (known.mean, unseen.mean)}
        for share, value in known.quantiles.items():
            name = "median" if share == 0.5 else f"{share:.0%} quantile"
            values[name] = value, unseen.quantiles[share]
        for level, value in known.above.items():
            values[f"share above {level:g}"] = value, unseen.above[level]
        rows += [[name, *(f"{value:.4f}" for value in pair)] for name, pair in values.items()]
        rows += [["AUC", f"{self.auc:.4f}", ""], ["accuracy", f"{self.accuracy:.4f}", ""]]
        return columns(["largest probability", "known", "unseen"], rows, right=(1, 2))

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them: levels and quantiles as text where they are keys."""
        return dict(TypeAdapter(Confidence).dump_python(self, mode="json"))


def confidence(
    known_logits: Array, known_labels: Array, unseen_logits: Array, *, examples: int = 12
) -> Confidence:
    """Compare how sure a classifier is of samples of its classes and of samples of others.

    Parameters:
        known_logits: (N, C), of test samples of the known classes, without a margin; C ≥ 2.
        known_labels: (N,) integers in 0 … C − 1.
        unseen_logits: (M, C), of samples of classes that training never saw.
        examples: how many of the surest mistakes on unseen samples to name.

    Samples are ranked by the odds p/(1 − p), so that probabilities which round to 1 still differ.

    Raises `InputError` for logits that are not finite matrices of equally many columns, and for
    labels that do not fit them. Raises `OptionError` for a negative number of examples.

        >>> result = confidence([[2.0, 0.0], [0.0, 2.0]], [0, 1], [[0.0, 1.0]])
        >>> result.accuracy, result.auc, result.examples[0].label, round(result.unseen.mean, 3)
        (1.0, 1.0, 1, 0.731)
    """
    examples = check_count("examples", examples, least=0)
    known = embedding_matrix(known_logits, "known_logits").astype(np.float64)
    unseen = embedding_matrix(unseen_logits, "unseen_logits").astype(np.float64)
    classes = known.shape[1]
    if classes < 2 or unseen.shape[1] != classes:
        raise InputError(
            f"known_logits have {classes} columns and unseen_logits {unseen.shape[1]}, expected"
            " one column per known class in both, and at least two"
        )
    distinct, numbers = class_numbers(known_labels, len(known), "known_labels")
    if distinct[0] < 0 or distinct[-1] >= classes:
        outside = distinct[0] if distinct[0] < 0 else distinct[-1]
        raise InputError(f"known_labels hold {outside}, expected labels from 0 to {classes - 1}")

    known_odds, unseen_odds = _log_odds(known), _log_odds(unseen)
    probabilities = expit(unseen_odds)
    roc = Roc.of(ScoreCounts.of(known_odds, unseen_odds))
    taken_for = unseen.argmax(axis=1)
    surest = np.argsort(-unseen_odds, kind="stable")[:examples]
    return Confidence(
        known=_spread(expit(known_odds)),
        unseen=_spread(probabilities),
        auc=float(area(roc.far, roc.tar)),
        accuracy=float((known.argmax(axis=1) == distinct[numbers]).mean()),
        examples=tuple(Mistake(int(i), int(taken_for[i]), float(probabilities[i])) for i in surest),
    )


def _log_odds(logits: Floats) -> Floats:
    """log(p/(1 − p)) of the largest softmax probability p of each row: it does not saturate."""
    ascending = np.sort(logits, axis=1)
    lead: Floats = ascending[:, :-1] - ascending[:, -1:]  # (N, C − 1), all ≤ 0
    return -np.asarray(logsumexp(lead, axis=1))


def _spread(probabilities: Floats) -> Spread:
    quantiles = np.quantile(probabilities, QUANTILES)
    return Spread(
        count=len(probabilities),
        mean=float(probabilities.mean()),
        median=float(np.median(probabilities)),
        quantiles={share: float(value) for share, value in zip(QUANTILES, quantiles, strict=True)},
        above={level: float((probabilities > level).mean()) for level in LEVELS},
    )
