"""A margin for each class, larger for rare ones."""

import math

import torch
from torch import Tensor

from arcset.checks import check_number
from arcset.errors import InputError, OptionError
from arcset.margins.angular import shifted_cosine, shifted_cosine_reference
from arcset.margins.base import MARGINS, Margin, Sample, Samples


@MARGINS.register("classwise")
class Classwise(Margin):
    """cos(θ + m_y): ArcFace with a margin m_j for each class, by its number of samples n_j.

    m_j = low + (high − low)·(n_j^−p − n_max^−p)/(n_min^−p − n_max^−p): the rarest class gets
    `high`, the most frequent one `low`. Past π the target goes on falling (see `shifted_cosine`).

    Papers: Cao, Wei, Gaidon, Arechiga, Ma: Learning imbalanced datasets with label-distribution-
    aware margin loss, NeurIPS 2019, for p = 1/4 (on plain logits there); Ha, Liu, Liu, Liao: Google
    landmark recognition 2020 competition third place solution, arXiv 2010.05350, for the angle
    (their dynamic margins; their code runs from 0.05 to 0.5).

    - `low`, `high`: in radians, 0 ≤ low ≤ high < π; `power`: p, 0 ≤ p < 10.

    `bind` makes a margin for each class; `set_class_sizes` finds them from sizes, where classes
    without samples count as one sample. Until then, and where all classes are equally large, all
    have the middle, (low + high)/2. `set_margins` takes them from the caller. They are saved with
    the state dict.

        >>> margin = Classwise(low=0.1, high=0.5)
        >>> margin.bind(3)
        >>> margin.set_class_sizes(torch.tensor([10_000, 16, 1]))
        >>> margin.margins
        tensor([0.1000, 0.2778, 0.5000])
    """

    neutral = {"low": 0.0, "high": 0.0}
    margins: Tensor

    def __init__(self, low: float = 0.25, high: float = 0.5, power: float = 0.25) -> None:
        super().__init__()
        self.low = check_number("low", low, 0, math.pi)
        self.high = check_number("high", high, 0, math.pi)
        self.power = check_number("power", power, 0, 10)
        if self.low > self.high:
            raise OptionError(f"Classwise: low must not exceed high, not {low:g} beside {high:g}")
        self.register_buffer("margins", torch.empty(0))

    @classmethod
    def default_options(cls, spacing: float) -> dict[str, float]:
        """0.25 to 0.5, the largest no more than half the way to the nearest other center."""
        return {"low": min(0.25, spacing / 4), "high": min(0.5, spacing / 2)}

    @property
    def middle(self) -> float:
        """The margin of classes about which nothing is known."""
        return (self.low + self.high) / 2

    def bind(self, classes: int) -> None:
        """A margin for each class, all of them the middle at first."""
        self.margins = torch.full((classes,), self.middle)

    def set_class_sizes(self, sizes: Tensor) -> None:
        """The margins from the number of samples of each class, (C,) whole numbers ≥ 0."""
        self._check(sizes, "class sizes")
        counts = torch.as_tensor(sizes).to("cpu", torch.float64)
        if not (counts >= 0).all() or counts.isinf().any() or (counts != counts.round()).any():
            raise InputError("Classwise: class sizes must be whole numbers from 0 on")
        weights = counts.clamp(min=1) ** -self.power
        least, most = weights.aminmax()
        if most > least:
            share = (weights - least) / (most - least)
            self.margins.copy_(self.low + (self.high - self.low) * share)
        else:
            self.margins.fill_(self.middle)

    def set_margins(self, values: Tensor) -> None:
        """Margins of the caller's own, (C,) in radians, each in [0, π)."""
        self._check(values, "margins")
        given = torch.as_tensor(values).to("cpu", torch.float64)
        if not ((given >= 0) & (given < math.pi)).all():
            raise InputError("Classwise: margins must lie in [0, 3.1416)")
        self.margins.copy_(given)

    def _check(self, values: Tensor, what: str) -> None:
        shape, wanted = tuple(torch.as_tensor(values).shape), tuple(self.margins.shape)
        if shape != wanted:
            raise InputError(f"Classwise: {what} must have the shape {wanted}, not {shape}")

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        return shifted_cosine(cosine, self.margins[samples.labels.long()].to(cosine.dtype))

    def reference(self, angle: float, sample: Sample) -> float:
        return shifted_cosine_reference(angle, self.margins[sample.label].item())
