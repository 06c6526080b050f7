"""A threshold for a wanted FPIR: how many unknown probes a gallery may take for its subjects."""

from dataclasses import dataclass
from typing import Any

from arcset.errors import InputError
from arcset.evaluation.arrays import Array
from arcset.evaluation.calibration.curve import BetaBinomial, GalleryCurve, gallery_sizes
from arcset.evaluation.calibration.impostors import FEWEST_IDENTITY_PAIRS, ImpostorPairs
from arcset.evaluation.calibration.prediction import (
    check_count,
    check_rate,
    predicted_rates,
)
from arcset.evaluation.calibration.spread import OpenSet
from arcset.evaluation.results import Interval

__all__ = ["FpirThreshold", "find_fpir_threshold", "gallery_limit", "threshold_for_fpir"]


@dataclass(frozen=True, kw_only=True)
class FpirThreshold:
    """A threshold for identification in an open set, and what to expect of it.

    Fields:
        threshold: an unknown probe is taken for the subject of highest cosine if that cosine is
            ≥ threshold. A subject's cosine is the highest over its samples.
        fpir: the false positive identification rate wanted: the share of probes of unknown
            identities that are taken for someone.
        seen: the rate at the threshold on the validation identities, ≤ `fpir`: the mean over all
            probes and all galleries of that size; where `extrapolated`, by the model.
        gallery: how many subjects the gallery holds.
        samples_per_subject: how many samples it holds of each.
        extrapolated: whether the gallery is larger than one of the validation identities can be.
        identities, samples: of the validation set.
        curve: rate and spread at the threshold for other sizes of gallery.
    """

    threshold: float
    fpir: float
    seen: float
    gallery: int
    samples_per_subject: int
    extrapolated: bool
    identities: int
    samples: int
    curve: GalleryCurve

    def expect(
        self, unknown: int, *, probes_per_identity: int = 1, gallery: int | None = None
    ) -> Interval:
        """The 95 % prediction interval of the FPIR in a test on fresh identities.

        Parameters:
            unknown: how many unknown identities are probed.
            probes_per_identity: with how many probes each.
            gallery: how many fresh subjects the gallery holds, by default as many as the threshold
                is for.

        It holds the error of the threshold itself, the draw of the test's gallery and the draw of
        the unknown identities, whose probes are alike. It does not hold the error of the model
        where the gallery is `extrapolated`, nor a change of data: fresh identities are meant to
        come from where the validation identities came from.

        Raises `OptionError` unless all are whole numbers of at least 1.
        """
        unknown = check_count("unknown", unknown)
        probes = check_count("probes_per_identity", probes_per_identity)
        size = self.gallery if gallery is None else check_count("gallery", gallery)
        spread = self.curve.at(size)
        return predicted_rates(
            spread.rate,
            spread.validation,
            spread.test_variance(unknown, probes),
            unknown * probes,
        )

    def table(self) -> str:
        """The threshold and what to expect, as aligned plain text."""
        mark = "  (extrapolated)" if self.extrapolated else ""
        return "\n".join(
            [
                f"threshold           {self.threshold:>9.4f}",
                f"gallery             {self.gallery:>9,}{mark}",
                f"FPIR wanted         {self.fpir:>9.4g}",
                f"FPIR seen           {self.seen:>9.4g}",
                f"fresh identities    {self.expect(1000)}  (1000 unknown, 95 %)",
                f"made from           {self.identities:>9,} identities, {self.samples:,} samples",
            ]
        )

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**vars(self), "curve": self.curve.json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "FpirThreshold":
        """What `json` gave."""
        return cls(**{**content, "curve": GalleryCurve.from_json(content["curve"])})


