"""What measures are called where people read them, and what they mean."""

import re

__all__ = ["meaning", "short_name"]

_KEYED = re.compile(r"(\w+)\[([^\]]+)\]")

#: By measure: its name, and its meaning; {} is the rate, rank or number it is taken at.
_WORDS = {
    "auc": ("AUC", "chance that a same pair has a higher cosine than a different pair"),
    "eer": ("EER", "the rate at which false accepts and false rejects are equally frequent"),
    "tar_at_far": (
        "TAR at FAR {}",
        "same pairs that are accepted at a threshold that accepts {} of the different pairs",
    ),
    "rank": ("rank {}", "probes of enrolled subjects that find their own among the first {}"),
    "dir_at_fpir": (
        "DIR at FPIR {}",
        "probes of enrolled subjects that are named rightly at a threshold that gives {} of the "
        "unknown probes a name",
    ),
    "recall_at": ("recall@{}", "queries with one of their class among the {} nearest"),
    "precision_at": ("precision@{}", "share of the {} nearest that are of the query's class"),
    "map_at_r": (
        "MAP@R",
        "how early those of the class come among the R nearest, R being as many as there are",
    ),
    "r_precision": ("R-precision", "share of the R nearest that are of the query's class"),
    "accuracy": (
        "few-shot",
        "queries that lie nearest to the right one of a few prototypes, each made of a few samples",
    ),
    "w_ec": ("W-EC", "angle between a class's center and the mean of its samples, averaged"),
    "w_inter": ("W-Inter", "angle between a center and the nearest other, averaged"),
    "intra": ("Intra", "angle between a sample and the mean of its class, averaged"),
    "inter": ("Inter", "angle between a class's mean and the nearest other, averaged"),
    "dunn": ("Dunn index", "distance between the closest classes over the size of the largest"),
    "dunn_trimmed": ("Dunn index, trimmed", "the same without each class's most distant samples"),
    "silhouette": ("silhouette", "how much nearer samples are to their own class than to others"),
}
_FIRST = {  # where it is about the first one only, the plural would be odd
    "rank": "probes of enrolled subjects that find their own first",
    "recall_at": "queries whose nearest is of their class",
    "precision_at": "queries whose nearest is of their class",
}
_RATES = ("tar_at_far", "dir_at_fpir")


def short_name(measure: str) -> str:
    """A measure as `Result.measures` names it, for people.

    >>> short_name("tar_at_far[0.001]"), short_name("rank[1]"), short_name("eer")
    ('TAR at FAR 0.1 %', 'rank 1', 'EER')
    """
    base, at = _parts(measure)
    return _WORDS[base][0].format(at) if base in _WORDS else measure.replace("_", " ")


def meaning(measure: str) -> str:
    """What the measure says, in half a sentence; nothing for one that is not known here.

    >>> meaning("rank[5]")
    'probes of enrolled subjects that find their own among the first 5'
    """
    base, at = _parts(measure)
    if at == "1" and base in _FIRST:
        return _FIRST[base]
    return _WORDS[base][1].format(at) if base in _WORDS else ""


def _parts(measure: str) -> tuple[str, str]:
    keyed = _KEYED.fullmatch(measure)
    if keyed is None:
        return measure, ""
    base, at = keyed[1], keyed[2]
    return base, f"{100 * float(at):.6g} %" if base in _RATES else at
