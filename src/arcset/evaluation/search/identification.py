"""Identification, 1:N: whose sample is it, if it is of anybody enrolled?"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError
from arcset.evaluation.arrays import (
    Array,
    check_choice,
    class_numbers,
    embedding_matrix,
    refuse_zero_rows,
)
from arcset.evaluation.bootstrap import DRAWS, SEED, draw_key, identity_weights
from arcset.evaluation.checks import check_count, checked_counts, checked_rates
from arcset.evaluation.results import Replicates, Result
from arcset.evaluation.search.open_set import IdentificationCurve, Outcomes
from arcset.evaluation.search.subjects import Subjects
from arcset.text import plural

__all__ = ["SCORINGS", "Identification", "identification"]

SCORINGS = ("max", "mean")
LONGEST_CMC = 100


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
        found, best = self.outcomes.found, self.outcomes.best
        return (
            float((best >= threshold).mean()) if self.unmated else math.nan,
            float((found >= threshold).sum() / self.mated) if self.mated else math.nan,
        )

    def table(self) -> str:
        """The measures as aligned plain text; what the probes cannot tell carries a mark."""
        subjects, samples = plural(self.subjects, "subject"), plural(self.samples, "sample")
        mated = plural(self.mated_identities, "identity", "identities")
        unmated = plural(self.unmated_identities, "identity", "identities")
        lines = [
            f"gallery           {subjects}, {samples}, scored by {self.scoring}",
            f"mated probes      {self.mated:,} of {mated}",
            f"non-mated probes  {self.unmated:,} of {unmated}",
        ]
        if self.rank:
            mark = "" if self.mated else "  †"
            lines += ["", f"{'rank':>8}  share found"]
            lines += [f"{k:>8}  {self.shown(f'rank[{k}]')}{mark}" for k in self.rank]
        if self.dir_at_fpir:
            shown = {fpir: self.shown(f"dir_at_fpir[{fpir!r}]") for fpir in self.dir_at_fpir}
            width = max(len("DIR"), *map(len, shown.values()))
            lines += ["", f"{'FPIR':>8}  {'DIR':<{width}}  threshold"]
            for fpir, text in shown.items():
                threshold = self.threshold_at_fpir[fpir]
                number = "–" if math.isnan(threshold) else f"{threshold:.4f}"
                mark = ("" if self.mated else "  †") + ("  *" if math.isnan(threshold) else "")
                lines.append(f"{fpir:>8g}  {text:<{width}}  {number:>9}{mark}")
        if not self.mated:
            lines.append("† no mated probes")
        if any(math.isnan(threshold) for threshold in self.threshold_at_fpir.values()):
            lines.append("* fewer than 1/FPIR non-mated probes")
        return "\n".join(lines)


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
) -> Identification:
    """Search every probe in the gallery, by cosine: closed set, and open set with strangers.

    Parameters:
        gallery: (G, D), samples of the enrolled subjects, numpy or torch, any float type, no row
            all zero. A subject may have several.
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

    The rank of the own subject is 1 plus the number of other subjects that score as much or more:
    ties count against the model. Scores are those of float64, rounded to 2⁻⁴⁰.

    Time: a product of P × G × D in float32. Memory beyond the input: one float32 copy of the
    gallery and about 200 MB, with `mean` a float64 row per subject; with intervals 16 bytes per
    draw and identity.

    Raises `InputError` for embeddings that are not a finite (N, D) matrix or hold a row of zeros,
    probes of another width, labels that are not integers, one per row, and for `mean` where the
    samples of a subject cancel out. Raises `OptionError` for an option out of range.

        >>> gallery, probes = [[1, 0], [0, 1]], [[1, 0.2], [0.9, 1], [-1, 0.5]]
        >>> found = identification(gallery, [7, 8], probes, [7, 7, 9], ranks=[1, 2], fpirs=[1.0])
        >>> found.rank, found.dir_at_fpir
        ({1: 0.5, 2: 1.0}, {1.0: 0.5})
    """
    asked_ranks = checked_counts("ranks", ranks)
    asked_rates = checked_rates("fpirs", fpirs)
    check_choice("scoring", scoring, SCORINGS)
    check_count("draws", draws)
    check_count("seed", seed, least=0)
    enrolled = embedding_matrix(gallery, "gallery")
    subjects, subject_numbers = class_numbers(gallery_labels, len(enrolled), "gallery_labels")
    searched = embedding_matrix(probes, "probes")
    identities, identity_numbers = class_numbers(probe_labels, len(searched), "probe_labels")
    if searched.shape[1] != enrolled.shape[1]:
        raise InputError(
            f"probes have {searched.shape[1]} columns, expected {enrolled.shape[1]} as the gallery"
        )
    refuse_zero_rows(enrolled, "gallery")
    refuse_zero_rows(searched, "probes")

    # By value, as the two arrays of labels may be of types that numpy compares as floats.
    number_of = {label: number for number, label in enumerate(subjects.tolist())}
    own = np.array([number_of.get(label, -1) for label in identities.tolist()])  # (I,)
    if scoring == "max" or len(subjects) == len(enrolled):
        entries = Subjects.enroll(enrolled, subject_numbers)
    else:
        entries = Subjects.templates(enrolled, subject_numbers, subjects)
    outcomes = _search(entries, searched, identity_numbers, own)
    once = np.ones((1, len(identities)))
    places = np.arange(1, min(len(subjects), LONGEST_CMC) + 1 if outcomes.mated.size else 1)
    return Identification(
        rank={k: float(outcomes.share_within(k, once)[0]) for k in asked_ranks},
        dir_at_fpir={
            fpir: float(rate[0])
            for fpir, rate in zip(asked_rates, outcomes.dir_at(asked_rates, once), strict=True)
        },
        threshold_at_fpir={fpir: outcomes.threshold_at(fpir) for fpir in asked_rates},
        cmc=np.searchsorted(np.sort(outcomes.rank), places, "right") / max(1, len(outcomes.rank)),
        curve=outcomes.curve(),
        scoring=scoring,
        subjects=len(subjects),
        samples=len(enrolled),
        mated=len(outcomes.mated),
        unmated=len(outcomes.unmated),
        mated_identities=int((own >= 0).sum()),
        unmated_identities=int((own < 0).sum()),
        outcomes=outcomes,
        replicates=_replicates(outcomes, asked_ranks, asked_rates, identities, draws, seed)
        if intervals
        else None,
    )


def _search(
    entries: Subjects,
    probes: npt.NDArray[Any],
    identities: npt.NDArray[np.intp],
    own: npt.NDArray[np.intp],
) -> Outcomes:
    """Search the `probes`, given the identity of each, and the subject of each identity or −1."""
    mated = np.flatnonzero(own[identities] >= 0)
    unmated = np.flatnonzero(own[identities] < 0)
    scores, ranks = entries.own_and_rank(probes, mated, own[identities[mated]])
    return Outcomes(
        rank=ranks,
        own=scores,
        best=entries.best(probes, unmated),
        mated=identities[mated],
        unmated=identities[unmated],
    )


def _replicates(
    outcomes: Outcomes,
    ranks: list[int],
    fpirs: list[float],
    identities: npt.NDArray[Any],
    draws: int,
    seed: int,
) -> Replicates:
    weights = identity_weights(len(identities), draws, seed)
    values = {f"rank[{k:g}]": outcomes.share_within(k, weights) for k in ranks}
    for fpir, rate in zip(fpirs, outcomes.dir_at(fpirs, weights), strict=True):
        values[f"dir_at_fpir[{fpir:g}]"] = rate
    return Replicates(values, len(identities), draw_key(identities, seed, draws))
