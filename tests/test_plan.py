"""What a plan says beside what real steps take, and what follows from it."""

import json
import subprocess
import sys

import pytest

from arcset import OptionError
from arcset.losses import build_loss
from arcset.networks import build_network, network_names
from arcset.plan import DryRun, Plan, Setting, count_bytes, measure, plan_training
from support.processes import TORCHRUN

GIB = 1 << 30
LEAN = {"storage": "bfloat16", "update": "adagrad"}
#: What memory may differ by whatever the size: the same steps were measured at 171 and 234 MB.
NOISE = 64 << 20
#: Network and loss together, as in training; prints the most memory over that at the start.
JOINT = """
import sys
from pathlib import Path
import torch
from arcset.losses import build_loss
from arcset.networks import build_network

def train(classes, batch, network="simple"):
    embed, loss = build_network(network, 128, (3, 64, 64)), build_loss("arcface", 128, classes)
    parameters = [*embed.parameters(), *loss.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    for _ in range(3):
        labels = torch.randint(classes, (batch,))
        loss(embed(torch.rand(batch, 3, 64, 64)), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

train(100, 2)
start = peak()
train(20_000, int(sys.argv[2]), sys.argv[1])
print(peak() - start)
"""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def check_memory(planned: Plan, measured: int, off: float = 0.15) -> None:
    """Beside bytes that were measured at the full size, without Python and torch."""
    found = planned.total - planned.dry.process
    assert abs(found - measured) <= max(off * measured, NOISE), (found, measured, planned.parts)


def check_at_full_size(planned: Plan, **options) -> None:
    dry = measure(planned.setting.model_copy(update={"mode": planned.mode}), **options)
    check_memory(planned, max(dry.building, dry.loss))


@on_linux
def test_memory_at_three_sizes():
    """What was tried is less than the smallest of them."""
    whole = Setting(classes=120_000, dim=64, batch=64, update="sgd")
    planned = plan_training(whole, limit=8 * GIB, room=40 << 20)
    assert planned.dry.setting.classes < 40_000
    for size in (50_000, 80_000, 120_000):
        scaled = planned.but(classes=size)
        dry = measure(scaled.setting)
        check_memory(scaled, max(dry.building, dry.loss))


@on_linux
@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "way",
    [
        {"optimizer": "sgd"},
        {"optimizer": "adamw"},
        {"update": "sgd"},
        {"update": "sgd", "sample": 0.1},
        {"update": "sgd", "mode": "recompute"},
        {"update": "sgd", "subcenters": 3},
        {**LEAN, "sample": 0.1},
    ],
)
def test_every_way_at_three_sizes(way):
    for size in (100_000, 300_000, 800_000):
        setting = Setting(classes=size, dim=128, **way)
        check_at_full_size(plan_training(setting, limit=16 * GIB, room=1 << 27))


@on_linux
@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("way", [{}, {"update": "sgd"}, {**LEAN, "sample": 0.1}])
def test_two_processes_that_share_the_centers(way):
    setting = Setting(classes=800_000, dim=128, processes=2, **way)
    start = [*TORCHRUN, "--nproc-per-node=2"]
    check_at_full_size(plan_training(setting, limit=8 * GIB), start=start)


