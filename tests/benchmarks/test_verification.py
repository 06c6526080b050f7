"""benchmarks/verification.py at a size where it takes seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "verification.py"


@pytest.mark.long  # several processes, each of which imports everything
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_times_and_memory(tmp_path):
    words = ["--small=300", "--large=600", "--middle=500", "--dim=16", "--repeats=2", "--threads=1"]
    command = [sys.executable, str(SCRIPT), *words, f"--out={tmp_path}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    content = json.loads((tmp_path / "verification.json").read_text(encoding="utf-8"))
    assert content["machine"]["threads"] == 1
    small, middle, large = content["cells"]
    assert (small["count"], list(small["contenders"])) == (300, ["roc_curve", "products", "arcset"])
    assert (middle["count"], list(middle["contenders"])) == (500, ["products", "arcset"])
    assert (large["count"], list(large["contenders"])) == (600, ["products", "arcset"])
    rates = [small["contenders"][name]["tar_at_far_1e-3"] for name in ("roc_curve", "arcset")]
    assert rates[0] == pytest.approx(rates[1], abs=1e-9)
    for cell in (small, middle, large):
        for row in cell["contenders"].values():
            assert len(row["seconds"]) == 2
            assert min(row["seconds"]) <= row["median"] <= max(row["seconds"])
            assert row["memory"]["input_bytes"] == cell["count"] * (16 * 4 + 8)
    assert "scikit-learn" in shown
    assert "bare products" in shown
