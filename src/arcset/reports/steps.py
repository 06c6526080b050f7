"""The steps from one image to its classes, as records."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from arcset.reports.subject import Subject

__all__ = ["ClassStep", "Explanation", "Margined", "Neighbours"]


@dataclass(frozen=True)
class ClassStep:
    """How the image fares with one class. Angles are in degrees."""

    name: str
    dot: float  # x·W, as trained
    center_norm: float  # ‖W‖
    cosine: float
    angle: float
    bias: float | None
    logit: float  # without margin
    probability: float
    margined_logit: float | None  # as training sees it; None without a target or a margin
    margined_probability: float | None


@dataclass(frozen=True)
class Margined:
    """What the margin does to the target: its cosine before and after, and the angle before."""

    angle: float
    cosine: float
    margined: float

    @property
    def as_if(self) -> float | None:
        """The angle that has the margined cosine; None below −1, where none has."""
        return float(np.degrees(np.arccos(self.margined))) if abs(self.margined) <= 1 else None


@dataclass(frozen=True)
class Neighbours:
    """For a loss without centers: the image among the test samples of one class."""

    name: str
    mean_cosine: float
    nearest: int  # number of the test sample with the highest cosine
    nearest_cosine: float
    nearest_angle: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """All that `arcset explain` shows; `steps` and `neighbours` are in the order of the classes."""

    run: str
    loss: str
    settings: dict[str, float | str]
    subject: Subject
    embedding: tuple[float, ...]
    norm: float
    steps: tuple[ClassStep, ...]
    neighbours: tuple[Neighbours, ...]
    margin: Margined | None
    cross_entropy: float | None  # −log p of the target, as training sees it

    @property
    def ranking(self) -> list[int]:
        """Class numbers, the most probable first; without centers, the most similar first."""
        scores = [s.logit for s in self.steps] or [n.mean_cosine for n in self.neighbours]
        return sorted(range(len(scores)), key=lambda number: -scores[number])

    def json(self) -> dict[str, Any]:
        """Everything but the pixels, as JSON knows it."""
        subject = {
            key: getattr(self.subject, key)
            for key in ("source", "part", "index", "truth", "target", "notes")
        }
        return {
            "run": self.run,
            "loss": self.loss,
            "settings": self.settings,
            "subject": {**subject, "notes": list(self.subject.notes)},
            "embedding": list(self.embedding),
            "norm": self.norm,
            "classes": [asdict(step) for step in self.steps or self.neighbours],
            "margin": self.margin and {**asdict(self.margin), "as_if": self.margin.as_if},
            "cross_entropy": self.cross_entropy,
        }
