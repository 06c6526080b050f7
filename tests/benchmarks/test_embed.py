"""benchmarks/embed.py at a size where it takes seconds."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "embed.py"


@pytest.mark.long
def test_all_ways_are_measured_on_the_same_images(tmp_path):
    words = ["--only=conv4", "--repeats=2", "--count=600", f"--out={tmp_path}"]
    command = [sys.executable, str(SCRIPT), *words]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    content = json.loads((tmp_path / "embed.json").read_text(encoding="utf-8"))
    assert [(cell["network"], cell["processes"]) for cell in content["cells"]] == [
        ("conv4", 1),
        ("conv4", 2),
    ]
    for cell in content["cells"]:
        rates = cell["rates"]
        assert set(rates) == {"bare", "files", "pack"}
        assert all(len(turns) == 2 and min(turns) > 0 for turns in rates.values())
        for way, ratio in cell["ratios"].items():
            turns = zip(rates[way], rates["bare"], strict=True)
            assert ratio == pytest.approx(statistics.median(a / b for a, b in turns))
            assert f"{ratio:.2f}" in shown
