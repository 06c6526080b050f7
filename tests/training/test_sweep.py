"""A grid of runs: what is trained, what is chosen, and going on after a kill."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch

from arcset import OptionError, RunError, TrainingError
from arcset.runs import Run, RunConfig
from arcset.training import Point, Sweep, sweep, train
from support.small_data import Remembers, images

SETTINGS = {
    "dim": 4,
    "epochs": 3,
    "batch": 16,
    "network": "mlp",
    "scale": 16.0,
    "snapshot": 0,
    "checkpoint_steps": 1,
}
HELD_OUT = {"validation": 0.3, "test": 0.3}


def points(config, margins=(0.1, 0.4)):
    return [Point({"margin": margin}, config.replace(margin=margin)) for margin in margins]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    place = images(tmp_path_factory.mktemp("data") / "a.npz", classes=15, noise=140)
    return RunConfig(data=str(place), hold_out=HELD_OUT, **SETTINGS)


@pytest.fixture(scope="module")
def swept(config, tmp_path_factory):
    place = tmp_path_factory.mktemp("sweep") / "out"
    return place, sweep(points(config), 2, place, device="cpu")


def figures(outcome):
    """Without what differs between two folders and two days."""
    left_out = ("run", "seconds")
    return [{k: v for k, v in run.items() if k not in left_out} for run in outcome["runs"]]


def test_runs_and_choice(swept):
    place, outcome = swept
    named = [(run["name"], run["seed"]) for run in outcome.runs]
    assert named == [(f"margin={margin}", seed) for margin in (0.1, 0.4) for seed in (0, 1)]
    for run in outcome.runs:
        found = Run.open(run["run"])
        assert found.path == place / f"{run['name']}-{run['seed']}"
        assert (found.config.margin, found.config.seed) == (run["values"]["margin"], run["seed"])
        kept = max(line["validation"]["map"] for line in found.metrics())
        assert run["validation_map"] == kept
    assert {run["epoch"] for run in outcome.runs} - {1, 3}, "some epoch between is the best"
    means = {
        name: sum(run["validation_map"] for run in outcome.runs if run["name"] == name) / 2
        for name in ("margin=0.1", "margin=0.4")
    }
    assert outcome.chosen_by == "validation map"
    assert outcome.best["name"] == max(means, key=means.get)
    assert outcome.best["score"] == pytest.approx(max(means.values()))
    assert list(outcome.summary) == sorted(means, key=means.get, reverse=True)
    assert "MAP@R on 4 validation identities" in outcome.note
    assert set(outcome.differences) == {min(means, key=means.get)}


def test_it_says_that_all_is_well_only_when_it_is(config, tmp_path):
    said = []
    for wrong in ({"margin": 9.0}, {"freeze": 1}):
        with pytest.raises(OptionError):
            sweep([*points(config), Point(wrong, config.replace(**wrong))], 1, tmp_path / "out",
                  device="cpu", ready=lambda: said.append("ready"))  # fmt: skip
    assert not said
    assert not (tmp_path / "out").exists()


def test_the_file_holds_it_all(swept):
    place, outcome = swept
    saved = json.loads((place / "sweep.json").read_text())
    assert saved["grid"] == {"margin": [0.1, 0.4]}
    assert saved["best"] == outcome.best
    assert saved["chosen_by"] == "validation map"
    assert saved["runs"] == outcome.json()["runs"]
    assert {path.name for path in place.iterdir()} == {
        *("margin=0.1-0", "margin=0.1-1", "margin=0.4-0", "margin=0.4-1", "sweep.json")
    }


def test_again_nothing_is_trained(config, swept):
    place, outcome = swept
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*.safetensors")}
    before = {path: when for path, when in before.items() if "samples" not in path.name}
    watcher = Remembers()
    again = sweep(points(config), 2, place, device="cpu", watcher=watcher)
    assert watcher.steps == []
    assert figures(again.json()) == figures(outcome.json())
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_another_sweep_in_the_folder_is_refused(config, swept):
    place, _ = swept
    before = (place / "sweep.json").read_bytes()
    for asked, seeds, message in (
        (points(config, (0.1, 0.3)), 2, r"margin 0\.1, 0\.4.*0\.1, 0\.3"),
        (points(config), 1, "seeds 2.* 1 "),
        ([Point({"dim": 4}, config)], 2, r"margin 0\.1, 0\.4"),
        (points(config.replace(epochs=4)), 2, "epochs 3.* 4 "),
    ):
        with pytest.raises(RunError, match=message):
            sweep(asked, seeds, place, device="cpu")
    assert (place / "sweep.json").read_bytes() == before


def test_stopped_in_a_run_it_goes_on_in_its_step(config, swept, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        sweep(points(config), 2, tmp_path / "out", device="cpu", watcher=Remembers(stop=4))
    saved = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert (saved["best"], saved["runs"]) == (None, [])
    watcher = Remembers()
    again = sweep(points(config), 2, tmp_path / "out", device="cpu", watcher=watcher)
    total = 4 * watcher.total  # of four runs
    assert len(watcher.steps) == total - 3  # the fourth step was told of, and not yet kept
    assert figures(again.json()) == figures(swept[1].json())


SCRIPT = """
import json, os, signal, sys, torch
torch.set_num_threads(1)
from arcset.runs import RunConfig
from arcset.training import Point, sweep
from arcset.training.progress import Silent

