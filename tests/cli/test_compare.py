"""`arcset compare` and `arcset demo` from the outside."""

import json
import shlex

import pytest

from arcset.cli import demo
from arcset.runs import Run
from support.small_data import images

SMALL = ["--epochs", "1", "--network", "mlp", "--device", "cpu"]


# Grids


@pytest.fixture
def words(tmp_path):
    """A comparison of data that has validation and unseen identities."""
    images(tmp_path / "a.npz", classes=24, noise=60)
    words = shlex.split("compare a.npz --dim 4 --batch 16 --set snapshot=20 --out out")
    return words + SMALL


def test_a_grid(arcset_command, words, tmp_path):
    words += ["--set", "margin=0.1,0.4", "--set", "loss=arcface,softmax", "--no-report"]
    done = arcset_command(*words)
    assert done.code == 0, done.err
    assert "softmax has no margin" in done.err
    rows = [line.split("│") for line in done.out.splitlines() if line.startswith("│")]
    assert {tuple(cell.strip() for cell in row[1:3]) for row in rows} == {
        *(("0.1", "arcface"), ("0.4", "arcface"), ("–", "softmax"))
    }
    scores = [float(row[3]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    made = {path.name for path in (tmp_path / "out").iterdir()}
    folders = {"margin=0.1-loss=arcface-0", "margin=0.4-loss=arcface-0", "loss=softmax-0"}
    assert made == {*folders, "comparison.json"}

    again = arcset_command(*words, "--json")
    content = json.loads(again.out)
    assert content["grid"]["margin"] == [0.1, 0.4]
    assert content["chosen_by"] == "validation map"
    best = content["best"]
    assert best["command"] in done.out
    retrained = arcset_command(*shlex.split(best["command"])[1:], "--no-report", "--json")
    assert retrained.code == 0, retrained.err
    run = next(run for run in content["runs"] if run["name"] == best["name"])
    assert json.loads(retrained.out)["unseen_map"] == run["unseen_map"]
    lines = [Run.open(tmp_path / place).metrics()[-1] for place in ("runs/best", run["run"])]
    assert lines[0]["loss"] == lines[1]["loss"]

    other = arcset_command(*words, "--set", "batch=17")
    assert other.code == 2
    assert "batch 16" in other.err


@pytest.mark.long
def test_the_report_of_a_grid(arcset_command, words, tmp_path):
    done = arcset_command(*words, "--set", "margin=0.1,0.4")
    assert done.code == 0, done.err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "took no part in the choice" in page
    assert "margin=0.4" in page
    assert '<th scope="col">variant</th>' in page


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["margin=0.2,9"], "9.0"),
        (["margin=0.2,0.3", "network"], "network"),
        (["margin=0.2,"], "margin=0.2,"),
        (["margin=0.2", "margin=0.3"], "margin=A,B"),
        (["recipe=orl,mnist"], "--recipe"),
        (["epochs=1,x"], "'x'"),
    ],
)
def test_nothing_is_written_for_a_wrong_value(arcset_command, words, tmp_path, wrong, message):
    done = arcset_command(*words, *(word for setting in wrong for word in ("--set", setting)))
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "out").exists()


def test_losses_beside_a_grid_are_values_of_it(arcset_command, words):
    done = arcset_command(*words, "--set", "margin=0.2,0.3", "--losses", "arcface,cosface")
    assert done.code == 2
    assert "--set loss=" in done.err


# The demo


def summary(**measures):
    losses = ("arcface", "normface")
    return {
        loss: {name: {"mean": values[number]} for name, values in measures.items()}
        for number, loss in enumerate(losses)
    }


def test_the_conclusion_follows_the_figures():
    good = demo.conclude(
        summary(accuracy=(0.99, 0.985), dunn_trimmed=(18, 11), unseen_auc=(0.6, 0.7))
    )
    assert "so accuracy does not choose between them" in good
    assert "makes classes more compact" in good
    assert "no promise for the unknown" in good
    bad = demo.conclude(summary(accuracy=(0.2, 0.3), dunn_trimmed=(0, 0), unseen_auc=(0.9, 0.95)))
    assert "does not choose" not in bad
    assert "makes classes no more compact" in bad
    assert "no promise" not in bad
