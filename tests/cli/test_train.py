"""`arcset train` from the outside."""

import json
import os
import signal
import time

import pytest

from arcset.cli import main
from arcset.runs import Run
from support.forked import started

SMALL = [
    "mnist-sample",
    "--classes",
    "0-1",
    "--dim",
    "2",
    "--batch",
    "100",
    "--network",
    "mlp",
    "--set",
    "snapshot=10",
    "--device",
    "cpu",
    "--no-report",
]


def test_one_unseen_class_and_the_report(arcset_command, tmp_path):
    words = ["mnist-sample", "--classes", "0-8", "--dim", "2", "--epochs", "1", "--batch", "512"]
    words += ["--network", "mlp", "--set", "snapshot=20"]
    done = arcset_command("train", *words, "--out", "odd [/name] :star:")
    assert done.code == 0
    assert "odd [/name] :star:" in done.out
    assert (tmp_path / "odd [/name] :star:" / "report.html").stat().st_size > 50_000


@pytest.mark.skipif(os.name == "nt", reason="signals as on POSIX")
@pytest.mark.timeout(600)  # on a busy machine, the first import alone can take minutes
def test_ctrl_c_keeps_the_run_and_resume_finishes_it(arcset_command, tmp_path):
    """A real process, a real SIGINT."""
    options = [*SMALL, "--network", "simple", "--epochs", "5", "--out", "run"]
    told = tmp_path / "told.txt"
    process = started(main, ["train", *options], place=tmp_path, written=told)
    deadline = time.monotonic() + 120
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not metrics.exists() or not metrics.read_text():
        assert process.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    process.join(timeout=60)
    assert process.exitcode == 130
    assert "Traceback" not in told.read_text()
    assert "arcset train --resume run" in told.read_text()
    kept = Run.open(tmp_path / "run").metrics()
    assert 1 <= len(kept) < 5
    done = arcset_command("train", "--resume", "run", "--json", "--no-report")
    assert done.code == 0
    assert json.loads(done.out)["accuracy"] > 0.9
    lines = Run.open(tmp_path / "run").metrics()
    assert [line["epoch"] for line in lines] == list(range(1, 6))
    assert lines[: len(kept)] == kept
