"""Scenes between kept epochs: the timeline of a film."""

from dataclasses import replace

import numpy as np

from arcset.reports.scene import Floats, Scene, flattened, principal

__all__ = ["Timeline"]


class Timeline:
    """The scenes of one run over time, in epochs; between kept epochs they are interpolated.

    More than three dimensions are seen through the principal components of the last epoch.
    """

    def __init__(self, scenes: dict[int, Scene]) -> None:
        last = scenes[max(scenes)]
        plane = principal(last.known) if last.kind == "shadow" else None
        self.epochs = sorted(scenes)
        self.scenes = [flattened(scenes[epoch], plane) for epoch in self.epochs]

    def at(self, time: float) -> Scene:
        """The scene at `time`; before the first kept epoch and after the last it stands still."""
        after = int(np.searchsorted(self.epochs, time))
        if after == 0 or after == len(self.epochs):
            return self.scenes[min(after, len(self.epochs) - 1)]
        start, end = self.epochs[after - 1 : after + 1]
        return between(self.scenes[after - 1], self.scenes[after], (time - start) / (end - start))


def between(a: Scene, b: Scene, share: float) -> Scene:
    """A scene `share` of the way from `a` to `b`; unit vectors stay unit vectors."""
    unit = a.kind in ("circle", "sphere")

    def mixed(x: Floats, y: Floats) -> Floats:
        rows = (1 - share) * x + share * y
        if not unit:
            return rows
        lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
        return np.where(lengths > 1e-6, rows / np.maximum(lengths, 1e-6), y)

    return replace(
        b,
        known=mixed(a.known, b.known),
        unseen=mixed(a.unseen, b.unseen),
        centers=None if a.centers is None or b.centers is None else mixed(a.centers, b.centers),
        biases=None
        if a.biases is None or b.biases is None
        else (1 - share) * a.biases + share * b.biases,
    )
