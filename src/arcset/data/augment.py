"""Augmentation: batches of training images, changed at random, each sample by its own draw.

augment = build_augmentation(["affine:rotate=15:scale=0.15", "elastic", "noise"], (1, 28, 28))
images = augment(as_float(pixels), torch.Generator().manual_seed(0))

A frozen dataclass that is an `Augmentation` (or a `Warp`, if it moves pixels) with
`@AUGMENTATIONS.register("name")` is all that a new one takes; the command line's help derives from
the registry. First stand those that move pixels, then those that change their values.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from arcset.checks import check_choice, check_count, check_number
from arcset.errors import InputError, OptionError
from arcset.registry import Registry, unknown_option

#: Channels, height and width of the images.
Shape = tuple[int, int, int]

#: What chance decided, by name: on the CPU, (B, …), one row per sample.
Draws = dict[str, Tensor]


class Augmentation(ABC):
    """A random change of a batch of images, each sample by its own draw.

    A subclass is a frozen dataclass whose fields are its options, with `draw`, which asks chance,
    and `apply`, which follows the draws and knows no chance: row i of them decides about sample i
    alone. Images are floats (B, C, H, W) in −1 .. 1.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            name = f"{type(self).__name__.lower()}: {field.name}"
            value = _check(name, getattr(self, field.name), field)
            # The one place that writes to a frozen instance: 1 becomes 1.0 where a float is meant.
            object.__setattr__(self, field.name, value)

    @classmethod
    def options(cls) -> dict[str, float | int | str]:
        """The options by name, with their defaults."""
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        return {field.name: getattr(cls, field.name) for field in fields}

    @abstractmethod
    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """What is to happen to each of `batch` images of `shape`, drawn on the CPU."""

    @abstractmethod
    def apply(self, images: Tensor, draws: Draws) -> Tensor:
        """The images (B, C, H, W), float32 or float64, changed as drawn, on their own device."""

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Draw and apply."""
        channels, height, width = images.shape[-3:]
        return Augmentations([self], (channels, height, width))(images, generator)


def option(default: float | int | str, *limits: float | str) -> Any:
    """A dataclass field: a number, from the first limit to the second, or one of several words.

    Only whole numbers fit where the default is an int.
    """
    return dataclasses.field(default=default, metadata={"limits": limits})


def _check(name: str, value: Any, field: "dataclasses.Field[Any]") -> float | int | str:
    """The value in the type of the field's default, if it lies within the field's limits."""
    limits = field.metadata["limits"]
    if isinstance(field.default, str):
        return check_choice(name, value, limits)
    if isinstance(field.default, int):
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        return check_count(name, whole, *limits)
    low, high = limits
    return check_number(name, value, low, high, closed="both")


#: Every augmentation by name; `@AUGMENTATIONS.register("name")` enters one.
AUGMENTATIONS: Registry[type[Augmentation]] = Registry("augmentation")


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


class Augmentations:
    """What happens to each batch of training images of `shape` (channels, height, width).

    Those that move pixels (`affine`, `elastic`, `crop`) and stand next to each other with the same
    `fill` read the image once, together: as fast and as sharp as one alone. The outcome follows
    from the images and the generator's state, and from no other chance; it is the same on every
    device, up to rounding. Dtype and memory format stay.
    """

    def __init__(self, augmentations: Sequence[Augmentation], shape: Shape) -> None:
        self.shape = shape
        self._groups: list[list[Augmentation]] = []
        for step in augmentations:
            if self._groups and _read_together([*self._groups[-1], step]):
                self._groups[-1].append(step)
            else:
                self._groups.append([step])

    def __call__(
        self, images: Tensor, generator: torch.Generator, part: tuple[int, slice] | None = None
    ) -> Tensor:
        """Changed images (B, C, H, W) of floats in −1 .. 1; the input itself if there is no step.

        `part` says that these are the rows of a larger batch, of so many images: what is drawn is
        drawn for all of it, so that the parts together come out as the whole would have.
        `generator` is one of the CPU. Raises `InputError` for images of another shape or type.
        """
        if not self._groups:
            return images
        if tuple(images.shape[1:]) != self.shape or not images.is_floating_point():
            raise InputError(
                f"images must be floats in −1 .. 1, as as_float gives them, of shape "
                f"(B, {', '.join(map(str, self.shape))}), not {images.dtype} of shape "
                f"{tuple(images.shape)}"
            )
        # float32 at least: coordinates need more digits than shorter types have.
        result = images.to(torch.promote_types(images.dtype, torch.float32))
        count, rows = part or (len(images), slice(None))
        for group in self._groups:
            drawn = [step.draw(count, self.shape, generator) for step in group]
            draws = [{name: values[rows] for name, values in each.items()} for each in drawn]
            warps = [step for step in group if isinstance(step, Warp)]
            result = _resample(result, warps, draws) if warps else group[0].apply(result, draws[0])
        if result.stride() == images.stride() and result.dtype == images.dtype:
            return result
        return torch.empty_like(images).copy_(result)


def _read_together(steps: Sequence[Augmentation]) -> bool:
    """Whether all are warps, and those that say what lies outside of the image say the same."""
    fills = {step.fill for step in steps if isinstance(step, Warp) and step.fill is not None}
    return len(fills) < 2 and all(isinstance(step, Warp) for step in steps)


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
    return Augmentations([parse_augmentation(text) for text in specs], shape)


def draw_uniform(generator: torch.Generator, *size: int) -> Tensor:
    """Numbers drawn evenly from −1 .. 1."""
    return torch.rand(size, generator=generator).mul_(2).sub_(1)


#: What lies outside of the image: its nearest pixel, 0 (middle grey), or −1 (black).
FILLS = ("edge", "zero", "low")


class Coordinates(NamedTuple):
    """Where pixels come from: x and y in pixels from the middle of the image, right and down.

    Both broadcast to (B, H, W). untouched: whether these are every pixel's own coordinates, where
    x is (1, 1, W) and y is (1, H, 1).
    """

    x: Tensor
    y: Tensor
    untouched: bool = False


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
        return _resample(images, [self], [draws])


def _resample(images: Tensor, warps: Sequence[Warp], draws: Sequence[Draws]) -> Tensor:
    """The images (B, C, H, W) after all warps, in their order, read once; their fills agree."""
    batch, _, height, width = images.shape
    x = torch.arange(width, device=images.device, dtype=torch.float32) - (width - 1) / 2
    y = torch.arange(height, device=images.device, dtype=torch.float32) - (height - 1) / 2
    source = Coordinates(x[None, None, :], y[None, :, None], untouched=True)
    for warp, drawn in reversed(list(zip(warps, draws, strict=True))):
        source = warp.move(source, drawn, height, width)
    # grid_sample counts from −1 to 1 between the outer borders of the outermost pixels.
    grid = images.new_empty(batch, height, width, 2)
    grid[..., 0] = source.x * (2 / width)
    grid[..., 1] = source.y * (2 / height)
    fill = next((warp.fill for warp in warps if warp.fill is not None), "edge")
    if fill == "low":  # what grid_sample takes for 0 is black then
        return F.grid_sample(images + 1, grid, "bilinear", "zeros", align_corners=False) - 1
    padding = "border" if fill == "edge" else "zeros"
    return F.grid_sample(images, grid, "bilinear", padding, align_corners=False)


@AUGMENTATIONS.register("affine")
@dataclass(frozen=True)
class Affine(Warp):
    """A random linear map and a shift, about the middle of the image, bilinear.

    An image is scaled (by a factor between 1/(1 + scale) and 1 + scale) and stretched (width
    against height by such a factor, at the same area), then slanted sideways, turned, and shifted;
    each amount is drawn evenly, factors on a logarithmic scale. Angles are in degrees, and hold in
    pixels, so that a circle in a rectangular image stays one. Moving blurs small images a little;
    with a probability below 1 some stay as sharp as those that are recognized later.

        >>> images = torch.full((2, 1, 8, 8), 0.5)
        >>> moved = Affine(rotate=45)(images, torch.Generator().manual_seed(0))
        >>> moved.shape, bool((moved - 0.5).abs().max() < 1e-6)
        (torch.Size([2, 1, 8, 8]), True)
    """

    rotate: float = option(10.0, 0, 180)  # degrees, to either side
    scale: float = option(0.1, 0, 3)  # 0.1: smaller or larger by a factor of up to 1.1
    stretch: float = option(0.1, 0, 3)  # 0.1: width against height by a factor of up to 1.1
    shear: float = option(5.0, 0, 60)  # degrees by which uprights lean, to either side
    shift: float = option(0.05, 0, 1)  # share of width and of height, to either side
    probability: float = option(1.0, 0, 1)  # of an image being moved at all
    fill: str = option("edge", *FILLS)  # what comes in from outside: edge pixels, 0 or −1 (black)

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """`matrix` (B, 2, 2) of the forward map, `shift` (B, 2) as a share of (width, height)."""
        turn, scale, stretch, shear, *shift = draw_uniform(generator, 6, batch).double()
        angle = turn * math.radians(self.rotate)
        lean = torch.tan(shear * math.radians(self.shear))
        size = torch.exp(scale * math.log1p(self.scale))
        half = torch.exp(stretch * math.log1p(self.stretch) / 2)
        cosine, sine = angle.cos(), angle.sin()
        # turn · slant · scale: [[c, −s], [s, c]] · [[1, lean], [0, 1]] · diag(size·half, size/half)
        left, right = size * half, size / half
        rows = (
            torch.stack((cosine * left, (cosine * lean - sine) * right), dim=-1),
            torch.stack((sine * left, (sine * lean + cosine) * right), dim=-1),
        )
        matrix, moved = torch.stack(rows, dim=1), torch.stack(shift, dim=-1) * self.shift
        if self.probability < 1:
            still = torch.rand(batch, generator=generator) >= self.probability
            matrix[still], moved[still] = torch.eye(2, dtype=matrix.dtype), 0.0
        return {"matrix": matrix, "shift": moved}

    def move(self, at: Coordinates, draws: Draws, height: int, width: int) -> Coordinates:
        """The inverse of the forward map p ↦ M p + t: M⁻¹ (q − t)."""
        back = torch.linalg.inv(draws["matrix"])  # (B, 2, 2)
        offset = draws["shift"] * torch.tensor([width, height])  # (B, 2), in pixels
        start = -(back @ offset[..., None])  # (B, 2, 1)
        table = torch.cat((back, start), dim=-1).to(at.x)[..., None, None]  # (B, 2, 3, 1, 1)
        xx, xy, x0 = table[:, 0].unbind(1)  # each (B, 1, 1)
        yx, yy, y0 = table[:, 1].unbind(1)
        # The small operands first: on the grid of pixels, only the outer sums are (B, H, W).
        x = xx * at.x + (xy * at.y + x0)
        y = yx * at.x + (yy * at.y + y0)
        return Coordinates(x, y)


@AUGMENTATIONS.register("elastic")
@dataclass(frozen=True)
class Elastic(Warp):
    """Every point of a coarse grid is moved at random, and the image between follows smoothly.

    The grid has points × points points, its corners on the corner pixels; each is displaced by up
    to `strength` of the width and of the height, drawn evenly, and bicubic interpolation fills the
    field. Simard, Steinkraus, Platt: Best practices for convolutional neural networks applied to
    visual document analysis (2003) blur noise instead, which is the same idea at more cost. The
    image cannot fold over itself while strength · (points − 1) is at most 0.12, as by default.

        >>> images = torch.full((2, 1, 8, 8), 0.5)
        >>> Elastic()(images, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 1, 8, 8])
    """

    strength: float = option(0.04, 0, 0.5)  # largest displacement, a share of width and height
    points: int = option(4, 2, 32)  # points of the coarse grid along each side
    fill: str = option("edge", *FILLS)  # what comes in from outside: edge pixels, 0 or −1 (black)

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """`field` (B, 2, points, points): the displacements, a share of (width, height)."""
        return {
            "field": draw_uniform(generator, batch, 2, self.points, self.points) * self.strength
        }

    def move(self, at: Coordinates, draws: Draws, height: int, width: int) -> Coordinates:
        size = torch.tensor([width, height])[:, None, None]
        field = (draws["field"] * size).to(at.x)  # (B, 2, n, n), in pixels
        if at.untouched:  # far cheaper than looking each point up
            down = _weights(self.points, height).to(field)  # (H, n)
            across = _weights(self.points, width).to(field)  # (W, n)
            shift = down @ field @ across.T  # (B, 2, H, W)
        else:
            shift = _interpolate(field, at, height, width)
        return Coordinates(at.x + shift[:, 0], at.y + shift[:, 1])


def _weights(points: int, pixels: int) -> Tensor:
    """How much each grid point has to say at each pixel of a line: (pixels, points), bicubic."""
    unit = torch.eye(points)[None, None]  # (1, 1, n, n)
    size = (pixels, points)
    return F.interpolate(unit, size, mode="bicubic", align_corners=True)[0, 0]


def _interpolate(field: Tensor, at: Coordinates, height: int, width: int) -> Tensor:
    """The field (B, 2, n, n) at any points, by the same interpolation: (B, 2, H, W)."""
    x, y = torch.broadcast_tensors(at.x * (2 / max(width - 1, 1)), at.y * (2 / max(height - 1, 1)))
    grid = torch.stack((x, y), dim=-1).expand(len(field), height, width, 2)
    return F.grid_sample(field, grid, "bicubic", "border", align_corners=True)


@AUGMENTATIONS.register("crop")
@dataclass(frozen=True)
class Crop(Warp):
    """A random resized crop, bilinear.

    The part's share of the area is drawn evenly from area .. 1, its width against its height from
    1/(1 + stretch) .. 1 + stretch times the image's own (as far as that fits into the image), and
    its position evenly from all where it lies inside; nothing outside of the image is looked at.

        >>> crop = Crop(area=0.5)
        >>> draws = crop.draw(100, (1, 28, 28), torch.Generator().manual_seed(0))
        >>> bool((draws["size"].prod(dim=1) >= 0.5 - 1e-6).all())
        True
    """

    area: float = option(0.75, 0.01, 1)  # smallest share of the image's area; 1 is all of it
    stretch: float = option(0.1, 0, 3)  # 0.1: width against height by a factor of up to 1.1

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """For (width, height), `size` (B, 2): the share kept, and `place` (B, 2) in −1 .. 1."""
        chance = torch.rand(batch, generator=generator, dtype=torch.float64)
        stretch, *place = draw_uniform(generator, 3, batch).double()
        area = 1 - chance * (1 - self.area)
        # A part of area a can be wider than high by a factor of 1/a at most: then it is as wide as
        # the image.
        widest = (-area.log()).clamp(max=math.log1p(self.stretch))
        half = torch.exp(stretch * widest / 2)
        root = area.sqrt()
        return {
            "size": torch.stack((root * half, root / half), dim=-1).clamp_(max=1),
            "place": torch.stack(place, dim=-1),
        }

    def move(self, at: Coordinates, draws: Draws, height: int, width: int) -> Coordinates:
        """From the first to the last pixel of the part; at most to the image's outermost ones."""
        reach = torch.tensor([width - 1, height - 1]) / 2
        start = draws["place"] * (1 - draws["size"]) * reach  # (B, 2), in pixels from the middle
        size = draws["size"].to(at.x)[..., None, None]  # (B, 2, 1, 1)
        start = start.to(at.x)[..., None, None]
        x = at.x * size[:, 0] + start[:, 0]
        y = at.y * size[:, 1] + start[:, 1]
        return Coordinates(x, y)


