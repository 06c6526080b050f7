"""Curves: what margins do to the target logit, and how well same is told from different."""

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arcset.errors import OptionError
from arcset.evaluation import verification
from arcset.margins import MARGINS, Margin, Sample
from arcset.margins.angular import FALLBACKS
from arcset.margins.arcface import ArcFace
from arcset.reports.style import GREY, PALETTE, new_figure, styled
from arcset.reports.view import RunView, check_alike, titles

__all__ = ["margin_picture", "roc_picture"]

_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


@styled
def margin_picture() -> Figure:
    """The margined cosine over the angle: every margin, and ArcFace's ways past θ = π − m."""
    figure = new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    margins = {name: MARGINS[name]().eval() for name in MARGINS.names()}
    for margin in margins.values():
        margin.bind(classes=1)
    _draw_margins(left, margins)
    left.set_title("every margin, at its default")
    arcfaces: dict[str, Margin] = {kind: ArcFace(fallback=kind) for kind in FALLBACKS}
    _draw_margins(right, arcfaces, bare=True)
    turn = 180 - math.degrees(ArcFace().m2)
    right.axvline(turn, color=GREY, lw=0.8, ls=":")
    right.text(turn - 3, 1.0, "π − m", color=GREY, ha="right", va="top", fontsize=9)
    right.set_title("arcface past π − m, by fallback")
    left.set_ylabel("target logit before the scale")
    figure.subplots_adjust(left=0.075, right=0.985, bottom=0.13, top=0.91, wspace=0.09)
    return figure


def _draw_margins(axes: Axes, margins: dict[str, Margin], *, bare: bool = False) -> None:
    degrees = np.linspace(0, 180, 1441)
    alike: dict[bytes, list[str]] = {}  # several margins treat the target as ArcFace does
    curves = []
    for name, margin in margins.items():
        margin.bind(1)
        values = np.array([margin.reference(math.radians(angle), Sample()) for angle in degrees])
        key = values.round(9).tobytes()
        if key not in alike:
            curves.append((values, alike.setdefault(key, [])))
        alike[key].append(name if bare else _described(name, margin))
    for number, (values, names) in enumerate(curves):
        jumps = np.flatnonzero(np.abs(np.diff(values)) > 0.05) + 1  # a jump is no steep line
        axes.plot(
            np.insert(degrees, jumps, np.nan),
            np.insert(values, jumps, np.nan),
            color=PALETTE[number % len(PALETTE)],
            ls=_DASHES[number % len(_DASHES)],
            lw=1.8,
            label="\n".join(textwrap.wrap(", ".join(names), 26)),
        )
    axes.set(xlim=(0, 180), ylim=(-2.0, 1.1), xticks=range(0, 181, 30))
    axes.set_xlabel("angle θ to the class center, degrees")
    axes.grid(True)
    axes.legend(loc="lower left", handlelength=2.6, fontsize=7.5 if len(curves) > 6 else None)


def _described(name: str, margin: Margin) -> str:
    """A margin's name, with its one margin where it has one."""
    margins = {key: value for key, value in margin.settings().items() if key == "margin"}
    return f"{name} {margins['margin']:g}" if margins else name


@styled
def roc_picture(views: Sequence[RunView]) -> Figure:
    """Same or different, on pairs of unseen classes: true accepts over false accepts.

    Raises `OptionError` where no class was held out, and for runs with different data or classes.
    """
    check_alike(views)
    figure = new_figure(6.4, 4.6)
    axes = figure.subplots()
    fewest = math.inf
    for number, (view, name) in enumerate(zip(views, titles(views), strict=True)):
        if view.unseen is None:
            raise OptionError(f"{view.title} has no unseen classes: there is no ROC to draw")
        result = verification(view.unseen.embeddings, view.unseen.labels, np.logspace(-6, 0, 181))
        fewest = min(fewest, result.impostor)
        points = [(far, tar) for far, tar in result.tar_at_far.items() if not math.isnan(tar)]
        axes.plot(
            *np.array(points).T,
            color=PALETTE[number % len(PALETTE)],
            ls=_DASHES[number % len(_DASHES)],
            lw=1.8,
            label=f"{name}, AUC {result.auc:.3f}",
        )
    lowest = max(1e-6, 10 ** math.floor(math.log10(1 / fewest)))
    guess = np.logspace(math.log10(lowest), 0, 100)
    axes.plot(guess, guess, color=GREY, lw=1, ls=":", label="guessing, AUC 0.5")
    axes.set(xscale="log", xlim=(lowest, 1), ylim=(0, 1.02))
    axes.set_xlabel("different pairs that are accepted (FAR)")
    axes.set_ylabel("same pairs that are accepted (TAR)")
    axes.set_title("same or different, on classes never seen")
    axes.grid(True)
    axes.legend(loc="upper left")
    figure.subplots_adjust(left=0.1, right=0.97, bottom=0.13, top=0.92)
    return figure
