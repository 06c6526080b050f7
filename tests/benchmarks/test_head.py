"""benchmarks/head.py at a size where it takes seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "head.py"
SIZE = ["--dim=16", "--threads=1", "--repeats=2"]
ALL = [
    "preallocated",
    "allocating",
    "store",
    "recompute",
    "plain",
    "arccos",
    "pml",
    "sgd",
    "fused",
]


def run(*words):
    command = [sys.executable, str(SCRIPT), *SIZE, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_times_of_every_contender(tmp_path):
    shown = run("--classes=300,600", "--batch=8", "--skip-memory", f"--out={tmp_path}")
    content = json.loads((tmp_path / "head.json").read_text(encoding="utf-8"))
    assert content["machine"]["threads"] == 1
    assert [cell["classes"] for cell in content["cells"]] == [300, 600]
    for cell in content["cells"]:
        assert (cell["batch"], cell["dim"], cell["rounds"]) == (8, 16, 2)
        assert cell["weight_bytes"] == cell["classes"] * 16 * 4
        assert list(cell["contenders"]) == ALL
        for row in cell["contenders"].values():
            low, high = row["quartiles"]
            assert len(row["seconds"]) == 2
            assert 0 < low <= row["median"] <= high
            assert row["label"] in shown
            assert "memory" not in row
    assert content["bars"] == []
    assert (tmp_path / "head.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long  # several processes, each of which imports everything
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_in_multiples_of_the_centers(tmp_path):
    """4 MB of centers: the gradient at least lies beside them, and nothing absurd does."""
    run("--classes=65536", "--batch=8", "--only=store", f"--out={tmp_path}")
    (cell,) = json.loads((tmp_path / "head.json").read_text(encoding="utf-8"))["cells"]
    assert list(cell["contenders"]) == ["preallocated", "allocating", "store"]
    for row in cell["contenders"].values():
        assert row["memory"]["bytes"] == pytest.approx(
            row["memory"]["weights"] * cell["weight_bytes"]
        )
        assert 1.5 < row["memory"]["weights"] < 10