@AUGMENTATIONS.register("flip")
@dataclass(frozen=True)
class Flip(Augmentation):
    """Left and right change places, or top and bottom, each with its own probability; exact.

    Good for faces. A mirrored character is another one: leave it out there, or make it a class of
    its own (`class_transforms`).

        >>> Flip(probability=1)(torch.tensor([[[[0.1, 0.2, 0.3]]]]), torch.Generator())
        tensor([[[[0.3000, 0.2000, 0.1000]]]])
    """

    probability: float = option(0.5, 0, 1)  # of changing left and right
    vertical: float = option(0.0, 0, 1)  # probability of changing top and bottom

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """`sideways` and `upside_down` (B,), each true or false."""
        sideways, upside_down = torch.rand(2, batch, generator=generator)
        return {
            "sideways": sideways < self.probability,
            "upside_down": upside_down < self.vertical,
        }

    def apply(self, images: Tensor, draws: Draws) -> Tensor:
        for chosen, side in ((draws["sideways"], -1), (draws["upside_down"], -2)):
            if chosen.any():
                mirrored = chosen.to(images.device)[:, None, None, None]
                images = torch.where(mirrored, images.flip(side), images)
        return images


# Rows: how red, green and blue make up brightness (Y) and the two colour differences (I, Q) of
# NTSC video, where a turn of (I, Q) is a change of hue.
_YIQ = torch.tensor(
    [[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]],
    dtype=torch.float64,
)


