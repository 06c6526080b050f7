"""Sick runs are told what ails them, and healthy ones nothing."""

import math
import re

import pytest
import torch
from torch import Tensor, nn

from arcset.errors import TrainingError
from arcset.losses import build_loss, loss_names
from arcset.runs import RunConfig
from arcset.training import train
from arcset.training.doctor import Doctor, blind_loss, chance_loss, first_broken_layer
from support.small_data import Remembers, images


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    return str(images(tmp_path_factory.mktemp("data") / "a.npz"))


def warnings_of(place, **settings) -> list[str]:
    watcher = Remembers()
    chosen = {"dim": 8, "epochs": 6, "batch": 16, "snapshot": 0, **settings}
    train(RunConfig(**chosen), place / "run", device="cpu", watcher=watcher)
    return watcher.warnings


def doctor(loss: str = "arcface", classes: int = 40, **settings) -> Doctor:
    torch.manual_seed(0)
    config = RunConfig(data="x", loss=loss, dim=8, epochs=10, **settings)
    options = {"scale": config.scale, "margin": config.margin, **config.options}
    return Doctor(config, nn.Linear(4, 8), build_loss(loss, 8, classes, **options))


SPREAD = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
ALIKE = torch.ones(32, 8) + 0.01 * SPREAD


@pytest.mark.parametrize(
    "loss",
    [
        "softmax",
        "arcface",
        "triplet",
        *(
            pytest.param(loss, marks=pytest.mark.long)
            for loss in ("normface", "cosface", "center", "adacos")
        ),
    ],
)
def test_a_healthy_run_hears_nothing(data, tmp_path, loss) -> None:
    assert warnings_of(tmp_path, data=data, loss=loss, epochs=4) == []


def test_nor_does_one_with_few_steps(data, tmp_path) -> None:
    assert warnings_of(tmp_path, data=data, epochs=3, learning_rate=1e-6, batch=64) == []


def test_a_learning_rate_far_too_high(data, tmp_path) -> None:
    (said,) = warnings_of(tmp_path, data=data, learning_rate=300.0, schedule="constant")
    assert "12 classes" in said
    assert said.endswith("--lr 30")
    with pytest.raises(TrainingError, match="300"):
        warnings_of(
            tmp_path / "soft", data=data, loss="softmax", learning_rate=300.0, schedule="constant"
        )


def test_a_scale_far_too_small(data, tmp_path) -> None:
    (said,) = warnings_of(tmp_path, data=data, scale=0.2)
    assert re.search(r"scale 0\.2 .*12 classes .*2\.29.*--scale", said)


def test_collapse_names_the_rate() -> None:
    one = doctor(learning_rate=0.5)
    mean = chance_loss(one.loss)
    said = one.check_epoch(2, mean, 100, ALIKE)
    assert "same way" in said
    assert said.endswith("--lr 0.05")


def test_stuck_above_what_one_answer_costs() -> None:
    """Below what random guessing costs, but no better than knowing nothing, and not falling."""
    one = doctor(learning_rate=0.3)
    blind, chance = blind_loss(one.loss), chance_loss(one.loss)
    mean = blind + 0.5
    assert mean < 0.9 * chance
    assert one.check_epoch(1, mean, 30, SPREAD) is None
    assert one.check_epoch(2, mean, 60, SPREAD) is None
    said = one.check_epoch(3, mean, 90, SPREAD)
    assert f"{blind:.2f}" in said
    assert said.endswith("--lr 0.1 and 0.9")
    assert one.check_epoch(4, mean, 120, SPREAD) is None  # once is enough


def test_a_loss_that_falls_or_knows_something_is_not_stuck() -> None:
    one = doctor()
    blind = blind_loss(one.loss)
    for epoch, mean in enumerate((3.0, 2.5, 2.2, 2.0, 1.8, 1.6), start=1):
        assert one.check_epoch(epoch, mean * blind, 30 * epoch, SPREAD) is None
    two = doctor()
    for epoch in range(1, 8):
        assert two.check_epoch(epoch, 0.9 * blind, 30 * epoch, SPREAD) is None


def test_while_the_margin_comes_in_losses_may_rise() -> None:
    one = doctor(options={"warmup": 1000})
    for epoch in range(1, 7):
        step = 150 * epoch
        mean = 0.9 * chance_loss(one.loss, step=step)
        assert mean > blind_loss(one.loss, step=step)
        assert one.check_epoch(epoch, mean, step, SPREAD) is None


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        ({"margin_warm_up": 0.0}, "--set margin_warm_up=0.3"),
        ({"margin_warm_up": 0.0, "options": {"warmup": 10}}, "--lr 0.033 and 0.3"),
        ({"scale": 0.1}, "--scale"),
        ({"learning_rate": 1e-5}, "--lr 0.0001"),
        ({"learning_rate": 0.1, "optimizer": "adamw"}, "--lr 0.01"),
        ({}, "--lr 0.033 and 0.3"),
    ],
)
def test_likely_causes(settings, end: str) -> None:
    one = doctor(**settings)
    assert end in one.check_epoch(2, 1.01 * chance_loss(one.loss, step=100), 100, SPREAD)


