"""One training at a time in a folder."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from arcset import RunError
from arcset.runs import Run, RunConfig
from arcset.runs.folder import locked
from arcset.training import resume, train
from arcset.training.watchers import Silent

CONFIG = RunConfig(data="mnist-sample", network="mlp", dim=2, epochs=1)

HOLDER = """
import sys, time
from pathlib import Path
from arcset.runs.folder import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a folder is not kept there")


@pytest.fixture
def hold():
    """Start processes that keep a folder; they end with the test."""
    processes = []

    def start(path):
        command = [sys.executable, "-c", HOLDER, str(path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout.readline() == "locked\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def contents(path):
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_another_process_is_refused_at_once(tmp_path, hold):
    hold(tmp_path / "run")
    started = time.monotonic()
    with pytest.raises(RunError, match=str(tmp_path / "run")), locked(tmp_path / "run"):
        pass
    assert time.monotonic() - started < 1
    with locked(tmp_path / "other"):
        pass


def test_another_thread_is_refused_and_this_one_may_ask_again(tmp_path):
    refused = []

    def ask():
        try:
            with locked(tmp_path / "run"):
                pass
        except RunError as error:
            refused.append(str(error))

    with locked(tmp_path / "run"), locked(tmp_path / "run"):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert len(refused) == 1
    ask()
    assert len(refused) == 1


def test_a_lock_ends_with_its_process_however_that_dies(tmp_path, hold):
    process = hold(tmp_path / "run")
    process.send_signal(signal.SIGKILL)
    process.wait()
    with locked(tmp_path / "run"):
        Run.create(tmp_path / "run", CONFIG)
    assert {file.name for file in (tmp_path / "run").iterdir()} == {"config.toml"}


def test_nobody_gets_a_lock_whose_file_is_about_to_go(tmp_path, monkeypatch):
    refused, unlink = [], Path.unlink

    def ask():
        with pytest.raises(RunError), locked(tmp_path / "run"):
            pass
        refused.append(True)

    def unlink_later(path, missing_ok=False):
        if not refused:
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_later)
    with locked(tmp_path / "run"):
        pass
    assert refused == [True]


def test_a_lock_file_that_cannot_be_opened_keeps_out(tmp_path):
    (tmp_path / "run" / ".lock").mkdir(parents=True)  # as one of another user
    with pytest.raises(RunError, match=str(tmp_path / "run")), locked(tmp_path / "run"):
        pytest.fail("this runs without the lock")
    assert (tmp_path / "run" / ".lock").exists()


def test_a_file_system_without_locks_is_no_obstacle(tmp_path, monkeypatch):
    def flock(handle, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    (tmp_path / ".lock").touch()
    with locked(tmp_path):
        pass
    assert (tmp_path / ".lock").exists()  # it may be another's


def test_folders_that_were_made_and_stayed_empty_go_again(tmp_path):
    with locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with locked(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize("options", [{}, {"force": True}, {"again": True}])
def test_a_second_training_is_refused_and_changes_nothing(tmp_path, hold, options):
    run = Run.create(tmp_path / "run", CONFIG)
    hold(run.path)
    before = contents(run.path)
    with pytest.raises(RunError, match=rf"{run.path}.*another"):
        train(CONFIG.replace(dim=3), run.path, device="cpu", watcher=Silent(), **options)
    with pytest.raises(RunError, match=rf"{run.path}.*another"):
        resume(run.path, device="cpu", watcher=Silent())
    assert contents(run.path) == before
