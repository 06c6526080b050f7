"""MV-Softmax: wrong classes that win are made to win by more."""

import torch
from torch import Tensor

from arcset.checks import check_bool, check_number
from arcset.margins.angular import ArcOrCosMargin
from arcset.margins.base import MARGINS, Sample, Samples


@MARGINS.register("mvsoftmax")
class MVSoftmax(ArcOrCosMargin):
    """Target cos(θ + m) or cos θ − m; a wrong class above it becomes (1 + t)·cos θ_j + t.

    Wrong classes that lie above the margined target (the mis-classified vectors) are stressed, so
    that they are pushed away harder.

    Paper: Wang, Zhang, Wang, Fu, Shi, Mei: Mis-classified vector guided softmax loss for face
    recognition, AAAI 2020.

    - `kind`: `arc` or `cos`; `margin`: 0.5 or 0.35 unless given (see `ArcOrCosMargin`).
    - `t`: how much they are stressed, 0 ≤ t < 10; with 0 it is arcface or cosface.
    - `adaptive`: (1 + t)·cos θ_j + t, more for nearer classes; False adds t to all alike.

    The margin holds at every angle; the authors' code leaves it out, by default, where cos θ ≤ 0
    (`easy_margin`).

        >>> margin, batch = MVSoftmax(), Samples(torch.zeros(1), torch.ones(1))
        >>> target = margin(torch.tensor([0.59]), batch)  # 0.1307
        >>> margin.negatives(torch.tensor([[0.1, 0.5]]), target[:, None], batch)
        tensor([[0.1000, 0.8000]])
    """

    neutral = {"margin": 0.0, "t": 0.0}
    alters_negatives = True

    def __init__(
        self,
        margin: float | None = None,
        t: float = 0.2,
        kind: str = "arc",
        adaptive: bool = True,
    ) -> None:
        super().__init__(margin, kind)
        self.t = check_number("t", t, 0, 10)
        self.adaptive = check_bool("adaptive", adaptive)

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        return self._add_margin(cosine, self.margin)

    def reference(self, angle: float, sample: Sample) -> float:
        return self._add_margin_reference(angle, self.margin)

    def negatives(self, cosines: Tensor, target: Tensor, samples: Samples) -> Tensor:
        """(1 + t)·cos θ_j + t, or cos θ_j + t, where cos θ_j lies above the target."""
        factor = 1 + self.t if self.adaptive else 1.0
        return torch.where(cosines > target, factor * cosines + self.t, cosines)

    def negative_reference(self, cosine: float, target: float, floor: float) -> float:
        if cosine <= target:
            return cosine
        return (1 + self.t) * cosine + self.t if self.adaptive else cosine + self.t
