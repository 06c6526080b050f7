"""Folders of tiny pictures, one sub-folder per identity, as users have them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

__all__ = ["photos"]


def photos(place: Path, counts: Sequence[int], side: int = 8) -> Path:
    """`place`/person NNN with so many pictures each; those of an identity differ by some noise."""
    random = np.random.default_rng(0)
    for identity, count in enumerate(counts):
        home = place / f"person {identity:03d}"
        home.mkdir(parents=True)
        own = random.integers(0, 200, (side, side))
        for number in range(count):
            pixels = own + random.integers(0, 56, (side, side))
            Image.fromarray(pixels.astype(np.uint8)).save(home / f"{number}.png")
    return place
