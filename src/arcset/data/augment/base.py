"""What an augmentation is, how a text names one, and how several work one after the other."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from arcset.checks import check_choice, check_count, check_number
from arcset.errors import InputError, OptionError
from arcset.registry import Registry, unknown_option

__all__ = [
    "AUGMENTATIONS",
    "FILLS",
    "Augmentation",
    "Augmentations",
    "Coordinates",
    "Draws",
    "Shape",
    "Warp",
    "augmentation_names",
    "build_augmentation",
    "draw_uniform",
    "option",
    "parse_augmentation",
]

#: Channels, height and width of the images.
Shape = tuple[int, int, int]

#: What chance decided, by name: on the CPU, (B, …), one row per sample.
Draws = dict[str, Tensor]

#: What lies outside of the image: its nearest pixel, 0 (middle grey), or −1 (black).
FILLS = ("edge", "zero", "low")


class Augmentation(ABC):
    """A random change of a batch of images, each sample by its own draw.

    A subclass is a frozen dataclass whose fields are its options, with `draw`, which asks chance,
    and `apply`, which follows the draws and knows no chance: row i of them decides about sample i
    alone. Images are floats (B, C, H, W) in −1 .. 1.

    name: what users write.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = _check(self.name, field, getattr(self, field.name))
            # The one place that writes to a frozen instance: 1 becomes 1.0 where a float is meant.
            object.__setattr__(self, field.name, value)

    @classmethod
    def options(cls) -> dict[str, float | int | str]:
        """The options by name, with their defaults."""
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        return {field.name: getattr(cls, field.name) for field in fields}

    @abstractmethod
    def is_idle(self, shape: Shape) -> bool:
        """Whether these options leave images of `shape` as they are."""

    @abstractmethod
    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """What is to happen to each of `batch` images of `shape`, drawn on the CPU."""

    @abstractmethod
    def apply(self, images: Tensor, draws: Draws) -> Tensor:
        """The images (B, C, H, W), float32 or float64, changed as drawn, on their own device."""

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Draw and apply; the input itself comes back where the options do nothing."""
        _, *shape = _check_batch(images, generator)
        return Augmentations([self], (shape[0], shape[1], shape[2]))(images, generator)

    def __str__(self) -> str:
        """The spec that gives this augmentation, with every option written out."""
        values = {option: getattr(self, option) for option in self.options()}
        return ":".join((self.name, *(f"{key}={_plain(value)}" for key, value in values.items())))


def option(default: float | int | str, *limits: float | str) -> Any:
    """A dataclass field: a number, from the first limit to the second, or one of several words.

    Only whole numbers fit where the default is an int.
    """
    return dataclasses.field(default=default, metadata={"limits": limits})


def _check(owner: str, field: "dataclasses.Field[Any]", value: Any) -> float | int | str:
    """The value in the type of the field's default, if it lies within the field's limits."""
    name, limits = f"{owner}: {field.name}", field.metadata["limits"]
    if isinstance(field.default, str):
        return check_choice(name, value, limits)
    if isinstance(field.default, int):
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        return check_count(name, whole, *limits)
    low, high = limits
    return check_number(name, value, low, high, closed="both")


def _plain(value: object) -> str:
    """A value as a person would write it, in as many digits as it takes: 200, 0.1234567, edge."""
    short = f"{value:g}" if isinstance(value, float) else ""
    return short if short and float(short) == value else str(value)


#: Every augmentation by name; `@AUGMENTATIONS.register("name")` enters one.
AUGMENTATIONS: Registry[type[Augmentation]] = Registry("augmentation", "arcset.data.augment")


def augmentation_names() -> list[str]:
    """Every registered augmentation, sorted.

    >>> augmentation_names()
    ['affine', 'blur', 'colour', 'crop', 'elastic', 'erasing', 'flip', 'noise', 'stroke']
    """
    return AUGMENTATIONS.names()


def parse_augmentation(text: str) -> Augmentation:
    """An augmentation from NAME or NAME:OPTION=VALUE:…; what is not written takes its default.

    >>> parse_augmentation("elastic:strength=0.1")
    Elastic(strength=0.1, points=4, fill='edge')
    >>> parse_augmentation("noise:sigma=0.1")
    Traceback (most recent call last):
    arcset.errors.OptionError: noise has no option 'sigma'; it takes strength

    Raises:
        OptionError: an unknown name or option, an option written twice, or a value out of range.
    """
    name, *settings = (part.strip() for part in text.split(":"))
    kind = AUGMENTATIONS[name]
    defaults = kind.options()
    options: dict[str, float | str] = {}
    for setting in settings:
        option, equals, value = (part.strip() for part in setting.partition("="))
        if not equals:
            raise OptionError(
                f"{text!r}: an option is written {name}:OPTION=VALUE, not {setting!r}"
            )
        if option not in defaults:
            raise unknown_option(name, option, defaults)
        if option in options:
            raise OptionError(f"{text!r} gives {option} twice; keep one of them")
        options[option] = value if isinstance(defaults[option], str) else _number(value)
    return kind(**options)


def _number(text: str) -> float | str:
    """The number, or the text itself, which the augmentation will refuse."""
    try:
        return float(text)
    except ValueError:
        return text


class Coordinates(NamedTuple):
    """Where pixels come from: x and y in pixels from the middle of the image, right and down.

    Both broadcast to (B, H, W). untouched: whether these are every pixel's own coordinates, where
    x is (1, 1, W) and y is (1, H, 1).
    """

    x: Tensor
    y: Tensor
    untouched: bool = False

    @classmethod
    def of_pixels(cls, height: int, width: int, device: torch.device) -> "Coordinates":
        """Every pixel's own coordinates."""
        x = torch.arange(width, device=device, dtype=torch.float32) - (width - 1) / 2
        y = torch.arange(height, device=device, dtype=torch.float32) - (height - 1) / 2
        return cls(x[None, None, :], y[None, :, None], untouched=True)


