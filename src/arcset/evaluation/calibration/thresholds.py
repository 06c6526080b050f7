"""Thresholds and calibration of one model, as kept in a run folder: threshold.json.

Rates by threshold, so that a threshold for any rate and gallery can be found without embeddings.

A row per threshold, from loose to strict: the FAR falls by a factor of √2 from row to row, down to
where ten pairs of identities are left. Between rows the logarithm of a rate is nearly straight.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self, overload

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from arcset.checks import check_count, check_rate
from arcset.errors import InputError, RunError
from arcset.evaluation.arrays import Array, as_array, embedding_matrix
from arcset.evaluation.calibration.far import (
    Cosine,
    FarThreshold,
    PairSpread,
    Share,
    find_far_threshold,
    pair_spread,
)
from arcset.evaluation.calibration.fpir import (
    FpirThreshold,
    GalleryCurve,
    OpenSet,
    RoundedShare,
    find_fpir_threshold,
    gallery_limit,
    gallery_sizes,
)
from arcset.evaluation.calibration.probability import Calibration, calibrate_identities
from arcset.evaluation.pairs import FEWEST_IDENTITY_PAIRS, ImpostorPairs
from arcset.evaluation.results import Missing
from arcset.evaluation.verification import verification
from arcset.files import parse_json, write_text, wrong_entry
from arcset.text import columns

KIND = "arcset thresholds"
VERSION = 1
LOOSEST = 0.25  # FAR of the first row
MOST_FOLLOWED = 2**19  # accepted pairs up to which galleries are followed
_FIELDS = ("rate", *PairSpread.powers)


@dataclass(frozen=True)
class RateTable:
    """Rates and their spread at rising thresholds.

    Fields:
        samples_per_subject: how many samples a gallery holds of each subject.
        identities, samples: of the validation set.
        thresholds: rising.
        far: the fields of `PairSpread` by name, each at every threshold.
        curves: the FPIR by size of gallery; for the last thresholds only, as many as there are.
    """

    samples_per_subject: Annotated[int, Field(ge=1)]
    identities: Annotated[int, Field(ge=2)]
    samples: Annotated[int, Field(ge=2)]
    thresholds: tuple[Cosine, ...]
    far: Mapping[str, tuple[RoundedShare, ...]]
    curves: Annotated[tuple[GalleryCurve, ...], Field(alias="fpir")]

    @classmethod
    def of(cls, pairs: ImpostorPairs, samples: int = 1) -> "RateTable":
        """Measured on the validation set; without rows where it supports no rate at all."""
        sizes = gallery_sizes(gallery_limit(pairs, samples))
        rows: list[int] = []
        step = 0
        while True:
            wanted = int(LOOSEST * 2 ** (-step / 2) * pairs.count)
            step += 1
            accepted = pairs.whole_ties(min(wanted, len(pairs.cosines)))
            if pairs.support(accepted) < FEWEST_IDENTITY_PAIRS:
                break
            if not rows or accepted < rows[-1]:
                rows.append(accepted)
        spreads = [asdict(pair_spread(pairs, accepted)) for accepted in rows]
        curves = (
            GalleryCurve.of(OpenSet(pairs, accepted, samples), sizes)
            for accepted in rows
            if accepted <= MOST_FOLLOWED
        )
        return cls(
            samples_per_subject=samples,
            identities=len(pairs.sizes),
            samples=len(pairs.identity),
            thresholds=tuple(pairs.threshold(accepted) for accepted in rows),
            far={name: tuple(spread[name] for spread in spreads) for name in _FIELDS},
            curves=tuple(curves),
        )

    @classmethod
    def empty(cls, identities: int, samples: int) -> "RateTable":
        """A table without rows: no rate is supported."""
        return cls(1, identities, samples, (), dict.fromkeys(_FIELDS, ()), ())

    @model_validator(mode="after")
    def check(self) -> Self:
        """Of what is read from a file: thresholds rise, rates fall, and their numbers agree."""
        rows = {len(self.thresholds), *map(len, self.far.values())}
        if self.far.keys() != set(_FIELDS) or len(rows) > 1:
            raise ValueError("the rates are not as many as the thresholds")
        rising = all(low < high for low, high in pairwise(self.thresholds))
        falling = all(high > low for high, low in pairwise(self.far["rate"]))
        if not (rising and falling and len(self.curves) <= len(self.thresholds)):
            raise ValueError("the thresholds do not rise, or the false accept rates do not fall")
        return self

    @property
    def lowest_far(self) -> float | None:
        """The lowest FAR that the validation set supports; None where it supports none."""
        return self.far["rate"][-1] if self.thresholds else None

    def lowest_fpir(self, gallery: int) -> float | None:
        """The same for an FPIR with a gallery of this size."""
        return min((curve.at(gallery).rate for curve in self.curves), default=None)

    def for_far(self, far: float) -> FarThreshold:
        """The threshold where the FAR is `far`, or the first one where even that accepts less.

        Raises `InputError` where the last row accepts more.
        """
        row, share = self._find(self.far["rate"], far, "a FAR")
        lower, upper = (
            PairSpread(**{name: column[one] for name, column in self.far.items()})
            for one in (max(row - 1, 0), row)
        )
        spread = lower.towards(upper, share)
        return FarThreshold(
            threshold=_between(self.thresholds, row, share),
            far=far,
            seen=spread.rate,
            identities=self.identities,
            samples=self.samples,
            spread=spread,
        )

    def for_fpir(self, fpir: float, gallery: int) -> FpirThreshold:
        """The threshold where the FPIR is `fpir`, or the first one where even that accepts less.

        Raises `InputError` where the last row accepts more.
        """
        rates = [curve.at(gallery).rate for curve in self.curves]
        row, share = self._find(rates, fpir, "an FPIR", f" with a gallery of {gallery:,}")
        return self._fpir_at(fpir, gallery, row, share)

    def strictest(self, gallery: int) -> FpirThreshold:
        """The threshold of the lowest FPIR there is, which may be a high one for a large gallery.

        There must be one, as `lowest_fpir` says.
        """
        rates = [curve.at(gallery).rate for curve in self.curves]
        return self._fpir_at(min(rates), gallery, int(np.argmin(rates)), 1.0)

    def _fpir_at(self, fpir: float, gallery: int, row: int, share: float) -> FpirThreshold:
        lower, upper = self.curves[max(row - 1, 0)], self.curves[row]
        both = zip(lower.spreads, upper.spreads, strict=False)
        spreads = [loose.towards(strict, share) for loose, strict in both]
        curve = GalleryCurve.through(upper.galleries, spreads)
        return FpirThreshold(
            threshold=_between(self.thresholds[-len(self.curves) :], row, share),
            fpir=fpir,
            seen=curve.at(gallery).rate,
            gallery=gallery,
            samples_per_subject=self.samples_per_subject,
            extrapolated=gallery > upper.galleries[-1],
            identities=self.identities,
            samples=self.samples,
            curve=curve,
        )

    def _find(
        self, rates: Sequence[float], wanted: float, kind: str, where: str = ""
    ) -> tuple[int, float]:
        """The first row whose rate is ≤ `wanted`, and how far it lies on the way from the last."""
        falling = np.minimum.accumulate(rates) if rates else np.ones(1)
        if falling[-1] > wanted:
            name = kind.split()[-1]
            best = f"{kind} of {rounded_up(falling[-1]):g} at best" if rates else f"no {name}"
            raise InputError(
                f"{self.identities:,} validation identities support {best}{where}: {name}"
                f" {wanted:g} takes a calibration on more"
            )
        row = int(np.argmax(falling <= wanted))
        if row == 0:
            return 0, 1.0
        before, after = falling[row - 1], falling[row]
        return row, math.log(before / wanted) / math.log(before / after)


def _between(thresholds: tuple[float, ...], row: int, share: float) -> float:
    """A `share` of the way from the threshold of the row before to that of `row`."""
    before = thresholds[max(row - 1, 0)]
    return before + share * (thresholds[row] - before)


def rounded_up(rate: float) -> float:
    """To two digits, so that it can be asked for.

    >>> rounded_up(0.01234), rounded_up(0.5), rounded_up(0.999)
    (0.013, 0.5, 1.0)
    """
    step = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return float(f"{math.ceil(rate / step - 1e-9) * step:.2g}")


@dataclass(frozen=True)
class EqualError:
    """The threshold where false accepts and false rejects are equally frequent, and their rate."""

    threshold: Cosine
    rate: Share


def _check_origin(made_from: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("identities", "samples", "dimension"):
        if not isinstance(made_from.get(name), int) or made_from[name] < 1:
            raise ValueError(f"it was made from {made_from.get(name)!r} {name}")
    return made_from


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Thresholds for wanted rates, and the probability of a cosine, from one validation set.

    Fields:
        made_from: what the caller said (dataset, split, part, …), and `identities`, `samples`,
            `dimension` and a `digest` of embeddings and labels.
        fars: the thresholds for the FARs asked for.
        fpirs: those for the FPIRs and gallery sizes asked for.
        unsupported: what was asked for but cannot be told from so few identities, and why.
        calibration: from cosine to probability.
        rates: rates by threshold, for all other rates and gallery sizes.
        equal_error: where there are too few identities for any FAR or for any FPIR, the
            equal-error threshold, to be used instead; else None.
    """

    made_from: Annotated[Mapping[str, Any], AfterValidator(_check_origin)]
    fars: Annotated[tuple[FarThreshold, ...], Field(alias="far")]
    fpirs: Annotated[tuple[FpirThreshold, ...], Field(alias="fpir")]
    unsupported: Mapping[str, str]
    calibration: Calibration
    rates: RateTable
    equal_error: EqualError | None = None

    @property
    def rough(self) -> bool:
        """Whether there is nothing but the equal-error threshold: no FAR is supported."""
        return self.rates.lowest_far is None

    @property
    def origin(self) -> str:
        """What the thresholds were made from, in words: "4 validation identities"."""
        count, part = self.made_from["identities"], self.made_from.get("part", "")
        if part in ("validation", "held-out"):
            return f"{count:,} {part} identities"
        return f"{count:,} identities{f' ({part})' if part else ''}"

    def for_far(self, far: float) -> FarThreshold:
        """The threshold for a FAR: as measured if it was asked for when made, else interpolated.

        Raises `InputError` for a rate that the validation identities cannot support, `OptionError`
        for one out of range.
        """
        far = check_rate("far", far)
        for item in self.fars:
            if item.far == far:
                return item
        return self.rates.for_far(far)

    def for_fpir(self, fpir: float, gallery: int) -> FpirThreshold:
        """The threshold for an FPIR with a gallery of so many subjects, measured or interpolated.

        It is `extrapolated` where the gallery is larger than the validation set. The threshold is
        for `samples_per_subject` samples of each; where a gallery holds more, its number of samples
        divided by that is a size on the safe side.

        Raises `InputError` for a rate that the validation identities cannot support, `OptionError`
        for a rate or size out of range.
        """
        fpir, gallery = check_rate("fpir", fpir), check_count("gallery", gallery)
        for item in self.fpirs:
            if item.fpir == fpir and item.gallery == gallery:
                return item
        return self.rates.for_fpir(fpir, gallery)

    @overload
    def probability(self, cosine: float) -> float: ...
    @overload
    def probability(self, cosine: npt.NDArray[Any]) -> npt.NDArray[np.float64]: ...
    def probability(self, cosine: Any) -> Any:
        """The probability that two embeddings are of the same identity, at the prior."""
        return self.calibration.probability(cosine)

    def table(self) -> str:
        """All thresholds as aligned plain text, with what 1000 fresh identities will show."""
        rows = [(f"FAR {item.far:g}", "", item.threshold, item.expect(1000)) for item in self.fars]
        for item in self.fpirs:
            gallery = f"{item.gallery:,}{' (extrapolated)' if item.extrapolated else ''}"
            rows.append((f"FPIR {item.fpir:g}", gallery, item.threshold, item.expect(1000)))
        cells = [
            [rate, gallery, f"{threshold:.4f}", f"{expected.low:.3g} to {expected.high:.3g}"]
            for rate, gallery, threshold, expected in rows
        ]
        if self.equal_error is not None:
            equal = self.equal_error
            cells.append([f"EER {equal.rate:.3g}", "", f"{equal.threshold:.4f}", "rough"])
        made_from = f"from {self.origin}, {self.made_from['samples']:,} samples"
        heading = ["rate", "gallery", "threshold", "fresh identities (95 %)"]
        reasons = [f"unsupported: {what}: {why}" for what, why in self.unsupported.items()]
        return "\n".join([made_from, "", columns(heading, cells), *reasons])

    def json(self) -> dict[str, Any]:
        content = TypeAdapter(Thresholds).dump_python(self, mode="json", by_alias=True)
        return {"kind": KIND, "version": VERSION, **content}

    def summary(self) -> dict[str, Any]:
        """What was asked for and found, and what the validation identities do not support."""
        return {
            "made_from": dict(self.made_from),
            "far": {f"{item.far:g}": item.threshold for item in self.fars},
            "fpir": [
                {
                    "fpir": item.fpir,
                    "gallery": item.gallery,
                    "threshold": item.threshold,
                    "extrapolated": item.extrapolated,
                }
                for item in self.fpirs
            ],
            "unsupported": dict(self.unsupported),
            "rough": self.rough,
            "equal_error": None if self.equal_error is None else asdict(self.equal_error),
        }

    def save(self, path: str | Path) -> None:
        """Write threshold.json; what stands at `path` is replaced at once or not at all."""
        write_text(Path(path), json.dumps(self.json(), ensure_ascii=False, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "Thresholds":
        """Read what `save` wrote; raises `RunError` for a missing, damaged or foreign file."""
        try:
            content = parse_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{path} is missing or damaged: {error}") from None
        return cls.from_json(content, str(path))

    @classmethod
    def from_json(cls, content: Any, source: str = "the content") -> "Thresholds":
        """What `json` gave; raises `RunError` that begins with `source` for anything else."""
        if not isinstance(content, dict) or content.get("kind") != KIND:
            raise RunError(f"{source} does not hold thresholds, expected a file made by arcset")
        if content.get("version") != VERSION:
            raise RunError(
                f"{source} is of version {content.get('version')!r}, expected version {VERSION}"
            )
        try:
            thresholds: Thresholds = TypeAdapter(Thresholds).validate_python(content)
        except ValidationError as error:
            raise RunError(f"{source} is damaged: {wrong_entry(error)}") from None
        if thresholds.rough and thresholds.equal_error is None:
            raise RunError(f"{source} is damaged: it holds no threshold at all")
        return thresholds


def make_thresholds(
    embeddings: Array,
    labels: Array,
    *,
    fars: Iterable[float] = (1e-2, 1e-3, 1e-4),
    fpirs: Iterable[float] = (0.1, 0.01, 0.001),
    galleries: Iterable[int] | None = None,
    samples: int = 1,
    method: str = "smooth",
    prior: float | None = 0.5,
    made_from: Mapping[str, Any] | None = None,
) -> Thresholds:
    """Everything for threshold.json, from validation identities.

    To be made from identities that were neither trained on, nor are reported on afterwards.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers; at least two identities, one of them with two samples.
        fars, fpirs: the rates to list; others can be asked for later.
        galleries: the gallery sizes to list; by default the powers of ten from 10 to ten times the
            number of validation identities, and the largest gallery of these. Others can be asked
            for later.
        samples: how many samples a gallery holds of each subject.
        method, prior: as in `calibrate`.
        made_from: names of dataset, split and part, or whatever else tells where this comes from;
            plain values that JSON can hold.

    Rates that the validation set cannot support are listed under `unsupported`; where it supports
    none at all, the result is `rough`, with the equal-error threshold. Time and memory
    are bounded by the four million highest impostor cosines; 10,000 samples of 2,000 identities
    take seconds.

    Raises `InputError` for bad embeddings or labels and where there is no genuine or no impostor
    pair. Raises `OptionError` for rates or sizes out of range.

        >>> points = np.random.default_rng(0).normal(size=(300, 16))
        >>> made = make_thresholds(points, np.arange(300) // 2, made_from={"part": "validation"})
        >>> made.made_from["identities"], made.for_fpir(0.1, gallery=40).extrapolated
        (150, False)
        >>> made.for_fpir(0.1, gallery=40).threshold < made.for_fpir(0.1, gallery=400).threshold
        True
    """
    wanted_fars = [check_rate("fars", far) for far in fars]
    wanted_fpirs = [check_rate("fpirs", fpir) for fpir in fpirs]
    samples = check_count("samples", samples)
    pairs = ImpostorPairs.of(embeddings, labels)
    limit = gallery_limit(pairs, samples)
    if galleries is None:
        tens = {10**power for power in range(1, 12) if 10**power <= 10 * (limit + 1)}
        sizes = sorted(tens | {limit})
    else:
        sizes = [check_count("galleries", size) for size in galleries]

    unsupported = Missing()
    found_fars = [
        unsupported.attempt(f"FAR {far:g}", partial(find_far_threshold, pairs, far))
        for far in wanted_fars
    ]
    found_fpirs = [
        unsupported.attempt(
            f"FPIR {fpir:g}, gallery {size}",
            partial(find_fpir_threshold, pairs, fpir, size, samples),
        )
        for fpir in wanted_fpirs
        for size in sizes
    ]
    rates = RateTable.of(pairs, samples)
    if rates.lowest_far is None:
        rough = make_rough_thresholds(
            embeddings, labels, method=method, prior=prior, made_from=made_from
        )
        return replace(rough, unsupported=unsupported)
    return Thresholds(
        made_from=_described(embeddings, labels, made_from),
        fars=tuple(item for item in found_fars if item is not None),
        fpirs=tuple(item for item in found_fpirs if item is not None),
        unsupported=unsupported,
        calibration=calibrate_identities(embeddings, labels, method, prior=prior),
        rates=rates,
        equal_error=None if rates.curves else _equal_error(embeddings, labels),
    )


def make_rough_thresholds(
    embeddings: Array,
    labels: Array,
    *,
    method: str = "smooth",
    prior: float | None = 0.5,
    made_from: Mapping[str, Any] | None = None,
) -> Thresholds:
    """Thresholds that promise no rate: the equal-error threshold, and a probability.

    For identities that are too few to tell how rare an accident is, and for those that the model
    was trained on, of which no rate holds for others. Parameters and errors as in
    `make_thresholds`.

        >>> made = make_rough_thresholds([[1, 0], [9, 1], [0, 1], [1, 9]], [0, 0, 1, 1])
        >>> made.rough, round(made.equal_error.threshold, 2), made.equal_error.rate
        (True, 0.61, 0.0)
    """
    described = _described(embeddings, labels, made_from)
    return Thresholds(
        made_from=described,
        fars=(),
        fpirs=(),
        unsupported={},
        calibration=calibrate_identities(embeddings, labels, method, prior=prior),
        rates=RateTable.empty(described["identities"], described["samples"]),
        equal_error=_equal_error(embeddings, labels),
    )


def _equal_error(embeddings: Array, labels: Array) -> EqualError:
    result = verification(embeddings, labels)
    return EqualError(result.eer_threshold, result.eer)


def _described(
    embeddings: Array, labels: Array, made_from: Mapping[str, Any] | None
) -> dict[str, Any]:
    """`made_from`, with the size of the set and its digest."""
    matrix, numbers = embedding_matrix(embeddings), as_array(labels, "labels")
    digest = hashlib.sha256(f"{matrix.shape}".encode())
    for start in range(0, len(matrix), 4096):  # equal for the same values in float32 and float64
        digest.update(np.ascontiguousarray(matrix[start : start + 4096], dtype="<f8").tobytes())
    digest.update(numbers.astype("<i8").tobytes())
    return {
        **(made_from or {}),
        "identities": len(np.unique(numbers)),
        "samples": len(matrix),
        "dimension": matrix.shape[1],
        "digest": digest.hexdigest(),
    }
