"""`arcset train` on folders too small to measure everything: it ends, and says what is missing."""

import json
import re

import numpy as np
import pytest

from arcset.evaluation import Thresholds
from arcset.runs import Run
from support.photos import photos

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
        assert result["rough"] == Thresholds.load(run.path / "threshold.json").rough
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
    assert result.equal_error is not None  # of two validation identities
    for told in ("run/report.html", "run/README.md", f"{result.equal_error.threshold:.4f}"):
        assert told in done.out
    assert "arcset verify run" in done.out
    config = Run.open(tmp_path / "run").config
    for setting in (config.network, config.loss, config.optimizer, config.scale, config.margin):
        assert str(setting) in done.err
    assert "2 identities for validation" in done.err
    assert "21 identities" in done.err
    judged = arcset_command("evaluate", "run", "--device", "cpu", "--no-report")
    top = "\n".join(judged.out.splitlines()[:10])
    for told in ("AUC", "EER", f"{result.equal_error.threshold:.4f}"):
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
