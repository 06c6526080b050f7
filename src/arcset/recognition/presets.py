"""How networks made elsewhere want their pixels: size, values, order of the channels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data.image import Fit
from arcset.errors import OptionError
from arcset.registry import unknown_name

__all__ = ["FACE_PRESETS", "PRESETS", "Pixels", "preset_names", "values_for"]


@dataclass(frozen=True)
class Pixels:
    """What becomes of an image (H, W, C) of 0 … 255 before a network gets it.

    Fields:
        mean, std: (x − mean) / std, in units of 0 … 255; one value, or one per channel in the
            order of `channels`. None for networks that take the bytes.
        channels: "RGB" or "BGR", the order that the network was trained with; grey images have no
            order.
        size: height and width where neither the network nor anybody says them.
        fit: how images of other proportions come to that size, see `Reading`.
        invert: whether images are read as negatives.
    """

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    channels: str = "RGB"
    size: tuple[int, int] | None = None
    fit: Fit = "pad"
    invert: bool = False

    def apply(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """uint8 (N, H, W, C) as a network takes it, still with the channels last.

        >>> Pixels((127.5,), (127.5,)).apply(np.full((1, 1, 1, 1), 255, np.uint8)).tolist()
        [[[[1.0]]]]
        """
        if self.channels == "BGR":
            images = images[..., ::-1]
        if self.mean is None or self.std is None:
            return images
        scaled = images.astype(np.float32)
        scaled -= np.asarray(self.mean, np.float32)
        scaled /= np.asarray(self.std, np.float32)
        return scaled


def _of_unit(values: Sequence[float]) -> tuple[float, ...]:
    """From 0 … 1, as most papers print them, to 0 … 255."""
    return tuple(255 * value for value in values)


PRESETS: dict[str, Pixels] = {
    # InsightFace and most of ArcFace's kin; aligned faces.
    "arcface": Pixels((127.5,), (127.5,), size=(112, 112)),
    "arcface-128": Pixels((127.5,), (128.0,), size=(112, 112)),
    # OpenCV's zoo: the network scales by itself; OpenCV reads BGR, and swaps before the network.
    "sface": Pixels((0.0,), (1.0,), size=(112, 112)),
    "imagenet": Pixels(
        _of_unit((0.485, 0.456, 0.406)),
        _of_unit((0.229, 0.224, 0.225)),
        size=(224, 224),
        fit="crop",
    ),
    "clip": Pixels(
        _of_unit((0.48145466, 0.4578275, 0.40821073)),
        _of_unit((0.26862954, 0.26130258, 0.27577711)),
        size=(224, 224),
        fit="crop",
    ),
    "unit": Pixels((0.0,), (255.0,)),  # 0 … 1
    "symmetric": Pixels((127.5,), (127.5,)),  # −1 … 1
}

#: Those of networks whose images are aligned faces: see `arcset.recognition.faces`.
FACE_PRESETS = ("arcface", "arcface-128", "sface")


def preset_names() -> list[str]:
    """Every preset, sorted."""
    return sorted(PRESETS)


def values_for(
    preset: str | None,
    *,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    channels: str | None = None,
    fit: Fit | None = None,
    invert: bool = False,
) -> Pixels:
    """A preset with what is said beside it, or what is said alone.

    Raises `OptionError` for an unknown preset, channels that are neither RGB nor BGR, and for a
    mean or std that cannot be meant.

        >>> values_for("arcface", std=128).std
        (128.0,)
        >>> values_for(None, mean=0.5, std=0.5)
        Traceback (most recent call last):
        arcset.errors.OptionError: std=0.5 is below 1: mean and std are in units of 0 … 255, so
            multiply them by 255
    """
    if preset is not None and preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    changes: dict[str, Any] = {"invert": invert}
    if mean is not None:
        changes["mean"] = _per_channel("mean", mean)
    if std is not None:
        changes["std"] = _per_channel("std", std)
        if min(changes["std"]) < 1:
            raise OptionError(
                f"std={std!r} is below 1: mean and std are in units of 0 … 255, so multiply them "
                "by 255"
            )
    if channels is not None:
        if str(channels).upper() not in ("RGB", "BGR"):
            raise OptionError(f"channels={channels!r}, expected RGB or BGR")
        changes["channels"] = channels.upper()
    if fit is not None:
        changes["fit"] = fit
    if preset is None and (mean is None) != (std is None):
        raise OptionError("mean and std belong together: give both, or a preset")
    return replace(PRESETS[preset] if preset is not None else Pixels(), **changes)


def _per_channel(name: str, value: float | Sequence[float]) -> tuple[float, ...]:
    values = tuple(float(each) for each in np.atleast_1d(np.asarray(value, dtype=np.float64)))
    if len(values) not in (1, 3) or not np.isfinite(values).all():
        raise OptionError(f"{name}={value!r}, expected one number or three, one per channel")
    return values
