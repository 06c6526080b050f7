"""Scores of templates: subjects of several images, each scored as a set.

A stranger's score with a set is no cosine of a pair: the mean of five strays less than one cosine
does, and the best of five is five chances. So every identity's samples are dealt into sets of as
many images as a gallery holds of a subject, and every sample is a probe to the sets of all other
identities. The share of an identity's sets that accept a probe is the chance e of `fpir`, and
everything after that is as there.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from arcset.checks import check_count
from arcset.errors import InputError, OptionError
from arcset.evaluation.arrays import Array, as_array, read_labelled
from arcset.evaluation.calibration.probability import Calibration, calibrate
from arcset.evaluation.calibration.smooth import draw_folds
from arcset.evaluation.calibration.table import MOST_FOLLOWED, RateTable
from arcset.evaluation.pairs import (
    BLOCK,
    SAMPLED,
    ImpostorPairs,
    Rows,
    Scores,
    round_cosines,
    unit_rows,
)

#: The scorings that thresholds are made for where nobody knows the gallery's.
SCORINGS = ("max", "mean", "top-3")
#: Numbers of images that thresholds are made for.
IMAGES = (2, 3, 5, 10)
MOST_SETS = 8  # of one identity
MOST_SAMPLES = 4000  # that sets are made of, and compared with
MOST_SCORES = 2**22  # more sets are dealt where there are fewer scores than that


@dataclass(frozen=True)
class Scoring:
    """How a subject of several samples is scored: `max`, `mean`, or the mean of the `best` ones.

    >>> Scoring.of("top-3")
    Scoring(word='top-3', best=3)
    >>> Scoring.of("median")
    Traceback (most recent call last):
    arcset.errors.OptionError: scoring='median' is unknown, expected max, mean, or top-3 ...
    """

    word: str
    best: int | None

    @classmethod
    def of(cls, word: object) -> "Scoring":
        """From the word for it; raises `OptionError` for others."""
        if word == "max":
            return cls("max", 1)
        if word == "mean":
            return cls("mean", None)
        top = re.fullmatch(r"top-([1-9][0-9]{0,5})", word) if isinstance(word, str) else None
        if top is None:
            raise OptionError(
                f"scoring={word!r} is unknown, expected max, mean, or top-3 for the mean of the"
                " best three samples (or another number)"
            )
        return cls(str(word), int(top[1]))

    def score(
        self, cosines: npt.NDArray[np.float64], subjects: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The subjects among rows, rising, and the score of each from these rows' cosines (n,).

        >>> Scoring.of("top-2").score(np.array([0.5, 0.1, 0.9, 0.7]), np.array([8, 3, 8, 8]))
        (array([3, 8]), array([0.1, 0.8]))
        """
        order = np.lexsort((-cosines, subjects))  # by subject, falling within each
        sorted_subjects, values = subjects[order], cosines[order]
        starts = np.flatnonzero(np.r_[True, sorted_subjects[1:] != sorted_subjects[:-1]])
        present = sorted_subjects[starts]
        if self.best == 1:
            return present, values[starts]
        lengths = np.diff(np.r_[starts, len(values)])
        if self.best is not None:
            rank = np.arange(len(values)) - np.repeat(starts, lengths)
            values = np.where(rank < self.best, values, 0.0)
            lengths = np.minimum(lengths, self.best)
        return present, np.add.reduceat(values, starts) / lengths

    def score_sets(self, cosines: Scores) -> Scores:
        """The same of sets of one size: (…, images) to (…,).

        >>> Scoring.of("top-2").score_sets(np.float32([[0.5, 0.75, 0.25], [1, 0, 0]]))
        array([0.625, 0.5  ], dtype=float32)
        """
        images = cosines.shape[-1]
        best = min(self.best or images, images)
        if best == 1:
            return np.asarray(cosines.max(axis=-1))
        if best < images:
            cosines = np.partition(cosines, images - best, axis=-1)[..., images - best :]
        return np.asarray(cosines.mean(axis=-1), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class TemplateScores(ImpostorPairs):
    """Scores of probes with sets of another identity's samples, by falling score.

    Fields, as far as they differ from those of pairs:
        cosines: (P,) the scores.
        first, second: (P,) the row of the probe, and one of the set's identity, another for each of
            its sets, which stands for the set.
        set_counts: (I,) how many sets each identity has.
        genuine: (Q,) scores of probes with sets of their own identity that they are not in.
        impostor: (R,) those of one in `stride` of all others.
    """

    set_counts: Rows
    genuine: Scores
    impostor: Scores
    stride: int

    @classmethod
    def draw(
        cls, embeddings: Array, labels: Array, scoring: Scoring, images: int
    ) -> "TemplateScores":
        """Of embeddings (N, D) and labels (N,), with sets of so many images.

        Raises `InputError` for bad embeddings or labels, and where fewer than two identities have
        so many samples.
        """
        matrix, distinct, identity = read_labelled(embeddings, labels)
        sizes = np.bincount(identity)
        if (sizes >= images).sum() < 2:
            raise InputError(
                f"{(sizes >= images).sum()} of {len(distinct)} identities have {images} samples,"
                " expected at least two"
            )
        sets = _Sets.deal(unit_rows(matrix), identity, scoring, images)
        count = int((len(identity) - sizes[sets.owner]).sum())
        floor = sets.floor(MOST_FOLLOWED / count) if count > MOST_FOLLOWED else -1.0
        stride = 1 + count // SAMPLED
        highest, genuine, impostor = [], [], []
        for rows, scores, is_own in sets.blocks(np.arange(len(identity))):
            i, k = np.nonzero(~is_own & (scores >= floor))
            highest.append((scores[i, k], rows[i], sets.rows[k]))
            genuine.append(scores[is_own & (scores >= -1)])
            impostor.append(scores[~is_own][::stride])
        scores, first, second = map(np.concatenate, zip(*highest, strict=True))
        order = np.argsort(-scores, kind="stable")
        return cls(
            cosines=scores[order],
            first=first[order].astype(np.int32),
            second=second[order].astype(np.int32),
            identity=identity,
            sizes=sizes,
            count=count,
            floor=floor,
            set_counts=np.bincount(sets.owner, minlength=len(sizes)),
            genuine=np.concatenate(genuine),
            impostor=np.concatenate(impostor),
            stride=stride,
        )

    def calibrate(self, prior: float | None) -> Calibration:
        """The probability that a probe is of a set's identity."""
        scores = np.concatenate((self.genuine, self.impostor))
        same = np.repeat([True, False], [len(self.genuine), len(self.impostor)])
        stand_for = np.where(same, 1, self.stride)
        return calibrate(scores, same, "logistic", stand_for, prior=prior)

    def by_probe(self, accepted: int) -> tuple[Rows, Rows]:
        """Rows of probes, and rows that stand for sets; a set is no probe."""
        return self.first[:accepted].astype(np.intp), self.second[:accepted].astype(np.intp)

    def chance(self, subject: Rows, hits: Rows, samples: int) -> npt.NDArray[np.float64]:
        """The share of the subject's sets that accept a probe."""
        return np.asarray(hits / self.set_counts[subject])


@dataclass(frozen=True, eq=False)
class _Sets:
    """Sets of rows (K, images), to be scored with probes, some of these at a time.

    rows: (K,) the row that stands for each set.
    """

    units: npt.NDArray[np.float32]
    identity: Rows
    scoring: Scoring
    members: Rows
    rows: Rows

    @property
    def owner(self) -> Rows:
        """(K,) the number of each set's identity."""
        return self.identity[self.rows]

    @classmethod
    def deal(
        cls, units: npt.NDArray[np.float32], identity: Rows, scoring: Scoring, images: int
    ) -> "_Sets":
        """Of each identity a few, no more than it has rows, and none twice; without a shared row
        as long as there are others.
        """
        generator = np.random.default_rng(0)
        sizes = np.bincount(identity)
        most = max(1, min(MOST_SETS, MOST_SCORES // (len(identity) * len(sizes))))
        members, rows = [], []
        for own in np.split(np.argsort(identity, kind="stable"), np.cumsum(sizes)[:-1]):
            whole, wanted = len(own) // images, min(most, len(own))
            if not whole:
                continue
            rounds = range(-(-wanted // whole))
            dealt = [generator.permutation(own)[: whole * images] for _ in rounds]
            sets = np.concatenate(dealt).reshape(-1, images)[:wanted]
            members.append(np.unique(np.sort(sets, axis=1), axis=0))
            rows.append(own[: len(members[-1])])
        return cls(units, identity, scoring, np.concatenate(members), np.concatenate(rows))

    def blocks(self, probes: Rows) -> Iterator[tuple[Rows, Scores, npt.NDArray[np.bool_]]]:
        """Some of the probes (b,), their scores with all sets (b, K), and which sets are of their
        own identity. The score with a set that holds the probe itself is −2.
        """
        step = max(1, BLOCK // max(len(self.units), self.members.size))
        means = self.units[self.members].mean(axis=1)
        used, place = np.unique(self.members, return_inverse=True)
        for rows in np.split(probes, range(step, len(probes), step)):
            if self.scoring.best is None:  # the mean of products is the product with the mean
                scores = round_cosines(self.units[rows] @ means.T)
            else:
                cosines = round_cosines(self.units[rows] @ self.units[used].T)
                scores = self.scoring.score_sets(cosines[:, place.reshape(self.members.shape)])
            is_own = self.identity[rows][:, None] == self.owner
            i, k = np.nonzero(is_own)
            held = (self.members[k] == rows[i][:, None]).any(axis=1)
            scores[i[held], k[held]] = -2
            yield rows, scores, is_own

    def floor(self, share: float) -> float:
        """About where the highest `share` of the scores begins, rather higher than lower."""
        count = min(len(self.units), -(-SAMPLED // len(self.rows)))
        probes = np.random.default_rng(0).choice(len(self.units), count, replace=False)
        scores = [scores[~is_own] for _, scores, is_own in self.blocks(probes)]
        return float(np.quantile(np.concatenate(scores), 1 - 0.8 * share))


@dataclass(frozen=True)
class Template:
    """Rates and probabilities where each subject is a set of images.

    Fields:
        scoring: how a set is scored.
        rates: by threshold; `samples_per_subject` is the number of images of a set.
        calibration: from a score to a probability.
    """

    scoring: Annotated[str, Field(pattern=r"^(max|mean|top-[1-9][0-9]{0,5})$")]
    rates: RateTable
    calibration: Calibration

    @property
    def depth(self) -> float:
        """How many images of a set its score is the mean of."""
        return min(Scoring.of(self.scoring).best or math.inf, self.rates.samples_per_subject)

    def fits(self, scoring: Scoring, images: float) -> bool:
        """Whether a subject of so many images scores no more, or not more often."""
        wanted = min(scoring.best or math.inf, images)
        return self.rates.samples_per_subject <= images and self.depth <= wanted


def make_templates(
    embeddings: Array,
    labels: Array,
    scorings: Iterable[str],
    images: Iterable[int],
    groups: Rows | None = None,
    prior: float | None = 0.5,
) -> tuple[Template, ...]:
    """For each scoring and number of images, as far as half of the identities have so many.

    Parameters as in `make_thresholds`. Sets that score alike are made once: the mean of the best
    three is that of all, of three. Of more than 4,000 samples some are drawn, by identities.
    """
    embeddings, labels = as_array(embeddings, "embeddings"), as_array(labels, "labels")
    if len(labels) > MOST_SAMPLES:
        numbers = np.unique(labels, return_inverse=True)[1]
        rows = np.sort(draw_folds(numbers, MOST_SAMPLES)[0])
        embeddings, labels = embeddings[rows], labels[rows]
        groups = None if groups is None else groups[rows]
    sizes = np.unique(labels, return_counts=True)[1]
    made: dict[tuple[float, int], Template] = {}
    words = [
        (Scoring.of(word), check_count("images", count))
        for word, count in product(scorings, images)
    ]
    for scoring, count in words:
        key = min(scoring.best or math.inf, count), count
        if count > 1 and key not in made and (sizes >= count).sum() >= max(2, len(sizes) / 2):
            scores = TemplateScores.draw(embeddings, labels, scoring, count)
            rates = RateTable.of(scores, count, groups, is_coarse=True)
            if not len(scores.genuine):  # nobody has an image to spare: of sets of one fewer
                fewer = TemplateScores.draw(embeddings, labels, scoring, count - 1)
                scores = replace(scores, genuine=fewer.genuine)
            made[key] = Template(scoring.word, rates, scores.calibrate(prior))
    return tuple(made.values())
