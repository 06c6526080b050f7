"""The picture: time over the products, and memory over W, against the number of classes."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from arcset.reports.style import GREY, PALETTE, new_figure, style

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
TICKS = (1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50)


@style()
def picture(content: dict[str, Any]) -> Figure:
    """For the first batch size of the run."""
    batch = content["cells"][0]["batch"]
    cells = [cell for cell in content["cells"] if cell["batch"] == batch]
    figure = new_figure(9.0, 4.5)
    left, right = figure.subplots(1, 2)
    for name, (colour, dashes, marker) in LINES.items():
        label = next((row["label"] for c in cells if (row := c["contenders"].get(name))), None)
        look = {"color": colour, "ls": dashes, "marker": marker, "ms": 5.5, "lw": 1.8}
        for axes, points in ((left, _times(cells, name)), (right, _peaks(cells, name))):
            if points:
                axes.plot(*zip(*points, strict=True), label=label, **look)
    left.set_title("time of a step / its three products", pad=10)
    right.set_title("peak memory / the centers W", pad=10)
    _finish(left, right)
    left.axhline(1, color=GREY, lw=1.2, ls=":")
    figure.legend(*left.get_legend_handles_labels(), loc="lower center", ncols=4, handlelength=2.8)
    threads = content["machine"]["threads"]
    note = f"batch {batch}, {cells[0]['dim']} dimensions, float32, CPU with {threads} " + (
        "thread" if threads == 1 else "threads"
    )
    figure.text(0.5, 0.155, note, ha="center", va="center", color=GREY, fontsize=9)
    figure.subplots_adjust(left=0.065, right=0.955, bottom=0.29, top=0.92, wspace=0.2)
    return figure


def _times(cells: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    both = [(cell["classes"], *_medians(cell, name, "allocating")) for cell in cells]
    return [(classes, time / floor) for classes, time, floor in both if time and floor]


def _medians(cell: dict[str, Any], *names: str) -> list[float | None]:
    return [cell["contenders"].get(name, {}).get("median") for name in names]


def _peaks(cells: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    return [
        (cell["classes"], memory["weights"])
        for cell in cells
        if "weights" in (memory := cell["contenders"].get(name, {}).get("memory", {}))
        and cell["weight_bytes"] >= LEAST_WEIGHT
    ]


def _finish(times: Axes, peaks: Axes) -> None:
    """Ticks where something was measured; factors on a log scale, memory from 0."""
    for axes in (times, peaks):
        drawn = sorted({int(count) for line in axes.lines for count in line.get_xdata()})
        axes.set(xscale="log", xlabel="classes")
        axes.set_xticks(drawn, [f"{count:,}" for count in drawn])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(True)
    times.set_yscale("log")
    times.set_ylim(bottom=min(0.92, times.get_ylim()[0]))  # the floor itself is seen
    low, high = times.get_ylim()
    times.set_yticks([tick for tick in TICKS if low <= tick <= high])
    times.yaxis.set_minor_locator(NullLocator())
    peaks.set_ylim(bottom=0)
    peaks.set_visible(bool(peaks.lines))
    for axes in (times, peaks):
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
