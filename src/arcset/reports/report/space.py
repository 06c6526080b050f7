"""The two or three dimensions that a run is drawn in."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.reports.view import RunView

__all__ = ["Space"]

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Space:
    """How embeddings become points: the basis, the radius that the drawing must hold.

    basis: (D, 3) orthonormal columns, None where D is 2 or 3 and nothing is projected.
    share: how much of the test embeddings' squared length the basis keeps.
    """

    dim: int
    radius: float
    basis: Floats | None
    share: float

    @classmethod
    def of(cls, view: RunView) -> "Space":
        """The space for all epochs of one run.

        More than 3 dimensions are projected onto the main axes of the last epoch's test embeddings,
        taken about the origin: the origin stays where it is, from where angles are measured.
        """
        last = view.frames[-1].parts
        rows = np.asarray(last["test"], np.float64)
        dim = rows.shape[1]
        basis, share = (None, 1.0) if dim <= 3 else _main_axes(rows)
        if view.loss.normalized:
            return cls(min(dim, 3), 1.0, basis, share)
        lengths = [  # of what is drawn; the few farthest out may leave the picture
            np.quantile(np.linalg.norm(part if basis is None else part @ basis, axis=1), 0.995)
            for frame in view.frames
            for part in frame.parts.values()
        ]
        return cls(min(dim, 3), float(max(lengths)) or 1.0, basis, share)

    def shown(self, rows: Floats) -> Floats:
        """Rows (N, D) as they are drawn: (N, 2) or (N, 3)."""
        return rows if self.basis is None else rows @ self.basis

    def notes(self, view: RunView) -> list[str]:
        """What a reader must know to read the drawing rightly."""
        notes = []
        if self.basis is not None:
            notes.append(
                f"{view.config.dim} dimensions, drawn in the 3 that hold most of the test samples' "
                f"squared length ({self.share:.0%}). Angles are measured in all {view.config.dim}."
            )
        if view.loss.normalized and self.dim == 2:
            notes.append(
                "Only the direction counts, so every point belongs on the circle; the parts are "
                "drawn as rings: training inside, test on it, unseen outside."
            )
        if not view.loss.normalized:
            bias = view.frames[-1].biases is not None
            notes.append(
                "Length counts here: points lie at their own distance, centers show a direction "
                + ("only, and the bias moves the borders between them." if bias else "only.")
            )
        if view.frames[-1].centers is None:
            notes.append(
                "This loss has no centers; the dashed ones are the mean directions of the kept "
                "training samples."
            )
        return notes


def _main_axes(rows: Floats) -> tuple[Floats, float]:
    """The 3 main axes (D, 3) of `rows` about the origin, and their share of the squared length."""
    # Fewer samples than axes: rows of zeros change nothing, and the missing axes are found.
    rows = np.concatenate([rows, np.zeros((max(0, 3 - len(rows)), rows.shape[1]))])
    _, strengths, axes = np.linalg.svd(rows, full_matrices=False)
    basis = axes[:3].T  # (D, 3)
    signs = np.sign(basis[np.abs(basis).argmax(0), np.arange(3)])  # an axis has no sign: fix one
    squares = strengths**2
    return basis * signs, float(squares[:3].sum() / (squares.sum() or 1.0))