@AUGMENTATIONS.register("colour")
@dataclass(frozen=True)
class Colour(Augmentation):
    """Brightness, contrast, saturation and hue, each by an amount drawn evenly.

    Brightness multiplies what is above black (−1) by 1 ± brightness; contrast multiplies each
    pixel's distance from the image's mean brightness by 1 ± contrast; saturation each pixel's
    distance from its own grey by 1 ± saturation; hue turns colours by a share of the full circle.
    The result is cut to −1 .. 1. On images of one channel saturation and hue do nothing.

        >>> Colour(brightness=1)(torch.full((1, 1, 1, 2), -1.0), torch.Generator())
        tensor([[[[-1., -1.]]]])
    """

    brightness: float = option(0.2, 0, 1)  # 0.2: times 0.8 .. 1.2
    contrast: float = option(0.2, 0, 1)  # 0.2: times 0.8 .. 1.2
    saturation: float = option(0.2, 0, 1)  # 0.2: times 0.8 .. 1.2; nothing on grey images
    hue: float = option(0.0, 0, 0.5)  # share of the colour circle, to either side

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """`brightness`, `contrast`, `saturation` (B,), factors, and `hue` (B,) in radians."""
        amounts = draw_uniform(generator, 4, batch).double()
        return {
            "brightness": 1 + amounts[0] * self.brightness,
            "contrast": 1 + amounts[1] * self.contrast,
            "saturation": 1 + amounts[2] * self.saturation,
            "hue": amounts[3] * self.hue * 2 * math.pi,
        }

    def apply(self, images: Tensor, draws: Draws) -> Tensor:
        """b (c x + (1 − c) m) with x above black and m its mean, after turning the colours."""
        if images.shape[1] == 3 and (self.saturation or self.hue):
            mixing = _mixing(draws["saturation"], draws["hue"]).to(images)  # (B, 3, 3)
            images = torch.einsum("bij,bjhw->bihw", mixing, images)  # grey stays: so does the mean
        light, contrast = (
            draws[option].to(images)[:, None, None, None] for option in ("brightness", "contrast")
        )
        offset = light * (contrast + (1 - contrast) * (_mean(images) + 1)) - 1
        return torch.addcmul(offset, images, light * contrast).clamp_(-1, 1)


