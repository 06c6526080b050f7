"""Sick runs are told what ails them, and healthy ones nothing."""

import math

import pytest
import torch
from torch import Tensor, nn

from arcset.errors import TrainingError
from arcset.losses import build_loss
from arcset.runs import RunConfig
from arcset.training import train
from arcset.training.diagnosis import Doctor, first_broken_layer
from arcset.training.expectation import blind_loss, chance_loss
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


def test_a_healthy_run_hears_nothing(data, tmp_path) -> None:
    for loss in ("softmax", "normface", "arcface", "cosface", "triplet", "center", "adacos"):
        assert warnings_of(tmp_path / loss, data=data, loss=loss, epochs=4) == []


def test_nor_does_one_with_few_steps(data, tmp_path) -> None:
    assert warnings_of(tmp_path, data=data, epochs=3, learning_rate=1e-6, batch=64) == []


def test_a_learning_rate_far_too_high(data, tmp_path) -> None:
    (said,) = warnings_of(tmp_path, data=data, learning_rate=300.0, schedule="constant")
    assert said.startswith("the loss is stuck: ")
    assert "(with 12 classes, scale " in said
    assert said.endswith("--lr 30")
    with pytest.raises(TrainingError, match=r"the learning rate was 300 and .* try a tenth of"):
        warnings_of(
            tmp_path / "soft", data=data, loss="softmax", learning_rate=300.0, schedule="constant"
        )


def test_a_learning_rate_far_too_low(data, tmp_path) -> None:
    (said,) = warnings_of(tmp_path, data=data, learning_rate=1e-7)
    assert said.startswith("the loss is stuck: ")
    assert said.endswith("the learning rate is very small; try --lr 1e-06")


def test_a_scale_far_too_small(data, tmp_path) -> None:
    (said,) = warnings_of(tmp_path, data=data, scale=0.2)
    assert said.startswith("with scale 0.2 and 12 classes the loss cannot fall below 2.29, and ")
    assert said.endswith("take a larger --scale, or leave it out")


def test_collapse_names_the_rate() -> None:
    one = doctor(learning_rate=0.5)
    mean = chance_loss(one.loss)
    said = one.epoch(2, mean, 100, ALIKE)
    assert "all embeddings point the same way, as after a learning rate that is too high" in said
    assert said.endswith("; try --lr 0.05")


def test_stuck_above_what_one_answer_costs() -> None:
    """Below what random guessing costs, but no better than knowing nothing, and not falling."""
    one = doctor(learning_rate=0.3)
    blind, chance = blind_loss(one.loss), chance_loss(one.loss)
    mean = blind + 0.5
    assert mean < 0.9 * chance
    assert one.epoch(1, mean, 30, SPREAD) is None
    assert one.epoch(2, mean, 60, SPREAD) is None
    said = one.epoch(3, mean, 90, SPREAD)
    assert f"the same answer to everything costs {blind:.2f}" in said
    assert said.endswith("try another learning rate first, --lr 0.1 and 0.9")
    assert one.epoch(4, mean, 120, SPREAD) is None  # once is enough


def test_a_loss_that_falls_or_knows_something_is_not_stuck() -> None:
    one = doctor()
    blind = blind_loss(one.loss)
    for epoch, mean in enumerate((3.0, 2.5, 2.2, 2.0, 1.8, 1.6), start=1):
        assert one.epoch(epoch, mean * blind, 30 * epoch, SPREAD) is None
    two = doctor()
    for epoch in range(1, 8):
        assert two.epoch(epoch, 0.9 * blind, 30 * epoch, SPREAD) is None


def test_while_the_margin_comes_in_losses_may_rise() -> None:
    one = doctor(options={"warmup": 1000})
    for epoch in range(1, 7):
        step = 150 * epoch
        mean = 0.9 * chance_loss(one.loss, step=step)
        assert mean > blind_loss(one.loss, step=step)
        assert one.epoch(epoch, mean, step, SPREAD) is None


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        ({"margin_warm_up": 0.0}, "; try --set margin_warm_up=0.3"),
        ({"margin_warm_up": 0.0, "options": {"warmup": 10}}, "--lr 0.033 and 0.3"),
        ({"scale": 0.1}, "take a larger --scale, or leave it out"),
        ({"learning_rate": 1e-5}, "very small; try --lr 0.0001"),
        ({"learning_rate": 0.1, "optimizer": "adamw"}, "very high; try --lr 0.01"),
        ({}, "--lr 0.033 and 0.3"),
    ],
)
def test_likely_causes(settings, end: str) -> None:
    one = doctor(**settings)
    assert one.epoch(2, 1.01 * chance_loss(one.loss, step=100), 100, SPREAD).endswith(end)


def test_a_first_loss_from_somewhere_else() -> None:
    one = doctor("softmax")
    chance = chance_loss(one.loss)
    assert one.first(1.5 * chance) is None
    assert one.first(10 * chance).startswith(
        f"the first loss is {10 * chance:.1f}, and guessing would cost {chance:.1f} (with 40"
    )
    assert doctor("triplet").first(1e9) is None  # nobody knows what triplets cost


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
        ("first.1.running_var", "first.1 (BatchNorm1d)"),
        ("middle.weight_ih_l0", "middle (GRU)"),
        ("last.bias", "last (Linear)"),
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
    assert not any(module._forward_hooks for module in network.modules())


def test_a_broken_run_names_layer_rate_and_fix() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 8))
    with torch.no_grad():
        network[1].weight[0, 0] = math.inf
    config = RunConfig(data="x", dim=8)
    loss = build_loss("softmax", 8, 3)
    error = Doctor(config, network, loss).broken("the loss is nan", torch.ones(2, 4), 3, 0.25)
    assert str(error) == (
        "training stopped in epoch 3: the loss is nan; the first values that are not finite come "
        "out of layer 1 (Linear); the learning rate was 0.25 and the weights are torch.float32: "
        "try a tenth of that rate, or --set clip=5 (the epochs before are kept)"
    )
    clipped = Doctor(config.replace(clip=1.0), network, loss)
    assert "clip" not in str(clipped.broken("it", torch.ones(2, 4), 1, 0.1))


def test_float16_ends_early() -> None:
    """Numbers that float32 can hold, and float16 cannot."""
    network = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 8))
    with torch.no_grad():
        network[0].weight.fill_(5e4)
    config = RunConfig(data="x", dim=8, autocast="float16")
    with torch.backends.mkldnn.flags(enabled=False):
        sick = Doctor(config, network, build_loss("softmax", 8, 3))
        error = sick.broken("the loss is nan", torch.ones(2, 4), 1, 0.1)
    assert "come out of layer 0 (Linear); " in str(error)
    assert "float16 ends at 65,504: try --set autocast=bfloat16 first" in str(error)
