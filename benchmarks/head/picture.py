"""The picture: time over the products, and memory over W, against the number of classes."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from arcset.pictures.theme import GREY, PALETTE, new_figure, styled

BLUE, ORANGE, GREEN, WINE, SKY, VERMILION, PINK = PALETTE[:7]
LINES = {  # colour, dashes, marker: arcset in blues and greens, peers in reds
    "store": (BLUE, "-", "o"),
    "recompute": (GREEN, "-", "s"),
    "plain": (SKY, "-", "^"),
    "sgd": (GREY, "--", "D"),
    "fused": (BLUE, "--", "v"),
    "arccos": (ORANGE, "-", "P"),
    "pml": (VERMILION, "-", "X"),
}
LEAST_WEIGHT = 16 * 2**20  # bytes of W below which what a process holds besides would be drawn
TICKS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16)


@styled
def picture(content: dict[str, Any]) -> Figure:
    """For the first batch size of the run."""
    batch = content["cells"][0]["batch"]
    cells = [cell for cell in content["cells"] if cell["batch"] == batch]
    figure = new_figure(9.0, 4.4)
    left, right = figure.subplots(1, 2)
    for name, (colour, dashes, marker) in LINES.items():
        look = {"color": colour, "ls": dashes, "marker": marker, "ms": 5.5, "lw": 1.8}
        times, peaks = _times(cells, name), _peaks(cells, name)
        label = next(
            (row["label"] for cell in cells if (row := cell["contenders"].get(name))), None
        )
        if times:
            left.plot(*zip(*times, strict=True), label=label, **look)
        if peaks:
            right.plot(*zip(*peaks, strict=True), **look)
    left.axhline(1, color=GREY, lw=1, ls=":")
    left.set_title("time of a step, in multiples of its three products")
    right.set_title("peak memory, in multiples of the centers W")
    for axes in (left, right):
        _axes(axes, [cell["classes"] for cell in cells])
    figure.legend(loc="lower center", ncols=4, handlelength=2.8, columnspacing=1.6)
    machine = content["machine"]
    note = f"batch {batch}, {cells[0]['dim']} dimensions, float32, {machine['threads']} threads"
    figure.text(0.99, 0.975, note, ha="right", va="top", color=GREY, fontsize=8.5)
    figure.subplots_adjust(left=0.055, right=0.985, bottom=0.26, top=0.86, wspace=0.13)
    return figure


def _times(cells: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    return [
        (cell["classes"], row["median"] / cell["contenders"]["allocating"]["median"])
        for cell in cells
        if "median" in (row := cell["contenders"].get(name, {}))
    ]


def _peaks(cells: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    return [
        (cell["classes"], memory["weights"])
        for cell in cells
        if "weights" in (memory := cell["contenders"].get(name, {}).get("memory", {}))
        and cell["weight_bytes"] >= LEAST_WEIGHT
    ]


def _axes(axes: Axes, classes: list[int]) -> None:
    axes.set(xscale="log", yscale="log", xlabel="classes")
    axes.set_xticks(classes, [f"{count:,}" for count in classes])
    axes.set_yticks(TICKS)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(True)
