"""The plan beside what a few real steps take, in processes of their own: within 15 %."""

import sys

import pytest

from arcset.planning import Setting, plan_memory
from arcset.planning.trial import try_settings

LEAN = {"storage": "bfloat16", "update": "adagrad"}
ENOUGH = 1 << 34
FEW = 24 << 20  # bytes
WAYS = {
    "optimizer": {},
    "adamw": {"optimizer": "adamw"},
    "sampled, optimizer": {"sample": 0.1},
    "fused": {"update": "sgd"},
    "sampled, fused": {"sample": 0.1, "update": "sgd"},
    "lean": LEAN,
    "sampled, lean": {"sample": 0.1, **LEAN},
    "recompute": {"mode": "recompute", "update": "sgd"},
}
#: One of each at three sizes in all; every way at every size takes minutes.
SOME = [
    (50_000, "optimizer"),
    (50_000, "lean"),
    (200_000, "optimizer"),
    (200_000, "sampled, fused"),
    (400_000, "fused"),
    (400_000, "sampled, lean"),
]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def compare(settings, steps=2, off=0.15):
    """Plan ÷ measured, over what the process held before.

    Where they differ by some megabytes only, as small settings do, it is the allocator's. What else
    is wrong is measured again: now and then the system takes or gives memory in between.
    """
    ratios, wrong = {}, {}
    for _ in range(3):
        settings = list(wrong) or settings
        found, wrong = try_settings(settings, steps), {}
        for setting, measured in zip(settings, found, strict=True):
            planned = plan_memory(setting, limit=ENOUGH).peak.total
            worst = max(measured.get("peaks", [measured["peak"]]))
            assert measured["here"] == setting.own_classes
            ratios[setting] = planned / worst
            if abs(planned - worst) > max(off * worst, FEW):
                wrong[setting] = (planned, worst)
        if not wrong:
            break
    assert not wrong, wrong
    return ratios


def test_as_measured():
    compare([Setting(classes=50_000, dim=128, batch=64, **LEAN)])


@pytest.mark.long
def test_as_measured_at_three_sizes():
    compare([Setting(classes=size, dim=128, batch=64, **WAYS[way]) for size, way in SOME])


@pytest.mark.long
def test_as_measured_in_two_processes():
    compare([Setting(classes=200_000, dim=128, batch=32, processes=2, update="sgd")])


@pytest.mark.long
def test_few_centers_are_made_by_all_processes():
    """Few enough that the first process makes them for all, and each holds them for a moment."""
    compare([Setting(classes=60_000, dim=64, batch=8, processes=2, update="sgd")])


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("dim", [128, 512])
def test_every_way_at_three_sizes(dim):
    sizes = [count * 128 // dim for count in (50_000, 200_000, 400_000)]
    compare([Setting(classes=size, dim=dim, **way) for size in sizes for way in WAYS.values()], 4)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_larger():
    ways = ("optimizer", "fused", "sampled, fused", "lean", "sampled, lean")
    compare([Setting(classes=1_000_000, dim=256, batch=64, **WAYS[way]) for way in ways])


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("way", ["optimizer", "sampled, fused", "sampled, lean"])
def test_every_way_in_two_processes(way):
    compare([Setting(classes=800_000, dim=128, processes=2, **WAYS[way])])


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_with_sub_centers():
    compare([Setting(classes=100_000, dim=128, subcenters=3, update="sgd")])


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("loss", ["curricularface", "intertopk", "mvsoftmax"])
def test_margins_that_move_wrong_classes(loss):
    """They make matrices of their own, of which the plan only knows about how many."""
    plain = Setting(300_000, 128, batch=64, loss=loss, update="sgd", mode="store")
    compare([plain, plain.but(mode="recompute"), plain.but(sample=0.3)], off=0.25)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_with_a_network():
    shape = (3, 64, 64)
    compare(
        [
            Setting(20_000, 128, batch=64, network="iresnet18", shape=shape),
            Setting(20_000, 128, batch=32, network="mobilefacenet", optimizer="adamw"),
            Setting(20_000, 128, 2, batch=32, network="iresnet18", shape=shape),
        ]
    )
