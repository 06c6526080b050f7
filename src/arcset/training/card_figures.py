"""What an assessment found, for the model card: figures with intervals, and thresholds."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arcset.evaluation import Assessment
from arcset.evaluation.assessment import FEW
from arcset.evaluation.calibration import Thresholds
from arcset.evaluation.few_shot import FewShot
from arcset.evaluation.identification import Identification
from arcset.evaluation.measures import Measure, meaning, measure_of, short_name, weighty
from arcset.evaluation.results import Interval, Result
from arcset.evaluation.verification import Verification
from arcset.text import percent, plural, sentence
from arcset.training.card_text import table

__all__ = ["Figure", "figures", "headline", "measured", "thresholds"]

_DIGITS = 2
_FRESH = 1000  # identities that a prediction is stated for


def measured(assessment: Assessment) -> list[str]:
    """The measures of the card that there are numbers of, for the front matter."""
    results = measured_parts(assessment)
    return [
        _front_name(measure)
        for measure in weighty("headline", "main")
        if any(not math.isnan(value) for _, value in _values(results, measure))
    ]


def _front_name(measure: Measure) -> str:
    if measure.part == "few_shot":
        return f"few_shot_{measure.name}"
    return measure.name if measure.is_rate else measure.full_name.replace("[", "_").rstrip("]")


@dataclass(frozen=True)
class Figure:
    """A measure, as `tar_at_far[0.01]`, with its value and its 95 % interval.

    low, high: None without intervals.
    """

    measure: str
    value: float
    low: float | None
    high: float | None

    @property
    def name(self) -> str:
        """With its part in front, as `verification.tar_at_far[0.01]`."""
        return f"{measure_of(self.measure).part}.{self.measure}"

    @property
    def label(self) -> str:
        """What people call it."""
        return short_name(self.measure)

    @property
    def meaning(self) -> str:
        """What it says."""
        return meaning(self.measure)

    def format(self) -> tuple[str, str]:
        """The value and its interval, for people."""
        if self.low is None or self.high is None:
            return _format(self.value, self.measure), "–"
        return _format(self.value, self.measure), _between(self.low, self.high, self.measure)


def headline(assessment: Assessment) -> list[Figure]:
    """The few figures to look at first, as far as there are numbers of them; of rates that vary
    with a FAR, the one at the lowest FAR that the data support."""
    results = measured_parts(assessment)
    found = []
    for measure in weighty("headline"):
        values = _values(results, measure)
        known = [(full, value) for full, value in values if not math.isnan(value)]
        if not known:
            continue
        full, value = known[-1]  # rates fall
        result, low, high = results[measure.part][0], None, None
        if result is not None and result.replicates is not None:
            low, high = (None if math.isnan(end) else end for end in result.interval(full))
        found.append(Figure(full, value, low, high))
    return found


Measured = dict[str, tuple[Result | None, Mapping[str, float]]]


def measured_parts(assessment: Assessment) -> Measured:
    """By part of an evaluation: the result, None for mere numbers, and its measures."""
    parts: Measured = {
        name: (result, result.measures()) for name, result in assessment.results().items()
    }
    return {**parts, "shape": (None, assessment.shape)}


def figures(assessment: Assessment) -> str:
    """A table of the measures, and what they come from. What the data cannot tell has no number."""
    results = measured_parts(assessment)
    rows: list[list[str]] = []
    absent: set[str] = set()
    for measure in weighty("headline", "main"):
        part = measure.part
        if part in results:
            rows += _rows(results, measure)
        elif part not in absent:
            absent.add(part)
            why = assessment.missing.get(part, "")
            rows.append([part.replace("_", "-"), "not known", "", why])
    heading = ["measure", "value", "95 % interval", "what it says"]
    return f"{table(heading, rows, right=[1])}\n\n{_basis(assessment)}"


def _rows(results: Measured, measure: Measure) -> Iterator[list[str]]:
    result = results[measure.part][0]
    unknown: list[str] = []
    is_first = True
    for full, value in _values(results, measure):
        at = percent(float(full.partition("[")[2][:-1])) if measure.is_rate else ""
        if math.isnan(value):
            unknown.append(at)
            continue
        yield [
            _episodes(result) if isinstance(result, FewShot) else short_name(full),
            _format(value, full),
            _range(result, full),
            meaning(full) if is_first else f"the same at {at}",
        ]
        is_first = False
    if unknown and result is not None:
        label = measure.short.format(", ".join(unknown))
        yield [label, "not known", "", _why_not(result)]


def _values(results: Measured, measure: Measure) -> list[tuple[str, float]]:
    """A measure at every rate asked for, others at what stands for them; with their values."""
    _, values = results.get(measure.part, (None, {}))
    if measure.is_rate:
        return [(full, x) for full, x in values.items() if full.startswith(f"{measure.name}[")]
    return [(full, x) for full, x in values.items() if full == measure.full_name]


def _format(value: float, full_name: str) -> str:
    return measure_of(full_name).format(value, _DIGITS)


def _range(result: Result | None, full: str) -> str:
    interval = None if result is None or result.replicates is None else result.interval(full)
    if interval is None or math.isnan(interval.low):
        return "–"
    return _between(*interval, full)


def _between(low: float, high: float, full_name: str) -> str:
    return f"{_format(low, full_name).removesuffix(' %')} to {_format(high, full_name)}"


def _episodes(result: FewShot) -> str:
    return f"{result.ways}-way {result.shots}-shot"


def _why_not(result: Result) -> str:
    if isinstance(result, Verification):
        return f"too rare to be seen in {result.impostor:,} pairs of different identities"
    if isinstance(result, Identification) and result.mated:
        return f"too rare to be seen in {plural(result.unmated, 'probe')} of unknown identities"
    return "the data cannot tell"


def _basis(assessment: Assessment) -> str:
    """What the figures come from, and how sure they are."""
    said = []
    if (pairs := assessment.verification) is not None:
        said.append(
            f"TAR, EER and AUC are over all pairs: {pairs.genuine:,} of one identity, "
            f"{pairs.impostor:,} of different ones."
        )
    if (search := assessment.identification) is not None:
        said.append(
            f"Rank and DIR are for a gallery of {plural(search.subjects, 'subject')} with "
            f"{plural(search.samples, 'sample')}, {plural(search.mated, 'probe')} of these "
            f"subjects and {search.unmated:,} of "
            f"{plural(search.unmated_identities, 'identity', 'identities')} not enrolled; "
            "a larger gallery makes it harder."
        )
    if all(result.replicates is None for result in assessment.results().values()):
        said.append("Without intervals: small differences may be chance.")
    else:
        said.append(
            "The intervals tell how far a figure may be off, as other identities from the same "
            "source would have given others; they do not hold the luck of training."
        )
        if assessment.identities < FEW:
            said.append(f"From fewer than {FEW} identities even the intervals are guesses.")
    return " ".join(said)


def thresholds(assessment: Assessment | None, made: Thresholds | None) -> str:
    """The thresholds with what to expect of them, and what they did; or why there are none.

    assessment: on identities that training did not know, None where there is none.
    """
    if made is None:
        if assessment is None:
            return ""
        why = assessment.missing.get("thresholds", "no identities were set apart to make them from")
        return (
            f"None. {sentence(why)} A threshold comes from identities that are neither trained on "
            "nor reported on: the validation part of a split."
        )
    parts = [
        "Two embeddings are taken for the same identity where their cosine is at least the "
        f"threshold. Made from {made.made_from['samples']:,} samples of {made.origin}. "
        "`threshold.json` in this folder answers for other rates and galleries.",
    ]
    if made.rough and made.equal_error is not None:
        parts.append(
            f"The threshold is {made.equal_error.threshold:.4f}, and rough: it is where false "
            f"accepts and false rejects are equally frequent ({percent(made.equal_error.rate, 1)}) "
            f"among {made.origin}, which promise no rate for others. `arcset gallery calibrate` "
            "makes a better one from more identities."
        )
    if made.fars or made.fpirs or not made.rough:
        parts.append(_made(made))
    if any(item.extrapolated for item in made.fpirs):
        parts.append("\\* extrapolated: a gallery larger than the validation identities can fill.")
    if made.unsupported:
        parts.append(f"What so few identities cannot support: {_unsupported(made)}.")
    if assessment is not None and assessment.realized:
        parts += ["What they did on the unseen identities above:", _realized(assessment)]
    return "\n\n".join(parts)


def _made(made: Thresholds) -> str:
    lowest = made.rates.lowest_far
    fars = made.fars or (() if lowest is None else (made.for_far(lowest),))
    rows = [
        [
            f"FAR {percent(item.far)}",
            "pairs",
            f"{item.threshold:.4f}",
            _expected(item.expect(_FRESH)),
        ]
        for item in fars
    ]
    for item in made.fpirs:
        size = f"{item.gallery:,}{'*' if item.extrapolated else ''}"
        expected = _expected(item.expect(_FRESH))
        rows.append([f"FPIR {percent(item.fpir)}", size, f"{item.threshold:.4f}", expected])
    heading = ["wanted", "gallery", "threshold", f"{_FRESH:,} fresh identities will show (95 %)"]
    return table(heading, rows, right=[1, 2])


def _unsupported(made: Thresholds) -> str:
    galleries: dict[str, list[str]] = {}
    for what in made.unsupported:  # "FAR 0.001", "FPIR 0.01, gallery 100"
        rate, _, size = what.partition(", gallery ")
        galleries.setdefault(rate, []).extend([f"{int(size):,}"] if size else [])
    found = []
    for what, sizes in galleries.items():
        kind, _, rate = what.partition(" ")
        beside = f" with a gallery of {', '.join(sizes)}" if sizes else ""
        found.append(f"{kind} {percent(float(rate))}{beside}")
    return "; ".join(found)


def _realized(assessment: Assessment) -> str:
    rows = []
    for item in assessment.realized:
        mark = "" if item.kept else ", which is outside"
        mark += ", extrapolated" if item.extrapolated else ""
        rows.append(
            [
                f"{item.kind} {percent(item.wanted)}",
                "pairs" if item.gallery is None else f"{item.gallery:,}",
                percent(item.seen),
                f"{_expected(item.expected)}{mark}",
                percent(item.accepted, _DIGITS),
            ]
        )
    heading = ["wanted", "gallery", "seen", "expected (95 %)", "TAR or DIR"]
    return table(heading, rows, right=[1, 2, 4])


def _expected(interval: Interval) -> str:
    low, high = (f"{100 * end:.2g}" if end < 1 else "100" for end in interval)
    return f"{low} to {high} %"
