"""benchmarks/serve.py at a size where it takes seconds: 2,000 requests, and none fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serve.py"


@pytest.mark.long
@pytest.mark.parametrize("count", [400, 2000])
def test_so_many_requests_and_none_fails(tmp_path, count):
    words = [f"--requests={count}", "--subjects=200", "--network=simple", "--size=28"]
    words.append(f"--turn={count // 2}")
    command = [sys.executable, str(SCRIPT), *words, f"--place={tmp_path}", f"--out={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "serve.json").read_text(encoding="utf-8"))
    assert content["failed"] == 0, content["wrong"]
    assert content["exit"] == 0
    assert content["bars"]["failed"]
    assert 0 < content["latency"]["p50"] <= content["latency"]["p99"]
    assert len(content["served"]) == len(content["offline"]) == 2
    assert f"0 of {count:,} requests" in done.stdout
    assert f"p99 {content['latency']['p99']:.3f}" in done.stdout
