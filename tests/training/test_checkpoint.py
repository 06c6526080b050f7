"""Runs that are cut, killed or damaged: resumed bit for bit, or refused with the reason."""

import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

from arcset import OptionError, RunError
from arcset.runs import RunConfig
from arcset.training import resume, train
from support.forked import started
from support.small_data import Remembers, images, train_again
from training.alike import assert_alike, checkpoints, epochs, newest

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
    "clip": 1.0,
    "warm_up": 0.2,
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
    """The configuration, the folder and the losses of a run that was never interrupted."""
    place = tmp_path_factory.mktemp("whole")
    config = RunConfig(data=str(images(place / "a.npz", classes=15)), **SETTINGS)
    watcher = Remembers()
    run = train(config, place / "run", device="cpu", watcher=watcher)
    return config, run.path, [now.loss for now in watcher.steps]


@pytest.fixture(scope="module")
def cut_in_step_10(whole, tmp_path_factory):
    """A run that ended without warning in its tenth step."""
    run = cut(whole[0], tmp_path_factory.mktemp("cut") / "run", 10)
    assert checkpoints(run) == ["step-000000006", "step-000000008", "step-000000009"]
    return run


@pytest.fixture
def damaged(cut_in_step_10, tmp_path):
    """A copy of it, to do harm to."""
    return shutil.copytree(cut_in_step_10, tmp_path / "run")


def cut(config: RunConfig, place: Path, after: int) -> Path:
    """A run that ends without warning in its step `after`."""
    with pytest.raises(KeyboardInterrupt):
        train(config, place, device="cpu", watcher=Remembers(after))
    return place


@pytest.mark.parametrize(
    "stop", [4, 9, *(pytest.param(stop, marks=pytest.mark.long) for stop in (1, 6, 8, 12))]
)
def test_a_run_goes_on_in_the_middle_of_an_epoch_bit_for_bit(whole, tmp_path, stop) -> None:
    config, run, losses = whole
    place = cut(config, tmp_path / "run", stop)
    # The step that was cut short is in no checkpoint.
    done = max(step for step in range(stop) if step % 3 == 0 or step % 4 == 0)
    torch.manual_seed(stop)  # whatever was drawn before
    watcher = Remembers()
    again = resume(place, device="cpu", watcher=watcher)
    assert [now.loss for now in watcher.steps] == losses[done:]
    assert_alike(run, again.path)


def test_the_newest_are_kept_and_nothing_else(whole, tmp_path) -> None:
    config, run, _ = whole
    assert checkpoints(run) == ["step-000000008", "step-000000009", "step-000000012"]
    few = config.replace(checkpoints=1, checkpoint_steps=0, checkpoint_minutes=1e-9)
    place = cut(few, tmp_path / "run", 4)
    assert checkpoints(place) == ["step-000000003"]  # by the clock, at every step


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def flip(file: Path) -> None:
    held = bytearray(file.read_bytes())
    held[-1] ^= 1
    file.write_bytes(bytes(held))


@pytest.mark.parametrize(
    ("file", "harm"),
    [
        ("state.json", truncate),
        ("optimizer.safetensors", flip),
        ("average.safetensors", Path.unlink),
    ],
)
def test_a_torn_checkpoint_is_passed_over_and_told(whole, damaged, file, harm) -> None:
    _, run, losses = whole
    harm(newest(damaged) / file)
    watcher = Remembers()
    again = resume(damaged, device="cpu", watcher=watcher)
    assert [now.loss for now in watcher.steps] == losses[8:]
    (warning,) = watcher.warnings
    assert "step-000000009" in warning  # which was passed over
    assert "step-000000008" in warning  # from which it went on
    assert file in warning
    assert_alike(run, again.path)


def test_a_torn_one_does_not_outlive_those_that_follow(damaged) -> None:
    """With one to be kept, it would be the torn one, as long as its step is the highest."""
    truncate(newest(damaged) / "loss.safetensors")
    shutil.rmtree(damaged / "checkpoint" / "step-000000008")
    with pytest.raises(KeyboardInterrupt):
        resume(
            damaged,
            device="cpu",
            watcher=Remembers(8),
            changes={"checkpoints": 1, "checkpoint_steps": 7},
        )
    assert checkpoints(damaged) == ["step-000000007"]


def test_where_all_are_torn_nothing_is_loaded(damaged) -> None:
    for name in checkpoints(damaged):
        truncate(damaged / "checkpoint" / name / "loss.safetensors")
    before = (damaged / "config.toml").read_bytes()
    with pytest.raises(RunError, match=r"step-000000006/loss\.safetensors"):
        resume(damaged, device="cpu")
    assert (damaged / "config.toml").read_bytes() == before


def test_without_a_checkpoint_a_trained_run_is_not_trained_again(damaged) -> None:
    shutil.rmtree(damaged / "checkpoint")
    with pytest.raises(RunError, match="--force"):
        resume(damaged, device="cpu")
    assert len(epochs(damaged)) == 2


def test_a_checkpoint_of_other_settings_is_refused(whole, damaged, tmp_path) -> None:
    kept = (damaged / "config.toml").read_text()
    changed = kept.replace("learning_rate = 0.01", "learning_rate = 0.02")
    (damaged / "config.toml").write_text(changed)
    with pytest.raises(RunError, match=r"learning_rate .*0\.02.*0\.01"):
        resume(damaged, device="cpu")
    (damaged / "config.toml").write_text(kept)
    other = cut(whole[0].replace(seed=1), tmp_path / "other", 4)
    shutil.rmtree(damaged / "checkpoint")
    shutil.copytree(other / "checkpoint", damaged / "checkpoint")
    with pytest.raises(RunError, match=r"seed .*0.*1"):
        resume(damaged, device="cpu")


