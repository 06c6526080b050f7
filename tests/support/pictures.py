"""Small pictures on disk."""

from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int, size: tuple[int, int] = (12, 16)) -> Image.Image:
    """Grey noise, different for every seed; size is width and height."""
    values = np.random.default_rng(seed).integers(0, 256, size[::-1], np.uint8)
    return Image.fromarray(values)


def save(image: Image.Image, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path
