"""What every registered augmentation owes its user."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from arcset.data.augment import (
    Affine,
    Draws,
    augmentation_names,
    build_augmentation,
    parse_augmentation,
)
from arcset.errors import InputError, OptionError

Pictures = Callable[..., Tensor]

# With every strength at 0, by name: a new augmentation must say what that means for it.
STILL = {
    "affine": "affine:rotate=0:scale=0:stretch=0:shear=0:shift=0",
    "blur": "blur:sigma=0",
    "colour": "colour:brightness=0:contrast=0:saturation=0:hue=0",
    "crop": "crop:area=1",
    "elastic": "elastic:strength=0",
    "erasing": "erasing:probability=0",
    "flip": "flip:probability=0:vertical=0",
    "noise": "noise:strength=0",
    "stroke": "stroke:thicker=0:thinner=0",
}
# Defaults, and settings that use what the defaults leave out.
SPECS = [
    *augmentation_names(),
    "affine:rotate=180:shift=0.4:fill=low",
    "affine:scale=1:fill=zero",
    "colour:brightness=1:contrast=1:saturation=1:hue=0.5",
    "elastic:strength=0.2:points=6:fill=zero",
    "erasing:count=3:fill=mean:probability=0.7",
    "erasing:fill=low",
    "flip:vertical=0.5",
    "noise:strength=2",
    "stroke:thicker=1:thinner=1",
]
SHAPES = [(1, 12, 12), (3, 9, 14)]

specs = pytest.mark.parametrize("spec", SPECS)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=["grey", "rgb"])


def _generator(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _rows(drawn: Draws, rows: Tensor) -> Draws:
    return {name: values[rows] for name, values in drawn.items()}


@pytest.mark.parametrize("name", augmentation_names())
def test_at_strength_zero_images_stay_as_they_are(name: str, pictures: Pictures) -> None:
    images = pictures(4, 3, 9, 14)
    still = parse_augmentation(STILL[name])(images, _generator())
    torch.testing.assert_close(still, images, rtol=0, atol=1e-5)
    assert not torch.equal(parse_augmentation(name)(images, _generator()), images)


@specs
@shapes
def test_the_generator_decides_and_nothing_else(
    spec: str, shape: tuple[int, int, int], pictures: Pictures
) -> None:
    images, augmentation = pictures(6, *shape), parse_augmentation(spec)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = augmentation(images, _generator())
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(2)
    assert torch.equal(first, augmentation(images, _generator()))
    assert not torch.equal(first, augmentation(images, _generator(8)))


@specs
@shapes
def test_each_sample_follows_its_own_draw(
    spec: str, shape: tuple[int, int, int], pictures: Pictures
) -> None:
    images, augmentation = pictures(7, *shape), parse_augmentation(spec)
    drawn = augmentation.draw(7, shape, _generator())
    assert {len(values) for values in drawn.values()} == {7}
    whole = augmentation.apply(images, drawn)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    mixed = augmentation.apply(images[order], _rows(drawn, order))
    torch.testing.assert_close(mixed, whole[order], rtol=0, atol=2e-6)
    alone = [augmentation.apply(images[i : i + 1], _rows(drawn, torch.tensor([i]))) for i in order]
    torch.testing.assert_close(torch.cat(alone), whole[order], rtol=0, atol=2e-6)


@specs
@pytest.mark.parametrize("shape", [*SHAPES, (1, 1, 1), (1, 1, 5), (1, 2, 1), (1, 2, 2)], ids=str)
def test_values_stay_in_range_and_the_input_as_it_was(
    spec: str, shape: tuple[int, int, int], pictures: Pictures
) -> None:
    images = pictures(16, *shape)
    before = images.clone()
    result = parse_augmentation(spec)(images, _generator())
    assert torch.equal(images, before)
    assert result.shape == images.shape
    assert result.isfinite().all()
    assert result.abs().max() <= 1 + 1e-6  # a mean of values is one of them up to rounding


def test_what_is_not_written_takes_its_default() -> None:
    assert parse_augmentation("affine") == Affine()
    assert parse_augmentation(" affine : rotate = 15:fill=low ") == Affine(rotate=15, fill="low")
    assert isinstance(parse_augmentation("erasing:count=2").count, int)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("affine:rotate=200", "rotate .*0, 180.*200"),
        ("affine:rotate=much", "rotate .*'much'"),
        ("affine:fill=black", "fill .*edge, zero, low.*'black'"),
        ("elastic:points=2.5", r"points .*2\.5"),
        ("affine:turn=5", "'turn'.*rotate, scale, stretch"),
        ("affine:rotate", "'affine:rotate'.*'rotate'"),
        ("flip:vertical=1:vertical=0", "'flip:vertical=1:vertical=0' .*vertical"),
        ("afine", "'afine'.*'affine'.*affine, blur"),
        ("erasing:smallest=0.5", r"smallest .*0\.15.*0\.5"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_augmentation(text)


@pytest.mark.parametrize("value", [True, "5", math.inf])
def test_the_constructor_checks_as_well(value: object) -> None:
    with pytest.raises(OptionError, match=r"rotate .*0, 180"):
        Affine(rotate=value)  # type: ignore[arg-type]


def test_steps_follow_one_another_from_one_generator(pictures: Pictures) -> None:
    specs = ["flip", "affine", "noise", "blur", "elastic", "erasing"]
    images = pictures(5, 3, 9, 14)
    augment = build_augmentation(specs, (3, 9, 14))
    generator, expected = _generator(), images
    for spec in specs:
        expected = parse_augmentation(spec)(expected, generator)
    torch.testing.assert_close(augment(images, _generator()), expected)


def test_images_of_another_shape_are_refused() -> None:
    augment = build_augmentation(["flip"], (1, 8, 8))
    with pytest.raises(InputError, match=r"\(B, 1, 8, 8\).*\(2, 3, 8, 8\)"):
        augment(torch.zeros(2, 3, 8, 8), _generator())
