"""`arcset sweep` from the outside, and how it reads its grid."""

import json
import re
import shlex

import pytest

from arcset.cli.sweep_grid import read_values, span
from arcset.errors import OptionError
from arcset.runs import Run
from support.small_data import images

SMALL = ["--dim", "4", "--epochs", "1", "--batch", "16", "--network", "mlp", "--device", "cpu"]
QUICK = ["--set", "snapshot=20", "--set", "augment=none"]


def spanned(*settings, **given):
    return span({"data": "orl", **given}, list(settings), recipe=None, read=lambda config: None)


def test_the_last_setting_varies_fastest():
    found = spanned("margin=0.2,0.3", "epochs=3", "scale=16,32")
    assert found.grid == {"margin": [0.2, 0.3], "scale": [16, 32]}
    assert [point.name for point in found.points] == [
        *("margin=0.2,scale=16", "margin=0.2,scale=32"),
        *("margin=0.3,scale=16", "margin=0.3,scale=32"),
    ]
    last = found.points[-1].config
    assert (last.loss, last.margin, last.scale, last.epochs) == ("arcface", 0.3, 32.0, 3)
    assert found.notes == []


def test_what_a_loss_does_not_have_is_ignored_once_and_equal_runs_are_one():
    found = spanned("loss=softmax,arcface", "margin=0.2,0.3", "bias=false,true", "fallback=easy")
    assert [point.name for point in found.points] == [
        "loss=softmax,bias=false",
        "loss=softmax,bias=true",
        *(f"loss=arcface,margin={m},bias={b}" for m in (0.2, 0.3) for b in ("false", "true")),
    ]
    assert found.notes == [
        "softmax has no margin, and ignores it",
        "softmax has no fallback, and ignores it",
    ]
    assert found.points[0].config.options == {"bias": False}
    assert found.points[-1].config.options == {"bias": True, "fallback": "easy"}
    general = spanned("loss=softmax,normface", scale=16.0)
    assert general.notes == ["softmax has no scale, and ignores it"]
    assert [point.config.scale for point in general.points] == [None, 16.0]


def test_values_with_several_parts():
    found = spanned("augment=none,affine:rotate=10+flip", "size=32,64x48", "hold_out=0.1,0.2")
    last = found.points[-1]
    assert last.name == "augment=affine:rotate=10+flip,size=64x48"
    assert last.config.augment == ("affine:rotate=10", "flip")
    assert last.config.size == (64, 48)
    assert last.config.hold_out == {"validation": 0.1, "test": 0.2}
    assert len(found.points) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["margin=0.2"], "margin=0.2"),
        (["margin"], "margin"),
        (["margin=0.2,", "x=1"], "margin=0.2,"),
        (["margin=0.2,0.20"], "0.20"),
        (["margin=0.2", "margin=0.3"], "margin=A,B"),
        (["seed=1,2"], "--seeds"),
        (["data=a,b"], "data=a,b"),
        (["best_by=map,auc"], "best_by"),
        (["margn=0.2,0.3"], "'margn'"),
        (["loss=softmax,center", "margin=0.1,0.2"], "'margin'"),
        (["loss=softmax,arcfac"], "'arcface'"),
        (["recipe=orl,mnist"], "--recipe"),
        (["epochs=1,x"], "epochs='x'"),
        (["epochs=1,0"], "epochs=0"),
    ],
)
def test_wrong_grids(settings, message):
    with pytest.raises(OptionError, match=message):
        spanned(*settings)


def test_commas_within_a_value():
    assert read_values(["classes=0,2,5"]) == {"classes": ["0,2,5"]}


@pytest.fixture
def data(tmp_path):
    images(tmp_path / "a.npz", classes=24, noise=60)
    return "a.npz"


def test_own_data(arcset_command, data, tmp_path):
    words = [*["sweep", data, "--set", "margin=0.1,0.4", "--set", "loss=arcface,softmax"], *SMALL]
    words += [*QUICK, "--out", "out"]
    done = arcset_command(*words, "--no-report")
    assert done.code == 0, done.err
    assert "softmax has no margin" in done.err
    assert "3 runs" in done.err
    assert "validation MAP@R" in done.out
    rows = [line.split("│") for line in done.out.splitlines() if line.startswith("│")]
    assert len(rows) == 3
    scores = [float(row[3]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert {tuple(cell.strip() for cell in row[1:3]) for row in rows} == {
        *(("0.1", "arcface"), ("0.4", "arcface"), ("–", "softmax"))
    }
    made = {path.name for path in (tmp_path / "out").iterdir()}
    folders = {"margin=0.1,loss=arcface-0", "margin=0.4,loss=arcface-0", "loss=softmax-0"}
    assert made == {*folders, "sweep.json"}

    again = arcset_command(*words, "--no-report", "--json")
    content = json.loads(again.out)
    assert {"grid", "chosen_by", "best", "runs"} <= content.keys()
    assert content["grid"] == {"margin": [0.1, 0.4], "loss": ["arcface", "softmax"]}
    assert content["chosen_by"] == "validation map"
    assert [run["name"] for run in content["runs"]] == [
        *("margin=0.1,loss=arcface", "loss=softmax", "margin=0.4,loss=arcface")
    ]
    best = content["best"]
    assert best["command"] in done.out

    retrained = arcset_command(*shlex.split(best["command"])[1:], "--no-report", "--json")
    assert retrained.code == 0, retrained.err
    run = next(run for run in content["runs"] if run["name"] == best["name"])
    assert json.loads(retrained.out)["unseen_map"] == run["unseen_map"]
    lines = [Run.open(tmp_path / place).metrics()[-1] for place in ("runs/best", run["run"])]
    assert lines[0]["loss"] == lines[1]["loss"]

    other = arcset_command(*words, "--no-report", "--seeds", "2")
    assert other.code == 2
    assert re.search(r"\bout\b.*seeds.*\b1\b.*\b2\b", other.err)


@pytest.mark.long
def test_report(arcset_command, data, tmp_path):
    words = ["sweep", data, "--set", "margin=0.1,0.4", *SMALL, *QUICK, "--out", "out"]
    done = arcset_command(*words)
    assert done.code == 0, done.err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "took no part in the choice" in page
    assert "margin=0.4" in page
    assert "not used for choosing" in page
    assert '<th scope="col">point</th>' in page
    assert '<th scope="col">loss</th>' not in page
    assert "<h2>Each point side by side</h2>" in page
    assert "One run per point" in page


def test_nothing_is_written_for_a_wrong_value(arcset_command, data, tmp_path):
    words = ["sweep", data, *SMALL, "--out", "out"]
    for wrong, message in (
        ("margin=0.2,9", "9.0"),
        ("network=mlp,big", "'big'"),
        ("augment=none,flop", "'flop'"),
        ("fallback=easy,hard", "'hard'"),
    ):
        done = arcset_command(*words, "--set", wrong)
        assert done.code == 2
        assert message in done.err
        assert "2 points" not in done.err  # promised before it is known that they can be trained
    assert not (tmp_path / "out").exists()


def test_without_validation_identities(arcset_command):
    words = ["sweep", "mnist-sample", "--classes", "0-1", *SMALL[:-2], "--batch", "256"]
    words += ["--set", "margin=0.1,0.3", "--set", "snapshot=0", "--no-report", "--out", "out"]
    done = arcset_command(*words, "--device", "cpu")
    assert done.code == 0, done.err
    assert "unseen MAP@R" in done.out
    assert "validation MAP@R" not in done.out
