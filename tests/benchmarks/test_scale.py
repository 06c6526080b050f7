"""benchmarks/scale.py at a size where it takes seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "scale.py"

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),  # a minute and a half of work, each part in a process of its own
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]


def run(*words):
    command = [sys.executable, str(SCRIPT), "--small", "--threads=1", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_part(tmp_path):
    done = run(f"--out={tmp_path}")
    assert done.returncode == 0, done.stderr[-3000:]
    content = json.loads((tmp_path / "scale.json").read_text(encoding="utf-8"))
    assert content["met"] is None
    sampling = content["sampling"]
    assert list(sampling["seconds"]) == ["1.0", "0.03", "0.05", "0.1", "0.2", "0.4"]
    assert min(sampling["median"].values()) > 0
    assert min(sampling["floor"].values()) > 0
    assert sampling["faster"] == sampling["median"]["1.0"] / sampling["median"]["0.1"]
    sharing = content["sharing"]
    assert len(sharing["each"]) == 2
    assert sharing["ratio"] == max(sharing["each"]) / sharing["one"]
    assert content["many"]["stored"] == 2 * 64 + 4
    assert content["many"]["losses"][-1] < content["many"]["losses"][0]
    assert len(content["planned"]) == 7
    for row in content["planned"]:
        assert 0.5 < row["planned"] / row["measured"] < 2
    for count in ("1", "2"):
        for losses, centers in content["exact"][count].values():
            assert losses < 1e-9
            assert centers < 1e-8
    assert min(content["peers"]["sampled"]["median"].values()) > 0
    assert "NOT MET" not in done.stdout


def test_only_one(tmp_path):
    done = run(f"--out={tmp_path}", "--only=exact")
    assert done.returncode == 0, done.stderr[-3000:]
    content = json.loads((tmp_path / "scale.json").read_text(encoding="utf-8"))
    assert "sampling" not in content
    assert content["exact"]
    assert run("--only=everything").returncode == 2
