"""benchmarks/export.py at a size where it takes seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "export.py"


@pytest.mark.long
def test_both_are_measured_on_the_same_images(tmp_path):
    words = ["--only=simple", "--repeats=2", "--seconds=0.01", "--threads=1", f"--out={tmp_path}"]
    command = [sys.executable, str(SCRIPT), *words]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    content = json.loads((tmp_path / "export.json").read_text(encoding="utf-8"))
    assert [(cell["network"], cell["batch"]) for cell in content["cells"]] == [
        ("simple", 256),
        ("simple", 1),
    ]
    for cell in content["cells"]:
        assert cell["min_cosine"] > 0.99999
        assert all(len(rates) == 2 and min(rates) > 0 for rates in cell["rates"].values())
        first, second = (
            ours / theirs
            for ours, theirs in zip(
                *(cell["rates"][name] for name in ("ONNX Runtime", "torch")), strict=True
            )
        )
        assert min(first, second) <= cell["ratio"] <= max(first, second)
        assert f"{cell['ratio']:.2f}" in shown
