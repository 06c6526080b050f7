"""Flip, erasing, colour, blur, noise and stroke, each against what it says."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

from arcset.data.augment import Blur, Colour, Erasing, Flip

Pictures = Callable[..., Tensor]


def _generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_flips_are_exact(pictures: Pictures) -> None:
    images = pictures(4, 3, 5, 6)
    drawn = {
        "sideways": torch.tensor([False, True, False, True]),
        "upside_down": torch.tensor([False, False, True, True]),
    }
    result = Flip().apply(images, drawn)
    expected = [images[0], images[1].flip(2), images[2].flip(1), images[3].flip(1, 2)]
    assert torch.equal(result, torch.stack(expected))


@pytest.mark.parametrize("fill", ["noise", "mean", "zero", "low"])
def test_only_rectangles_are_painted(fill: str, pictures: Pictures) -> None:
    images = pictures(30, 3, 9, 14)
    erasing = Erasing(probability=0.6, smallest=0.1, largest=0.3, count=2, fill=fill)
    drawn = erasing.draw(30, (3, 9, 14), _generator())
    result = erasing.apply(images, drawn)
    for sample in range(30):
        expected = images[sample].clone()
        paint = {
            "noise": drawn["noise"][sample] if fill == "noise" else None,
            "mean": images[sample].mean(dim=(1, 2), keepdim=True).expand(3, 9, 14),
            "zero": torch.zeros(3, 9, 14),
            "low": -torch.ones(3, 9, 14),
        }[fill]
        assert paint is not None
        for rectangle in range(2):
            top, left, rows, columns = (
                int(drawn[key][sample, rectangle]) for key in ("top", "left", "rows", "columns")
            )
            part = (slice(None), slice(top, top + rows), slice(left, left + columns))
            expected[part] = paint[part]
        torch.testing.assert_close(result[sample], expected, rtol=0, atol=1e-6)
    untouched = (drawn["rows"] == 0).all(dim=1)
    assert 5 <= untouched.sum() <= 20  # of 30, at a probability of 0.6
    assert torch.equal(result[untouched], images[untouched])


def test_rectangles_of_no_area_are_not_painted(pictures: Pictures) -> None:
    images = pictures(5, 3, 9, 14)
    erasing = Erasing(probability=1, smallest=0, largest=0)
    assert torch.equal(erasing.apply(images, erasing.draw(5, (3, 9, 14), _generator())), images)


@pytest.mark.parametrize("channels", [1, 3])
def test_light_and_colour_follow_their_definitions(channels: int, pictures: Pictures) -> None:
    images = pictures(6, channels, 7, 5)
    colour = Colour(brightness=0.5, contrast=0.5, saturation=0.9)
    drawn = colour.draw(6, (channels, 7, 5), _generator())
    result = colour.apply(images, drawn)
    weights = np.array([0.299, 0.587, 0.114] if channels == 3 else [1.0])
    for sample in range(6):
        light, contrast, saturation = (
            float(drawn[key][sample]) for key in ("brightness", "contrast", "saturation")
        )
        pixels = (images[sample].double().numpy() + 1) / 2  # 0 is black, 1 is white
        grey = np.tensordot(weights, pixels, 1)
        pixels = (grey + saturation * (pixels - grey)) * light
        pixels = (grey * light).mean() * (1 - contrast) + contrast * pixels
        expected = pixels.clip(0, 1) * 2 - 1
        np.testing.assert_allclose(result[sample].numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 9, 14), (1, 3, 20)])
def test_blur_is_scipys(shape: tuple[int, int, int], pictures: Pictures) -> None:
    images, blur = pictures(5, *shape), Blur(sigma=2.5)
    drawn = blur.draw(5, shape, _generator())
    drawn["sigma"][0] = 0
    result = blur.apply(images, drawn)
    assert torch.equal(result[0], images[0])
    for sample in range(1, 5):
        for channel in range(shape[0]):
            expected = gaussian_filter(
                images[sample, channel].double().numpy(),
                float(drawn["sigma"][sample]),
                mode="nearest",
                radius=10,
            )
            np.testing.assert_allclose(result[sample, channel].numpy(), expected, atol=1e-5)
