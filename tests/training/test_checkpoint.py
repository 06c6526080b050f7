"""Checkpoints within epochs: written whole, kept in number, never loaded where they do not fit."""

import json
import os
import random
import re
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

from arcset import OptionError, RunError
from arcset.runs import Run, RunConfig
from arcset.runs.states import load_tensors
from arcset.training import resume, train
from arcset.training.stopping import stopping
from support.forked import started
from support.small_data import Remembers, images, train_again

#: 4 steps in each of 3 epochs, with everything that is drawn, averaged or added up.
SETTINGS = {
    "dim": 4,
    "epochs": 3,
    "batch": 16,
    "network": "glyph",
    "dropout": 0.3,
    "loss": "elasticface",
    "ema": 0.9,
    "accumulate": 2,
    "augment": ["affine:rotate=15", "noise"],
    "new_classes": "rotations",
    "hold_out": {"validation": 0.2, "test": 0.2},
    "optimizer": "adamw",
    "learning_rate": 0.01,
    "snapshot": 10,
    "checkpoint_steps": 3,
    "checkpoints": 3,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never interrupted, its configuration and its losses."""
    place = tmp_path_factory.mktemp("whole")
    config = RunConfig(data=str(images(place / "a.npz", classes=15)), **SETTINGS)
    watcher = Remembers()
    run = train(config, place / "run", device="cpu", watcher=watcher)
    return config, run, [now.loss for now in watcher.steps]


def cut(config: RunConfig, place: Path, after: int) -> Path:
    """A run that ends without warning in its step `after`."""
    with pytest.raises(KeyboardInterrupt):
        train(config, place, device="cpu", watcher=Remembers(after))
    return place


def names(run: Path) -> list[str]:
    return sorted(place.name for place in (run / "checkpoint").iterdir())


def last(run: Path) -> Path:
    return max((run / "checkpoint").iterdir())


def content(run: Run) -> dict[str, torch.Tensor]:
    """All tensors of the weights and of the last checkpoint."""
    files = [run.path / "model.safetensors", run.path / "loss.safetensors"]
    files += sorted(last(run.path).glob("*.safetensors"))
    return {
        f"{file.name}.{name}": tensor
        for file in files
        for name, tensor in load_tensors(file).items()
    }


def timeless(run: Run) -> list[dict]:
    return [
        {key: value for key, value in line.items() if "second" not in key} for line in run.metrics()
    ]


def assert_equal(one: Run, other: Run) -> None:
    first, second = content(one), content(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert timeless(one) == timeless(other)


@pytest.mark.parametrize("stop", [1, 4, 6, 8, 9, 12])
def test_a_run_goes_on_in_the_middle_of_an_epoch_bit_for_bit(whole, tmp_path, stop) -> None:
    config, run, losses = whole
    place = cut(config, tmp_path / "run", stop)
    # The step that was cut short is in no checkpoint.
    done = max(step for step in range(stop) if step % 3 == 0 or step % 4 == 0)
    torch.manual_seed(stop)  # whatever was drawn before
    watcher = Remembers()
    again = resume(place, device="cpu", watcher=watcher)
    assert [now.loss for now in watcher.steps] == losses[done:]
    assert_equal(run, again)


def test_the_newest_are_kept_and_nothing_else(whole, tmp_path) -> None:
    config, run, _ = whole
    assert names(run.path) == ["step-000000008", "step-000000009", "step-000000012"]
    few = config.replace(checkpoints=1, checkpoint_steps=0, checkpoint_minutes=1e-9)
    place = cut(few, tmp_path / "run", 4)
    assert names(place) == ["step-000000003"]  # by the clock, at every step


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda place: (place / "state.json").write_text("{"), "state.json is torn"),
        (lambda place: (place / "state.json").write_text("[]"), "state.json is torn"),
        (lambda place: (place / "state.json").unlink(), "state.json cannot be read"),
        (lambda place: (place / "average.safetensors").unlink(), "average.safetensors is missing"),
        (lambda place: truncate(place / "network.safetensors"), r"bytes instead of [\d,]+"),
        (lambda place: flip(place / "optimizer.safetensors"), "is not what was written"),
        (lambda place: older(place / "state.json"), "of format 1, and this version reads 2"),
    ],
)
def test_a_torn_checkpoint_is_passed_over_and_told(whole, tmp_path, harm, said) -> None:
    config, run, losses = whole
    place = cut(config, tmp_path / "run", 10)
    assert names(place) == ["step-000000006", "step-000000008", "step-000000009"]
    harm(last(place))
    watcher = Remembers()
    again = resume(place, device="cpu", watcher=watcher)
    assert [now.loss for now in watcher.steps] == losses[8:]
    (warning,) = watcher.warnings
    assert "passed over a damaged checkpoint, step-000000009: " in warning
    assert "going on from step-000000008" in warning
    assert re.search(said, warning)
    assert_equal(run, again)


def test_a_torn_one_does_not_outlive_those_that_follow(whole, tmp_path) -> None:
    """With one to be kept, it would be the torn one, as long as its step is the highest."""
    config, _, _ = whole
    place = cut(config, tmp_path / "run", 10)
    truncate(last(place) / "loss.safetensors")
    shutil.rmtree(place / "checkpoint" / "step-000000008")
    with pytest.raises(KeyboardInterrupt):
        resume(
            place,
            device="cpu",
            watcher=Remembers(8),
            changes={"checkpoints": 1, "checkpoint_steps": 7},
        )
    assert names(place) == ["step-000000007"]


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def flip(file: Path) -> None:
    held = bytearray(file.read_bytes())
    held[-1] ^= 1
    file.write_bytes(bytes(held))


def older(file: Path) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 1}))


def test_where_all_are_torn_nothing_is_loaded(whole, tmp_path) -> None:
    config, _, _ = whole
    place = cut(config, tmp_path / "run", 5)
    for checkpoint in (place / "checkpoint").iterdir():
        truncate(checkpoint / "loss.safetensors")
    before = (place / "config.toml").read_bytes()
    with pytest.raises(RunError, match=r"no checkpoint in .* can be used: step-000000004: loss"):
        resume(place, device="cpu")
    assert (place / "config.toml").read_bytes() == before


def test_without_a_checkpoint_a_trained_run_is_not_trained_again(whole, tmp_path) -> None:
    config, _, _ = whole
    place = cut(config, tmp_path / "run", 10)
    shutil.rmtree(place / "checkpoint")
    with pytest.raises(RunError, match="has no checkpoint left to go on from"):
        resume(place, device="cpu")
    (place / "checkpoint" / "epoch-0002").mkdir(parents=True)
    with pytest.raises(RunError, match="holds epoch-0002, which is no checkpoint that this"):
        resume(place, device="cpu")


def test_a_checkpoint_of_other_settings_or_data_is_refused(whole, tmp_path) -> None:
    config, _, _ = whole
    place = cut(config, tmp_path / "run", 4)
    kept = (place / "config.toml").read_text()
    (place / "config.toml").write_text(kept.replace("learning_rate = 0.01", "learning_rate = 0.02"))
    with pytest.raises(RunError, match=r"learning_rate is 0.02 now, .* was written with 0.01"):
        resume(place, device="cpu")
    (place / "config.toml").write_text(kept)
    other = cut(config.replace(seed=1), tmp_path / "other", 4)
    shutil.rmtree(place / "checkpoint")
    shutil.copytree(other / "checkpoint", place / "checkpoint")
    with pytest.raises(RunError, match=r"seed is 0 now, and the checkpoint .* with 1"):
        resume(place, device="cpu")


def test_data_that_grew_is_refused(tmp_path) -> None:
    data = images(tmp_path / "a.npz", classes=6)
    config = RunConfig(data=str(data), dim=4, epochs=2, batch=16, checkpoint_steps=1)
    place = cut(config, tmp_path / "run", 3)
    images(data, classes=6, each=9)
    with pytest.raises(RunError, match=r"the data has changed since .*: \d+ samples to train on"):
        resume(place, device="cpu")


def test_more_epochs_may_be_asked_for_and_other_settings_not(whole, tmp_path) -> None:
    config, _, _ = whole
    place = cut(config.replace(schedule="constant", epochs=2), tmp_path / "run", 4)
    longer = resume(place, device="cpu", changes={"epochs": 3, "checkpoints": 1})
    assert [line["epoch"] for line in longer.metrics()] == [1, 2, 3]
    assert Run.open(place).config.epochs == 3
    assert names(place) == ["step-000000012"]
    with pytest.raises(OptionError, match=r"goes on with the dim that it began with, 4, not with"):
        resume(place, device="cpu", changes={"dim": 8})
    resume(place, device="cpu", changes={"dim": 4})  # no change at all


def test_a_run_that_is_there_is_continued_when_asked(whole, tmp_path) -> None:
    config, run, losses = whole
    place = cut(config, tmp_path / "run", 8)
    with pytest.raises(RunError, match="already holds a run"):
        train(config, place, device="cpu")
    with pytest.raises(RunError, match=r"holds a run with seed 0, and 1 is asked for"):
        train(config.replace(seed=1), place, device="cpu", again=True)
    watcher = Remembers()
    assert_equal(run, train(config, place, device="cpu", again=True, watcher=watcher))
    assert [now.loss for now in watcher.steps] == losses[6:]
    fresh = train(config, tmp_path / "new", device="cpu", again=True)
    assert_equal(run, fresh)


def test_a_run_killed_before_its_split_was_written_gets_it(whole, tmp_path) -> None:
    config, run, _ = whole
    place = cut(config, tmp_path / "run", 1)
    assert not (place / "checkpoint").exists()
    (place / "split.json").unlink()
    assert_equal(run, train(config, place, device="cpu", again=True))
    assert (place / "split.json").read_bytes() == run.split_file.read_bytes()


def test_asked_to_stop_it_ends_its_step_and_loses_none(whole, tmp_path) -> None:
    config, run, losses = whole

    class Asks(Remembers):
        def stepped(self, now):
            super().stepped(now)
            if now.step in (3, 8):  # within an epoch, and in its last step
                os.kill(os.getpid(), signal.SIGTERM)

    quiet = config.replace(checkpoint_steps=0, checkpoint_minutes=0)
    with pytest.raises(KeyboardInterrupt):
        train(quiet, tmp_path / "run", device="cpu", watcher=Asks())
    assert names(tmp_path / "run") == ["step-000000003"]
    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path / "run", device="cpu", watcher=Asks())
    assert names(tmp_path / "run")[-1] == "step-000000008"
    assert [line["epoch"] for line in Run.open(tmp_path / "run").metrics()] == [1, 2]
    watcher = Remembers()
    assert_equal(run, resume(tmp_path / "run", device="cpu", watcher=watcher))
    assert [now.loss for now in watcher.steps] == losses[8:]


def test_a_second_request_is_obeyed_at_once_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def asked_twice() -> None:
        with stopping() as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.asked
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        asked_twice()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_elsewhere_than_in_the_main_thread_signals_are_left_alone() -> None:
    seen = []

    def work() -> None:
        with stopping() as stop:
            seen.append(stop.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def killed_and_resumed(config: RunConfig, place: Path, moments: list[float]) -> int:
    """Train in real processes, each killed after so many seconds, until one comes to the end.

    The number of processes that were killed while they trained.
    """
    killed = 0
    told = place.parent / "told.txt"
    for moment in [*moments, None]:
        process = started(train_again, config, place, place=place.parent, written=told)
        while "ready" not in (told.read_text() if told.exists() else ""):
            assert process.is_alive()
            time.sleep(0.005)
        if moment is not None:
            time.sleep(moment)
            killed += process.is_alive()
            process.kill()
        process.join(timeout=120)
        assert moment is not None or process.exitcode == 0
        assert "Error" not in told.read_text()
        told.unlink()
    return killed


@pytest.mark.skipif(os.name == "nt", reason="signals as on POSIX")
@pytest.mark.timeout(600)  # on a busy machine, the first import alone can take minutes
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
def test_killed_at_random_moments_the_run_comes_out_the_same(tmp_path, kills) -> None:
    """SIGKILL, real processes; many checkpoints, so that some moments hit the writing of one."""
    config = RunConfig(
        data=str(images(tmp_path / "a.npz", classes=15)),
        **{**SETTINGS, "epochs": 12 if kills < 10 else 40, "checkpoint_steps": 1},
    )
    run = train(config, tmp_path / "whole", device="cpu")
    chance = random.Random(kills)
    moments = [chance.uniform(0.1, 0.5) for _ in range(kills)]
    assert killed_and_resumed(config, tmp_path / "run", moments) >= kills // 2
    again = Run.open(tmp_path / "run")
    assert_equal(run, again)
    assert [line["epoch"] for line in again.metrics()] == list(range(1, config.epochs + 1))
