"""The one image that is explained: a sample of the run's data, or a file."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from arcset.checks import check_choice
from arcset.data import ImageSet
from arcset.errors import DataError, OptionError
from arcset.registry import unknown_name
from arcset.reports.view import RunView

__all__ = ["PARTS", "Subject", "image_subject", "sample_subject"]

PARTS = ("test", "train", "unseen")
BORDERS_APART = 128  # mean brightness of borders, 0 … 255

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Subject:
    """An image as the network takes it, what it is, and what was done to it."""

    image: Pixels  # (H, W) or (H, W, 3)
    source: str  # such as: test sample 17, a 3
    target: int | None  # number of its known class, None where it has none or none was named
    part: str | None = None  # of the run's data, None for a file
    index: int | None = None
    truth: str | None = None  # name of its class, known or unseen
    notes: tuple[str, ...] = ()


def sample_subject(view: RunView, index: int, part: str = "test") -> Subject:
    """A sample of the run's data by its number in `test`, `train` or `unseen`.

    Raises `OptionError` for another part, one that the run does not have, and a number that is
    not in it.
    """
    check_choice("part", part, PARTS)
    images: ImageSet | None = getattr(view.selection, part)
    if images is None:
        raise OptionError(f"{view.title} knows every class of {view.config.data}: none is unseen")
    if not 0 <= index < len(images):
        raise OptionError(
            f"there is no sample {index} in part {part!r} of {view.title}, expected 0 to "
            f"{len(images) - 1}"
        )
    if images.images.dtype != np.uint8:
        raise OptionError(f"{view.title} takes no images, and only images are explained")
    label = int(images.labels[index])
    truth = images.class_names[label]
    notes: tuple[str, ...] = ()
    if part == "unseen":
        notes = (f"{truth!r} was never trained on: there is no target, only the nearest centers",)
    return Subject(
        image=images.images[index],
        source=f"{part} sample {index}, {truth!r}",
        target=None if part == "unseen" else label,
        part=part,
        index=index,
        truth=truth,
        notes=notes,
    )


def image_subject(view: RunView, path: Path, target: str | None = None) -> Subject:
    """An image file, converted to the run's channels and size; `target` names its class.

    Raises `DataError` for a file that is missing or no image, `OptionError` for an unknown class.
    """
    names = view.config.class_names or ()
    if target is not None and target not in names:
        raise unknown_name("class", target, names)
    notes: list[str] = []
    if len(view.config.shape or (1, 28, 28)) != 3:
        raise OptionError(f"{view.title} takes no images")
    image = _fitted(_opened(path), view.config.shape or (1, 28, 28), notes)
    if view.config.invert:
        image = 255 - image
        notes.append("turned into its negative, as the run's data are")
    with suppress(DataError):  # without its data the run still explains, just not the border
        notes += _about_border(image, view.selection.train.images)
    if target is None and view.loss.classifies:
        notes.append("no target was named with --target, so no margin is shown")
    return Subject(
        image=image,
        source=path.name + ("" if target is None else f", said to be {target!r}"),
        target=None if target is None else names.index(target),
        truth=target,
        notes=tuple(notes),
    )


def _opened(path: Path) -> Image.Image:
    if not path.is_file():
        raise DataError(f"{path} is not there; name an image file or the number of a sample")
    try:
        with Image.open(path) as opened:
            opened.load()
            if opened.mode in ("I", "F"):
                raise ValueError("it has 32 bits per pixel; save it with 8 per channel")
            return ImageOps.exif_transpose(opened)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        said = str(error).replace(str(path), path.name)
        raise DataError(f"{path} cannot be read as an image: {said}") from None


def _fitted(image: Image.Image, shape: Sequence[int], notes: list[str]) -> Pixels:
    """The image with the channels and the size of `shape`; what that changes goes into `notes`."""
    channels, height, width = shape
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image, dtype=np.uint16) >> 8).astype(np.uint8))
        notes.append("16 bits per pixel were cut to 8")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        ground = Image.new("RGBA", image.size, "black")
        ground.alpha_composite(image.convert("RGBA"))
        image = ground.convert("RGB")
        notes.append("transparent pixels are taken as black")
    mode = "L" if channels == 1 else "RGB"
    if mode == "L" and _coloured(image):
        notes.append("colours were turned to grey")
    image = image.convert(mode)
    if image.size != (width, height):
        shown = f"{image.width}×{image.height}"
        bent = ", which changes its proportions" * (image.width * height != image.height * width)
        notes.append(f"resized from {shown} to {width}×{height}{bent}")
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.uint8)


def _coloured(image: Image.Image) -> bool:
    pixels = np.asarray(image.convert("RGB"), dtype=np.int16)
    return bool(np.ptp(pixels, axis=2).max() > 0)


def _about_border(image: Pixels, training: Pixels) -> list[str]:
    """A note where the image's border is bright and those in training were dark, or reversed."""
    own, usual = _border(image[None]), _border(training[:: max(1, len(training) // 500)])
    if abs(own - usual) < BORDERS_APART:
        return []
    kinds = ("bright", "dark") if own > usual else ("dark", "bright")
    return [
        f"its border is {kinds[0]} ({own:.0f} of 255) where training images have a {kinds[1]} one "
        f"({usual:.0f}); it was not inverted"
    ]


def _border(images: Pixels) -> float:
    edges = (images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1])
    return float(np.mean([edge.mean() for edge in edges]))
