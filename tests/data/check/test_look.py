import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from arcset.data.check import look_at

RNG = np.random.default_rng(0)
GREY = Image.fromarray(RNG.integers(0, 256, (20, 30), np.uint8))
COLOUR = Image.fromarray(RNG.integers(0, 256, (20, 30, 3), np.uint8))


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def pixels(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    return look_at(saved(image, kind, **options), "x").pixels


def test_the_same_picture_in_any_lossless_form() -> None:
    for image in (GREY, COLOUR):
        first = pixels(image)
        assert pixels(image, "BMP") == pixels(image, "TIFF") == first
        assert pixels(image.convert("RGB")) == pixels(image.convert("RGBA")) == first
    assert pixels(GREY.convert("P")) == pixels(GREY)
    assert look_at(saved(GREY), "x").content != look_at(saved(GREY, "BMP"), "x").content


def page(level: int, ink: int, marks: int, noise: int = 0) -> Image.Image:
    """100×100, of one level, with so many pixels of another, and noise of up to ± so many."""
    values = np.full((100, 100), level, np.int64) + RNG.integers(-noise, noise + 1, (100, 100))
    values.flat[:marks] = ink
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize(
    ("image", "blank"),
    [
        (page(0, 0, 0), "black"),
        (page(8, 0, 0, noise=7), "black"),
        (page(0, 255, 4), "black"),  # a few hot pixels
        (page(0, 255, 40), ""),  # a thin stroke
        (page(200, 200, 0, noise=4), "plain"),
        (page(200, 200, 0, noise=5), ""),
        (page(255, 0, 40), ""),
        (Image.new("RGB", (9, 9), (0, 0, 90)), "plain"),
        (Image.merge("RGB", [page(90, 90, 0), page(90, 90, 0), page(90, 0, 5000)]), ""),
    ],
)
def test_images_that_show_nothing(image: Image.Image, blank: str) -> None:
    assert look_at(saved(image), "x").blank == blank
