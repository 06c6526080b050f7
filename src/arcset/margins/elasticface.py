"""ElasticFace: a new random margin for every sample in every step."""

import hashlib

import torch
from torch import Tensor

from arcset.checks import check_bool, check_count, check_number
from arcset.margins.angular import ArcOrCosMargin
from arcset.margins.base import MARGINS, Law, Sample, Samples


@MARGINS.register("elasticface")
class ElasticFace(ArcOrCosMargin):
    """cos(θ + m) or cos θ − m, with m drawn from N(margin, spread) for each sample and step.

    Paper: Boutros, Damer, Kirchbuchner, Kuijper: ElasticFace: Elastic margin loss for deep face
    recognition, CVPR workshops 2022.

    - `kind`: `arc` or `cos`; `margin`: the mean, 0.5 or 0.35 (see `ArcOrCosMargin`); `spread`: the
      standard deviation, 0 ≤ spread < 10. Draws are clamped to [0, π] or [0, 2].
    - `plus`: ElasticFace+, where the sample farthest from its center gets the largest draw, the
      nearest the smallest. That is the paper's rule; the authors' code indexes the sorted draws by
      the sorting permutation instead of by its inverse, and so hands them out otherwise.
    - `seed`: the draws follow from it, the step and the size of the batch, and from nothing else:
      a resumed run draws the same. Outside of training nothing is drawn: the mean serves all.

        >>> batch = Samples(torch.zeros(2), torch.ones(2), step=7)
        >>> margin = ElasticFace(kind="cos", spread=0.05)
        >>> drawn = margin(torch.zeros(2), batch)
        >>> torch.equal(drawn, margin(torch.zeros(2), batch)), bool(drawn[0] == drawn[1])
        (True, False)
        >>> margin.eval()(torch.zeros(2), batch)
        tensor([-0.3500, -0.3500])
    """

    neutral = {"margin": 0.0, "spread": 0.0}

    def __init__(
        self,
        margin: float | None = None,
        spread: float = 0.05,
        kind: str = "arc",
        plus: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(margin, kind)
        self.spread = check_number("spread", spread, 0, 10)
        self.plus = check_bool("plus", plus)
        self.seed = check_count("seed", seed, 0)

    @property
    def laws(self) -> frozenset[Law]:
        """Those of arcface or cosface for each sample; with `plus`, a new rank is a new margin."""
        return super().laws - ({Law.CONTINUOUS} if self.plus and self.spread > 0 else set())

    @property
    def _draws(self) -> bool:
        return self.training and self.spread > 0

    def draw(self, step: int, size: int) -> Tensor:
        """The margins (size,) of a step in the order of the batch, before `plus` deals them out.

        In float64 on the CPU, whatever the device, so that they are the same everywhere.
        """
        name = f"{self.seed} {step} {size}".encode()
        seed = int.from_bytes(hashlib.blake2b(name, digest_size=4).digest(), "little")
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(size, generator=generator, dtype=torch.float64)
        return (self.margin + self.spread * drawn).clamp(0, self._limit)

    def shift(self, cosine: Tensor, samples: Samples) -> Tensor:
        """cos(θ + m) or cos θ − m, each sample with its own m."""
        if not self._draws:
            return self._add_margin(cosine, self.margin)
        margins = self.draw(samples.step, len(cosine))  # (B,)
        if not self.plus:
            return self._add_margin(cosine, margins.to(cosine))
        margins = margins.sort(descending=True).values.to(cosine)
        ordered = cosine.detach().sort().values
        rank = torch.searchsorted(ordered, cosine.detach())  # how many are smaller: equal share one
        return self._add_margin(cosine, margins[rank])

    def reference(self, angle: float, sample: Sample) -> float:
        """For one angle, by the sample's place or rank in its batch."""
        if not self._draws:
            return self._add_margin_reference(angle, self.margin)
        margins = self.draw(sample.step, sample.size).tolist()
        if self.plus:
            return self._add_margin_reference(angle, sorted(margins, reverse=True)[sample.rank])
        return self._add_margin_reference(angle, margins[sample.position])
