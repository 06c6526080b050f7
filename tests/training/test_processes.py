"""Several real processes under torchrun: a death in the family, and who does what."""

import json
import os
import signal
import subprocess
import time
from itertools import product
from pathlib import Path

import pytest
import torch

from arcset.distributed import ProcessGroup
from arcset.launch import is_main_process
from arcset.runs import Run
from support.processes import THIS, TORCHRUN, environment
from support.small_data import images

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="processes and signals as on POSIX"),
    pytest.mark.timeout(600),  # on a busy machine, imports alone can take minutes
]

EPOCHS = 20  # of which three are done when a process dies


def children(name: str) -> dict[str, int]:
    """The processes that torchrun started for the run `name`, by rank."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            held = dict(
                pair.split(b"=", 1)
                for pair in (folder / "environ").read_bytes().split(b"\0")
                if b"=" in pair
            )
        except OSError:
            continue
        if name.encode() in words and b"RANK" in held and b"LOCAL_RANK" in held:
            found[held[b"RANK"].decode()] = int(folder.name)
    return found


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("victim", "share"), [("0", False), ("1", False), ("0", True), ("1", True)]
)
def test_a_killed_process_is_replaced_and_the_run_ends_by_itself(tmp_path, victim, share) -> None:
    """The processes that replace it then train another run, without a death, to the same end."""
    data = images(tmp_path / "a.npz", classes=14, each=8)
    settings = {"dim": 4, "epochs": EPOCHS, "batch": 16, "network": "glyph", "loss": "arcface"}
    words = [str(data), "--no-report", "--json", "--hold-out", "0.2,0.2", "--seed", "3"]
    settings |= {"checkpoint_steps": 2, "ema": 0.9, "snapshot": 0, "share_centers": share}
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    place, whole = tmp_path / f"killed-{victim}", tmp_path / "whole"
    command = [*TORCHRUN, "--nproc-per-node=2", "--max-restarts=3", *THIS]
    process = subprocess.Popen(
        [*command, f"{place},{whole}", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = place / "metrics.jsonl"
    deadline = time.monotonic() + 300
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(children(f"{place},{whole}")[victim], signal.SIGKILL)
    before = len(metrics.read_text().splitlines())
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err[-3000:]
    assert before < EPOCHS
    first, end = json.JSONDecoder().raw_decode(out)  # one speaks for all
    assert (first["run"], json.loads(out[end:])["run"]) == (str(place), str(whole))
    run = Run.open(place)
    assert [line["epoch"] for line in run.metrics()] == list(range(1, EPOCHS + 1))
    network, centers = run.load_model()
    expected, theirs = Run.open(whole).load_model()
    assert all(torch.equal(network[key], expected[key]) for key in expected)
    assert all(torch.equal(centers[key], theirs[key]) for key in theirs)


def test_how_a_batch_is_shared() -> None:
    class Three(ProcessGroup):
        rank, size = 1, 3

    alone, group = ProcessGroup(), Three()
    assert alone.split_rows(5, 1) == [[slice(0, 5)]]
    assert alone.split_rows(5, 4) == [[slice(0, 3)], [slice(3, 5)]]  # never a single row
    assert group.split_rows(8, 1) == [[slice(0, 3), slice(3, 6), slice(6, 8)]]
    assert group.own_rows(group.split_rows(8, 1)[0]) == slice(3, 6)
    assert group.split_rows(5, 1) == [[slice(0, 5)]]  # too few to share: all take all
    assert group.own_rows(group.split_rows(5, 1)[0]) == slice(0, 5)
    for members, count, parts in product((alone, group), range(6, 40), (1, 2, 3, 4)):
        split = members.split_rows(count, parts)
        rows = [slice_ for part in split for slice_ in part]
        assert sorted(row for slice_ in rows for row in range(count)[slice_]) == list(range(count))
        assert min(slice_.stop - slice_.start for slice_ in rows) >= 2  # for batch normalization
        sizes = [sum(slice_.stop - slice_.start for slice_ in part) for part in split]
        assert max(sizes) - min(sizes) <= members.size


def test_who_speaks(monkeypatch) -> None:
    assert is_main_process()
    for key, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "RANK": "1"}.items():
        monkeypatch.setenv(key, value)
    assert not is_main_process()
    monkeypatch.setenv("RANK", "0")
    assert is_main_process()
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "1")
    assert is_main_process()
