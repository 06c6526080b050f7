"""The common laws, over every registered loss and over the variants that options make.

All laws are checked on the plain softmax over the centers, the readable reference. The other modes
obey a single law, from which the rest follows: they equal the plain one in value and gradient, in
every dtype, at the corners at which the other laws are checked.
"""

import re

import pytest
import torch

import arcset
from arcset import InputError
from arcset.margins import MARGINS
from arcset.margins.base import Law
from support.laws import CHECKS, batch, builder, check_equals_plain, chunks_of
from support.variants import FUSED

MARGINED = {
    **{name: builder(name) for name in MARGINS.names()},
    "bias": builder("arcface", margin=0.5, bias=True),
    "smoothed": builder("arcface", margin=0.5, label_smoothing=0.2),
    "two sub-centers": builder("arcface", margin=0.5, subcenters=2),
    "sub-centers of a margin that alters negatives": builder("curricularface", subcenters=3),
    "everything": builder("mvsoftmax", subcenters=2, bias=True, label_smoothing=0.1, scale=8.0),
    "straight through": builder("curricularface", gradient="straight_through"),
}
VARIANTS = {
    **{name: builder(name) for name in arcset.loss_names()},
    "softmax, no bias": builder("softmax", bias=False),
    "normface, bias": builder("normface", bias=True, scale=8.0),
    "arcface, scale 1": builder("arcface", scale=1.0, margin=0.5),
    "arcface, wide": builder("arcface", scale=64.0, margin=2.5),
    "arcface, wide and linear": builder("arcface", margin=2.5, fallback="linear"),
    "arcface, easy": builder("arcface", margin=0.5, fallback="easy"),
    "arcface, none": builder("arcface", margin=0.5, fallback="none"),
    "sphereface, 4": builder("sphereface", margin=4),
    "sphereface, easy": builder("sphereface", margin=1.7, fallback="easy"),
    "sphereface, none": builder("sphereface", margin=1.7, fallback="none"),
    "combined, all three": builder("combined", m1=0.9, m2=0.4, m3=0.15),
    "combined, easy": builder("combined", m1=1.2, m2=0.4, m3=0.1, fallback="easy"),
    "center on arcface": builder("center", base="arcface", weight=0.5),
    "intra on cosface": builder("intra", base="cosface"),
    "inter on softmax": builder("inter", base="softmax"),
}

VARIANTS |= MARGINED

CASES = [
    (name, law)
    for name, held in [(name, build().laws) for name, build in VARIANTS.items()]
    for law in Law
    if law in held
]


@pytest.mark.parametrize(
    ("name", "law"), CASES, ids=[f"{name}-{law.name.lower()}" for name, law in CASES]
)
def test_law(name, law):
    CHECKS[law](VARIANTS[name])


@pytest.mark.parametrize("name", MARGINED)
def test_other_modes_equal_plain(name):
    with chunks_of(2):  # so that a handful of classes makes three chunks, the last one shorter
        check_equals_plain(MARGINED[name], FUSED)


@pytest.mark.parametrize("mode", FUSED)
@pytest.mark.parametrize("name", MARGINED)
def test_every_mode_is_a_mean_over_samples(name, mode):
    def build(**options):
        return MARGINED[name](mode=mode, **options)

    with chunks_of(2):
        CHECKS[Law.MEAN](build)


@pytest.mark.parametrize("name", arcset.loss_names())
@pytest.mark.parametrize(
    ("dtype", "length"),
    [(torch.float32, 3e19), (torch.float32, 3e38), (torch.bfloat16, 1e30), (torch.float64, 1e308)],
    ids=str,
)
def test_very_long_embeddings_have_a_finite_loss_or_are_refused(name, dtype, length):
    loss = builder(name)().to(dtype)
    embeddings, labels = batch()
    x = (length * embeddings.sign()).to(dtype).requires_grad_()
    overflows = name == "center" or (name == "softmax" and length > 1e38)
    if overflows:
        with pytest.raises(InputError, match=re.escape(f"{x.abs().max().item():.3g}")):
            loss(x, labels)
        return
    value = loss(x, labels)
    value.backward()
    assert value.isfinite()
    for tensor in (x, *loss.parameters()):
        assert tensor.grad is None or tensor.grad.isfinite().all()


def test_a_loss_that_diverged_for_another_reason_does_not_blame_the_embeddings():
    loss = builder("softmax")()
    with torch.no_grad():
        loss.weight.fill_(torch.nan)
    assert loss(*batch()).isnan()


def test_every_law_has_a_check():
    assert set(CHECKS) == set(Law)


def test_every_loss_declares_the_general_laws():
    for name in arcset.loss_names():
        laws = builder(name)().laws
        assert {Law.FINITE, Law.REFERENCE, Law.ROUND_TRIP} <= laws
        assert Law.GRADIENT in laws or name == "adaface"  # which stops it at the norm on purpose


def test_every_margin_by_default_obeys_the_target_laws():
    for name in MARGINS.names():
        laws = builder(name)().laws
        assert {Law.MONOTONE, Law.CONTINUOUS, Law.PLAIN_LOGITS} <= laws
        assert Law.SCALE_FREE in laws or name in ("adaface", "magface")  # where length is quality


@pytest.mark.parametrize(
    ("fallback", "broken"),
    [("linear", Law.CONTINUOUS), ("easy", Law.CONTINUOUS), ("none", Law.MONOTONE)],
)
def test_the_checks_can_fail(fallback, broken):
    """The other fallbacks do break the laws that they disclaim, and the checks notice."""
    build = builder("arcface", margin=0.5, fallback=fallback)
    assert broken not in build().laws
    with pytest.raises(AssertionError, match=r"rises|jump"):
        CHECKS[broken](build)


def test_a_mode_that_differs_a_little_is_noticed():
    def build(mode, **options):
        return builder("arcface", mode=mode, margin=0.5 if mode == "plain" else 0.5001)(**options)

    with pytest.raises(AssertionError, match="store"):
        check_equals_plain(build, FUSED)
