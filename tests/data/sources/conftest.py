"""Small folders of real image files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Draw = Callable[..., Path]


@pytest.fixture
def draw() -> Draw:
    """Call with a path: writes a picture there that depends on its name only."""

    def write(path: Path, size: tuple[int, int] = (6, 5), colour: bool = False) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(list(path.name.encode("utf-8", "surrogateescape")))
        shape = (*size, 3) if colour else size
        Image.fromarray(random.integers(0, 256, shape, np.uint8)).save(path)
        return path

    return write


@pytest.fixture
def photos(tmp_path: Path, draw: Draw) -> Path:
    """Three identities with 6, 5 and 2 grey pictures of 6×5."""
    for name, count in {"anna": 6, "ben": 5, "carl": 2}.items():
        for number in range(count):
            draw(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"
