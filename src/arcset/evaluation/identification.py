"""Identification, 1:N: whose sample is it, if it is of anybody enrolled?

Rates of an open-set search, from what became of every probe; weighted, draw by draw.

A probe of an enrolled subject (mated) is found if its own subject is the best, alone, and scores
at least the threshold. Any other probe (non-mated) is a false positive if its best score does.

    FPIR(t) = share of non-mated probes whose best score ≥ t
    DIR(t)  = share of mated probes whose own subject has rank 1 and a score ≥ t
    FNIR(t) = 1 − DIR(t)

`trial` makes such a search of one labelled set: who is enrolled, who is searched for.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from arcset.checks import check_choice, check_count, check_counts, check_number, check_rates
from arcset.errors import InputError
from arcset.evaluation.arrays import Array, as_array, class_numbers, find_labels, read_labelled
from arcset.evaluation.bootstrap import (
    DRAWS,
    MOST_SCORES,
    SEED,
    Resampling,
    WeightedPairs,
    draw_curves,
    draw_means,
    find_blocked,
    groups_of,
    search_error,
)
from arcset.evaluation.pairs import Rows, ScoreCounts, Scores, cosine_blocks, unit_rows
from arcset.evaluation.rates import Floats, Roc, best_rate
from arcset.evaluation.results import Result
from arcset.text import plural

SCORINGS = ("max", "mean")
LONGEST_CMC = 100


@dataclass(frozen=True, eq=False)
class IdentificationCurve:
    """False positives against misses, at falling thresholds; accept when score ≥ threshold.

    Every point is exact; there are some 500 at most. Empty if all probes are mated, or none.

    Fields: threshold, fpir, fnir, each (T,).
    """

    threshold: Floats
    fpir: Floats
    fnir: Floats


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What became of each probe, and whose it is.

    rank, own: (M,), of the mated probes: the rank and the score of their own subject.
    best: (U,), of the non-mated probes: their highest score.
    mated, unmated: (M,) and (U,), the number of the probe's identity.
    """

    rank: Rows
    own: Floats
    best: Floats
    mated: Rows
    unmated: Rows

    @cached_property
    def roc(self) -> Roc:
        """DIR, as `tar`, over FPIR, as `far`, at all thresholds."""
        hits = self.own[self.rank == 1]
        return Roc.of(ScoreCounts.of(hits, self.best), missed=len(self.own) - len(hits))

    def curve(self) -> IdentificationCurve:
        if not len(self.best) or not len(self.own):
            return IdentificationCurve(np.empty(0), np.empty(0), np.empty(0))
        roc = self.roc.thin(len(self.own), len(self.best))
        return IdentificationCurve(roc.threshold, roc.far, 1 - roc.tar)

    def draw(self, ranks: list[int], fpirs: list[float], weights: Floats) -> dict[str, Floats]:
        """Every measure (B,), by its name, where identities are drawn `weights` (B, I) times."""
        within = draw_means(self.rank[:, None] <= np.array(ranks), self.mated, weights)
        drawn = {f"rank[{k:g}]": column for k, column in zip(ranks, within.T, strict=True)}
        names = {f"dir_at_fpir[{fpir:g}]": fpir for fpir in fpirs}
        drawn |= {name: np.full(len(weights), np.nan) for name in names}
        if not len(self.best) or not len(self.own):
            return drawn
        between = len(self.roc) > MOST_SCORES
        roc = self.roc.thin(len(self.own), len(self.best)) if between else self.roc
        hit = self.rank == 1
        mated = WeightedPairs.of(self.mated[hit], None, self.own[hit], roc)
        unmated = WeightedPairs.of(self.unmated, None, self.best, roc)
        missed = np.bincount(self.mated[~hit], minlength=weights.shape[1])
        supported = {name: fpir for name, fpir in names.items() if 1 / len(self.best) <= fpir}
        for part, far, tar, probes in draw_curves(mated, unmated, weights, missed):
            for name, fpir in supported.items():
                drawn[name][part] = best_rate(far, tar, fpir, probes, between=between)
        return drawn


