"""Every still picture, and what to say under it."""

from arcset.reports.curves import margin_picture, roc_picture
from arcset.reports.embedding_plot import embedding_picture
from arcset.reports.histograms import angle_picture
from arcset.reports.style import save

__all__ = [
    "CAPTIONS",
    "angle_picture",
    "embedding_picture",
    "margin_picture",
    "roc_picture",
    "save",
]

#: For every picture one sentence that says what it means, and one that says when it misleads.
CAPTIONS: dict[str, tuple[str, str]] = {
    "embedding": (
        "Each mark is a test image where the network puts it: known classes filled, unseen ones "
        "hollow, arrows the class centers, grey lines the borders between classes.",
        "Beyond three dimensions it is a shadow (PCA) that can lay distant classes on top of each "
        "other, and on circle and sphere only directions are left: how long an embedding was is "
        "not shown.",
    ),
    "margin": (
        "The lower a curve lies at an angle, the harder training pulls a sample there towards its "
        "own center.",
        "It shows the target logit alone: how hard the pull really is also depends on the scale "
        "and on how near the other centers are.",
    ),
    "angle": (
        "The farther apart the two histograms lie, the more clearly test samples belong to their "
        "own center rather than to the nearest other one.",
        "It is about known classes only, and softmax without normalization also uses lengths and "
        "biases, so for it a smaller angle to another center need not be an error.",
    ),
    "roc": (
        "For pairs of images from classes that training never saw: how many same pairs a cosine "
        "threshold accepts, over how many different pairs it accepts by mistake.",
        "Pairs of few classes and few images depend on each other, so the left end rests on a "
        "handful of images and small differences between curves there mean little.",
    ),
    "sheet": (
        "A few images of every class, taken evenly from the set.",
        "A handful of images shows neither how varied a class is nor which labels are wrong.",
    ),
    "film": (
        "The same samples over the epochs, from before training to its end, on axes that stay.",
        "Between kept epochs samples move on straight lines that are drawn, not measured, and the "
        "axes fit the largest extent, so early epochs can look tighter than they are.",
    ),
}
