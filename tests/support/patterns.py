"""Subjects that look like nobody else, as image files: every one is a pattern with some noise."""

from pathlib import Path

import numpy as np
from PIL import Image

from arcset.evaluation import make_thresholds
from arcset.recognition import Recognizer
from support.random_runs import random_run


def pictures(folder: Path, names, each: int, *, first: int = 0, noise: float = 8.0) -> list[Path]:
    """PNG files FOLDER/NAME/NN.png; the same name always gets the same pattern."""
    paths = []
    for name in names:
        pattern = np.random.default_rng(list(name.encode())).integers(0, 256, (10, 10))
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        for number in range(first, first + each):
            changes = np.random.default_rng([number, *name.encode()]).normal(0, noise, (10, 10))
            pixels = np.clip(pattern + changes, 0, 255).astype(np.uint8)
            paths.append(place / f"{number:02d}.png")
            Image.fromarray(pixels).save(paths[-1])
    return paths


def calibrated_run(folder: Path, *, seed: int = 0, identities: int = 120) -> Path:
    """A run with thresholds from patterns of its own; a second seed is another model."""
    run = random_run(folder, dim=32, seed=seed)
    names = [f"calibrating {number}" for number in range(identities)]
    paths = pictures(folder.parent / "calibrating", names, 3)
    rows = Recognizer.load(run.path, device="cpu").embed(paths)
    made = make_thresholds(rows, np.repeat(np.arange(identities), 3))
    made.save(run.path / "threshold.json")
    return run.path
