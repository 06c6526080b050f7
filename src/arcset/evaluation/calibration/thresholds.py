"""Thresholds and calibration of one model, as kept in a run folder: threshold.json."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, overload

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from arcset.checks import check_count, check_rate
from arcset.errors import InputError, RunError
from arcset.evaluation.arrays import Array, as_array, embedding_matrix
from arcset.evaluation.bootstrap import groups_of
from arcset.evaluation.calibration.far import Cosine, FarThreshold, Share
from arcset.evaluation.calibration.fpir import FpirThreshold, gallery_limit
from arcset.evaluation.calibration.probability import Calibration, calibrate_identities
from arcset.evaluation.calibration.table import (
    RateTable,
    find_far_threshold,
    find_fpir_threshold,
)
from arcset.evaluation.calibration.templates import IMAGES, Scoring, Template, make_templates
from arcset.evaluation.pairs import ImpostorPairs
from arcset.evaluation.verification import verification
from arcset.files import parse_json, write_text, wrong_entry
from arcset.text import columns

KIND = "arcset thresholds"
VERSION = 1
USUAL_FAR = 1e-3  # one in a thousand pairs of different identities is taken for the same
HIGHEST_FAR = 0.1  # of a threshold that is used where nobody asked for a rate
FRESH = 1000  # identities of a test that tables and messages tell the rates of


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
        calibration: from cosine to probability.
        rates: rates by threshold, for all other rates and gallery sizes.
        equal_error: where no FAR of 0.1 or less can be pinned down, or the identities were trained
            on, the equal-error threshold, to be used where no rate is asked for; else None.
        in_training: whether the model was trained on these identities. It tells them apart better
            than others, for whom every rate is higher.
        templates: the same for subjects of several images, each scored as a set.
    """

    made_from: Annotated[Mapping[str, Any], AfterValidator(_check_origin)]
    fars: Annotated[tuple[FarThreshold, ...], Field(alias="far")]
    fpirs: Annotated[tuple[FpirThreshold, ...], Field(alias="fpir")]
    calibration: Calibration
    rates: RateTable
    equal_error: EqualError | None = None
    in_training: bool = False
    templates: tuple[Template, ...] = ()

    @property
    def rough(self) -> bool:
        """Whether no FAR of 0.1 or less can be pinned down for others."""
        return self.equal_error is not None

    @property
    def origin(self) -> str:
        """What the thresholds were made from, in words: "4 validation identities"."""
        count, part = self.made_from["identities"], self.made_from.get("part", "")
        if part in ("validation", "held-out"):
            return f"{count:,} {part} identities"
        return f"{count:,} identities{f' ({part})' if part else ''}"

    def for_far(self, far: float) -> FarThreshold:
        """The threshold for a FAR: as measured if it was asked for when made, else interpolated.

        Where the validation identities are too few for the rate it is `rough`, and where not even
        its order of magnitude is known, not `pinned`. Raises `OptionError` for a rate out of range.
        """
        far = check_rate("far", far)
        for item in self.fars:
            if item.far == far:
                return item
        return self.rates.for_far(far)

    def usual(self) -> FarThreshold:
        """The threshold where no rate is asked for, with the rate that it has.

        It is for a FAR of 1e-3, or the lowest that can be pinned down; where none of 0.1 or less
        can, and of training identities, it is the equal-error threshold.
        """
        if self.equal_error is not None:
            return self.rates.at(self.equal_error.threshold)
        found, lowest = self.for_far(USUAL_FAR), self.rates.lowest_far
        if found.pinned or lowest is None:
            return found
        return self.for_far(rounded_up(lowest))

    def for_fpir(self, fpir: float, gallery: int) -> FpirThreshold:
        """The threshold for an FPIR with a gallery of so many subjects, measured or interpolated.

        It is `extrapolated` where the gallery is larger than the validation set, and `rough` or not
        `pinned` as that of a FAR. The threshold is for `samples_per_subject` samples of each; where
        a gallery holds more, its number of samples divided by that is a size on the safe side.

        Raises `OptionError` for a rate or size out of range.
        """
        fpir, gallery = check_rate("fpir", fpir), check_count("gallery", gallery)
        for item in self.fpirs:
            if item.fpir == fpir and item.gallery == gallery:
                return item
        return self.rates.for_fpir(fpir, gallery)

    def for_template(self, scoring: str, images: float) -> "Thresholds":
        """The thresholds and probabilities where a subject is a set of so many images.

        They are those of the sets with the same scoring and number of images, or of the next that
        are on the safe side: with fewer images, and a scoring that looks at fewer of them, as the
        best one scores more than the mean of the best three, and this more than the mean of all.
        Without any they are those of single images, or of what `samples` they were made for.

            >>> points = np.random.default_rng(0).normal(size=(300, 16))
            >>> made = make_thresholds(points, np.arange(300) // 6, scorings=["mean", "max"])
            >>> made.for_template("top-2", 4.5).rates.samples_per_subject
            3
        """
        wanted = Scoring.of(scoring)
        fitting = [one for one in self.templates if one.fits(wanted, images)]
        if not fitting:
            return self
        chosen = max(fitting, key=lambda one: (one.rates.samples_per_subject, one.depth))
        return replace(
            self,
            fars=(),
            fpirs=(),
            rates=chosen.rates,
            calibration=chosen.calibration,
        )

    @overload
    def probability(self, cosine: float) -> float: ...
    @overload
    def probability(self, cosine: npt.NDArray[Any]) -> npt.NDArray[np.float64]: ...
    def probability(self, cosine: Any) -> Any:
        """The probability that two embeddings are of the same identity, at the prior."""
        return self.calibration.probability(cosine)

    def table(self) -> str:
        """All thresholds as aligned plain text, with what 1000 fresh identities will show."""
        promises = not self.in_training
        cells = [
            [f"FAR {one.far:.3g}", "", f"{one.threshold:.4f}", expected_words(one)]
            for one in self.fars * promises
        ]
        for item in self.fpirs * promises:
            gallery = f"{item.gallery:,}{' (extrapolated)' if item.extrapolated else ''}"
            rate = f"FPIR {item.fpir:.3g}"
            cells.append([rate, gallery, f"{item.threshold:.4f}", expected_words(item)])
        if self.equal_error is not None:
            equal = self.equal_error
            cells.append([f"EER {equal.rate:.3g}", "", f"{equal.threshold:.4f}", "rough"])
        made_from = f"from {self.origin}, {self.made_from['samples']:,} samples"
        heading = ["rate", "gallery", "threshold", "fresh identities (95 %)"]
        return "\n".join([made_from, "", columns(heading, cells)])

    def json(self) -> dict[str, Any]:
        content = TypeAdapter(Thresholds).dump_python(self, mode="json", by_alias=True)
        return {"kind": KIND, "version": VERSION, **content}

    def summary(self) -> dict[str, Any]:
        """What was asked for, and how far each rate is known."""
        return {
            "made_from": dict(self.made_from),
            "far": [{"far": item.far, **_rate_fields(item)} for item in self.fars],
            "fpir": [
                {
                    "fpir": item.fpir,
                    "gallery": item.gallery,
                    "extrapolated": item.extrapolated,
                    **_rate_fields(item),
                }
                for item in self.fpirs
            ],
            "lowest_far": self.rates.lowest_far,
            "rough": self.rough,
            "equal_error": None if self.equal_error is None else asdict(self.equal_error),
            "in_training": self.in_training,
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
        return thresholds


def rounded_up(rate: float) -> float:
    """To two digits, so that it can be asked for.

    >>> rounded_up(0.01234), rounded_up(0.5), rounded_up(0.999)
    (0.013, 0.5, 1.0)
    """
    step = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return float(f"{math.ceil(rate / step - 1e-9) * step:.2g}")


def expected_words(item: FarThreshold | FpirThreshold) -> str:
    """What fresh identities will show at a threshold, in words: "0.001 to 0.02 (rough)"."""
    low, high = item.expect(FRESH)
    if not item.pinned:
        return f"cannot be pinned down (up to {high:.2g})"
    return f"{low:.2g} to {high:.2g}{' (rough)' * item.rough}"


def _rate_fields(item: FarThreshold | FpirThreshold) -> dict[str, Any]:
    return {
        "threshold": item.threshold,
        "rough": item.rough,
        "pinned": item.pinned,
        "expected": list(item.expect(FRESH)),
    }


def make_thresholds(
    embeddings: Array,
    labels: Array,
    *,
    groups: Array | None = None,
    fars: Iterable[float] = (1e-2, 1e-3, 1e-4),
    fpirs: Iterable[float] = (0.1, 0.01, 0.001),
    galleries: Iterable[int] | None = None,
    samples: int = 1,
    method: str = "smooth",
    scorings: Iterable[str] = (),
    images: Iterable[int] = IMAGES,
    prior: float | None = 0.5,
    in_training: bool = False,
    made_from: Mapping[str, Any] | None = None,
) -> Thresholds:
    """Everything for threshold.json, from validation identities.

    To be made from identities that were neither trained on, nor are reported on afterwards.

    Parameters:
        embeddings: (N, D), numpy or torch, any float type, no row all zero.
        labels: (N,) integers; at least two identities, one of them with two samples.
        groups: (N,) what each identity belongs to, such as an alphabet or a site: then whole groups
            are taken to be drawn, and intervals are about identities of other groups.
        fars, fpirs: the rates to list; others can be asked for later.
        galleries: the gallery sizes to list; by default the powers of ten from 10 to ten times the
            number of validation identities, and the largest gallery of these. Others can be asked
            for later.
        samples: how many samples a gallery holds of each subject.
        method, prior: as in `calibrate`.
        scorings, images: how galleries score subjects of several images (`max`, `mean`, `top-3`),
            and of how many: for each such set with thresholds of its own, as far as half of the
            identities have so many samples.
        in_training: whether the model was trained on these identities, for want of others.
        made_from: names of dataset, split and part, or whatever else tells where this comes from;
            plain values that JSON can hold.

    Rates that the identities are too few for are told from a smooth tail, and marked as `rough`.
    Time and memory are bounded by the four million highest impostor cosines; 10,000 samples of
    2,000 identities take seconds.

    Raises `InputError` for bad embeddings or labels, where there is no genuine or no impostor pair,
    and for an identity in two groups. Raises `OptionError` for rates or sizes out of range.

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
    owners = groups_of(pairs.identity, groups)
    if owners is not None and owners.max() < 1:
        raise InputError("all identities are of one group, expected two groups or more")
    drawn = None if owners is None else owners[pairs.identity]
    rates = RateTable.of(pairs, samples, drawn)
    has_exact = drawn is None  # what is found exactly knows nothing of groups
    return Thresholds(
        made_from=_described(embeddings, labels, made_from),
        fars=tuple(
            (has_exact and find_far_threshold(pairs, far)) or rates.for_far(far)
            for far in wanted_fars
        ),
        fpirs=tuple(
            (has_exact and find_fpir_threshold(pairs, fpir, size, samples))
            or rates.for_fpir(fpir, size)
            for fpir in wanted_fpirs
            for size in sizes
        ),
        calibration=calibrate_identities(embeddings, labels, method, prior=prior),
        rates=rates,
        equal_error=(
            _equal_error(embeddings, labels)
            if in_training or (rates.lowest_far or 1.0) > HIGHEST_FAR
            else None
        ),
        in_training=in_training,
        templates=make_templates(embeddings, labels, scorings, images, drawn, prior),
    )


def _equal_error(embeddings: Array, labels: Array) -> EqualError:
    result = verification(embeddings, labels)
    return EqualError(min(result.eer_threshold, 1.0), result.eer)


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
