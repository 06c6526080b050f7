"""`arcset train` from the outside."""

import json
import os
import re
import shutil
import signal
import time

import numpy as np
import pytest

from arcset.cli import main
from arcset.data import Split
from arcset.evaluation import Thresholds
from arcset.runs import Run, RunConfig
from arcset.training import train
from support.forked import started
from support.photos import photos
from support.small_data import images

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


# `arcset train DATA --from RUN`, from one run to the next.


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """24 identities, of which 4 are held out; and a file with 12 more."""
    place = tmp_path_factory.mktemp("old")
    images(place / "more.npz", classes=36, each=10)
    config = RunConfig(
        data=str(images(place / "few.npz", classes=24, each=10)), dim=4, network="glyph", epochs=4,
        batch=32, learning_rate=0.1, scale=8.0, margin=0.3, snapshot=8, augment=["affine"],
        hold_out={"validation": 0.09, "test": 0.09}, patience=3,
    )  # fmt: skip
    return train(config, place / "run", device="cpu")


def test_it_grows_tells_and_goes_on_without_the_old(arcset_command, old, tmp_path) -> None:
    shutil.copytree(old.path, tmp_path / "old")
    (tmp_path / "map.json").write_text('{"c30": "c31", "c35": null}')
    known = set(old.config.class_names)
    done = arcset_command(
        "train", old.path.parent / "more.npz", "--from", "old", "--out", "new", "--mapping",
        "map.json", "--set", "freeze=2", "--device", "cpu", "--json", "--no-report",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "20 identities" in done.err
    run = Run.open("new")
    config, before = run.config, old.config
    for name in ("network", "dim", "loss", "scale", "margin", "augment", "batch", "patience"):
        assert getattr(config, name) == getattr(before, name), name
    assert (config.epochs, config.margin_warm_up, config.freeze) == (1, 0.0, 2)
    assert config.learning_rate == pytest.approx(0.02)
    assert config.start == str(tmp_path / "old")
    split, earlier = Split.load(run.split_file), Split.load(old.split_file)
    assert known <= set(split.train)
    assert set(earlier.test) <= set(split.test)
    assert set(earlier.validation) <= set(split.validation)
    assert not {"c30", "c35"} & {*split.train, *split.validation, *split.test}
    forgetting = json.loads(done.out)["forgetting"]
    assert [row["group"] for row in forgetting] == ["old", "new"]
    assert forgetting[0]["identities"] == 20
    card = " ".join((run.path / "README.md").read_text(encoding="utf-8").split())
    assert "| before | after | change |" in card
    for row in forgetting:
        assert f"| {100 * row['before']:.2f} % | {100 * row['after']:.2f} % |" in card
    (tmp_path / "map.json").unlink()
    again = arcset_command("train", "--resume", "new", "--device", "cpu", "--no-report")
    assert again.code == 0, again.err
    table = " ".join(again.out.split())
    for row in forgetting:
        for quoted in (row["group"], *(f"{100 * row[when]:.2f} %" for when in ("before", "after"))):
            assert quoted in table
    shutil.rmtree(tmp_path / "old")
    longer = arcset_command(
        "train", "--resume", "new", "--epochs", "2", "--device", "cpu", "--no-report"
    )
    assert longer.code == 0, longer.err
    assert str(tmp_path / "old") in longer.err
    judged = arcset_command("evaluate", "new", "--device", "cpu", "--no-report")
    assert judged.code == 0, judged.err


# `arcset train` on folders too small to measure everything: it ends, and says what is missing.


#: By name: how many photos each identity has, further options, and what must be measured.
FOLDERS = {
    "one with ten, the others with three": ([3] * 24 + [10], [], "unseen_auc"),
    "the same, none held out": ([3] * 24 + [10], ["--hold-out", "none"], "accuracy"),
    "two with six": ([6, 6], [], "accuracy"),
    "two with one": ([1, 1], [], None),
    "most with one": ([1] * 300 + [2] * 51 + [6], [], "unseen_auc"),
    "forty with ten": ([10] * 40, [], "unseen_auc"),
}
FAST = ["--epochs", "1", "--network", "mlp", "--dim", "8", "--device", "cpu"]


@pytest.mark.parametrize("name", FOLDERS)
def test_every_folder_ends_in_a_card_a_report_and_a_threshold(arcset_command, tmp_path, name):
    counts, words, measured = FOLDERS[name]
    photos(tmp_path / "photos", counts)
    done = arcset_command("train", "photos", "--out", "run", *FAST, *words, "--json")
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    result, run = json.loads(done.out), Run.open(tmp_path / "run")
    assert len(run.metrics()) == 1
    for file in ("README.md", "report.html", "model.safetensors"):
        assert (run.path / file).stat().st_size, file
    assert not list(run.path.rglob(".*"))  # neither a lock nor a part of a file
    assert measured is None or result[measured] is not None
    assert bool(result["missing"]) == (name != "forty with ten")
    for why in result["missing"].values():
        assert why in done.err

    judged = arcset_command("evaluate", "run", "--allow-overlap", "--device", "cpu", "--json")
    assert judged.code == 0, judged.err
    assert json.loads(judged.out)["samples"] > 0

    first, second = tmp_path / "photos/person 000/0.png", tmp_path / "photos/person 001/0.png"
    answer = arcset_command("verify", "run", first, second, "--json")
    assert answer.code in (0, 1), answer.err
    decided = max(counts) > 1  # two images of one identity: less makes no threshold
    assert (run.path / "threshold.json").exists() == decided
    assert json.loads(answer.out)["decided"] == decided
    if decided:
        made = Thresholds.load(run.path / "threshold.json")
        assert result["rough"] >= made.rough
        assert (result["far"] is None) == (result["expected"] is None) == made.in_training
        assert json.loads(answer.out)["threshold"] == result["threshold"]
        assert f"{result['threshold']:.4f}" in (run.path / "README.md").read_text("utf-8")


def test_what_matters_most_is_printed_first_and_then_what_to_do_next(arcset_command, tmp_path):
    photos(tmp_path / "photos", [6] * 25)
    (tmp_path / "photos/person 000/broken.png").write_bytes(b"no picture")
    done = arcset_command("train", "photos", "--out", "run", *FAST, "--licence", "CC0")
    assert done.code == 0, done.err
    for quoted in ("skipped 1 file", "person 000/broken.png"):
        assert quoted in done.err
    assert "CC0" in (tmp_path / "run/README.md").read_text(encoding="utf-8")
    rows = ["unseen TAR", "unseen EER", "unseen AUC", "unseen recall@1", "accuracy", "dunn"]
    places = [done.out.index(row) for row in rows]
    assert places == sorted(places)
    result = Thresholds.load(tmp_path / "run" / "threshold.json")
    assert result.origin == "10 held-out identities"
    for told in ("run/report.html", "run/README.md", f"{result.usual().threshold:.4f}"):
        assert told in done.out
    assert "arcset verify run" in done.out
    config = Run.open(tmp_path / "run").config
    for setting in (config.network, config.loss, config.optimizer, config.scale, config.margin):
        assert str(setting) in done.err
    assert "5 identities for validation" in done.err
    assert "15 identities" in done.err
    judged = arcset_command("evaluate", "run", "--device", "cpu", "--no-report")
    top = "\n".join(judged.out.splitlines()[:10])
    for told in ("AUC", "EER", f"{result.usual().threshold:.4f}"):
        assert told in top


def test_a_report_that_cannot_be_written_loses_nothing_else(arcset_command, tmp_path):
    photos(tmp_path / "photos", [3, 3])
    (tmp_path / "run" / "report.html").mkdir(parents=True)
    done = arcset_command("train", "photos", "--out", "run", *FAST, "--json")
    assert done.code == 2  # a folder with something else in it
    (tmp_path / "run" / "report.html").rmdir()
    assert arcset_command("train", "photos", "--out", "run", *FAST, "--no-report").code == 0
    for file in ("README.md", "threshold.json"):
        (tmp_path / "run" / file).unlink()
    (tmp_path / "run" / "report.html").mkdir()
    done = arcset_command("train", "--resume", "run", "--json")
    assert done.code == 2
    assert "report.html" in done.err
    result = json.loads(done.out)
    assert (result["run"], result["report"]) == ("run", None)
    assert (tmp_path / "run" / "README.md").exists()
    assert (tmp_path / "run" / "threshold.json").exists()


def test_an_infinite_index_is_told_from_one_that_was_not_measured(arcset_command, tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (3, 8, 8), np.uint8)
    np.savez(tmp_path / "same.npz", images=pictures.repeat(20, 0), labels=np.arange(3).repeat(20))
    done = arcset_command("train", "same.npz", "--out", "run", *FAST, "--hold-out", "none")
    assert done.code == 0, done.err
    assert re.search(r"dunn .* ∞ ", done.out)