@dataclass(frozen=True, eq=False)
class Subjects:
    """A gallery of unit rows (G, D) sorted by subject; subject s begins at row starts[s]."""

    units: npt.NDArray[np.float32]
    starts: Rows

    @classmethod
    def enroll(cls, matrix: npt.NDArray[Any], numbers: Rows) -> "Subjects":
        """The samples in `matrix` (G, D), with the subject number of each from 0."""
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        return cls(unit_rows(matrix, order), starts)

    def templates(self, distinct: npt.NDArray[Any]) -> "Subjects":
        """The same with one row per subject: the direction of the mean of its unit samples.

        Raises `InputError` where the samples of a subject cancel out; it is one of `distinct`.
        """
        sums = np.add.reduceat(self.units, self.starts, axis=0, dtype=np.float64)
        length = np.sqrt(np.einsum("sd,sd->s", sums, sums))
        length /= np.diff(self.starts, append=len(self.units))
        if length.min() < 16 * np.finfo(np.float32).eps:
            raise InputError(
                f"the samples of subject {distinct[int(np.argmin(length))]} cancel out, so that"
                " their mean has no direction; expected subjects that do not surround the origin"
            )
        return Subjects(unit_rows(sums), np.arange(len(sums)))

    def score(self, probes: npt.NDArray[np.float32]) -> Iterator[tuple[slice, Scores]]:
        """Some probes at a time: which, and for each the score of every subject (b, S).

        A subject's score is the highest of its samples' cosines with the probe.
        """
        for part, cosines in cosine_blocks(probes, self.units):
            if len(self.starts) < len(self.units):
                cosines = np.maximum.reduceat(cosines, self.starts, axis=1)
            yield part, cosines


@dataclass(frozen=True, eq=False)
class Trial:
    """Which rows are enrolled, and which are searched for.

    Fields:
        gallery: (G,) row numbers of the enrolled samples, ascending.
        probes: (P,) row numbers of the others, ascending.
        subjects: how many identities are enrolled.
        unknown: how many are not, so that their samples are non-mated probes.
    """

    gallery: Rows
    probes: Rows
    subjects: int
    unknown: int


