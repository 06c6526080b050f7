"""benchmarks/retrieval.py at a size where it takes seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "retrieval.py"


@pytest.mark.parametrize("more", [(), pytest.param(("--everything",), marks=pytest.mark.long)])
def test_all_give_the_same_figures(tmp_path, more):
    """The one benchmark that `make test` runs: the others take longer to start."""
    words = ["--count=300", "--dim=16", "--classes=30,3", "--repeats=2", f"--out={tmp_path}"]
    command = [sys.executable, str(SCRIPT), *words, *more]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
    shown = done.stdout
    content = json.loads((tmp_path / "retrieval.json").read_text(encoding="utf-8"))
    assert [cell["classes"] for cell in content["cells"]] == [30, 3]
    for cell in content["cells"]:
        assert len(cell["seconds"]) >= 2
        for name, seconds in cell["seconds"].items():
            assert name in shown
            assert len(seconds) == 2
            assert min(seconds) <= cell["medians"][name] <= max(seconds)
            assert cell["values"][name] == pytest.approx(cell["values"]["arcset"], abs=1e-5)
