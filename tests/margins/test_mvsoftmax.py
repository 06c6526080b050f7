import math

import pytest
import torch

from arcset.margins.mvsoftmax import MVSoftmax
from support.margin_checks import batch_of

KINDS = ("arc", "cos")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adaptive", [True, False])
def test_against_the_published_formula(kind, adaptive):
    """The re-weighting h(t, θ_j) in front of exp(s·cos θ_j), as the paper writes it."""
    generator = torch.Generator().manual_seed(0)
    cosines = torch.empty(32, 10, dtype=torch.float64).uniform_(-0.7, 0.95, generator=generator)
    labels = torch.randint(10, (32,), generator=generator)
    margin, s, t = MVSoftmax(kind=kind, adaptive=adaptive), 4.0, 0.2
    samples = batch_of(32, labels=labels)
    target = margin(cosines[torch.arange(32), labels], samples)
    found = (s * margin.negatives(cosines, target[:, None], samples)).exp()
    hard = 0
    for i in range(32):
        bare = cosines[i, labels[i]].item()
        own = math.cos(math.acos(bare) + 0.5) if kind == "arc" else bare - 0.35
        for j in range(10):
            other = cosines[i, j].item()
            indicator = 1.0 if own < other else 0.0
            power = s * t * (other + 1) if adaptive else s * t
            expected = math.exp(power * indicator) * math.exp(s * other)
            hard += indicator
            assert found[i, j].item() == pytest.approx(expected, rel=1e-12)
    assert 50 < hard < 300