@on_linux
@pytest.mark.long
@pytest.mark.parametrize(("network", "batch"), [("iresnet18", 64), ("mobilefacenet", 96)])
def test_network_and_loss_together(network, batch):
    setting = Setting(classes=20_000, dim=128, network=network, shape=(3, 64, 64), batch=batch)
    planned = plan_training(setting, limit=8 * GIB)
    done = subprocess.run(
        [sys.executable, "-c", JOINT, network, str(batch)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    check_memory(planned, int(done.stdout))


@pytest.mark.parametrize("subcenters", [1, 2])
@pytest.mark.parametrize("options", [{"update": "sgd"}, {"update": "adagrad"}, LEAN])
def test_the_formula_counts_what_a_loss_holds(options, subcenters):
    setting = Setting(classes=1000, dim=16, subcenters=subcenters, **options)
    counted = count_bytes(setting, "recompute")
    loss = build_loss("arcface", 16, 1000, subcenters=subcenters, **options)
    held = sum(tensor.nbytes for tensor in loss.state_dict().values())
    parts = counted["centers"] + counted["state of the centers"]
    assert parts == pytest.approx(held, abs=100)


@pytest.mark.parametrize(
    "name", [name if name == "simple" else pytest.param(name, marks=pytest.mark.long)
             for name in network_names()]
)  # fmt: skip
def test_the_formula_counts_a_networks_weights(name):
    counted = count_bytes(Setting(classes=1000, dim=64, network=name), "recompute")
    network = build_network(name, 64, (3, 112, 112))
    held = sum(tensor.nbytes for tensor in network.state_dict().values())
    assert counted["network"] == 3 * held  # gradient and momentum
    assert counted["activations"] > 128 * 3 * 112 * 112 * 4


@pytest.mark.parametrize("classes", [10**6, 10**8, 10**9])
@pytest.mark.parametrize("options", [{}, {"sample": 0.1, "update": "sgd"}, {"network": "simple"}])
def test_limits_are_exact(classes, options):
    """One process fewer does not fit, nor does one class more; the numbers themselves do."""
    setting = Setting(classes=classes, dim=256, batch=32, processes=8, **options)
    planned = Plan(setting, 16 * GIB, process=1 << 28)
    fewest, most = planned.fewest_processes, planned.most_classes
    assert planned.but(processes=fewest).fits
    assert fewest == 1 or not planned.but(processes=fewest - 1).fits
    assert planned.but(classes=most).fits
    assert not planned.but(classes=most + 8).fits


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"classes": 2_350_000, "batch": 768}, 24 * GIB),
        ({"classes": 2**20, "processes": 4096}, 4 * GIB),
        ({"classes": 10**8, "processes": 16}, 16 * GIB),
        ({"classes": 10**10, "processes": 4, "batch": 16}, 16 * GIB),
        ({"classes": 1000, "dim": 128, "batch": 512, "network": "iresnet18"}, 4 * GIB),
        ({"classes": 10**6, "batch": 512, "network": "iresnet18"}, 3 * GIB),
    ],
)
def test_what_is_advised_fits(options, limit):
    planned = Plan(Setting(**options), limit, process=1 << 28)
    assert not planned.fits
    assert 1 <= len(planned.changes) <= 3
    for way in planned.changes:
        assert planned.but(**way).fits
        assert Setting(**{**options, **way})
    assert json.loads(json.dumps(planned.json()))["changes"][0]["bytes"] <= limit


def test_nothing_fits():
    planned = Plan(Setting(classes=10**6), limit=1000, process=1 << 28)
    assert (planned.fits, planned.fewest_processes, planned.most_classes) == (False, None, None)
    assert planned.changes == []


def test_sampling_and_processes_divide_time():
    tried, seconds = Setting(classes=10_000), {"loss": 0.1}
    dry = DryRun(setting=tried, process=0, building=0, loss=0, seconds=seconds, losses=[])
    whole = Plan(Setting(classes=10**6), 16 * GIB, dry=dry)
    assert whole.seconds["loss"] == pytest.approx(10)
    assert whole.but(sample=0.1).seconds["loss"] == pytest.approx(1, rel=0.01)
    assert whole.but(processes=2).seconds == whole.seconds  # half the classes, twice the batch


def test_what_is_sent_by_hand():
    """Ring: gathering sends all but the own part, adding up sends everything but one part twice."""
    setting = Setting(classes=1000, dim=64, processes=4, batch=8)
    assert Plan(setting, GIB).sent == 3 * 8 * (3 * 64 + 11) * 4
    assert Plan(setting.model_copy(update={"processes": 1}), GIB).sent == 0


@pytest.mark.parametrize(
    ("options", "quoted"),
    [
        ({"classes": 0}, "classes"),
        ({"sample": 0.0}, "sample"),
        ({"storage": "float8"}, "float8"),
        ({"loss": "arcfaec"}, "'arcface'"),
        ({"network": "iresnet5"}, "'iresnet5'"),
        ({"classes": 10, "processes": 6}, " 6 "),
        ({"mode": "plain", "processes": 2}, "mode=plain"),
    ],
)
def test_what_cannot_be_trained_is_refused(options, quoted):
    with pytest.raises(OptionError, match=quoted):
        Setting(**{"classes": 1000, **options})
