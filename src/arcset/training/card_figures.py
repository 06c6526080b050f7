"""What an assessment found, for the model card: figures with intervals, and thresholds."""

import math
from collections.abc import Iterator

from arcset.evaluation import Assessment
from arcset.evaluation.assessment import FEW
from arcset.evaluation.calibration import Thresholds
from arcset.evaluation.pairs import Verification
from arcset.evaluation.results import Interval, Result
from arcset.evaluation.search import FewShot, Identification
from arcset.training.card_text import counted, percent, sentence, table

__all__ = ["figures", "measured", "thresholds"]

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
    low, high = (_shown(end, name) for end in interval)
    return f"{low.removesuffix(' %')} to {high}"


def _episodes(result: FewShot) -> str:
    return f"{result.ways}-way {result.shots}-shot"


def _why_not(result: Result) -> str:
    if isinstance(result, Verification):
        return f"too rare to be seen in {result.impostor:,} pairs of different identities"
    if isinstance(result, Identification) and result.mated:
        return f"too rare to be seen in {counted(result.unmated, 'probe')} of unknown identities"
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
            f"Rank and DIR are for a gallery of {counted(search.subjects, 'subject')} with "
            f"{counted(search.samples, 'sample')}, {counted(search.mated, 'probe')} of these "
            f"subjects and {search.unmated:,} of "
            f"{counted(search.unmated_identities, 'identity', 'identities')} not enrolled; "
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
            said.append("One without width says that no draw showed an error, not that none is.")
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


def thresholds(assessment: Assessment) -> str:
    """The thresholds with what to expect of them, and what they did; or why there are none."""
    made = assessment.thresholds
    if made is None:
        why = assessment.missing.get("thresholds", "no identities were set apart to make them from")
        return (
            f"None. {sentence(why)} A threshold comes from identities that are neither trained on "
            "nor reported on: the validation part of a split."
        )
    parts = [
        "Two embeddings are taken for the same identity where their cosine is at least the "
        f"threshold. Made from {made.made_from['samples']:,} samples of "
        f"{made.made_from['identities']:,} validation identities. `arcset evaluate` writes "
        "`threshold.json`, which answers for other rates and galleries.",
        _made(made),
    ]
    if any(item.extrapolated for item in made.fpirs):
        parts.append("\\* extrapolated: a gallery larger than the validation identities can fill.")
    if made.unsupported:
        parts.append(f"What so few identities cannot support: {_unsupported(made)}.")
    if assessment.realized:
        parts += ["What they did on the unseen identities above:", _realized(assessment)]
    return "\n\n".join(parts)


def _made(made: Thresholds) -> str:
    rows = [
        [
            f"FAR {percent(item.far)}",
            "pairs",
            f"{item.threshold:.4f}",
            _expected(item.expect(_FRESH)),
        ]
        for item in made.fars
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
