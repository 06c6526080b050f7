"""The benchmarks of galleries at a size where they take seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "benchmarks"
pytestmark = pytest.mark.long


def results(script, tmp_path, *words):
    command = [sys.executable, str(SCRIPTS / script), *words, f"--out={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    file = (tmp_path / script).with_suffix(".json")
    assert file.exists(), done.stderr
    return json.loads(file.read_text(encoding="utf-8"))


def test_beside_the_least_that_its_work_could_take(tmp_path):
    words = ["--samples=300", "--open=500", "--dim=16", "--rounds=3", f"--place={tmp_path}"]
    content = results("gallery.py", tmp_path, *words)
    for name in ("identify", "open", "enroll one"):
        found, bar = content[name], content["bars"][name]
        assert len(found["arcset"]) == len(found["bare"]) == 3
        ratio = found["ratio"]
        assert found["met"] == (ratio >= bar if name == "enroll one" else ratio <= bar)
    assert [file.name for file in tmp_path.iterdir()] == ["gallery.json"]  # nothing else is left


def test_indexes_of_milvus(tmp_path):
    words = ["--subjects=200", "--dim=16", "--probes=40", f"--server=milvus:{tmp_path}/g.db"]
    content = results("milvus.py", tmp_path, *words)
    assert content["identify, session, ms"] > 0
    assert list(content["indexes"]) == ["file", "flat", "hnsw", "ivf_flat"]
    for found in content["indexes"].values():
        assert found["highest gain"] <= 1e-9
        assert 0 < found["recognized"] <= 1
        assert found["let in"] <= content["indexes"]["file"]["let in"] <= 0.05
    assert content["indexes"]["flat"]["overlooked"] == 0
