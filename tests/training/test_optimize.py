"""One step: accumulated, clipped, in shorter types; and what cannot go together."""

import math

import pytest
import torch
from torch import Tensor, nn

from arcset.errors import OptionError
from arcset.losses import build_loss
from arcset.runs import Run, RunConfig
from arcset.training import load_model, resume, train
from arcset.training.optimize import (
    Updater,
    WeightAverage,
    autocast_problem,
    build_optimizer,
    check_update_settings,
    learning_rate,
)
from support.small_data import Remembers, images
from training.alike import assert_alike, newest, tensors

CPU = torch.device("cpu")
CONFIG = RunConfig(data="mnist-sample", dim=4)


def updater(network: nn.Module | None = None, loss: str = "arcface", **settings: object) -> Updater:
    torch.manual_seed(0)
    config = CONFIG.replace(loss=loss, **settings)
    network = network or nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
    built = build_loss(loss, 4, 5, **config.options)
    check_update_settings(config, built, CPU)
    return Updater(config, network, built, CPU)


def batch(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 6, generator=generator), torch.arange(count) % 5


def gradients(one: Updater) -> list[Tensor]:
    parameters = [*one.network.parameters(), *one.loss.parameters()]
    return [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]


@pytest.mark.parametrize("count", [12, 13, 3])
@pytest.mark.parametrize("parts", [2, 5])
@pytest.mark.parametrize("loss", ["softmax", "arcface", "center", "inter"])
def test_parts_add_up_to_the_batch(loss: str, parts: int, count: int) -> None:
    whole, accumulated = updater(loss=loss), updater(loss=loss, accumulate=parts)
    value, embeddings = whole.backward(*batch(count))
    other, others = accumulated.backward(*batch(count))
    with torch.no_grad():
        mean = whole.loss(whole.network(batch(count)[0]), batch(count)[1]).item()
    assert value == pytest.approx(mean, rel=1e-6)
    assert other == pytest.approx(mean, rel=1e-5)
    assert embeddings.shape == (count, 4)
    torch.testing.assert_close(others, embeddings)
    assert len(gradients(whole)) >= 5
    for ours, theirs in zip(gradients(accumulated), gradients(whole), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_clipping_bounds_the_gradient() -> None:
    free, clipped = updater(), updater(clip=0.01)
    free.backward(*batch(12))
    clipped.backward(*batch(12))
    clipped.update()
    whole, limited = (torch.cat([g.flatten() for g in gradients(one)]) for one in (free, clipped))
    assert whole.norm() > 0.01
    torch.testing.assert_close(limited, 0.01 * whole / whole.norm(), rtol=1e-3, atol=0)


def test_the_rate_reaches_every_optimizer_and_the_step_is_taken() -> None:
    one = updater(options={"update": "sgd"})
    one.set_learning_rate(0.125)
    centers = one.loss.centers.clone()
    weight = one.network[0].weight.clone()
    one.backward(*batch(10))
    one.update()
    assert one.loss.update is not None
    assert one.loss.update.param_groups[0]["lr"] == 0.125
    gradient = one.network[0].weight.grad
    decayed = gradient + CONFIG.weight_decay * weight
    torch.testing.assert_close(one.network[0].weight, weight - 0.125 * decayed)
    assert not torch.equal(one.loss.centers, centers)
    assert int(one.loss.step) == 1


def test_weight_decay_is_for_matrices() -> None:
    one = updater()
    matrices, others = build_optimizer(CONFIG, one.network, one.loss).param_groups
    assert {p.ndim for p in matrices["params"]} == {2}
    assert {p.ndim for p in others["params"]} == {1}
    assert (matrices["weight_decay"], others["weight_decay"]) == (CONFIG.weight_decay, 0.0)


FUSED = {"update": "sgd"}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"accumulate": 2}, "accumulate=2"),
        ({"clip": 5.0}, r"clip=5\.0"),
        ({"autocast": "float16"}, "autocast=float16"),
    ],
)
def test_a_fused_update_takes_no_sums_over_steps(settings, named, tmp_path) -> None:
    message = f"{named}.*update=sgd"
    with pytest.raises(OptionError, match=message):
        updater(options=FUSED, **settings)
    config = CONFIG.replace(classes="0-2", options=FUSED, **settings)
    with pytest.raises(OptionError, match=message):
        train(config, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_changes_nothing() -> None:
    one = updater(loss="softmax")
    with torch.no_grad():
        one.loss.weight[0, 0] = math.inf
    before = [parameter.clone() for parameter in one.network.parameters()]
    with pytest.raises(FloatingPointError, match=r"inf|nan"):
        one.backward(*batch(8))
    assert all(map(torch.equal, before, one.network.parameters()))


def test_a_type_that_this_processor_dies_of_is_refused_in_a_sentence(tmp_path) -> None:
    said = autocast_problem("bfloat16", torch.backends.mkldnn.enabled)
    if not said:  # it works here, so a step of training must too
        one = updater(nn.Sequential(nn.Flatten(), nn.Linear(6, 4)), autocast="bfloat16")
        assert math.isfinite(one.backward(*batch(8))[0])
        return
    assert "bfloat16" in said
    with pytest.raises(OptionError, match="bfloat16"):
        train(CONFIG.replace(autocast="bfloat16", classes="0-2"), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.long)])
