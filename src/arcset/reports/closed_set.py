"""What a closed-set classifier believes about samples of classes it has never seen."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arcset.errors import InputError, OptionError
from arcset.evaluation import Confidence, confidence
from arcset.reports.embedding_plot import draw_image
from arcset.reports.style import GREY, PALETTE, new_figure, styled
from arcset.reports.view import Embedded, Floats, RunView

__all__ = [
    "confidence_picture",
    "confident_mistakes_picture",
    "view_confidence",
]

_MOST_LOGITS = 1 << 28  # in memory at a time
KNOWN, UNSEEN = PALETTE[0], PALETTE[5]


def view_confidence(view: RunView, *, examples: int = 12) -> Confidence | None:
    """How sure a run is of known and unseen samples; None where it has no classifier or unseen."""
    if not view.loss.classifies or view.unseen is None:
        return None
    return confidence(
        _logits(view, view.test), view.test.labels, _logits(view, view.unseen), examples=examples
    )


@styled
def confidence_picture(views: Sequence[RunView]) -> Figure:
    """Histograms of the largest probability, known against unseen, one panel per run.

    Runs without a classifier or without unseen classes are left out.

    Raises `OptionError` where no run is left.
    """
    shown = [(view, found) for view in views if (found := view_confidence(view)) is not None]
    if not shown:
        raise OptionError("none of the runs has a classifier and unseen classes to be unsure about")
    columns = 2 if len(shown) == 4 else min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure = new_figure(max(5.0, 3.4 * columns), 2.7 * rows + 0.7)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in panels.flat[len(shown) :]:
        axes.set_axis_off()
    for axes, (view, found) in zip(panels.flat, shown, strict=False):
        _histograms(axes, view)
        scale = view.loss.settings().get("scale")
        axes.set_title(view.title + (f"  (scale {scale:g})" if scale else ""), loc="left")
        axes.text(
            0.03,
            0.97,
            f"AUC {found.auc:.2f}\n{found.unseen.above[0.9]:.0%} of unseen above 0.9\n"
            f"{found.unseen.above[0.99]:.0%} of unseen above 0.99",
            transform=axes.transAxes,
            va="top",
            fontsize=8.5,
        )
    for place, axes in enumerate(panels.flat[: len(shown)]):
        if place + columns >= len(shown):
            axes.set_xlabel("largest softmax probability")
            axes.tick_params(labelbottom=True)
        if place % columns == 0:
            axes.set_ylabel("share of samples")
    handles, names = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="upper right", ncols=2)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.35 / figure.get_figheight()))
    return figure


@styled
def confident_mistakes_picture(view: RunView, count: int = 12) -> Figure:
    """The unseen samples of which the classifier is surest: what they are, what it calls them.

    Raises `OptionError` for a run without a classifier or without unseen classes.
    """
    found, unseen = view_confidence(view, examples=count), view.unseen
    if found is None or unseen is None:
        raise OptionError(f"{view.title} has no classifier, or no unseen classes to be wrong about")
    columns = min(6, len(found.examples))
    rows = -(-len(found.examples) // columns)
    figure = new_figure(1.45 * columns, 2.0 * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat[len(found.examples) :]:
        axes.set_axis_off()
    for axes, example in zip(panels.flat, found.examples, strict=False):
        called = view.test.class_names[example.label]
        title = f"called {called}\n{_percent(example.probability)} sure"
        draw_image(axes, unseen.images[example.index], title)
        truth = unseen.class_names[unseen.labels[example.index]]
        axes.set_xlabel(f"is {truth}   (#{unseen.index[example.index]})", fontsize=8.5, color=GREY)
    figure.suptitle(f"{view.title}: surest about what it has never seen", fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 0.99))
    return figure


def _histograms(axes: Axes, view: RunView) -> None:
    assert view.unseen is not None
    edges = np.linspace(0, 1, 41)
    for part, colour, name in ((view.test, KNOWN, "known"), (view.unseen, UNSEEN, "unseen")):
        surest = torch.from_numpy(_logits(view, part)).softmax(dim=1).amax(dim=1).numpy()
        shares = np.histogram(surest, edges)[0] / len(surest)
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.3)
        axes.stairs(shares, edges, color=colour, lw=1.5, label=name)
    axes.set_xlim(0, 1.01)


def _logits(view: RunView, part: Embedded) -> Floats:
    count, classes = len(part.embeddings), view.loss.classes
    if count * classes > _MOST_LOGITS:
        raise InputError(
            f"{count:,} samples and {classes:,} classes are too many to picture how sure a "
            "classifier is"
        )
    with torch.no_grad():
        logits: Floats = view.loss.logits(torch.from_numpy(part.embeddings)).double().numpy()
    return logits


def _percent(probability: float) -> str:
    """Never rounded up to 100 %: digits are added until it is not."""
    for digits in range(1, 6):
        text = f"{probability:.{digits}%}"
        if not text.startswith("100"):
            return text
    return "> 99.99999%"