def _mean(images: Tensor) -> Tensor:
    """Each image's mean brightness, (B, 1, 1, 1)."""
    means = images.mean(dim=(2, 3), keepdim=True)  # (B, C, 1, 1)
    if images.shape[1] != 3:
        return means.mean(dim=1, keepdim=True)
    return (means * _YIQ[0].to(images)[:, None, None]).sum(dim=1, keepdim=True)


def _mixing(saturation: Tensor, hue: Tensor) -> Tensor:
    """The matrices (B, 3, 3) that stretch and turn the colour differences of RGB pixels."""
    cosine, sine = saturation * hue.cos(), saturation * hue.sin()
    one, none = torch.ones_like(hue), torch.zeros_like(hue)
    turn = torch.stack((one, none, none, none, cosine, -sine, none, sine, cosine), dim=-1)
    mixing: Tensor = torch.linalg.inv(_YIQ) @ turn.reshape(-1, 3, 3) @ _YIQ
    return mixing


_REACH = 4.0  # standard deviations after which the kernel is cut off


@AUGMENTATIONS.register("blur")
@dataclass(frozen=True)
class Blur(Augmentation):
    """Gaussian blur, its standard deviation drawn evenly from 0 .. sigma pixels for each image.

    Beyond the border lies the border's pixel. Rows and columns are blurred one after the other,
    each by one matrix product for the whole batch: the kernels differ, and a product with an
    (H, H) matrix per image is faster than as many small convolutions.

        >>> flat = torch.full((1, 1, 5, 4), 0.25)
        >>> bool((Blur()(flat, torch.Generator()) - flat).abs().max() < 1e-6)
        True
    """

    sigma: float = option(0.8, 0, 20)  # largest standard deviation, in pixels

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """`sigma` (B,), in pixels."""
        return {"sigma": torch.rand(batch, generator=generator) * self.sigma}

    def apply(self, images: Tensor, draws: Draws) -> Tensor:
        height, width = images.shape[2:]
        radius = math.ceil(_REACH * self.sigma)
        down = _matrices(draws["sigma"], radius, height).to(images)[:, None]  # (B, 1, H, H)
        across = _matrices(draws["sigma"], radius, width).to(images)[:, None]  # (B, 1, W, W)
        return down @ images @ across.mT