def test_training_in_shorter_types(dtype, tmp_path) -> None:
    """Without the library that may not know its processor."""
    config = RunConfig(
        data=str(images(tmp_path / "a.npz", size=8)),
        network="simple",
        dim=4,
        loss="normface",
        epochs=4,
        batch=16,
        autocast=dtype,
        clip=1.0,
        accumulate=2,
        snapshot=0,
        checkpoint_steps=3,
    )
    with torch.backends.mkldnn.flags(enabled=False):
        try:
            run = train(config, tmp_path / "run", device="cpu")
        except OptionError as error:
            pytest.skip(str(error))
        lines = run.metrics()
        assert all(math.isfinite(line["loss"]) for line in lines)
        assert lines[-1]["loss"] < lines[0]["loss"] / 2
        network, _ = run.load_model()
        assert all(tensor.dtype in (torch.float32, torch.int64) for tensor in network.values())
        with pytest.raises(KeyboardInterrupt):  # the scale of float16 survives in the checkpoint
            train(config, tmp_path / "cut", device="cpu", watcher=Remembers(11))
        resume(tmp_path / "cut", device="cpu")
    assert_alike(run.path, tmp_path / "cut")


def test_a_step_that_overflows_is_left_out() -> None:
    with torch.backends.mkldnn.flags(enabled=False):
        try:
            one = updater(autocast="float16")
        except OptionError as error:
            pytest.skip(str(error))
        first = one.scaler.get_scale()
        one.backward(*batch(10))
        one.network[0].weight.grad[0, 0] = math.inf
        before = one.network[0].weight.clone()
        one.update()
        assert torch.equal(one.network[0].weight, before)
        assert one.scaler.get_scale() == first / 2
        for _ in range(10):  # until the scale fits
            one.backward(*batch(10))
            one.update()
        assert not torch.equal(one.network[0].weight, before)


@pytest.mark.parametrize(
    ("steps", "share"), [(2, None), (10, None), (137, None), (40, 0.1), (40, 0.5)]
)
def test_one_cycle_is_torchs(steps, share):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    peer = torch.optim.lr_scheduler.OneCycleLR(
        *(optimizer, 0.3), total_steps=steps, pct_start=share or 0.3, final_div_factor=1e5 / 25
    )
    ours, theirs = [], []
    for step in range(steps):
        ours.append(learning_rate(step, steps, 0.3, "one-cycle", share))
        theirs.append(peer.get_last_lr()[0])
        optimizer.step()
        if step + 1 < steps:
            peer.step()
    assert ours == pytest.approx(theirs, rel=1e-9)
    assert ours[-1] == pytest.approx(0.3e-5)


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
@pytest.mark.parametrize("steps", [1, 7, 100])
@pytest.mark.parametrize("share", [None, 0.0, 0.25, 0.99])
def test_the_rise_is_a_line_to_the_peak(schedule, steps, share):
    rates = [learning_rate(step, steps, 0.5, schedule, share) for step in range(steps)]
    rising = round((share or 0) * steps)
    assert rates[:rising] == pytest.approx([0.5 * (i + 1) / rising for i in range(rising)])
    assert rates[max(rising - 1, 0)] == pytest.approx(0.5)  # the peak is reached
    assert rates[rising:] == sorted(rates[rising:], reverse=True)
    if schedule == "constant":
        assert set(rates[rising:]) <= {0.5}
    elif not rising and steps > 1:
        assert rates[-1] == pytest.approx(0.5e-5)
    assert all(0 < rate <= 0.5 for rate in rates)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    first = nn.Linear(3, 5, bias=False)
    return nn.Sequential(first, nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 2))


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_weights_and_statistics_follow_as_the_formula_says(decay: float) -> None:
    source = network()
    average = WeightAverage(source, decay)
    slow = {name: value.double() for name, value in source.state_dict().items()}
    optimizer = torch.optim.SGD(source.parameters(), lr=0.3)
    for step in range(25):
        optimizer.zero_grad()
        source(torch.randn(8, 3)).square().mean().backward()
        optimizer.step()
        average.update(source, step)
        d = min(decay, (1 + step) / (10 + step))
        for name, value in source.state_dict().items():
            slow[name] = d * slow[name] + (1 - d) * value.double()
    found = average.network.state_dict()
    counts = [name for name in found if name.endswith("num_batches_tracked")]
    assert counts == ["1.num_batches_tracked"]
    assert int(found.pop(counts[0])) == 25  # copied: a mean of counts is no count
    for name, value in found.items():
        torch.testing.assert_close(value.double(), slow[name], rtol=1e-5, atol=1e-6)
        assert not torch.equal(value, source.state_dict()[name])


def test_a_run_keeps_the_average_and_its_checkpoint_both(tmp_path) -> None:
    config = RunConfig(
        data=str(images(tmp_path / "a.npz")), dim=4, epochs=2, batch=32, ema=0.9, snapshot=0
    )
    run = train(config, tmp_path / "run", device="cpu")
    held = tensors(newest(run.path))
    weights, average = (
        {name.removeprefix(part): held[name] for name in held if name.startswith(part)}
        for part in ("network.", "average.")
    )
    saved, _ = run.load_model()
    assert all(torch.equal(saved[name], average[name]) for name in saved)
    assert not torch.equal(saved["0.weight"], weights["0.weight"])
    loaded, _ = load_model(Run.open(run.path))
    assert torch.equal(loaded[0].weight, average["0.weight"])
    plain = train(config.replace(ema=0.0), tmp_path / "plain", device="cpu")
    trained, _ = plain.load_model()
    assert all(torch.equal(trained[name], weights[name]) for name in trained)  # trains as without
