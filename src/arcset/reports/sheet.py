"""A contact sheet: what the images of each class look like."""

import numpy as np
from matplotlib.figure import Figure

from arcset.data import ImageSet
from arcset.errors import OptionError
from arcset.reports.style import GREY, new_figure, styled
from arcset.reports.view import pictured

__all__ = ["sheet_picture"]

MOST_CLASSES = 20


@styled
def sheet_picture(image_set: ImageSet, per_class: int = 8) -> Figure:
    """`per_class` images of each class, one row per class, taken evenly from the whole set.

    Of more than 20 classes, 20 evenly spaced ones are shown, and the picture says so. Raises
    `OptionError` for `per_class` < 1.
    """
    if per_class < 1:
        raise OptionError(f"per_class must be at least 1, not {per_class}")
    names = image_set.class_names
    shown = np.unique(np.linspace(0, len(names) - 1, min(len(names), MOST_CLASSES)).astype(int))
    images = image_set.images
    if images.dtype != np.uint8:
        images = pictured(images)
    size, gap = images.shape[1:3], 2
    step = (size[0] + gap, size[1] + gap)
    shape = (len(shown) * step[0] - gap, per_class * step[1] - gap, *images.shape[3:])
    sheet = np.full(shape, 255, np.uint8)
    for row, number in enumerate(shown.tolist()):
        places = np.flatnonzero(image_set.labels == number)
        evenly = np.linspace(0, len(places) - 1, min(per_class, len(places))).astype(int)
        for column, place in enumerate(places[evenly].tolist()):
            top, left = row * step[0], column * step[1]
            sheet[top : top + size[0], left : left + size[1]] = images[place]
    longest = max(len(names[number]) for number in shown.tolist())
    width, margin, foot = 6.4, 0.25 + 0.085 * longest, 0.1 if len(shown) == len(names) else 0.4
    drawn = width - margin - 0.1
    height = drawn * shape[0] / shape[1] + 0.1 + foot
    figure = new_figure(width, height)
    axes = figure.add_axes(
        (margin / width, foot / height, drawn / width, 1 - (0.1 + foot) / height)
    )
    axes.imshow(sheet, cmap="gray", vmin=0, vmax=255, interpolation="nearest", aspect="auto")
    axes.set_axis_off()
    for row, number in enumerate(shown.tolist()):
        middle = row * step[0] + size[0] / 2
        axes.text(-2 * gap, middle, names[number], ha="right", va="center", fontsize=11)
    if len(shown) < len(names):
        said = f"{len(shown)} of {len(names)} classes"
        figure.text(0.5, 0.12 / height, said, ha="center", va="bottom", fontsize=9, color=GREY)
    return figure
