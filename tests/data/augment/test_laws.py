"""What every registered augmentation owes its user."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from arcset.data.augment import Draws, augmentation_names, parse_augmentation

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
@shapes
def test_at_strength_zero_the_input_itself_comes_back(
    name: str, shape: tuple[int, int, int], pictures: Pictures
) -> None:
    images = pictures(4, *shape)
    assert parse_augmentation(STILL[name])(images, _generator()) is images
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
@shapes
def test_values_stay_in_range_and_the_input_as_it_was(
    spec: str, shape: tuple[int, int, int], pictures: Pictures
) -> None:
    images = pictures(16, *shape)
    kept = images.clone()
    result = parse_augmentation(spec)(images, _generator())
    assert torch.equal(images, kept)
    assert result.shape == images.shape
    assert result.isfinite().all()
    assert result.abs().max() <= 1 + 1e-6  # a mean of values is one of them up to rounding


@specs
@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 1), (2, 2)])
def test_tiny_images_pass(spec: str, size: tuple[int, int]) -> None:
    images = torch.full((3, 1, *size), 0.5)
    result = parse_augmentation(spec)(images, _generator())
    assert result.shape == images.shape
    assert result.isfinite().all()