def threshold_for_fpir(
    embeddings: Array, labels: Array, fpir: float, gallery: int, *, samples: int = 1
) -> FpirThreshold:
    """The lowest threshold whose FPIR, for a gallery of that size, is at most `fpir`.

    To be made from *validation* identities: neither trained on, nor reported on afterwards.

    Every identity is used as probe and as gallery member. For a probe the rate is averaged exactly
    over all galleries of `gallery` other identities, with `samples` samples drawn from each (see
    `galleries`); the FPIR is the mean over all probes. Beyond the number of other identities it is
    extrapolated (`extrapolated`): each probe is accepted by a fresh identity with a chance q of its
    own, q ~ Beta, with the two parameters chosen at each threshold such that the rates for
    galleries of 1 and of all other identities are those measured.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers, at least two identities.
        fpir: the wanted rate, in (0, 1).
        gallery: number of subjects in the gallery.
        samples: number of samples per subject. Identities that have fewer are used as probes only.

    Accepted are cosines ≥ threshold, which lies halfway between the lowest cosine that is accepted
    and the next, so that ties are accepted or rejected together. Of very large sets only the
    highest four million cosines are looked at; a threshold never lies below these.

    Raises `InputError` for embeddings or labels as `verification` does, and where the validation
    set cannot support the rate, that is, where the accepted pairs come from fewer than ten pairs of
    identities. Raises `OptionError` for a rate or size out of range.

        >>> import numpy as np
        >>> points = np.random.default_rng(0).normal(size=(120, 16))
        >>> found = threshold_for_fpir(points, np.arange(120) // 2, fpir=0.1, gallery=20)
        >>> round(found.threshold, 2), found.extrapolated
        (0.61, False)
        >>> print(found.expect(unknown=200))
        [0.0500, 0.1600]
    """
    fpir = check_rate("fpir", fpir)
    gallery, samples = check_count("gallery", gallery), check_count("samples", samples)
    return find_fpir_threshold(ImpostorPairs.of(embeddings, labels), fpir, gallery, samples)


def find_fpir_threshold(
    pairs: ImpostorPairs, fpir: float, gallery: int, samples: int = 1
) -> FpirThreshold:
    """As `threshold_for_fpir`, from impostor pairs."""
    members = gallery_limit(pairs, samples)
    accepted = pairs.whole_ties(_most_accepted(pairs, fpir, gallery, samples, members))
    support = pairs.support(accepted)
    if support < FEWEST_IDENTITY_PAIRS:
        raise InputError(
            f"{len(pairs.sizes):,} validation identities do not support FPIR {fpir:g} with a"
            f" gallery of {gallery:,}: the threshold would rest on {support} pairs of identities,"
            f" expected at least {FEWEST_IDENTITY_PAIRS}"
        )
    state = OpenSet(pairs, accepted, samples)
    curve = GalleryCurve.of(state, gallery_sizes(members, gallery))
    return FpirThreshold(
        threshold=pairs.threshold(accepted),
        fpir=fpir,
        seen=curve.at(gallery).rate,
        gallery=gallery,
        samples_per_subject=samples,
        extrapolated=gallery > members,
        identities=len(pairs.sizes),
        samples=len(pairs.identity),
        curve=curve,
    )


def gallery_limit(pairs: ImpostorPairs, samples: int) -> int:
    """The largest gallery that leaves every probe's own identity out.

    Raises `InputError` where there is none.
    """
    large = int((pairs.sizes >= samples).sum())
    if large < 2:
        raise InputError(
            f"{large} identities have at least {samples} samples, expected two or more for a"
            f" gallery with {samples} samples per subject"
        )
    return large - 1


def _most_accepted(
    pairs: ImpostorPairs, fpir: float, gallery: int, samples: int, members: int
) -> int:
    """The highest number of first pairs that may be accepted; it may split ties."""

    def holds(accepted: int) -> bool:
        state = OpenSet(pairs, accepted, samples)
        if gallery <= members:
            return state.rate(gallery) <= fpir
        model = BetaBinomial.through(state.rate(1), state.rate(members), members)
        return model.rate(gallery) <= fpir

    # The rate is at most G times that of a single identity, so this many are rarely too many.
    low, high = 0, max(1, int(fpir / (gallery * samples) * pairs.count))
    high = min(high, len(pairs.cosines))
    while holds(high):
        if high == len(pairs.cosines):
            return high
        low, high = high, min(2 * high, len(pairs.cosines))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
