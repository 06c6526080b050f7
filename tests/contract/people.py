"""Forty people, in photos that nobody took: each has a face of soft spots, and no two photos agree.

    save_people(Path("faces"), NAMES, each=7)         # faces/person 05/0.jpg …
    save_photo(Path("visitor.jpg"), "anna", number=50)

The same name is the same face everywhere, and a number is a photo of it. Photos differ in light,
position and noise; faces differ so clearly that two epochs suffice to tell most of them apart.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

__all__ = ["GUESTS", "NAMES", "save_people", "save_photo"]

#: Forty to train on; some are called as the guides call them.
NAMES = [
    *("anna 2", "b. miller", "ben miller", "unknown"),
    *(f"person {number:02d}" for number in range(5, 41)),
]
#: Whom training never sees.
GUESTS = ["anna", *(f"guest {number:02d}" for number in range(2, 61))]
_SPOTS = 5  # along each side of a face
_SIDE = 40  # pixels of a photo


def save_photo(path: Path, name: str, number: int) -> Path:
    """Write photo `number` of whoever is called `name`; the suffix of `path` is the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _photo(name, number).save(path, quality=90)
    return path


def save_people(
    folder: Path, names: Sequence[str], each: int, *, first: int = 0, suffix: str = ".jpg"
) -> Path:
    """Write FOLDER/NAME/NUMBER.jpg, from photo `first` on."""
    for name in names:
        for number in range(first, first + each):
            save_photo(folder / name / f"{number}{suffix}", name, number)
    return folder


def _photo(name: str, number: int) -> Image.Image:
    face = np.random.default_rng(list(name.encode())).integers(0, 256, (_SPOTS, _SPOTS, 3))
    large = Image.fromarray(face.astype(np.uint8)).resize((_SIDE + 4, _SIDE + 4), Image.BICUBIC)
    random = np.random.default_rng([number, *name.encode()])
    left, top = random.integers(0, 5, 2)
    pixels = np.asarray(large, np.float64)[top : top + _SIDE, left : left + _SIDE]
    pixels = pixels * random.uniform(0.75, 1.15) + random.normal(0, 8, pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
