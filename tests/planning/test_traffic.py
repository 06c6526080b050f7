"""What is sent, beside what a counting process group sees in a real step."""

import json
import subprocess

import pytest

from arcset.planning import Setting, plan_traffic
from support.processes import TORCHRUN, environment


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


@pytest.mark.long
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
