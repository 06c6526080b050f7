"""Results of real measurements on small synthetic embeddings, from good models to poor ones."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from arcset.evaluation import verification
from arcset.evaluation.assessment import Assessment, Realized
from arcset.evaluation.calibration import pair_cosines
from arcset.evaluation.calibration.probability import Reliability, reliability
from arcset.evaluation.calibration.thresholds import Thresholds, make_thresholds
from arcset.evaluation.few_shot import few_shot
from arcset.evaluation.geometry.angles import angle_samples, angles
from arcset.evaluation.identification import identification, trial
from arcset.evaluation.results import Interval
from arcset.evaluation.retrieval import retrieval
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
    """Directions of identities with noise around them, and labels."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(identities), each)
    means = generator.normal(size=(identities, dim))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return means[labels] + noise * generator.normal(size=(len(labels), dim)), labels


def made(noise: float, identities: int = 40) -> Thresholds:
    """Thresholds from validation identities."""
    return make_thresholds(*embeddings(noise, identities=identities, seed=1))


def judged(thresholds: Thresholds, noise: float) -> Reliability:
    """Probabilities on other identities, at the prior at which they hold."""
    cosines, same, _ = pair_cosines(*embeddings(noise))
    weights = np.where(same, 0.5 / same.mean(), 0.5 / (~same).mean())
    return reliability(thresholds.probability(cosines), same, weights=weights)


@dataclass(frozen=True, eq=False)
class Measured:
    """All results of one model."""

    verification: Any
    identification: Any
    retrieval: Any
    few_shot: Any
    angles: Any
    own: np.ndarray
    other: np.ndarray

    @classmethod
    def of(cls, noise: float, *, intervals: bool = True, centers: bool = True) -> "Measured":
        rows, labels = embeddings(noise)
        chance = {"intervals": intervals, "draws": 60}
        chosen = trial(labels, enrolled=0.5, seed=0)
        means = np.stack([rows[labels == label].mean(0) for label in range(40)])
        own, other = angle_samples(rows, labels)
        return cls(
            verification(rows, labels, **chance),
            identification(
                rows[chosen.gallery],
                labels[chosen.gallery],
                rows[chosen.probes],
                labels[chosen.probes],
                **chance,
            ),
            retrieval(rows, labels, **chance),
            few_shot(rows, labels, ways=10, episodes=50, **chance),
            angles(rows, labels, means if centers else None, **chance),
            own,
            other,
        )


def assessment(found: Measured, **changes: Any) -> Assessment:
    """As `assess` would put the results together."""
    given: dict[str, Any] = {
        "samples": 200,
        "identities": 40,
        "dim": 16,
        "verification": found.verification,
        "identification": found.identification,
        "retrieval": found.retrieval,
        "few_shot": found.few_shot,
        "angles": found.angles,
        "shape": {"dunn": 0.4, "silhouette": 0.3},
        "own_angles": found.own,
        "other_angles": found.other,
        "missing": {"thresholds": "no validation identities were given"},
        **changes,
    }
    return Assessment(**given)


def small(found: Measured, **changes: Any) -> Assessment:
    """With one part only, which is drawn in no time."""
    others = ("verification", "identification", "retrieval", "angles", "own_angles", "other_angles")
    return assessment(found, **{**dict.fromkeys(others), "missing": {}, **changes})


def only(**parts: Any) -> Assessment:
    """An assessment with nothing but these parts."""
    return Assessment(samples=1, identities=1, dim=2, **parts)


KEPT = Realized("FAR", 0.01, 0.4567, Interval(0.005, 0.02), 0.0123, 0.9)
MISSED = Realized("FPIR", 0.1, 0.5, Interval(0.05, 0.2), 0.3, math.nan, 60, True)


@pytest.fixture(scope="session")
def measured() -> dict[str, Measured]:
    """Eight models, each worse than the one before."""
    noises = (0.12, 0.18, 0.2, 0.22, 0.25, 0.3, 0.4, 0.8)
    return {name: Measured.of(noise) for name, noise in zip(NAMES, noises, strict=True)}


@pytest.fixture(scope="session")
def bare() -> Measured:
    """A model without intervals and without centers."""
    return Measured.of(0.2, intervals=False, centers=False)


@pytest.fixture
def drawn() -> Callable[[Figure], bytes]:
    """Draws a figure, and sees that all of it lies inside."""

    def draw(figure: Figure) -> bytes:
        figure.set_dpi(60)
        content = png(figure)
        with style():
            box = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert box.x0 >= -0.01, f"{box.x0:.2f} inches left of the figure"
        assert box.y0 >= -0.01, f"{box.y0:.2f} inches below the figure"
        assert box.x1 <= width + 0.01, f"{box.x1 - width:.2f} inches right of the figure"
        assert box.y1 <= height + 0.01, f"{box.y1 - height:.2f} inches above the figure"
        return content

    return draw
