"""Checks of one margin by itself, without centers or a loss."""

import math
from collections.abc import Callable

import pytest
import torch

from arcset import OptionError
from arcset.margins import Margin, Sample, Samples

ANGLES = torch.cat(
    [
        torch.linspace(0, math.pi, 181, dtype=torch.float64),
        torch.tensor([1e-7, 1e-3, math.pi - 1e-3, math.pi - 1e-7], dtype=torch.float64),
    ]
)


def batch_of(size, *, norms=None, labels=None, step=0, floor=None, dtype=torch.float64) -> Samples:
    """A batch's `Samples`; lengths 1 and labels 0 unless given."""
    norms = torch.ones(size, dtype=dtype) if norms is None else norms
    labels = torch.zeros(size, dtype=torch.int64) if labels is None else labels
    return Samples(labels, norms, step=step, floor=floor)


def one_by_one(margin: Margin, cosine: torch.Tensor, samples: Samples) -> list[float]:
    """The margin's `reference` over a batch, in plain Python."""
    cosines, norms, labels = cosine.tolist(), samples.norms.tolist(), samples.labels.tolist()
    return [
        margin.reference(
            math.acos(max(-1.0, min(1.0, own))),
            Sample(
                label=labels[place],
                norm=norms[place],
                step=samples.step,
                position=place,
                rank=sum(other < own for other in cosines),
                size=len(cosines),
            ),
        )
        for place, own in enumerate(cosines)
    ]


def check_shift_is_reference(margin: Margin, cosine=None, **known) -> None:
    """`shift` on float64 tensors against `reference`, to 1e-12; also through `forward`."""
    cosine = ANGLES.cos() if cosine is None else cosine
    samples = batch_of(len(cosine), **known)
    expected = torch.tensor(one_by_one(margin, cosine, samples), dtype=torch.float64)
    torch.testing.assert_close(margin.shift(cosine, samples), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(margin(cosine, samples), expected, rtol=0, atol=1e-12)


def check_falls(margin: Margin, **known) -> None:
    """The margined cosine falls with the angle, by small steps, over the whole of [0, π]."""
    theta = torch.linspace(0, math.pi, 20_001, dtype=torch.float64)
    known = {name: value.expand(len(theta)) for name, value in known.items()}
    moved = margin(theta.cos(), batch_of(len(theta), **known))
    assert (moved.diff() < 1e-15).all()
    assert (moved[::100].diff() < 0).all()
    assert moved.diff().abs().max() < 2 * math.pi / 20_000


def check_finite_at_the_ends(margin: Margin) -> None:
    """Values and gradients at cos θ = ±1 (and rounded beyond), for lengths from 0 to huge."""
    lengths = [0.0, 1e-30, 1.0, 10.0, 110.0, 1e30]
    for dtype in (torch.float64, torch.float32):
        beyond = 1 + torch.finfo(dtype).eps
        for end in (1.0, -1.0, 0.0, beyond, -beyond):
            cosine = torch.full((len(lengths),), end, dtype=dtype, requires_grad=True)
            norms = torch.tensor(lengths, dtype=dtype, requires_grad=True)
            samples = batch_of(len(lengths), norms=norms)
            total = margin(cosine, samples).sum()
            penalty = margin.penalty(samples)
            total = total if penalty is None else total + penalty.sum()
            total.backward()
            assert total.isfinite()
            assert cosine.grad.isfinite().all()
            assert (cosine.grad != 0).all()
            assert norms.grad is None or norms.grad.isfinite().all()


def check_settings_rebuild(margin: Margin) -> None:
    """`settings()` are plain values that build the same margin again."""
    settings = margin.settings()
    assert all(type(value) in (float, int, str, bool) for value in settings.values())
    again = type(margin)(**settings)
    assert again.settings() == settings
    assert repr(again) == repr(margin)


def check_saved(margin: Margin, other: Margin, *names: str) -> None:
    """The buffers `names` of `margin` reach `other` through a state dict."""
    state = margin.state_dict()
    assert set(state) == set(names)
    assert any(not torch.equal(state[name], other.state_dict()[name]) for name in names)
    other.load_state_dict(state)
    for name in names:
        assert torch.equal(getattr(other, name), getattr(margin, name))


def check_refused(make: Callable[..., object], options: dict[str, object]) -> None:
    """One of these options has a value that makes no sense; the error names it."""
    with pytest.raises(OptionError) as caught:
        make(**options)
    assert any(name in str(caught.value) for name in options), str(caught.value)
