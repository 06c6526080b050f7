"""What an assessment found, for the model card: figures with intervals, and thresholds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from arcset.evaluation import Assessment
from arcset.evaluation.assessment import FEW
from arcset.evaluation.calibration import Thresholds
from arcset.evaluation.few_shot import FewShot
from arcset.evaluation.identification import Identification
from arcset.evaluation.results import Interval, Result
from arcset.evaluation.verification import Verification
from arcset.text import percent, plural, sentence
from arcset.training.card_text import table

__all__ = ["Figure", "figures", "headline", "measured", "thresholds"]

#: Part, measure (one, or one for each of several rates), its name and what it says; {} is the rate.
_MEASURES = (
    (
        "verification",
        "tar_at_far",
        "TAR at FAR {}",
        "pairs of one identity that are accepted where {} of the pairs of different ones are",
    ),
    (
        "verification",
        "eer",
        "EER",
        "where false accepts and false rejects are equal; less is better",
    ),
    (
        "verification",
        "auc",
        "AUC",
        "chance that a same pair has the higher cosine; 0.5 is guessing",
    ),
    (
        "identification",
        "rank[1]",
        "rank 1",
        "probes of enrolled subjects that find their own first",
    ),
    (
        "identification",
        "dir_at_fpir",
        "DIR at FPIR {}",
        "probes of enrolled subjects that are named rightly where {} of the unknown get a name",
    ),
    (
        "retrieval",
        "recall_at[1]",
        "recall@1",
        "samples whose nearest other one is of their identity",
    ),
    ("retrieval", "map_at_r", "MAP@R", "how early the others of the identity come in a search"),
    ("few_shot", "accuracy", "few-shot", "queries that lie nearest to their own identity"),
)
_HEADLINE = (
    ("verification", "auc"),
    ("verification", "eer"),
    ("verification", "tar_at_far"),
    ("identification", "rank[1]"),
    ("retrieval", "recall_at[1]"),
    ("retrieval", "map_at_r"),
)
_DIGITS = 2
_FRESH = 1000  # identities that a prediction is stated for


def measured(assessment: Assessment) -> list[str]:
    """The measures of the card that there are numbers of, for the front matter."""
    results = assessment.results()
    return [
        f"few_shot_{name}" if part == "few_shot" else name.replace("[", "_").rstrip("]")
        for part, name, _, _ in _MEASURES
        if part in results and any(not math.isnan(v) for _, v in _values(results[part], name))
    ]


@dataclass(frozen=True)
class Figure:
    """A measure with its value, its 95 % interval, and what it says.

    name: part and measure, as `verification.tar_at_far[0.01]`. low, high: None without intervals.
    """

    name: str
    label: str
    value: float
    low: float | None
    high: float | None
    meaning: str

    def shown(self) -> tuple[str, str]:
        """The value and its interval, for people."""
        measure = self.name.partition(".")[2]
        if self.low is None or self.high is None:
            return _shown(self.value, measure), "–"
        return _shown(self.value, measure), _between(self.low, self.high, measure)


def headline(assessment: Assessment) -> list[Figure]:
    """The few figures to look at first, as far as there are numbers of them; of rates that vary
    with a FAR, the one at the lowest FAR that the data support."""
    results = assessment.results()
    words = {(part, name): (label, meaning) for part, name, label, meaning in _MEASURES}
    found = []
    for part, name in _HEADLINE:
        values = _values(results[part], name) if part in results else []
        known = [(full, value) for full, value in values if not math.isnan(value)]
        if not known:
            continue
        full, value = known[-1]  # rates fall
        at = percent(float(full[len(name) + 1 : -1])) if full != name else ""
        low = high = None
        if results[part].replicates is not None:
            low, high = (None if math.isnan(end) else end for end in results[part].interval(full))
        label, meaning = (text.format(at) for text in words[part, name])
        found.append(Figure(f"{part}.{full}", label, value, low, high, meaning))
    return found


def figures(assessment: Assessment) -> str:
    """A table of the measures, and what they come from. What the data cannot tell has no number."""
    results = assessment.results()
    rows: list[list[str]] = []
    absent: set[str] = set()
    for part, name, label, meaning in _MEASURES:
        if part in results:
            rows += _rows(results[part], name, label, meaning)
        elif part not in absent:
            absent.add(part)
            why = assessment.missing.get(part, "")
            rows.append([part.replace("_", "-"), "not known", "", why])
    heading = ["measure", "value", "95 % interval", "what it says"]
    return f"{table(heading, rows, right=[1])}\n\n{_basis(assessment)}"


def _rows(result: Result, name: str, label: str, meaning: str) -> Iterator[list[str]]:
    unknown: list[str] = []
    told = False
    for full, value in _values(result, name):
        at = percent(float(full[len(name) + 1 : -1])) if full != name else ""
        if math.isnan(value):
            unknown.append(at)
            continue
        yield [
            label.format(at) if not isinstance(result, FewShot) else _episodes(result),
            _shown(value, name),
            _range(result, full, name),
            f"the same at {at}" if told else meaning.format(at),
        ]
        told = True
    if unknown:
        yield [label.format(", ".join(unknown)), "not known", "", _why_not(result)]


def _values(result: Result, name: str) -> list[tuple[str, float]]:
    return [
        (full, value)
        for full, value in result.measures().items()
        if full == name or full.startswith(f"{name}[")
    ]


def _shown(value: float, name: str) -> str:
    return f"{value:.4f}" if name == "auc" else percent(value, _DIGITS)


def _range(result: Result, full: str, name: str) -> str:
    interval = None if result.replicates is None else result.interval(full)
    if interval is None or math.isnan(interval.low):
        return "–"
    return _between(*interval, name)


def _between(low: float, high: float, name: str) -> str:
    return f"{_shown(low, name).removesuffix(' %')} to {_shown(high, name)}"


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
        if _perfect(assessment):
            said.append(
                "An interval of zero width means no resample contained an error; it does not mean "
                "there are none."
            )
    return " ".join(said)


def _perfect(assessment: Assessment) -> bool:
    """Whether an interval of the table has no width."""
    results = assessment.results()
    return any(
        result.interval(full).low == result.interval(full).high
        for part, name, _, _ in _MEASURES
        if (result := results.get(part)) is not None and result.replicates is not None
        for full, _ in _values(result, name)
    )


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
