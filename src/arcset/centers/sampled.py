"""Some of the classes instead of all: those of a batch, and others drawn at random.

With millions of classes nearly all negatives are far from a sample and teach it nothing. Partial FC
(An et al.: Partial FC: training 10 million identities on a single machine, 2021) keeps the centers
of a batch's own classes in the softmax and draws the others anew in every step.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from arcset.centers.storage import class_rows


@dataclass(frozen=True)
class SampledClasses:
    """The classes that take part in a step.

    Fields:
        classes: (n,) their numbers, each once.
        labels: (B,) where each sample's own class stands among them.
        weights: (n,) how many classes each stands for in the softmax; None where all count once.
    """

    classes: Tensor
    labels: Tensor
    weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.classes)

    def rows(self, first: int, last: int, per_class: int) -> Tensor:
        """The rows of W, `per_class` for each, of the classes that stand at first … last − 1."""
        return class_rows(self.classes[first:last], per_class)


@torch.no_grad()
def sample_classes(
    labels: Tensor, classes: int, rate: float, *, weighted: bool = False
) -> SampledClasses:
    """All classes in `labels` (B,), and each other one of `classes` with probability `rate`.

    Negative labels are of classes that are not here; so are their new ones. `weighted`: those that
    are there by chance stand for 1/rate classes each, those of the batch for themselves. Sums with
    these weights are on average those over all classes.

    It takes time and memory of those that are drawn, not of all: the gaps between drawn classes
    have a geometric distribution, so that gaps are drawn and added up.

        >>> _ = torch.manual_seed(0)
        >>> sampled = sample_classes(torch.tensor([7, 99, 7]), classes=100, rate=0.05)
        >>> sampled.classes.tolist(), sampled.labels.tolist()
        ([...7...99...], [...])
    """
    here = labels >= 0
    own, inverse = torch.unique(labels[here], return_inverse=True)  # (P,) rising, (m,)
    others = _choose(classes, rate, labels.device)  # (m,) rising
    index = torch.searchsorted(others, own).clamp(max=max(len(others) - 1, 0))  # (P,)
    drawn = others[index] == own if len(others) else torch.zeros_like(own, dtype=torch.bool)
    missing = own[~drawn]
    index[~drawn] = len(others) + torch.arange(len(missing), device=labels.device)
    new_labels = torch.full_like(labels, -1)
    new_labels[here] = index[inverse]
    weights = None
    if weighted:
        exact = torch.float32 if labels.device.type == "mps" else torch.float64  # it has no wider
        weights = labels.new_full((len(others) + len(missing),), 1 / rate, dtype=exact)
        weights[index] = 1.0
    return SampledClasses(torch.cat([others, missing]), new_labels, weights)


def _choose(classes: int, rate: float, device: torch.device) -> Tensor:
    """Each of 0 … classes − 1 with probability `rate`, by itself; rising."""
    if device.type == "mps":  # it has no float64
        return _choose(classes, rate, torch.device("cpu")).to(device)
    per_gap = -math.log1p(-rate)
    parts, last = [], -1
    while last < classes:
        expected = (classes - 1 - last) * rate
        count = int(expected + 4 * math.sqrt(expected) + 16)
        gaps = torch.empty(count, dtype=torch.float64, device=device).exponential_()
        skipped = (gaps / per_gap).floor_().clamp_(max=classes)  # more than int64 holds, else
        parts.append(skipped.add_(1).cumsum(0).add_(last).long())  # (count,)
        last = int(parts[-1][-1])
    numbers = torch.cat(parts)
    return numbers[: int(torch.searchsorted(numbers, classes))]