class Deadly(Silent):
    left = int(sys.argv[3])
    def stepped(self, now):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

config = RunConfig(**json.loads(sys.argv[1]))
points = [Point({"margin": margin}, config.replace(margin=margin)) for margin in (0.1, 0.4)]
print(json.dumps(sweep(points, 2, sys.argv[2], device="cpu", watcher=Deadly()).json()))
"""


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals as on POSIX")
def test_killed_and_started_again(config, swept, tmp_path):
    """A real process, and SIGKILL in the middle of its second run."""
    whole, place = swept[1].json(), tmp_path / "out"
    counted = Remembers()
    train(config.replace(margin=0.1), tmp_path / "one", device="cpu", watcher=counted)
    settings = config.model_dump_json()
    command = [sys.executable, "-c", SCRIPT, settings, str(place)]
    killed = subprocess.run([*command, str(counted.total + 3)], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    saved = json.loads((place / "sweep.json").read_text())
    assert [run["name"] for run in saved["runs"]] == ["margin=0.1"]
    assert len(Run.open(place / "margin=0.1-1").metrics()) < config.epochs
    assert not (place / "margin=0.4-0").exists()
    first = (place / "margin=0.1-0" / "model.safetensors").stat().st_mtime_ns
    again = [*command, "0"]
    done = subprocess.run(again, capture_output=True, text=True, check=True, timeout=120)
    assert (place / "margin=0.1-0" / "model.safetensors").stat().st_mtime_ns == first
    found = json.loads(done.stdout)
    assert figures(found) == figures(whole)
    assert [found["chosen_by"], found["note"]] == [whole["chosen_by"], whole["note"]]
    assert found["best"]["score"] == whole["best"]["score"]
    for run, other in zip(found["runs"], whole["runs"], strict=True):
        both = (Run.open(entry["run"]).load_model() for entry in (run, other))
        for one, two in zip(*both, strict=True):
            assert all(torch.equal(one[name], two[name]) for name in {**one, **two})


def test_without_validation_identities_it_says_so(config, tmp_path):
    known = ",".join(f"c{number:02d}" for number in range(9))
    config = config.replace(hold_out=None, classes=known, epochs=1)
    outcome = sweep(points(config), 1, tmp_path / "out", device="cpu")
    assert outcome.chosen_by == "unseen map"
    assert not outcome.validated
    assert "which flatters the first" in outcome.note
    assert "--hold-out" in outcome.note
    means = {run["name"]: run["unseen_map"] for run in outcome.runs}
    assert outcome.best["score"] == max(means.values())


def test_another_measure_decides(config, tmp_path):
    config = config.replace(best_by="auc", epochs=1)
    outcome = sweep(points(config), 1, tmp_path / "out", device="cpu")
    assert outcome.chosen_by == "validation auc"
    assert outcome.best["score"] == max(run["validation_auc"] for run in outcome.runs)


def test_a_run_that_breaks_is_left_out(config, tmp_path):
    rates = [Point({"rate": r}, config.replace(learning_rate=r, epochs=1)) for r in (1e30, 0.1)]
    outcome = sweep(rates, 1, tmp_path / "out", device="cpu")
    assert "failed" in outcome.runs[0]
    assert outcome.best["name"] == "rate=0.1"
    assert list(outcome.summary) == ["rate=0.1"]
    with pytest.raises(TrainingError, match="epoch 1"):
        sweep(rates[:1], 1, tmp_path / "other", device="cpu")


def test_wrong_use_is_found_before_anything_is_written(config, tmp_path):
    wrong = [
        ([], 1, "point"),
        (points(config), 0, "seeds"),
        (points(config, (0.1, 0.1)), 1, r"margin=0\.1"),
        (points(config, (0.1, 9.0)), 1, "margin"),
        (points(config.replace(augment=["flop"])), 1, "'flop'"),
        (points(config.replace(per_class=3)), 1, "per_class=3"),
        (points(config.replace(hold_out=None)), 1, "held out"),
        ([*points(config), Point({"x": 1}, config.replace(best_by="auc"))], 1, "best_by"),
    ]
    for asked, seeds, message in wrong:
        with pytest.raises(OptionError, match=message):
            sweep(asked, seeds, tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out" / "margin=0.4-0").mkdir(parents=True)
    (tmp_path / "out" / "margin=0.4-0" / "mine.txt").write_text("")
    with pytest.raises(RunError, match=r"margin=0\.4-0"):
        sweep(points(config), 1, tmp_path / "out", device="cpu")
    assert not (tmp_path / "out" / "sweep.json").exists()
    (tmp_path / "out" / "sweep.json").write_text("{")
    with pytest.raises(RunError, match=r"sweep\.json"):
        sweep(points(config), 1, tmp_path / "out", device="cpu")


def test_names_and_folders():
    config = RunConfig(data="orl")
    values = {"loss": "center:base=arcface", "bias": True, "size": [64, 48], "augment": []}
    point = Point(values, config)
    assert point.name == "loss=center:base=arcface,bias=true,size=64x48,augment=none"
    assert point.folder == "loss=center-base=arcface,bias=true,size=64x48,augment=none"
    long = [Point({"network": f"timm:{'x' * 200}{end}"}, config).folder for end in "ab"]
    assert len(set(long)) == 2
    assert all(len(name) <= 100 for name in long)
    assert Point({"network": "../../x"}, config).folder == "network=..-..-x"


def test_the_order_is_by_the_mean_and_keeps_that_of_the_grid_between_equals():
    config = RunConfig(data="orl")
    grid = [Point({"margin": margin}, config) for margin in (0.1, 0.2, 0.3)]
    scores = {"margin=0.1": (0.5, 0.5), "margin=0.2": (0.9, 0.2), "margin=0.3": (0.4, 0.6)}
    runs = [
        {"name": name, "seed": seed, "run": "x", "validation_map": score, "unseen_map": 1 - score}
        for name, both in scores.items()
        for seed, score in enumerate(both)
    ]
    outcome = Sweep({}, grid, 2, runs)
    assert [point.name for point in outcome.order] == ["margin=0.2", "margin=0.1", "margin=0.3"]
    assert "equal" not in outcome.note
    for run in runs:
        run["validation_map"] = 0.5
    outcome = Sweep({}, grid, 2, runs)
    assert [point.name for point in outcome.order] == list(scores)
    assert outcome.note.endswith("The first 3 are equal, and stand as in the grid.")