class Warp(Augmentation):
    """An augmentation that only says where pixels come from.

    Warps that stand next to each other read the image once: the coordinates go through all of them,
    last first, and one bilinear `grid_sample` reads the original there. So a chain of them is as
    fast and as sharp as one. `fill`, where a subclass has that option, is what lies outside; None
    never looks there.
    """

    fill: str | None = None

    @abstractmethod
    def move(self, at: Coordinates, draws: Draws, height: int, width: int) -> Coordinates:
        """Where in the original what is to stand at `at` comes from."""

    def apply(self, images: Tensor, draws: Draws) -> Tensor:
        return _resample(images, [(self, draws)])


def _resample(images: Tensor, warps: Sequence[tuple[Warp, Draws]]) -> Tensor:
    """The images (B, C, H, W) after all warps, in their order, read once; their fills agree."""
    batch, _, height, width = images.shape
    source = Coordinates.of_pixels(height, width, images.device)
    for warp, draws in reversed(warps):
        source = warp.move(source, draws, height, width)
    # grid_sample counts from −1 to 1 between the outer borders of the outermost pixels.
    grid = images.new_empty(batch, height, width, 2)
    grid[..., 0] = source.x * (2 / width)
    grid[..., 1] = source.y * (2 / height)
    fill = next((warp.fill for warp, _ in warps if warp.fill is not None), "edge")
    if fill == "edge":
        return F.grid_sample(images, grid, "bilinear", "border", align_corners=False)
    if fill == "zero":
        return F.grid_sample(images, grid, "bilinear", "zeros", align_corners=False)
    return F.grid_sample(images + 1, grid, "bilinear", "zeros", align_corners=False) - 1


