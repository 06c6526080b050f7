"""benchmarks/gallery.py at a size where it takes seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "gallery.py"


@pytest.mark.long
def test_it_compares_what_it_says(tmp_path):
    words = ["--samples=300", "--open=500", "--dim=16", "--rounds=3", f"--out={tmp_path}"]
    command = [sys.executable, str(SCRIPT), *words, f"--place={tmp_path}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    content = json.loads((tmp_path / "gallery.json").read_text(encoding="utf-8"))
    for name, kind in {"identify": 3, "open": 3, "enroll one": 3}.items():
        assert name in shown
        found = content[name]
        assert len(found["arcset"]) == len(found["bare"]) == kind
        assert min(found["arcset"] + found["bare"]) > 0
        bar = content["bars"][name]
        ratio = found["ratio"]
        assert found["met"] == (ratio >= bar if name == "enroll one" else ratio <= bar)
    assert len(content["enroll many"]["arcset"]) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["gallery.json"]  # nothing else is left


@pytest.mark.long
def test_indexes_of_milvus(tmp_path):
    words = ["--subjects=200", "--dim=16", "--probes=40", f"--server=milvus:{tmp_path}/g.db"]
    command = [sys.executable, str(SCRIPT.with_name("milvus.py")), *words, f"--out={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (tmp_path / "milvus.json").exists(), done.stderr
    shown, content = done.stdout, json.loads((tmp_path / "milvus.json").read_text(encoding="utf-8"))
    assert content["identify, session, ms"] > 0
    assert list(content["indexes"]) == ["file", "flat", "hnsw", "ivf_flat"]
    for name, found in content["indexes"].items():
        assert name in shown
        assert found["highest gain"] <= 1e-9
        assert 0 < found["recognized"] <= 1
        assert found["let in"] <= content["indexes"]["file"]["let in"] <= 0.05
    assert content["indexes"]["flat"]["overlooked"] == 0
