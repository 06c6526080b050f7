"""What a bias learns: the head start of each class, beside what its frequency would explain."""

import numpy as np
from matplotlib.figure import Figure

from arcset.errors import OptionError
from arcset.reports.style import GREY, INK, PALE, PALETTE, new_figure, styled
from arcset.reports.triples import rightly_named
from arcset.reports.view import RunView

__all__ = ["bias_picture"]

MOST_CLASSES = 40  # bars that still carry a name


@styled
def bias_picture(with_bias: RunView, without: RunView) -> Figure:
    """The learned biases beside what the class frequencies alone would give, in logits.

    Raises `OptionError` where the first run has no bias, the second one has, or either has no
    classifier.
    """
    biases = with_bias.loss.biases
    if biases is None:
        raise OptionError(f"{with_bias.title} has no bias to show; train softmax with bias=true")
    if not without.loss.classifies or without.loss.biases is not None:
        raise OptionError(f"{without.title} must be a classifier without bias, for comparison")
    train = with_bias.selection.train
    shares = np.bincount(train.labels, minlength=len(train.class_names)) / len(train)
    prior = np.log(np.maximum(shares, 1 / (2 * len(train))))  # a class without images: half of one
    learned = biases.double().numpy()
    figure = new_figure(max(5.6, min(12.0, 0.75 * len(shares) + 2.2)), 3.8)
    axes = figure.add_subplot()
    places = np.arange(len(shares))
    equal = " (all equal)" if np.ptp(shares) < 5e-4 else ""
    for offset, heights, colour, label in (
        (-0.2, learned, PALETTE[0], "learned bias"),
        (0.2, prior, PALE, f"log of the class frequency{equal}"),
    ):
        axes.bar(
            places + offset,
            heights - heights.mean(),
            0.38,
            color=colour,
            edgecolor=GREY,
            linewidth=0.6,
            label=label,
        )
    axes.axhline(0, color=INK, lw=0.8)
    if len(shares) <= MOST_CLASSES:
        names = zip(train.class_names, shares, strict=True)
        axes.set_xticks(places, [f"{name}\n{share:.1%}" for name, share in names])
        axes.set_xlabel("class, and its share of the training images")
    axes.set_ylabel("logits, less their mean")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=2)
    with_it, without_it = (_accuracy(view) for view in (with_bias, without))
    axes.set_title(f"accuracy {with_it:.4f} with bias, {without_it:.4f} without", pad=24)
    figure.tight_layout()
    return figure


def _accuracy(view: RunView) -> float:
    return len(rightly_named(view)) / len(view.test.labels)
