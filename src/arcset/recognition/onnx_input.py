"""What an ONNX graph takes: found from its only input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arcset.errors import DataError, OptionError
from arcset.recognition.onnx_file import Argument

__all__ = ["GraphInput", "graph_input"]

_TYPES: dict[str, type[Any]] = {
    "tensor(uint8)": np.uint8,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}
LAYOUTS = ("NCHW", "NHWC")


@dataclass(frozen=True)
class GraphInput:
    """The only input of a graph.

    Fields:
        name: the graph's word for it.
        dtype: uint8, float16, float32 or float64.
        batch: how many samples at a time; None for any number.
        layout: "NCHW" or "NHWC" of images, "NF" of vectors.
        shape: (C, H, W) of images, (F,) of vectors; 0 where the graph leaves it open.
    """

    name: str
    dtype: type[Any]
    batch: int | None
    layout: str
    shape: tuple[int, ...]


def graph_input(path: Any, inputs: Sequence[Argument], layout: str | None = None) -> GraphInput:
    """What the inputs of a graph say; `layout` where they leave it open.

    Raises `DataError` for several inputs, and for one that takes neither images nor vectors;
    `OptionError` where the layout must be said, or is said and cannot be.
    """
    if layout is not None and layout not in LAYOUTS:
        raise OptionError(f"layout={layout!r}, expected one of: {', '.join(LAYOUTS)}")
    if len(inputs) != 1:
        names = ", ".join(repr(each.name) for each in inputs[:5])
        raise DataError(
            f"{path} takes {len(inputs)} inputs ({names}), and a recognizer needs a network that "
            "takes images and nothing else"
        )
    found = inputs[0]
    if found.type not in _TYPES:
        raise DataError(f"{path} takes {found.type}, and images are uint8 or floats")
    sides = [side if isinstance(side, int) and side > 0 else 0 for side in found.shape]
    if len(sides) == 2 and sides[1]:
        return GraphInput(found.name, _TYPES[found.type], sides[0] or None, "NF", (sides[1],))
    if len(sides) != 4:
        raise DataError(
            f"{path} takes an array of shape {found.shape}, and images come as (N, C, H, W) or "
            "(N, H, W, C), vectors as (N, F)"
        )
    layout = layout or _layout(path, sides)
    batch, *inner = sides
    channels, height, width = inner if layout == "NCHW" else (inner[2], inner[0], inner[1])
    if channels not in (0, 1, 3):
        raise DataError(
            f"{path} takes images of {channels} channels as {layout}, and images have 1 or 3"
        )
    shape = (channels or 3, height, width)
    return GraphInput(found.name, _TYPES[found.type], batch or None, layout, shape)


def _layout(path: Any, sides: list[int]) -> str:
    first, last = sides[1] in (1, 3), sides[3] in (1, 3)
    if first != last:
        return "NCHW" if first else "NHWC"
    raise OptionError(
        f"{path} does not say where its channels are, in {tuple(sides)} (0: left open): give "
        "layout='NCHW' or layout='NHWC'"
    )
