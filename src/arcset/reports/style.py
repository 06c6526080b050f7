"""How pictures look: colours and shapes of classes, fonts, and PNG files that never differ."""

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path as Outline
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from arcset.files import write_bytes

#: Ten colours that stay apart in every common kind of colour blindness (after Okabe and Ito).
PALETTE = (
    "#0072B2",  # blue
    "#E69F00",  # orange
    "#009E73",  # green
    "#882255",  # wine
    "#56B4E9",  # sky
    "#D55E00",  # vermilion
    "#CC79A7",  # pink
    "#8A8A1A",  # olive
    "#333333",  # black
    "#332288",  # indigo
)
#: The same hues, bright enough for a dark page, in the same order.
DARK_PALETTE = (
    "#4A97DB",  # blue
    "#E69F00",  # orange
    "#12B886",  # green
    "#C2527F",  # wine
    "#93D5FF",  # sky
    "#F0692B",  # vermilion
    "#EBA3CD",  # pink
    "#B5B53A",  # olive
    "#E8E8E8",  # white for black
    "#8672EA",  # indigo
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
INK, GREY, PALE = "#222222", "#777777", "#D8D8D8"
DPI = 150  # of stills: 8 inches are 1,200 pixels, and sharp at the 800 that a README shows

_LOOK: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10.0,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.facecolor": "white",
    "axes.linewidth": 0.8,
    "axes.titlesize": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
    "grid.color": "#E6E6E6",
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
}


@contextmanager
def style() -> Iterator[None]:
    """The look, for a `with` block or as a decorator; the caller's settings come back after it."""
    with matplotlib.rc_context(_LOOK):
        yield


def new_figure(width: float, height: float, dpi: float = DPI) -> Figure:
    """A figure of its own, in inches, with a canvas that draws into memory and nowhere else."""
    figure = Figure(figsize=(width, height), dpi=dpi)
    FigureCanvasAgg(figure)
    return figure


@style()
def pixels(figure: Figure) -> npt.NDArray[np.uint8]:
    """The figure as it is seen (H, W, 4): red, green, blue and how opaque.

    One that has not changed since is not drawn again.
    """
    canvas: Any = figure.canvas
    if not isinstance(canvas, FigureCanvasAgg):
        canvas = FigureCanvasAgg(figure)
    if figure.stale or not hasattr(canvas, "renderer"):
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def png(figure: Figure) -> bytes:
    """The figure as PNG; equal figures give equal bytes."""
    buffer = io.BytesIO()
    info = PngInfo()
    info.add_text("Software", "arcset")
    picture = Image.fromarray(pixels(figure))
    picture.save(buffer, format="PNG", pnginfo=info, dpi=(figure.dpi, figure.dpi))
    return buffer.getvalue()


def save(figure: Figure, path: Path | str) -> None:
    """Write the figure to `path` as PNG, whole or not at all."""
    write_bytes(Path(path), png(figure))


def class_colour(number: int) -> str:
    """The colour of a class; known classes are counted first, then the unseen ones."""
    return PALETTE[number % len(PALETTE)]


def film_colours(classes: int) -> npt.NDArray[np.uint8]:
    """The colours (K, 3) that a film needs, at most 62: class colours and greys, down to white."""
    levels = [(colour, share) for colour in PALETTE[:classes] for share in np.linspace(0.25, 1, 5)]
    greys = [("#000000", share) for share in np.linspace(0, 0.87, 12)]
    mixed = [255 - share * (255 - 255 * np.array(to_rgb(code))) for code, share in greys + levels]
    return np.array(mixed).round().astype(np.uint8)


def class_marker(number: int) -> str:
    """The shape of a class; a colour that comes again has another shape."""
    return MARKERS[(number + number // len(PALETTE)) % len(MARKERS)]


def class_outline(number: int) -> Outline:
    """The shape of a class as a path of about unit size."""
    marker = MarkerStyle(class_marker(number))
    return marker.get_path().transformed(marker.get_transform())


def class_swatches(names: Iterable[str], first: int = 0, *, hollow: bool = False) -> list[Line2D]:
    """Legend entries of classes, counted from `first`; those of unseen classes are hollow."""
    return [
        _swatch(number, name, "white" if hollow else class_colour(number))
        for number, name in enumerate(names, first)
    ]


def _swatch(number: int, name: str, fill: str) -> Line2D:
    return Line2D(
        [],
        [],
        linestyle="none",
        marker=class_marker(number),
        markersize=6,
        markeredgecolor=class_colour(number),
        markerfacecolor=fill,
        label=name,
    )
