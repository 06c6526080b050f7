"""What is known of one face in a photo, and of all of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError

__all__ = ["Face", "Found", "NoFaceError"]

Box = tuple[float, float, float, float]


class NoFaceError(DataError):
    """A photo shows no face, or none that is large enough."""


@dataclass(frozen=True)
class Face:
    """One face, in pixels of the upright photo.

    Fields:
        box: left, top, width and height; it may reach beyond the photo.
        points: (x, y) of five places: the eye on the left of the picture, that on the right, the
            nose, the left and the right corner of the mouth.
        score: how sure the detector is, in 0 … 1.
    """

    box: Box
    points: tuple[tuple[float, float], ...]
    score: float

    @property
    def size(self) -> float:
        """The shorter side of the box, in pixels."""
        return min(self.box[2:])

    def __str__(self) -> str:
        left, top, width, height = self.box
        return f"face of {width:.0f}×{height:.0f} pixels at ({left:.0f}, {top:.0f})"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them, in hundredths of pixels."""
        return {
            "box": [round(value, 2) for value in self.box],
            "points": [[round(x, 2), round(y, 2)] for x, y in self.points],
            "score": round(self.score, 4),
        }

    @classmethod
    def of_row(cls, row: npt.NDArray[Any], scale: float) -> "Face":
        """From a detector's row: box, points, score, in pixels that are `scale` times as large.

        Points are places between the centers of pixels, which lie at whole numbers.
        """
        values = np.asarray(row, np.float64)
        points = (values[4:14].reshape(5, 2) + 0.5) * scale - 0.5
        left, top, width, height = (float(value) * scale for value in values[:4])
        return cls(
            (left, top, width, height),
            tuple((float(x), float(y)) for x, y in points),
            min(max(float(values[14]), 0.0), 1.0),
        )


@dataclass(frozen=True)
class Found:
    """The faces of a photo.

    Fields:
        faces: those that are large enough, the main one first: see `Faces`.
        small: the others.
        least: from how many pixels on a face is large enough.

    It is true where there is a face: `if found: …`.
    """

    faces: tuple[Face, ...]
    small: tuple[Face, ...]
    least: float

    def __len__(self) -> int:
        return len(self.faces)

    @property
    def why(self) -> str:
        """Why there is no face, in half a sentence; empty where there is one.

        >>> Found((), (), 32).why
        'shows no face'
        """
        if self.faces:
            return ""
        if not self.small:
            return "shows no face"
        size = f"{max(face.size for face in self.small):.0f}"
        return f"shows no face large enough: the largest is {size} pixels, less than {self.least:g}"

    def main(self, name: str = "the photo") -> Face:
        """The face that is meant where there should be one; raises `NoFaceError`, with `name` in
        front, where there is none."""
        if not self.faces:
            raise NoFaceError(f"{name} {self.why}")
        return self.faces[0]

    def choice(self, name: str = "the photo") -> str:
        """Which face of several is the main one, as a sentence; empty where there is no choice."""
        if len(self.faces) < 2:
            return ""
        return f"{name} shows {len(self.faces)} faces, and the {self.faces[0]} was taken"

    def __str__(self) -> str:
        if not self.faces:
            return f"it {self.why}"
        count = len(self.faces)
        left = f", and {len(self.small)} too small" if self.small else ""
        return f"{count} {'face' if count == 1 else 'faces'}{left}; the main one: {self.faces[0]}"

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "faces": [face.json() for face in self.faces],
            "small": [face.json() for face in self.small],
            "least": self.least,
            "why": self.why,
        }
