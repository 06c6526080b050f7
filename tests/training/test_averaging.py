import pytest
import torch
from torch import nn

from arcset.runs import Run, RunConfig
from arcset.training import load_model, train
from arcset.training.optimize import WeightAverage
from support.small_data import images
from training.alike import newest, tensors


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


def test_the_average_is_apart_from_its_source() -> None:
    source = network().train()
    average = WeightAverage(source, 0.9)
    assert source.training
    assert not average.network.training
    assert not any(parameter.requires_grad for parameter in average.network.parameters())
    before = average.network[0].weight.clone()
    with torch.no_grad():
        source[0].weight.add_(1)
    assert torch.equal(average.network[0].weight, before)


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