def _matrices(sigma: Tensor, radius: int, size: int) -> Tensor:
    """By image, the matrix (size, size) that blurs a line: row i holds what pixel i takes in."""
    distance = torch.arange(-radius, radius + 1)
    # A sigma of 0 leaves the middle alone: all other weights underflow to an exact 0.
    exponent = -0.5 * (distance / sigma.double().clamp(min=1e-6)[:, None]) ** 2
    kernel = exponent.exp()
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).float()  # (B, 2 radius + 1)
    source = (torch.arange(size)[:, None] + distance).clamp_(0, size - 1)  # (size, 2 radius + 1)
    matrices = kernel.new_zeros(len(sigma), size, size)
    weights = kernel[:, None, :].expand(-1, size, -1)
    return matrices.scatter_add_(2, source.expand(len(sigma), -1, -1), weights)


@AUGMENTATIONS.register("noise")
@dataclass(frozen=True)
class Noise(Augmentation):
    """Gaussian noise on every value, its standard deviation drawn evenly from 0 .. strength.

    The whole range of values, −1 .. 1, is 2; the result is cut to it.

        >>> images = Noise(strength=0.5)(torch.zeros(4, 1, 28, 28), torch.Generator())
        >>> bool(images.std() > 0.1), bool(images.abs().max() <= 1)
        (True, True)
    """

    strength: float = option(0.1, 0, 2)  # largest standard deviation, on the scale −1 .. 1

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """`sigma` (B,) and `noise` (B, C, H, W) of unit variance."""
        return {
            "sigma": torch.rand(batch, generator=generator) * self.strength,
            "noise": torch.randn(batch, *shape, generator=generator),
        }

    def apply(self, images: Tensor, draws: Draws) -> Tensor:
        sigma = draws["sigma"].to(images)[:, None, None, None]
        return torch.addcmul(images, draws["noise"].to(images), sigma).clamp_(-1, 1)


