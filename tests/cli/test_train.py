"""`arcset train` from the outside."""

import json
import os
import re
import signal
import time

import pytest

from arcset.cli import main
from arcset.data import Split
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


def test_train_measures_and_saves(arcset_command, tmp_path):
    done = arcset_command("train", *SMALL, "--epochs", "1", "--out", "run", "--json")
    assert done.code == 0
    result = json.loads(done.out)
    assert result["run"] == "run"
    assert result["accuracy"] > 0.5
    assert 0 <= result["unseen_auc"] <= 1
    assert result["config"]["loss"] == "arcface"
    assert Run.open(tmp_path / "run").config.epochs == 1
    table = arcset_command("train", "--resume", "run", "--no-report")  # finished: measures again
    assert table.code == 0
    assert "dunn_trimmed" in table.out


def test_second_train_into_the_same_folder_is_refused(arcset_command):
    arcset_command("train", *SMALL, "--epochs", "1", "--out", "run")
    again = arcset_command("train", *SMALL, "--epochs", "1", "--out", "run")
    assert again.code == 2
    assert "--resume" in again.err
    assert arcset_command("train", *SMALL, "--epochs", "1", "--out", "run", "--force").code == 0


def test_a_continued_run_may_be_longer_and_nothing_else(arcset_command, tmp_path):
    words = ["train", *SMALL, "--epochs", "1", "--out", "run", "--no-report"]
    assert arcset_command(*words).code == 0
    longer = arcset_command("train", "--resume", "run", "--epochs", "2", "--no-report")
    assert longer.code == 0
    assert len(Run.open(tmp_path / "run").metrics()) == 2
    other = arcset_command("train", "--resume", "run", "--set", "seed=5", "--no-report")
    assert other.code == 2
    assert re.search(r"seed.*\b0\b.*\b5\b.*epochs", other.err)
    odd = arcset_command("train", "--resume", "run", "--set", "subcenters=2")
    assert odd.code == 2
    assert "subcenters" in odd.err
    network = arcset_command("train", "--resume", "run", "--network", "vgg8")
    assert network.code == 2
    assert "network" in network.err
    assert len(Run.open(tmp_path / "run").metrics()) == 2
    again = [*words, "--continue"]
    assert arcset_command(*again).code == 0  # it is there, and complete for one epoch
    asked = arcset_command(*again, "--seed", "5")
    assert asked.code == 2
    assert re.search(r"seed.*\b0\b.*\b5\b", asked.err)


def test_configuration_file(arcset_command, tmp_path):
    first = ["--loss", "arcface:fallback=easy", "--scale", "7", "--epochs", "1", "--out", "a"]
    arcset_command("train", *SMALL, *first)
    again = arcset_command(
        "train", "--config", "a/config.toml", "--out", "b", "--seed", "3", "--no-report"
    )
    assert again.code == 0
    a, b = (Run.open(tmp_path / name).config for name in "ab")
    assert b == a.replace(seed=3)
    arcset_command(
        *["train", "--config", "a/config.toml", "--out", "c", "--loss", "cosface", "--no-report"]
    )
    c = Run.open(tmp_path / "c").config
    assert (c.loss, c.options, c.dim) == ("cosface", {}, 2)


def test_one_unseen_class_and_the_report(arcset_command, tmp_path):
    words = ["mnist-sample", "--classes", "0-8", "--dim", "2", "--epochs", "1", "--batch", "512"]
    words += ["--network", "mlp", "--set", "snapshot=20"]
    done = arcset_command("train", *words, "--out", "odd [/name] :star:")
    assert done.code == 0
    assert "odd [/name] :star:" in done.out
    assert (tmp_path / "odd [/name] :star:" / "report.html").stat().st_size > 50_000


def test_a_split_file(arcset_command, tmp_path):
    shares = ["--fractions", "0.6,0.2,0.2"]
    arcset_command("data", "split", "mnist-sample", "--out", "mine.json", *shares)
    words = ["train", "mnist-sample", "--dim", "4", "--epochs", "1", "--device", "cpu"]
    words += ["--network", "mlp", "--set", "snapshot=10", "--no-report"]
    done = arcset_command(*words, "--split", "mine.json", "--out", "a", "--json")
    assert done.code == 0
    result = json.loads(done.out)
    split = Split.load(tmp_path / "a" / "split.json")
    assert result["config"]["split"] == "mine.json"
    assert tuple(result["config"]["class_names"]) == split.train
    (tmp_path / "mine.json").unlink()  # from here on, the copy serves
    assert arcset_command("train", "--resume", "a", "--no-report").code == 0
    again = ["train", "--config", "a/config.toml", "--no-report"]
    assert arcset_command(*again, "--out", "b").code == 0
    assert Split.load(tmp_path / "b" / "split.json") == split
    assert arcset_command(*again, "--out", "c", "--classes", "0-2").code == 0
    assert Run.open(tmp_path / "c").config.split is None
    assert not (tmp_path / "c" / "split.json").exists()
    both = arcset_command(*words, "--split", "a/split.json", "--classes", "0-2", "--out", "d")
    assert both.code == 2
    assert "'0-2'" in both.err


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