def trial(labels: Array, *, enrolled: float = 0.5, samples: int = 1, seed: int = 0) -> Trial:
    """Enroll a random share of the identities; search for everything else.

    Of the identities with at least `samples` + 1 samples, a share of `enrolled` (rounded, at least
    one, below 1 never everybody) gets `samples` random samples into the gallery; their other
    samples become mated probes. All samples of all other identities become non-mated probes.

    Parameters:
        labels: (N,) integers.
        enrolled: in (0, 1]. With 1 only identities with too few samples stay unknown; there may
            be none, and then the search is one over a closed set.
        samples: how many of each subject are enrolled.
        seed: the same labels and seed give the same trial, on every platform. Who is enrolled
            follows from which labels there are and how many of each, not from the order of rows;
            which of a subject's samples, from the order among themselves only.

    Raises `InputError` where the labels allow no such trial.

        >>> made = trial([5, 5, 6, 6, 7, 8], enrolled=0.5)
        >>> made.subjects, made.unknown, len(made.gallery), len(made.probes)
        (1, 3, 1, 5)
    """
    check_number("enrolled", enrolled, 0, 1, closed="right")
    check_count("samples", samples)
    check_count("seed", seed, least=0)
    distinct, numbers = class_numbers(labels, as_array(labels, "labels").size)
    sizes = np.bincount(numbers)
    able = np.flatnonzero(sizes > samples)
    if not len(able):
        raise InputError(
            f"none of the {len(distinct)} identities in labels has {samples + 1} samples,"
            f" expected one at least, with {samples} to enroll and one to search for"
        )
    count = max(1, int(enrolled * len(able) + 0.5))
    if enrolled < 1 and count == len(distinct):
        count -= 1
    if not count:
        raise InputError(
            f"labels hold the one identity {distinct[0]}, expected another that stays unknown"
        )
    # The raw stream is the one that numpy promises to keep.
    chance = np.random.PCG64(seed)
    chosen = able[np.argsort(chance.random_raw(len(able)), kind="stable")[:count]]
    by_identity = np.argsort(numbers, kind="stable")
    shuffled = by_identity[np.lexsort((chance.random_raw(len(numbers)), numbers[by_identity]))]
    starts = np.cumsum(sizes) - sizes
    is_enrolled = np.zeros(len(numbers), dtype=np.bool_)
    is_enrolled[shuffled[starts[chosen][:, None] + np.arange(samples)]] = True
    return Trial(
        gallery=np.flatnonzero(is_enrolled),
        probes=np.flatnonzero(~is_enrolled),
        subjects=count,
        unknown=len(distinct) - count,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification(Result):
    """How well probes find their own subject in a gallery, and strangers find nobody.

    Mated probes are of enrolled subjects, non-mated ones of identities that are not enrolled.

    Fields:
        rank: for each k asked for, the share of mated probes whose own subject is among the k
            best; NaN without mated probes.
        dir_at_fpir: for each false positive identification rate asked for, the highest detection
            and identification rate over thresholds whose FPIR does not exceed it; NaN without
            mated probes, and if there are fewer than 1/FPIR non-mated ones.
        threshold_at_fpir: a threshold that reaches it; a subject is accepted if its score ≥
            threshold. It needs non-mated probes only.
        cmc: (K,), the share for rank 1, 2, … up to the number of subjects or 100; empty without
            mated probes.
        curve: FPIR and FNIR = 1 − DIR over all thresholds; empty without either kind of probes.
        scoring: `max` or `mean`.
        subjects, samples: how many subjects are enrolled, with how many samples.
        mated, unmated: numbers of probes; mated_identities, unmated_identities: of how many.
        outcomes: what became of each probe.
    """

    named: ClassVar[tuple[str, ...]] = ("rank", "dir_at_fpir")

    rank: dict[int, float]
    dir_at_fpir: dict[float, float]
    threshold_at_fpir: dict[float, float]
    cmc: npt.NDArray[np.float64]
    curve: IdentificationCurve
    scoring: str
    subjects: int
    samples: int
    mated: int
    unmated: int
    mated_identities: int
    unmated_identities: int
    outcomes: Outcomes = field(repr=False)

    def rates_at(self, threshold: float) -> tuple[float, float]:
        """FPIR and DIR at a threshold; NaN without probes of that kind."""
        probes = self.outcomes
        hit = (probes.rank == 1) & (probes.own >= threshold)
        return (
            float((probes.best >= threshold).mean()) if self.unmated else math.nan,
            float(hit.mean()) if self.mated else math.nan,
        )

    def _size(self) -> str:
        subjects, samples = plural(self.subjects, "subject"), plural(self.samples, "sample")
        mated = plural(self.mated_identities, "identity", "identities")
        unmated = plural(self.unmated_identities, "identity", "identities")
        return (
            f"gallery of {subjects}, {samples}, scored by {self.scoring}\n"
            f"{plural(self.mated, 'mated probe')} of {mated},"
            f" {self.unmated:,} non-mated of {unmated}"
        )

    def _notes(self) -> dict[str, str]:
        if not self.mated:
            return dict.fromkeys(self.measures(), "no mated probes")
        rare = "fewer than 1/FPIR non-mated probes"
        return self._thresholds("dir_at_fpir", self.threshold_at_fpir, rare)


def identification(
    gallery: Array,
    gallery_labels: Array,
    probes: Array,
    probe_labels: Array,
    *,
    ranks: Iterable[int] = (1, 5, 10),
    fpirs: Iterable[float] = (1e-1, 1e-2, 1e-3),
    scoring: str = "max",
    intervals: bool = False,
    draws: int = DRAWS,
    seed: int = SEED,
    probe_groups: Array | None = None,
) -> Identification:
    """Search every probe in the gallery, by cosine: closed set, and open set with strangers.

    Parameters:
        gallery: (G, D), samples of the enrolled subjects, of which one may have several.
        gallery_labels: (G,) integers, whose samples these are.
        probes: (P, D), the samples to search for.
        probe_labels: (P,) integers; a probe is mated if its label is among the gallery's.
        ranks: the ranks to report, each ≥ 1.
        fpirs: the false positive identification rates to report, each in (0, 1].
        scoring: what a subject scores: `max`, the highest cosine of its samples with the probe, or
            `mean`, the cosine of the probe with the direction of the mean of its unit samples.
        intervals: whether to add 95 % intervals. The gallery stays; the identities of the probes,
            mated and non-mated together, are drawn anew, `draws` times from `seed`. Every draw
            has its own threshold; one with fewer than 1/FPIR non-mated probes is left out.
            Intervals of ranks also cover other galleries of that size, see `search_error`.
        probe_groups: (P,), to draw whole groups of identities, see `bootstrap`.

    The rank of the own subject is 1 plus the number of other subjects that score as much or more:
    ties count against the model. Scores are rounded as `pairs` says.

    Time: a product of P × G × D in float32. Memory beyond the input: float32 copies of it and about
    200 MB; with intervals 16 bytes per draw and identity.

    Raises `InputError` for probes of another width, and for `mean` where the samples of a subject
    cancel out.

        >>> gallery, probes = [[1, 0], [0, 1]], [[1, 0.2], [0.9, 1], [-1, 0.5]]
        >>> result = identification(gallery, [7, 8], probes, [7, 7, 9], ranks=[1, 2], fpirs=[1.0])
        >>> result.rank, result.dir_at_fpir
        ({1: 0.5, 2: 1.0}, {1.0: 0.5})
    """
    asked_ranks = check_counts("ranks", ranks)
    asked_rates = check_rates("fpirs", fpirs)
    check_choice("scoring", scoring, SCORINGS)
    enrolled, subjects, subject_numbers = read_labelled(
        gallery, gallery_labels, "gallery", "gallery_labels"
    )
    searched, identities, identity_numbers = read_labelled(
        probes, probe_labels, "probes", "probe_labels", enrolled.shape[1]
    )
    own = find_labels(identities, subjects)  # (I,)
    entries = Subjects.enroll(enrolled, subject_numbers)
    if scoring == "mean":
        entries = entries.templates(subjects)
    units = unit_rows(searched)
    outcomes = _search(entries, units, identity_numbers, own)
    replicates = None
    if intervals:
        owners = groups_of(identity_numbers, probe_groups)
        resampling = Resampling.of(identities, owners, draws, seed)
        replicates = resampling.replicates(
            outcomes.draw(asked_ranks, asked_rates, resampling.of_identities),
            _rank_errors(
                outcomes, asked_ranks, entries, units, identity_numbers, own, resampling.units
            ),
        )
    mated, unmated = len(outcomes.own), len(outcomes.best)
    points = {fpir: outcomes.roc.at(fpir, unmated) for fpir in asked_rates}
    longest = min(len(subjects), LONGEST_CMC) if mated else 0
    return Identification(
        rank={k: float((outcomes.rank <= k).mean()) if mated else math.nan for k in asked_ranks},
        dir_at_fpir={fpir: points[fpir].tar if mated else math.nan for fpir in asked_rates},
        threshold_at_fpir={fpir: points[fpir].threshold for fpir in asked_rates},
        cmc=np.array([(outcomes.rank <= k).mean() for k in range(1, longest + 1)]),
        curve=outcomes.curve(),
        scoring=scoring,
        subjects=len(subjects),
        samples=len(enrolled),
        mated=mated,
        unmated=unmated,
        mated_identities=int((own >= 0).sum()),
        unmated_identities=int((own < 0).sum()),
        outcomes=outcomes,
        replicates=replicates,
    )


def _search(
    entries: Subjects,
    probes: npt.NDArray[np.float32],
    identities: Rows,
    own: Rows,
) -> Outcomes:
    """Search the `probes`, given the identity of each, and the subject of each identity or −1."""
    subject = own[identities]  # (P,)
    best, score = np.empty((2, len(probes)))
    rank = np.empty(len(probes), dtype=np.intp)
    for part, scores in entries.score(probes):
        each = scores[np.arange(len(scores)), subject[part]]  # of no meaning for strangers
        best[part], score[part] = scores.max(axis=1), each
        rank[part] = (scores >= each[:, None]).sum(axis=1)
    mated, unmated = np.flatnonzero(subject >= 0), np.flatnonzero(subject < 0)
    return Outcomes(
        rank=rank[mated],
        own=score[mated],
        best=best[unmated],
        mated=identities[mated],
        unmated=identities[unmated],
    )


def _rank_errors(
    outcomes: Outcomes,
    ranks: list[int],
    entries: Subjects,
    probes: npt.NDArray[np.float32],
    identities: Rows,
    own: Rows,
    drawn: Rows,
) -> dict[str, float]:
    """The standard errors of the shares within each of `ranks`, by their names.

    drawn: for each identity the number of what it is drawn with. Subjects that no probe is of are
    no identities that could be drawn, and stay.
    """
    if not len(outcomes.rank):
        return {}
    drawn_with = np.full(len(entries.starts), -1)
    drawn_with[own[own >= 0]] = drawn[own >= 0]
    mated = np.flatnonzero(own[identities] >= 0)
    just = np.flatnonzero(np.isin(outcomes.rank - 1, ranks))  # would be within, but for one subject

    def searches() -> Iterator[tuple[Rows, npt.NDArray[np.bool_]]]:
        for part, scores in entries.score(probes[mated[just]]):
            whose = outcomes.mated[just[part]]
            ahead = scores >= scores[np.arange(len(scores)), own[whose], None]
            ahead[np.arange(len(scores)), own[whose]] = False
            yield drawn[whose], ahead

    blocked = find_blocked(searches(), drawn_with, ranks)
    mated_with, units = drawn[outcomes.mated], int(drawn.max()) + 1
    return {
        f"rank[{k:g}]": search_error(outcomes.rank > k, mated_with, pairs, units)
        for k, pairs in blocked.items()
    }