_WIDEST = 2.0  # a rectangle's width against its height, relative to the image's: 1/2 .. 2


@AUGMENTATIONS.register("erasing")
@dataclass(frozen=True)
class Erasing(Augmentation):
    """Random rectangles are painted over.

    Paper: Zhong, Zheng, Kang, Li, Yang: Random erasing data augmentation, AAAI 2020.

    An image is chosen with `probability`; each of its `count` rectangles has an area drawn evenly
    from smallest .. largest (to whole rows and columns), a width against its height between half
    and twice that of the image, and any place where it lies inside. `fill`: `noise` is even in
    −1 .. 1, `mean` the image's own mean by channel, `zero` middle grey, `low` black.

        >>> Erasing(smallest=0.4, largest=0.3)
        Traceback (most recent call last):
        arcset.errors.OptionError: erasing: smallest must be at most largest, which is 0.3, not 0.4
    """

    probability: float = option(0.5, 0, 1)  # of an image being chosen
    smallest: float = option(0.02, 0, 1)  # least area of a rectangle, a share of the image's
    largest: float = option(0.15, 0, 1)  # greatest area of a rectangle, a share of the image's
    count: int = option(1, 1, 100)  # rectangles in an image that is chosen
    fill: str = option("noise", "noise", "mean", "zero", "low")  # what a rectangle is painted with

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smallest > self.largest:
            raise OptionError(
                f"erasing: smallest must be at most largest, which is {self.largest:g}, "
                f"not {self.smallest:g}"
            )

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """`top`, `left`, `rows`, `columns` (B, count), no rows where nothing is to be erased.

        With fill=noise also `noise` (B, C, H, W).
        """
        _, height, width = shape
        chosen = torch.rand(batch, 1, generator=generator) < self.probability
        chosen &= self.largest > 0
        part, aspect, down, across = torch.rand(4, batch, self.count, generator=generator).double()
        area = self.smallest + part * (self.largest - self.smallest)
        stretch = _WIDEST ** (aspect * 2 - 1)
        # As many rows as it takes for the rectangle to be no wider than the image, then as many
        # columns as come nearest to the area.
        fewest = (area * height).ceil().clamp(min=1)
        rows = (height * (area / stretch).sqrt()).round().clamp(max=height).maximum(fewest)
        columns = (area * height * width / rows).round().clamp(1, width)
        draws = {
            "top": (down * (height - rows + 1)).floor().long(),
            "left": (across * (width - columns + 1)).floor().long(),
            "rows": torch.where(chosen, rows, 0).long(),
            "columns": columns.long(),
        }
        return draws | (
            {"noise": draw_uniform(generator, batch, *shape)} if self.fill == "noise" else {}
        )

    def apply(self, images: Tensor, draws: Draws) -> Tensor:
        height, width = images.shape[2:]
        down = _spans(draws["top"], draws["rows"], height)  # (B, count, H)
        across = _spans(draws["left"], draws["columns"], width)  # (B, count, W)
        erased = (down[..., None] & across[..., None, :]).any(dim=1)  # (B, H, W)
        return torch.where(erased[:, None].to(images.device), self._paint(images, draws), images)

    def _paint(self, images: Tensor, draws: Draws) -> Tensor:
        if self.fill == "noise":
            return draws["noise"].to(images)
        if self.fill == "mean":
            return images.mean(dim=(2, 3), keepdim=True)
        return images.new_tensor(0.0 if self.fill == "zero" else -1.0)


