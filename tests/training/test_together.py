"""Runs of several processes: the same as of one, and saved by some processes for others."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from arcset import OptionError, RunError
from arcset.runs import Run, RunConfig
from arcset.training import resume, train
from support.elastic import done
from support.processes import TORCHRUN, environment
from support.small_data import images

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="processes as on POSIX"),
    pytest.mark.timeout(900),
]

BASE = {
    "network": "plain",
    "dtype": "float64",
    "dim": 8,
    "epochs": 2,
    "batch": 13,  # the last batch of an epoch is too small to be shared by three
    "snapshot": 5,
    "learning_rate": 0.02,
    "new_classes": "rotations",
    "ema": 0.9,
    "hold_out": {"validation": 0.2, "test": 0.2},
    "checkpoint_steps": 5,
    "checkpoints": 100,
}
SETTINGS = {
    "arcface": {"clip": 1.0},
    "parts": {"accumulate": 2, "optimizer": "adamw", "learning_rate": 1e-3, "center_rate": 0.5},
    "subcenters": {"options": {"subcenters": 2, "bias": True, "label_smoothing": 0.1}},
    "fused": {"loss": "adaface", "options": {"update": "adagrad", "subcenters": 2}},
    # Centers that every process has, statistics of the batch, draws, and a loss without centers.
    "copied": {"share_centers": False, "options": {"update": "sgd"}, "augment": ["noise"]},
    "adaface": {"share_centers": False, "loss": "adaface", "clip": 1.0},
    "elasticface": {"share_centers": False, "loss": "elasticface"},
    "triplet": {"share_centers": False, "loss": "triplet", "new_classes": "none"},
}
#: Of a run that begins from another, which knew six of the identities, two of which are merged.
GROWN = {
    "hold_out": None,
    "epochs": 1,
    "options": {"subcenters": 2, "bias": True, "update": "sgd"},
}
CUT = 15  # the step after which another number of processes goes on


def run_jobs(count: int, jobs: list[dict[str, object]], place: Path) -> None:
    file = place / f"jobs-{count}.json"
    file.write_text(json.dumps(jobs))
    if not count:
        done(file)
        return
    command = [*TORCHRUN, f"--nproc-per-node={count}", "-m", "support.elastic", str(file)]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]


def cut(run: Path, copy: Path) -> Path:
    """A copy of a run as if it had been killed after step `CUT`."""
    shutil.copytree(run, copy)
    kept = [place for place in (copy / "checkpoint").iterdir() if int(place.name[5:]) <= CUT]
    assert max(kept).name == f"step-{CUT:09d}"
    for place in set((copy / "checkpoint").iterdir()) - set(kept):
        shutil.rmtree(place)
    return copy


def losses_of(run: Path) -> list[float]:
    return json.loads(run.with_name(f"{run.name}.losses.json").read_text())


def same(run: Path, expected: Path) -> None:
    """The same weights, up to rounding."""
    for ours, theirs in zip(
        Run.open(run).load_model(), Run.open(expected).load_model(), strict=True
    ):
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            torch.testing.assert_close(ours[key], value, rtol=0, atol=1e-8, msg=key)


def jobs_of(place: Path, names: list[str], **changes: object) -> list[dict[str, object]]:
    """Runs of those names in `place`, and one that begins from another, "grown".

    That other one, "old", is not shared: it stands beside.
    """
    data = str(images(place.parent / "a.npz", classes=14, each=16))
    mapping = place.parent / "mapping.json"
    mapping.write_text(json.dumps({"c01": "c00"}))
    old = place.parent / "alone" / "old"
    base = {"data": data, **BASE}
    begun = base | GROWN | {"start": str(old), "mapping": str(mapping)}
    first = base | GROWN | {"classes": "c00,c01,c02,c03,c04,c05", "learning_rate": 0.05}
    jobs = [
        {"out": f"{place}/{name}", "settings": base | changes | SETTINGS[name]} for name in names
    ]
    if not old.exists():
        jobs.append({"out": str(old), "settings": first})
    return [*jobs, {"out": f"{place}/grown", "settings": begun | changes}]


def elastic(place: Path, names: list[str], writers: int, readers: list[int]) -> None:
    """Trained by `writers`, gone on with by each number of `readers`; 0 is without torchrun."""
    alone, shared = place / "alone", place / "shared"
    run_jobs(0, jobs_of(alone, names), place)
    run_jobs(writers, jobs_of(shared, names, share_centers=True), place)
    for name in (*names, "grown"):
        right, found = losses_of(alone / name), losses_of(shared / name)
        assert len(right) == len(found) > 10
        assert found == pytest.approx(right, rel=1e-9, abs=0), name
        same(shared / name, alone / name)
        for ours, theirs in zip(
            Run.open(shared / name).metrics(), Run.open(alone / name).metrics(), strict=True
        ):
            for key in {"loss", "train_accuracy", "validation"} & theirs.keys():
                assert ours[key] == pytest.approx(theirs[key], rel=1e-9), key
    for count in readers:
        folder = place / f"by-{count}"
        folder.mkdir()
        jobs: list[dict[str, object]] = [
            {"out": str(cut(shared / name, folder / name))} for name in names
        ]
        run_jobs(count, jobs, place)
        for name in names:
            right = losses_of(alone / name)[CUT:]
            assert losses_of(folder / name) == pytest.approx(right, rel=1e-9, abs=0), (name, count)
            same(folder / name, alone / name)


def test_shared_by_two_and_gone_on_with_by_one(tmp_path) -> None:
    elastic(tmp_path, ["arcface", "copied", "triplet"], 2, [0])
    place = tmp_path / "shared" / "arcface" / "checkpoint" / f"step-{CUT:09d}"
    sizes = []
    for file in place.glob("*.safetensors"):
        with safe_open(file, framework="pt") as opened:
            if "loss.head.weight" in set(opened.keys()):
                sizes.append(opened.get_slice("loss.head.weight").get_shape())
    assert sorted(sizes) == [[16, 8], [16, 8]]  # no process has written all


@pytest.mark.long
def test_shared_by_four_and_gone_on_with_by_one_to_four(tmp_path) -> None:
    elastic(tmp_path, list(SETTINGS), 4, [0, 1, 2, 3, 4])


@pytest.mark.long
def test_a_comparison_by_two_comes_to_what_one_finds(tmp_path) -> None:
    data = str(images(tmp_path / "a.npz", classes=14, each=16))
    found = []
    for count in (0, 2):
        out = tmp_path / f"grid-{count}"
        grid = {"margin": [0.1, 0.4]}
        job = {"out": str(out), "settings": {"data": data, **BASE}, "grid": grid}
        run_jobs(count, [job], tmp_path)
        found.append(json.loads((out / "comparison.json").read_text()))
    alone, shared = found
    assert shared["best"]["name"] == alone["best"]["name"]
    for ours, theirs in zip(shared["runs"], alone["runs"], strict=True):
        assert (ours["name"], ours.keys()) == (theirs["name"], theirs.keys())
        for key in {"validation_map", "validation_auc", "unseen_auc", "unseen_map"} & theirs.keys():
            assert ours[key] == pytest.approx(theirs[key], abs=1e-9)


def test_one_process_writes_what_several_could_read(tmp_path) -> None:
    """Without torchrun there is nobody to share with; a damaged checkpoint is passed over."""
    data = str(images(tmp_path / "a.npz"))
    config = RunConfig(data=data, dim=4, epochs=2, batch=16, snapshot=0, share_centers=True)
    run = train(config, tmp_path / "run", device="cpu")
    other = train(config.replace(share_centers=False), tmp_path / "other", device="cpu")
    for ours, theirs in zip(run.load_model(), other.load_model(), strict=True):
        assert all(torch.equal(ours[key], value) for key, value in theirs.items())
    newest = max((run.path / "checkpoint").iterdir())
    damaged = next(newest.glob("*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:-8])
    before = run.load_model()
    again = resume(run.path, device="cpu")
    assert all(torch.equal(again.load_model()[1][key], value) for key, value in before[1].items())
    for place in (run.path / "checkpoint").iterdir():
        (place / "state.json").write_text("{")
    with pytest.raises(RunError, match=str(run.path)):
        resume(run.path, device="cpu")


def test_what_cannot_be_shared(tmp_path) -> None:
    base = RunConfig(data="mnist-sample", dim=2, epochs=1, share_centers=True)
    with pytest.raises(OptionError, match="triplet"):
        train(base.replace(loss="triplet"), tmp_path / "a")
    with pytest.raises(OptionError, match="share_centers"):
        train(base.replace(options={"group": True}), tmp_path / "b")
    assert not list(tmp_path.iterdir())