class Augmentations:
    """What happens to each batch of training images of `shape` (channels, height, width).

    Those that move pixels (`affine`, `elastic`, `crop`) and stand next to each other with the same
    `fill` read the image once, together: as fast and as sharp as one alone. Those that do nothing
    are left out. The outcome follows from the images and the generator's state, and from no other
    chance; it is the same on every device, up to rounding. Dtype and memory format stay.
    """

    def __init__(self, augmentations: Sequence[Augmentation], shape: Shape) -> None:
        self.shape = shape
        self.steps = tuple(each for each in augmentations if not each.is_idle(shape))
        self._groups = _group_warps(self.steps)

    def __call__(
        self, images: Tensor, generator: torch.Generator, part: tuple[int, slice] | None = None
    ) -> Tensor:
        """Changed images (B, C, H, W) of floats in −1 .. 1; the input itself if there is no step.

        `part` says that these are the rows of a larger batch, of so many images: what is drawn is
        drawn for all of it, so that the parts together come out as the whole would have.

        Raises `InputError` for images of another shape or type, and for a generator that is not
        one of the CPU.
        """
        batch, *shape = _check_batch(images, generator)
        if tuple(shape) != self.shape:
            raise InputError(
                f"images must be (B, {', '.join(map(str, self.shape))}), not {tuple(images.shape)}"
            )
        if not self.steps:
            return images
        # float32 at least: coordinates need more digits than shorter types have.
        result = images.to(torch.promote_types(images.dtype, torch.float32))
        count, rows = part or (batch, slice(None))
        for group in self._groups:
            drawn = [step.draw(count, self.shape, generator) for step in group]
            draws = [{name: values[rows] for name, values in each.items()} for each in drawn]
            result = _apply(group, draws, result)
        if result.stride() == images.stride() and result.dtype == images.dtype:
            return result
        return torch.empty_like(images).copy_(result)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.steps)

    def __str__(self) -> str:
        """The specs, with every option written out."""
        return ", ".join(map(str, self.steps)) or "none"


def build_augmentation(specs: Sequence[str], shape: Shape) -> Augmentations:
    """Augmentations by name, in the given order, for images of `shape` (channels, height, width).

    Each spec is read by `parse_augmentation`; with none, images come back as they are.

        >>> augment = build_augmentation(["affine:rotate=15", "elastic", "noise"], (1, 28, 28))
        >>> images = torch.zeros(4, 1, 28, 28)
        >>> augment(images, torch.Generator().manual_seed(0)).shape
        torch.Size([4, 1, 28, 28])
        >>> build_augmentation([], (1, 28, 28))(images, torch.Generator()) is images
        True

    Raises:
        OptionError: an unknown name or option, or a value out of range.
    """
    if isinstance(specs, str):
        raise OptionError(f"augmentations are given as a list of texts, not as the text {specs!r}")
    if len(shape) != 3 or min(shape) < 1:
        raise OptionError(f"shape must be (channels, height, width), not {shape!r}")
    channels, height, width = shape
    return Augmentations([parse_augmentation(text) for text in specs], (channels, height, width))


def draw_uniform(generator: torch.Generator, *size: int) -> Tensor:
    """Numbers drawn evenly from −1 .. 1."""
    return torch.rand(size, generator=generator).mul_(2).sub_(1)


def _check_batch(images: Tensor, generator: torch.Generator) -> tuple[int, int, int, int]:
    """The shape of the images, if they are floats (B, C, H, W) and the generator is a CPU one."""
    if images.ndim != 4 or not images.is_floating_point():
        raise InputError(
            f"images must be floats (B, C, H, W) in −1 .. 1, as as_float gives them, "
            f"not {images.dtype} of shape {tuple(images.shape)}"
        )
    if generator.device.type != "cpu":
        raise InputError(
            f"the generator must be one of the CPU, so that the draws are the same on every "
            f"device, not of {generator.device}"
        )
    batch, channels, height, width = images.shape
    return batch, channels, height, width


def _group_warps(steps: Sequence[Augmentation]) -> list[list[Augmentation]]:
    """Runs of warps whose fills agree, and everything else by itself."""
    groups: list[list[Augmentation]] = []
    for step in steps:
        if groups and all(_agree(other, step) for other in groups[-1]):
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _agree(one: Augmentation, other: Augmentation) -> bool:
    if not (isinstance(one, Warp) and isinstance(other, Warp)):
        return False
    return one.fill == other.fill or one.fill is None or other.fill is None


def _apply(group: Sequence[Augmentation], draws: Sequence[Draws], images: Tensor) -> Tensor:
    warps = [(step, row) for step, row in zip(group, draws, strict=True) if isinstance(step, Warp)]
    if warps:
        return _resample(images, warps)
    ((step,), (row,)) = group, draws
    return step.apply(images, row)
