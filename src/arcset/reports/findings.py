"""What accuracy hides: pairs that no threshold tells apart, and certainty about the unknown.

Every picture here comes with two sentences in `CAPTIONS`: what it means, and when it misleads.
"""

from arcset.reports.bias import bias_picture
from arcset.reports.closed_set import (
    confidence_picture,
    confident_mistakes_picture,
    view_confidence,
)
from arcset.reports.triples import no_threshold_picture, no_threshold_table, rightly_named

__all__ = [
    "CAPTIONS",
    "bias_picture",
    "confidence_picture",
    "confident_mistakes_picture",
    "no_threshold_picture",
    "no_threshold_table",
    "rightly_named",
    "view_confidence",
]

#: Picture → (what it means, when it misleads).
CAPTIONS: dict[str, tuple[str, str]] = {
    "no_threshold_picture": (
        "All three images are named rightly, yet a lies nearer to c, which shows something else, "
        "than to b, which shows the same: whatever distance is taken as the limit, same-or-"
        "different goes wrong on one of the two pairs.",
        "It is the worst case of the whole test part and may be an outlier, so read the shares "
        "beside it; beyond two dimensions lengths in the picture are a projection, and only the "
        "numbers are right.",
    ),
    "no_threshold_table": (
        "How often that happens: the share of samples that lie nearer to some sample of another "
        "class than to the farthest of their own, and the share of all triples of samples.",
        "One outlier per class is enough to raise the share of samples to 100 %, while the share "
        "of triples hardly moves; and a share of 0 means neither that one threshold suits all "
        "samples, nor that unseen classes will be as easy.",
    ),
    "confidence_picture": (
        "A closed-set classifier must choose among the classes it knows; where the two histograms "
        "overlap, its probability does not tell that a sample belongs to none of them.",
        "The level depends on the scale, which bounds the probability of a cosine loss, and on "
        "how long was trained, so compare runs by the AUC and not by the heights.",
    ),
    "confident_mistakes_picture": (
        "Unseen samples of which the classifier is surest: each is called a class it is not, with "
        "a probability that a reader would take for certainty.",
        "These are the extremes, chosen for being the worst; how common they are stands in the "
        "histogram of confidence.",
    ),
    "bias_picture": (
        "A bias is a head start for a class whatever the image shows; it would equal the log of "
        "the class's frequency if it only learned how common a class is, and dropping it costs "
        "little accuracy.",
        "Only differences between biases count, so their mean is taken off; with an embedding of "
        "few dimensions the bias also makes room for classes in the middle, and one pair of runs "
        "does not show how much accuracy varies with the seed.",
    ),
}
