"""What to say under each picture of a measure."""

__all__ = ["CAPTIONS"]

#: For every picture, and for the table of realized rates, one text that says what it means, and
#: one that says when it misleads.
CAPTIONS: dict[str, tuple[str, str]] = {
    "verification": (
        "Left, how many same pairs a threshold accepts over how many different pairs it accepts by "
        "mistake; guessing is dotted. Right, both errors on axes on which normally distributed "
        "cosines make straight lines; lower is better, and stars mark the EER. Marks are the rates "
        "asked for, bars their 95 % intervals, drawn side by side.",
        "The left end rests on the few most similar different pairs, often of a few identities. "
        "And AUC and EER are ruled by pairs no use cares about: with 1,000 subjects enrolled, a "
        "FAR of 0.1 % is a false match for every query.",
    ),
    "identification": (
        "Left, probes of enrolled subjects: how often their own is among the first ranks. Right, "
        "with probes of unknown subjects too: how many of those are given a name over how many "
        "enrolled ones are missed or misnamed; nearer to the lower left is better.",
        "It holds for a gallery of this size only: with more subjects there are more chances to "
        "be wrong. And the left side alone hides the unknown: who never says unknown can have "
        "100 % at rank 1 and give every stranger a name.",
    ),
    "retrieval": (
        "Each sample searches all others. Recall: how often one of its class is among the k "
        "nearest. Precision: how many of the k nearest are. MAP@R and R-precision look at as many "
        "as the class has.",
        "Queries of large classes are easier and more, so a few large classes can decide. Where a "
        "class has fewer than k others, precision@k cannot reach 100 %.",
    ),
    "few_shot": (
        "A few identities are drawn, a few samples of each make a prototype, and further samples "
        "go to the nearest. Every model meets the same draws.",
        "It is easy by design: a gallery of a few, and nobody unknown. A high accuracy here says "
        "little about a gallery of thousands.",
    ),
    "angles": (
        "Left, the angle of each sample to the mean of its own class, filled, and to the nearest "
        "other class's, outlined: the less they overlap, the better. Right, averages, and what the "
        "ArcFace paper reports of faces for orientation.",
        "Angles of spaces of different dimension do not compare: random directions are 90° apart "
        "in 512 dimensions and anything in 2. On classes used in training any network can look "
        "tight. And averages hide the few samples that cause the errors.",
    ),
    "reliability": (
        "Left, of the pairs that were given a probability of being the same, how many are; on the "
        "diagonal the probability can be taken at its word. Below, how many pairs that was. The "
        "calibration error is the mean distance from the diagonal. Right, the probability over the "
        "cosine; the thresholds are marked.",
        "The probability holds where same and different are equally likely beforehand; in a "
        "search through many subjects nearly all pairs are different. A bin of few pairs can be "
        "far off the diagonal by chance.",
    ),
    "probability": (
        "The probability that two samples show the same identity, over their cosine, as the "
        "validation identities have it; the thresholds are marked.",
        "It holds where same and different are equally likely beforehand; in a search through many "
        "subjects nearly all pairs are different. And it says nothing of how sure it is itself.",
    ),
    "threshold": (
        "The cosine that a match must reach so that no more than this share of unknown probes is "
        "given a name, over the number of subjects enrolled. Solid where the validation "
        "identities measure it, dashed where it is extrapolated. The table adds the thresholds for "
        "pairs (FAR), and in which range 95 % of tests on fresh identities will find the rate.",
        "Dashed parts rest on an assumed law of how much probes differ. And all of it holds for "
        "identities like those of validation: relatives, twins or another camera need more.",
    ),
    "realized": (
        "The thresholds were made from the validation identities alone. For each: the rate that it "
        "was to keep, the range that 95 % of tests of this size fall into, and the rate that it "
        "shows on the identities of this report, of which it knew nothing. Accepted rightly: same "
        "pairs, or enrolled probes given their own name.",
        "It is one test. Of twenty good thresholds, one shows a rate outside of its range.",
    ),
    "difference": (
        "What the first of two models gains, with 95 % intervals over the same draws of "
        "identities. Coloured where the interval leaves out 0: blue better, orange worse. Grey: no "
        "difference is shown.",
        "Grey does not say that there is no difference. And of twenty comparisons one looks real "
        "by chance.",
    ),
}