def test_data_that_grew_is_refused(tmp_path) -> None:
    data = images(tmp_path / "a.npz", classes=6)
    config = RunConfig(data=str(data), dim=4, epochs=2, batch=16, checkpoint_steps=1)
    place = cut(config, tmp_path / "run", 3)
    images(data, classes=6, each=9)
    with pytest.raises(RunError, match=r"48 samples.*42"):
        resume(place, device="cpu")


def test_more_epochs_may_be_asked_for_and_other_settings_not(whole, tmp_path) -> None:
    config, _, _ = whole
    place = cut(config.replace(schedule="constant", epochs=2), tmp_path / "run", 4)
    resume(place, device="cpu", changes={"epochs": 3, "checkpoints": 1})
    assert [line["epoch"] for line in epochs(place)] == [1, 2, 3]
    assert "epochs = 3" in (place / "config.toml").read_text().splitlines()
    assert checkpoints(place) == ["step-000000012"]
    with pytest.raises(OptionError, match=r"dim .*4.*8"):
        resume(place, device="cpu", changes={"dim": 8})
    resume(place, device="cpu", changes={"dim": 4})  # no change at all


def test_a_run_that_is_there_is_continued_when_asked(whole, damaged) -> None:
    config, run, losses = whole
    with pytest.raises(RunError, match=str(damaged)):
        train(config, damaged, device="cpu")
    with pytest.raises(RunError, match=r"seed .*0.*1"):
        train(config.replace(seed=1), damaged, device="cpu", again=True)
    watcher = Remembers()
    train(config, damaged, device="cpu", again=True, watcher=watcher)
    assert [now.loss for now in watcher.steps] == losses[9:]
    assert_alike(run, damaged)


def test_a_run_killed_before_its_split_was_written_gets_it(whole, tmp_path) -> None:
    config, run, _ = whole
    place = cut(config, tmp_path / "run", 1)
    assert not (place / "checkpoint").exists()
    (place / "split.json").unlink()
    train(config, place, device="cpu", again=True)
    assert_alike(run, place)
    assert (place / "split.json").read_bytes() == (run / "split.json").read_bytes()


class Asks(Remembers):
    """A watcher that sends this process signals in some steps."""

    def __init__(self, steps, *signals):
        super().__init__()
        self.asked_in, self.signals = steps, signals

    def stepped(self, now):
        super().stepped(now)
        if now.step in self.asked_in:
            for number in self.signals:
                signal.raise_signal(number)


def test_asked_to_stop_it_ends_its_step_and_loses_none(whole, tmp_path) -> None:
    config, run, losses = whole
    place = tmp_path / "run"
    quiet = config.replace(checkpoint_steps=0, checkpoint_minutes=0)
    steps = (3, 8)  # within an epoch, and in its last step
    with pytest.raises(KeyboardInterrupt):
        train(quiet, place, device="cpu", watcher=Asks(steps, signal.SIGTERM))
    assert checkpoints(place) == ["step-000000003"]
    with pytest.raises(KeyboardInterrupt):
        resume(place, device="cpu", watcher=Asks(steps, signal.SIGTERM))
    assert checkpoints(place)[-1] == "step-000000008"
    assert [line["epoch"] for line in epochs(place)] == [1, 2]
    watcher = Remembers()
    resume(place, device="cpu", watcher=watcher)
    assert [now.loss for now in watcher.steps] == losses[8:]
    assert_alike(run, place)


def test_a_second_request_is_obeyed_at_once_and_handlers_come_back(whole, tmp_path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    quiet = whole[0].replace(checkpoint_steps=0, checkpoint_minutes=0)
    twice = Asks((3,), signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(quiet, tmp_path / "run", device="cpu", watcher=twice)
    assert not (tmp_path / "run" / "checkpoint").exists()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_elsewhere_than_in_the_main_thread_signals_are_left_alone(tmp_path) -> None:
    config = RunConfig(data=str(images(tmp_path / "a.npz")), dim=4, epochs=1, snapshot=0)
    before = signal.getsignal(signal.SIGINT)
    seen = []

    class Looks(Remembers):
        def stepped(self, now):
            seen.append(signal.getsignal(signal.SIGINT))

    options = {"device": "cpu", "watcher": Looks()}
    thread = threading.Thread(target=train, args=(config, tmp_path / "run"), kwargs=options)
    thread.start()
    thread.join()
    assert set(seen) == {before}
    assert (tmp_path / "run" / "model.safetensors").exists()


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
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_killed_at_random_moments_the_run_comes_out_the_same(tmp_path, kills) -> None:
    """SIGKILL, real processes; many checkpoints, so that some moments hit the writing of one."""
    config = RunConfig(
        data=str(images(tmp_path / "a.npz", classes=15)),
        **{**SETTINGS, "epochs": 10 if kills < 10 else 40, "checkpoint_steps": 1},
    )
    run = train(config, tmp_path / "whole", device="cpu")
    chance = random.Random(kills)
    moments = [chance.uniform(0.1, 0.5) for _ in range(kills)]
    assert killed_and_resumed(config, tmp_path / "run", moments) >= kills // 2
    assert_alike(run.path, tmp_path / "run")
    found = [line["epoch"] for line in epochs(tmp_path / "run")]
    assert found == list(range(1, config.epochs + 1))
