"""Several real processes under torchrun: the same losses, one writer, and a death in the family."""

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
from support.processes import THIS, TORCHRUN, environment, trained
from support.small_data import images

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="processes and signals as on POSIX"),
    pytest.mark.timeout(600),  # on a busy machine, imports alone can take minutes
]

EPOCHS = 20  # of which three are done when a process dies


def losses(count: int, settings: Path, place: Path) -> dict[str, list[float]]:
    """Of all configurations, trained by so many processes; by this one where it is one."""
    place.mkdir()
    if count == 1:
        trained(settings, place)
    else:
        command = [*TORCHRUN, f"--nproc-per-node={count}", *THIS, "alike", settings, place]
        done = subprocess.run(
            list(map(str, command)), env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((place / "losses.json").read_text())


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 3])
def test_several_processes_train_as_one_does(tmp_path, count) -> None:
    """The last batch of an epoch is uneven, and too small for three processes to share.

    In make test, test_together.py has two processes train.
    """
    base = {
        "data": str(images(tmp_path / "a.npz", classes=14, each=24)),
        "network": "plain",
        "dtype": "float64",
        "dim": 8,
        "epochs": 2,
        "batch": 13,
        "snapshot": 5,
        "learning_rate": 0.02,
        "augment": ["affine:rotate=15", "noise"],
        "new_classes": "rotations",
        "ema": 0.9,
        "hold_out": {"validation": 0.2, "test": 0.2},
    }
    settings = {
        "arcface": base,
        "adaface": base | {"loss": "adaface", "clip": 1.0},  # statistics of the batch
        "elasticface": base | {"loss": "elasticface"},  # draws
        "parts": base | {"accumulate": 2},
        "triplet": base | {"loss": "triplet", "new_classes": "none"},  # compares samples
        "fused": base | {"options": {"update": "sgd"}},  # centers move in the backward pass
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    one, several = (
        losses(number, tmp_path / "settings.json", tmp_path / str(number)) for number in (1, count)
    )
    for name, expected in one.items():
        assert len(expected) >= 25, name
        assert len(several[name]) == len(expected)
        gap = max(abs(a - b) for a, b in zip(several[name], expected, strict=True))
        assert gap < 1e-9, (name, gap)
    alone, shared = (Run.open(tmp_path / str(number) / "fused") for number in (1, count))
    assert len(shared.metrics()) == 2
    for ours, theirs in zip(shared.load_model(), alone.load_model(), strict=True):
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            torch.testing.assert_close(ours[key], value, rtol=0, atol=1e-9)
    by_one, by_several = (
        json.loads((tmp_path / str(number) / "outcome.json").read_text()) for number in (1, count)
    )
    assert by_several["best"]["name"] == by_one["best"]["name"]
    for ours, theirs in zip(by_several["runs"], by_one["runs"], strict=True):
        assert ours["name"] == theirs["name"]
        assert ours.keys() == theirs.keys()
        for key in {"validation_map", "validation_auc", "unseen_auc", "unseen_map"} & theirs.keys():
            assert ours[key] == pytest.approx(theirs[key], abs=1e-9)
    saved = json.loads((tmp_path / str(count) / "grid" / "comparison.json").read_text())
    assert saved["runs"] == by_several["runs"]  # one writer


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
    command = [*TORCHRUN, "--nproc-per-node=2", "--max-restarts=3", *THIS, "train"]
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