def test_a_first_loss_from_somewhere_else() -> None:
    one = doctor("softmax")
    chance = chance_loss(one.loss)
    assert one.check_first_loss(1.5 * chance) is None
    said = one.check_first_loss(10 * chance)
    assert f"{10 * chance:.1f}" in said
    assert f"{chance:.1f} " in said
    assert doctor("triplet").check_first_loss(1e9) is None  # nobody knows what triplets cost


class Nested(nn.Module):
    """A layer with parts inside, a tuple as an output, and a last step outside of any layer."""

    def __init__(self, broken: str = "") -> None:
        super().__init__()
        self.broken = broken
        self.first = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.middle = nn.GRU(4, 4, batch_first=True)
        self.last = nn.Linear(4, 4)

    def forward(self, rows: Tensor) -> Tensor:
        rows, _ = self.middle(self.first(rows)[:, None])
        return self.last(rows[:, 0]) / (0.0 if self.broken == "after" else 1.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("first.0.weight", "first.0 (Linear)"),
        ("middle.weight_ih_l0", "middle (GRU)"),
        ("", None),
        ("after", "network (Nested)"),
    ],
)
def test_the_first_broken_layer(name: str, expected: str | None) -> None:
    torch.manual_seed(0)
    network = Nested(name).train()
    if "." in name:
        network.state_dict()[name].view(-1)[0] = math.nan
    assert first_broken_layer(network, torch.randn(8, 4)) == expected
    assert network.training


def test_a_broken_run_names_layer_rate_and_fix() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 8))
    with torch.no_grad():
        network[1].weight[0, 0] = math.inf
    config = RunConfig(data="x", dim=8)
    loss = build_loss("softmax", 8, 3)
    error = Doctor(config, network, loss).explain_break(
        "the loss is nan", torch.ones(2, 4), 3, 0.25
    )
    for quoted in ("epoch 3", "nan", "layer 1 (Linear)", "0.25", "float32", "--set clip=5"):
        assert quoted in str(error)


# What knowing nothing costs, against formulas.


@pytest.mark.parametrize(("classes", "dim", "scale"), [(500, 128, 16.0), (2000, 64, 12.0)])
def test_guessing_with_cosines(classes: int, dim: int, scale: float) -> None:
    """ln C + s²/2D; a margin of an angle adds s·sin m, one of a cosine s·m."""
    torch.manual_seed(0)
    bare = math.log(classes) + scale**2 / (2 * dim)
    for name, margin, added in (
        ("normface", None, 0.0),
        ("arcface", 0.4, scale * math.sin(0.4)),
        ("cosface", 0.3, scale * 0.3),
    ):
        loss = build_loss(name, dim, classes, scale=scale, margin=margin)
        assert chance_loss(loss) == pytest.approx(bare + added, rel=0.03)


def test_the_margin_counts_as_far_as_it_has_come_in() -> None:
    torch.manual_seed(0)
    loss = build_loss("arcface", 64, 300, scale=16.0, margin=0.4, warmup=100)
    bare, half, full = (chance_loss(loss, step=step) for step in (0, 50, 100))
    assert chance_loss(loss) == bare  # where it stands
    assert half - bare == pytest.approx(16 * math.sin(0.2), rel=0.05)
    assert full - bare == pytest.approx(16 * math.sin(0.4), rel=0.05)
    built = build_loss("center", 64, 300, base="arcface", scale=16.0, margin=0.4, warmup=100)
    assert chance_loss(built, step=100) - chance_loss(built, step=0) == pytest.approx(
        full - bare, rel=0.05
    )


@pytest.mark.parametrize("name", loss_names())
def test_asking_changes_nothing(name: str) -> None:
    torch.manual_seed(0)
    loss = build_loss(name, 8, 20).train()
    before = {key: value.clone() for key, value in loss.state_dict().items()}
    random = torch.get_rng_state()
    found = chance_loss(loss, step=3), blind_loss(loss, step=3)
    assert (found == (None, None)) == (not loss.classifies)
    if loss.classifies:
        assert (chance_loss(loss, step=3), blind_loss(loss, step=3)) == found
        assert found[1] < found[0]
    assert all(torch.equal(before[key], value) for key, value in loss.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())


def test_one_answer_to_everything() -> None:
    """ln C; with a margin, the target alone falls back from the same place."""
    torch.manual_seed(0)
    classes, scale = 50, 16.0
    assert blind_loss(build_loss("softmax", 8, classes)) == pytest.approx(math.log(classes))
    assert blind_loss(build_loss("normface", 8, classes)) == pytest.approx(math.log(classes))
    for name, margin, lost in (("arcface", 0.5, 1 - math.cos(0.5)), ("cosface", 0.3, 0.3)):
        behind = scale * lost
        expected = behind + math.log(classes - 1 + math.exp(-behind))
        loss = build_loss(name, 8, classes, scale=scale, margin=margin)
        assert blind_loss(loss) == pytest.approx(expected, rel=1e-5)