def _spans(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Which of `size` positions lie in start .. start + length − 1: (B, count, size)."""
    position = torch.arange(size)
    start = start[..., None]
    return (position >= start) & (position < start + length[..., None])


@AUGMENTATIONS.register("stroke")
@dataclass(frozen=True)
class Stroke(Augmentation):
    """Bright strokes on a dark ground, as in MNIST and Omniglot here, become thicker or thinner.

    An amount is drawn evenly from −thinner .. thicker; the image is mixed by it with the greatest
    of each pixel and its eight neighbours (thicker: at 1, by a pixel on either side), or with the
    least of them (thinner). Where the ink is dark, the two change roles.

        >>> line = torch.tensor([[[[-1.0, -1, 1, -1, -1]]]])
        >>> Stroke().apply(line, {"amount": torch.tensor([0.5])})
        tensor([[[[-1.,  0.,  1.,  0., -1.]]]])
    """

    thicker: float = option(0.6, 0, 1)  # largest share of the image dilated by a pixel
    thinner: float = option(0.3, 0, 1)  # largest share of the image eroded by a pixel

    def draw(self, batch: int, shape: Shape, generator: torch.Generator) -> Draws:
        """`amount` (B,): above 0 thicker, below 0 thinner."""
        chance = torch.rand(batch, generator=generator)
        return {"amount": chance * (self.thicker + self.thinner) - self.thinner}

    def apply(self, images: Tensor, draws: Draws) -> Tensor:
        amount = draws["amount"].to(images)[:, None, None, None]
        # One pass for both: eroding is dilating the negative.
        sign = torch.where(amount < 0, -1.0, 1.0).to(images)
        signed = images * sign
        return torch.lerp(signed, _dilate(signed), amount.abs()) * sign


def _dilate(images: Tensor) -> Tensor:
    """The greatest of each pixel and its eight neighbours; several times faster than max_pool2d."""
    for side in (-1, -2):
        size = images.shape[side]
        if size == 1:
            continue
        pairs = torch.maximum(images.narrow(side, 0, size - 1), images.narrow(side, 1, size - 1))
        middle = torch.maximum(pairs.narrow(side, 0, size - 2), pairs.narrow(side, 1, size - 2))
        first, last = pairs.narrow(side, 0, 1), pairs.narrow(side, size - 2, 1)
        images = torch.cat((first, middle, last), dim=side)
    return images
