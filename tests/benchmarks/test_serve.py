"""benchmarks/serve.py at a size where it takes seconds: 2,000 requests, and none fails."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serve.py"


def test_two_thousand_requests_and_none_fails(tmp_path):
    words = ["--requests=2000", "--subjects=200", "--network=simple", "--size=28", "--turn=1000"]
    command = [sys.executable, str(SCRIPT), *words, f"--place={tmp_path}", f"--out={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "serve.json").read_text(encoding="utf-8"))
    assert content["failed"] == 0, content["wrong"]
    assert content["exit"] == 0
    assert content["bars"]["failed"]
    assert 0 < content["latency"]["p50"] <= content["latency"]["p99"]
    assert len(content["served"]) == len(content["offline"]) == 2
    assert "0 of 2,000 requests" in done.stdout
    assert f"p99 {content['latency']['p99']:.3f}" in done.stdout
