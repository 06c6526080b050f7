"""The plan in figures worked out by hand from how `centers` lays out its memory and traffic.

These go with the planner that follows that code line by line: a plan that measures a dry run keeps
what test_memory.py and test_plan.py ask of it, and owes nothing here.
"""

import json
import subprocess

import pytest

from arcset.planning import Machine, Setting, make_plan, plan_memory, plan_traffic
from support.processes import TORCHRUN, environment

pytestmark = pytest.mark.long

ENOUGH = 1 << 34
GIB = 1 << 30
ROUND = Machine("a round one", flops=1e12, convolving=1e12, passes=2e11, bandwidth=1e11, rows=1e10)


def part(name, **options):
    return plan_memory(
        Setting(**{"classes": 100_000, "dim": 64, **options}), limit=ENOUGH
    ).peak.parts[name]


def test_parts_follow_from_the_setting():
    """By hand: the centers are classes × dim × 4 bytes, half of that in bfloat16, and so on."""
    whole = 100_000 * 64 * 4
    assert part("centers") == whole
    assert part("centers", storage="bfloat16", update="sgd") == whole // 2
    assert part("centers", subcenters=3) == 3 * whole
    assert part("centers", processes=4) == whole // 4
    assert part("their optimizer's state", update="sgd") == whole
    assert part("their optimizer's state", update="adagrad") == 100_000 * 4
    assert part("their optimizer's state", optimizer="adamw") == 2 * whole
    assert part("their gradient") == whole
    assert part("passing copies of the optimizer", optimizer="adamw") == 2 * whole
    assert part("logits", batch=32) == 32 * 100_000 * 4
    assert part("the margin's own", loss="classwise", processes=4) == 100_000 * 4  # in each of them
    assert part("the margin's own") == 0
    with pytest.raises(KeyError):
        part("their gradient", update="sgd")


def test_the_mode_follows_the_memory():
    setting = Setting(classes=1_000_000, dim=64, update="sgd")
    held = 2 * 1_000_000 * 64 * 4
    logits = 128 * 1_000_000 * 4
    assert plan_memory(setting, limit=held + 2 * logits).mode == "store"
    assert plan_memory(setting, limit=held + 2 * logits - 2).mode == "recompute"
    assert plan_memory(setting.but(classes=100), limit=ENOUGH).mode == "recompute"
    assert plan_memory(setting.but(classes=100, update=None), limit=ENOUGH).mode == "plain"


def test_a_process_counts():
    setting = Setting(classes=10_000, dim=64)
    alone = plan_memory(setting, limit=ENOUGH)
    assert plan_memory(setting, limit=ENOUGH, process=1000).total == alone.total + 1000
    assert alone.total == alone.peak.total == max(moment.total for moment in alone.moments)


def test_alone_nothing_is_sent():
    assert plan_traffic(Setting(classes=1000)) == []


def test_by_hand():
    """Ring: gathering sends all but the own part, adding up sends everything but one part twice."""
    setting = Setting(classes=1000, dim=64, processes=4, batch=8)
    by_name = {one.what: one for one in plan_traffic(setting)}
    assert by_name["embeddings"].size == 32 * 64 * 4
    assert by_name["embeddings"].sent == 3 * 8 * 64 * 4
    assert by_name["gradient of the embeddings"].sent == 2 * 3 * 8 * 64 * 4
    assert "gradient of the network" not in by_name
    named = plan_traffic(Setting(1000, 64, 4, batch=8, network="simple", shape=(1, 28, 28)))
    assert named[-1].what == "gradient of the network"
    assert named[-1].size > 64 * 64


@pytest.mark.parametrize(
    "options",
    [{}, {"subcenters": 2}, {"loss": "intertopk"}, {"loss": "curricularface", "sample": 0.5}],
)
def test_as_a_step_calls_them(tmp_path, options):
    """Every collective of a step, of the same kind and size, in the same order."""
    setting = Setting(classes=3000, dim=16, processes=2, batch=8, update="sgd", **options)
    result = tmp_path / "calls.json"
    words = ["-m", "support.collectives", str(result), json.dumps(setting.json())]
    done = subprocess.run(
        [*TORCHRUN, "--nproc-per-node=2", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(result.read_text(encoding="utf-8"))
    assert seen == [[one.how, one.size] for one in plan_traffic(setting)]


def test_time_by_hand():
    setting = Setting(classes=1_000_000, dim=512, batch=100, mode="store", update="sgd")
    plan = make_plan(setting, limit=64 * GIB, machine=ROUND)
    assert plan.seconds["products with the centers"] == pytest.approx(3 * 2 * 512e8 / 1e12)
    assert plan.seconds["passes over the logits"] == pytest.approx(18 * 1e8 * 4 / 2e11)
    assert plan.seconds["updating the centers"] == pytest.approx(4 * 512e6 * 4 / 1e11)
    anew = make_plan(setting.but(mode="recompute"), limit=64 * GIB, machine=ROUND)
    assert anew.seconds["products with the centers"] == pytest.approx(4 * 2 * 512e8 / 1e12)


def test_lean_centers_take_a_kilobyte():
    plan = make_plan(Setting(10**7, storage="bfloat16", update="adagrad", sample=0.1), limit=GIB)
    assert plan.bytes_per_class == 1028
