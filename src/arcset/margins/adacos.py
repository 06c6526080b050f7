"""AdaCos: no margin, but a scale that finds itself."""

import math

import torch
from torch import Tensor

from arcset.checks import check_bool
from arcset.margins.base import MARGINS, Margin, Sample, Samples

_SMALLEST, _LARGEST = 1.0, 1e3


@MARGINS.register("adacos")
class AdaCos(Margin):
    """cos θ, with a scale s that follows how well training goes. Nothing to be chosen.

    s starts at √2·ln(C − 1). After each step s ← ln B / cos(min(π/4, θ)), where B is the mean over
    the batch of Σ_{j≠y} exp(s·cos θ_j) and θ the median of the target angles (of an even number,
    the smaller of the middle two): at that scale a sample at that angle has the probability 1/2,
    about where the softmax is steepest.

    Paper: Zhang, Zhao, Qiao, Wang, Li: AdaCos: Adaptively scaling cosine logits for effectively
    learning deep face representations, CVPR 2019.

    - `dynamic`: False keeps the scale at √2·ln(C − 1), the paper's fixed AdaCos.

    Two differences: the paper uses the new s in the step that yielded it, here it is used from the
    next one on, which spares a second pass over all classes; and s stays within 1 … 1000. With few
    classes it is small (C − 1 counts as 2 at least, and s as 1), too small to classify with
    certainty: AdaCos is made for thousands of classes.

        >>> margin = AdaCos()
        >>> margin.bind(10_001)
        >>> margin.scale
        tensor(13.0254)
    """

    finds_scale = True
    scale: Tensor

    def __init__(self, dynamic: bool = True) -> None:
        super().__init__()
        self.dynamic = check_bool("dynamic", dynamic)
        self.register_buffer("scale", torch.tensor(_SMALLEST))

    def bind(self, classes: int) -> None:
        self.scale.fill_(max(_SMALLEST, math.sqrt(2) * math.log(max(classes - 1, 2))))

    def observe_softmax(self, cosine: Tensor, negatives: Tensor, scale: float) -> None:
        """s ← ln B / cos(min(π/4, θ)); as it was where that is not finite."""
        if not self.dynamic:
            return
        mean = negatives.detach().logsumexp(dim=0) - math.log(len(negatives))  # ln B
        median = cosine.detach().clamp(-1, 1).arccos().median()
        wished = mean / median.clamp(max=math.pi / 4).cos()
        usable = wished.clamp(_SMALLEST, _LARGEST).to(self.scale.dtype)
        self.scale.copy_(torch.where(wished.isfinite(), usable, self.scale))

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        return cosine

    def reference(self, angle: float, sample: Sample) -> float:
        return math.cos(angle)
