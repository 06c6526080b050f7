"""The six facts that implementations of angular margins get wrong."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import arcset
from arcset.centers.init import center_spacing
from arcset.losses.build import default_scale, lowest_loss
from arcset.margins import Samples
from support.laws import at_angles, target_logits


def arcface(**options):
    torch.manual_seed(0)
    return arcset.build_loss("arcface", 2, 3, **{"scale": 1.0, "margin": 0.5, **options})


class TestNormalizedCopy:
    """1. The parameter and the embedding stay free; only copies are normalized."""

    def test_parameter_keeps_its_length(self):
        loss = arcface()
        loss.set_centers(torch.tensor([[3.0, 4.0], [0.0, 2.0], [-5.0, 0.0]]))
        embeddings = torch.tensor([[0.0, 7.0]])
        loss(embeddings, torch.tensor([1]))
        assert loss.head.weight.norm(dim=1).tolist() == pytest.approx([5.0, 2.0, 5.0])
        assert embeddings.tolist() == [[0.0, 7.0]]
        assert loss.centers.norm(dim=1).tolist() == pytest.approx([1.0, 1.0, 1.0])

    def test_initial_rows_are_unit_vectors(self):
        weight = arcset.build_loss("normface", 64, 100).head.weight
        assert weight.norm(dim=1).tolist() == pytest.approx([1.0] * 100, abs=1e-6)

    def test_length_sets_the_effective_learning_rate(self):
        """A center twice as long turns by half as much for the same step: gradient ∝ 1/‖W‖."""
        gradients = []
        for length in (1.0, 2.0):
            loss = arcface()
            loss.set_centers(length * loss.centers)
            loss(torch.tensor([[0.3, 0.9]]), torch.tensor([0])).backward()
            gradients.append(loss.head.weight.grad)
        torch.testing.assert_close(gradients[0], 2 * gradients[1])


class TestPastPi:
    """2. cos θ cos m − sin θ sin m is the same function as cos(θ + m), and rises past π − m."""

    theta = torch.linspace(0, math.pi, 1001, dtype=torch.float64)

    def test_the_identity_is_no_cure(self):
        identity = self.theta.cos() * math.cos(0.5) - self.theta.sin() * math.sin(0.5)
        torch.testing.assert_close(identity, (self.theta + 0.5).cos())
        torch.testing.assert_close(target_logits(arcface(fallback="none"), self.theta), identity)
        assert (identity.diff() > 0).any()

    def test_linear_jumps_by_seven_logits(self):
        edge = math.pi - 0.5
        theta = torch.tensor([edge - 1e-9, edge + 1e-9], dtype=torch.float64)
        before, after = target_logits(arcface(fallback="linear", scale=64.0), theta).tolist()
        assert before / 64 == pytest.approx(-1.0)
        assert after / 64 == pytest.approx(-1.117, abs=5e-4)
        assert before - after == pytest.approx(7.5, abs=0.1)

    def test_default_meets_both_ends(self):
        edge = math.pi - 0.5
        theta = torch.tensor([edge - 1e-9, edge + 1e-9, math.pi], dtype=torch.float64)
        before, after, end = target_logits(arcface(), theta).tolist()
        assert before == pytest.approx(-1.0)
        assert after == pytest.approx(-1.0)
        assert end == pytest.approx(math.cos(0.5) - 2)  # ψ(π + m)

    def test_only_the_default_never_rewards_a_larger_angle(self):
        for fallback, falls in (("default", True), ("linear", True), ("none", False)):
            logits = target_logits(arcface(fallback=fallback), self.theta)
            assert bool((logits.diff() < 0).all()) == falls, fallback


class TestEnds:
    """3. Finite value and slope at cos θ = ±1, and no dead zone wider than rounding."""

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    @pytest.mark.parametrize("name", ["arcface", "sphereface", "combined", "cosface"])
    def test_slope_in_the_cosine_is_finite_and_alive(self, name, dtype):
        margin = arcset.build_loss(name, 2, 3, scale=1.0).margin
        step = torch.finfo(dtype).eps
        inner = torch.tensor([0, 0.5, 1, 2, 4, 1e3], dtype=dtype) * step
        cosine = torch.cat([1 - inner, inner - 1]).requires_grad_()
        margin(cosine, Samples(torch.zeros(12), torch.ones(12))).sum().backward()
        assert cosine.grad.isfinite().all()
        assert (cosine.grad > 0.5).all(), "a dead zone: the gradient vanishes next to the end"

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    @given(angle=st.floats(1e-7, 1e-2), flip=st.booleans(), length=st.floats(1e-3, 1e3))
    def test_gradient_next_to_the_ends(self, dtype, angle, flip, length):
        loss = arcface(scale=64.0).to(dtype)
        loss.set_centers(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]).to(dtype))
        theta = math.pi - angle if flip else angle
        x = at_angles(torch.tensor([theta], dtype=torch.float64), length).to(dtype)
        x.requires_grad_()
        value = loss(x, torch.tensor([0]))
        value.backward()
        assert value.isfinite()
        assert x.grad.isfinite().all()


class TestMarginIsForTraining:
    """4. logits(x) carries no margin; logits(x, labels) is what training sees."""

    def test_logits(self):
        loss = arcface(scale=16.0)
        x, y = torch.randn(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])
        plain, seen = loss.logits(x), loss.logits(x, y)
        torch.testing.assert_close(plain, 16 * torch.nn.functional.normalize(x) @ loss.centers.T)
        torch.testing.assert_close(torch.nn.functional.cross_entropy(seen, y), loss(x, y))
        assert not torch.allclose(torch.nn.functional.cross_entropy(plain, y), loss(x, y))


class TestWorkedExample:
    """5. cos θ = 0.59 and m = 0.5 give cos(θ + m) = 0.1307; and the loss has a log."""

    def test_value(self):
        theta = torch.tensor([math.acos(0.59)], dtype=torch.float64)
        assert target_logits(arcface(), theta).item() == pytest.approx(0.1307, abs=5e-5)

    def test_an_unnormalized_center_gives_no_cosine(self):
        loss = arcface()
        loss.set_centers(torch.tensor([[0.37, 0.46], [1.0, 0.0], [0.0, 1.0]]))
        x = torch.tensor([[0.62, 0.78]])
        assert float(x @ torch.tensor([0.37, 0.46])) == pytest.approx(0.588, abs=1e-3)
        assert loss.logits(x)[0, 0].item() == pytest.approx(0.99998, abs=1e-5)


class TestScaleBoundsTheLoss:
    """6. With C classes the best reachable loss depends on s."""

    @pytest.mark.parametrize(("scale", "classes"), [(1.0, 5), (4.0, 3), (16.0, 10)])
    def test_a_simplex_reaches_the_bound_and_nothing_beats_it(self, scale, classes):
        simplex = torch.eye(classes, dtype=torch.float64) - 1 / classes
        loss = arcset.build_loss("normface", classes, classes, scale=scale).double()
        labels = torch.arange(classes)
        loss.set_centers(simplex)
        bound = lowest_loss(scale, classes)
        assert loss(simplex, labels).item() == pytest.approx(bound, rel=1e-9)
        for seed in range(20):
            torch.manual_seed(seed)
            loss.set_centers(torch.randn_like(simplex))
            assert loss(loss.centers, labels).item() > bound

    def test_small_scale_keeps_pulling_where_a_large_one_has_let_go(self):
        pulls = []
        for scale in (1.0, 64.0):
            loss = arcset.build_loss("normface", 2, 3, scale=scale).double()
            loss.set_centers(at_angles(torch.tensor([0.0, 2.1, 4.2], dtype=torch.float64)))
            x = at_angles(torch.tensor([0.3], dtype=torch.float64)).requires_grad_()
            loss(x, torch.tensor([0])).backward()
            pulls.append(x.grad.norm().item() / scale)
        assert pulls[0] > 1e6 * pulls[1]

    def test_defaults_come_from_classes_and_dim_are_logged_and_can_be_overridden(self, caplog):
        with caplog.at_level("INFO", logger="arcset"):
            small = arcset.build_loss("arcface", 2, 5)
            large = arcset.build_loss("arcface", 512, 100_000)
        assert small.settings()["scale"] == default_scale(5, 2)
        assert large.settings()["scale"] > small.settings()["scale"]
        assert "chose scale 24.5, margin 0.5 for 5 classes in 2 dimensions" in caplog.text
        crowded = arcset.build_loss("arcface", 2, 50)
        assert crowded.margin.m2 == pytest.approx(math.pi / 50, abs=1e-4)
        given = arcset.build_loss("arcface", 2, 5, scale=3.0, margin=0.1)
        assert given.settings() == {"scale": 3.0, "margin": 0.1, "fallback": "default"}

    @given(st.integers(2, 300), st.integers(2, 300))
    def test_spacing_is_sane(self, classes, dim):
        spacing = center_spacing(classes, dim)
        assert 0 < spacing <= math.pi
        assert center_spacing(classes + 1, dim) <= spacing + 1e-9
        assert center_spacing(classes, dim + 1) >= spacing - 1e-3
        assert center_spacing(classes, 2) == pytest.approx(2 * math.pi / classes, rel=1e-6)
        assert 8 <= default_scale(classes, dim) <= 64
