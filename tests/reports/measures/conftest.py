"""Assessments of small synthetic embeddings, from good models to poor ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from arcset.evaluation import Assessment, assess
from arcset.reports.style import png, style

NAMES = (
    "arcface",
    "softmax",
    "_hidden",
    "costs $5 or $6",
    "runs/of/a/very/long/name/arcface-subcenters-3-margin-0.5-seed-7",
    "two\nlines",
    "<b>bold</b>",
    "ångström",
)


def embeddings(
    noise: float, *, identities: int = 40, each: int = 5, dim: int = 16, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Directions of identities with noise around them, and labels; other seeds, other people."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(identities), each)
    means = generator.normal(size=(identities, dim))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return means[labels] + noise * generator.normal(size=(len(labels), dim)), labels + 1000 * seed


def judge(noise: float, **options: Any) -> Assessment:
    """Everything about one model, with the class means as centers."""
    rows, labels = embeddings(noise)
    means = np.stack([rows[labels == label].mean(0) for label in range(40)])
    given = {"centers": means, "center_labels": np.arange(40), "draws": 60, "ways": 10, **options}
    return assess(rows, labels, **given)


def only(found: Assessment | None = None, *parts: str, **others: Any) -> Assessment:
    """An assessment with nothing but these parts of another."""
    kept = {part: getattr(found, part) for part in parts}
    return Assessment(samples=200, identities=40, dim=16, **kept, **others)


@pytest.fixture(scope="session")
def measured() -> dict[str, Assessment]:
    """Eight models, each worse than the one before."""
    noises = (0.12, 0.18, 0.2, 0.22, 0.25, 0.3, 0.4, 0.8)
    return {name: judge(noise) for name, noise in zip(NAMES, noises, strict=True)}


@pytest.fixture(scope="session")
def bare() -> Assessment:
    """A model without intervals and without centers."""
    return judge(0.2, intervals=False, centers=None, center_labels=None)


@pytest.fixture(scope="session")
def tuned() -> Assessment:
    """A model with thresholds from other identities."""
    return judge(0.2, validation=embeddings(0.2, seed=1))


@pytest.fixture
def drawn() -> Callable[[Figure], bytes]:
    """Draws a figure, and sees that all of it lies inside."""

    def draw(figure: Figure) -> bytes:
        figure.set_dpi(60)
        content = png(figure)
        with style():
            box = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert min(box.x0, box.y0) >= -0.01, "left of the figure, or below it"
        assert box.x1 <= width + 0.01, "right of the figure"
        assert box.y1 <= height + 0.01, "above the figure"
        return content

    return draw
