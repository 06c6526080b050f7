"""Several real processes that share the shards, are killed at any moment, and are started anew."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from arcset.cli import main
from arcset.data.embeddings import read_embeddings, read_manifest
from support.bulk import Job, check_complete, photo_run, rows_of
from support.processes import TORCHRUN, environment

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="processes and signals as on POSIX"),
    pytest.mark.timeout(600),  # on a busy machine, imports alone can take minutes
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, pictures, and the rows that one process makes of them with shards of four."""
    place = tmp_path_factory.mktemp("bulk")
    run, photos = photo_run(place, each=20)
    words = ["embed", run, photos, "--out", place / "one", "--shard-size", 4, "--device", "cpu"]
    with pytest.raises(SystemExit):
        main([str(word) for word in words])
    return run, photos, read_embeddings(place / "one")


@pytest.mark.parametrize("trials", [1, pytest.param(30, marks=pytest.mark.long)])
def test_killed_at_any_moment_and_started_with_another_number(made, tmp_path, trials):
    """No sample twice or missing, and nothing half-written; whatever there was is gone on with."""
    run, photos, one = made
    draw = random.Random(trials)
    expected = rows_of(one)
    interrupted = 0
    for trial in range(trials):
        folder = tmp_path / f"out {trial}"
        words = (run, photos, "--out", folder, "--shard-size", 4)
        counts = draw.sample([1, 2, 3], 3)
        for count in counts[:2]:
            job = Job(count, tmp_path, *words)
            wanted = draw.randrange(3, 28)  # shards that are there before it is killed
            until = time.monotonic() + 60
            while sum(1 for _ in folder.glob("shard-*")) < wanted and time.monotonic() < until:
                if not any(process.is_alive() for process in job.processes):
                    break
                time.sleep(0.001)
            time.sleep(draw.random() * 0.02)
            job.kill()
            shards = len(list(folder.glob("shard-*.parquet")))
            interrupted += 0 < shards < 31
        kept = {path.name: path.stat().st_mtime_ns for path in folder.glob("shard-*.parquet")}
        Job(counts[2], tmp_path, *words).done()
        found = read_embeddings(folder)
        check_complete(folder, expected, found)
        assert (found.paths, found.trained_on) == (one.paths, one.trained_on)
        for name, stamp in kept.items():  # not made again
            assert (folder / name).stat().st_mtime_ns == stamp
    assert interrupted >= (trials + 1) // 2


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_process_that_dies_under_torchrun_is_replaced(tmp_path):
    run, photos = photo_run(tmp_path, each=400)
    folder = tmp_path / "out"
    words = [run, photos, "--out", folder, "--shard-size", "4", "--device", "cpu"]
    command = [*TORCHRUN, "--nproc-per-node=2", "--max-restarts=2", "-m", "arcset", "embed"]
    command += map(str, words)
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 200
    while len(list(folder.glob("shard-*.parquet"))) < 20:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.005)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]
    manifest, found = read_manifest(folder), read_embeddings(folder)
    assert len(rows_of(found)) == manifest.samples == manifest.inputs - 3
    assert not [path for path in folder.rglob("*") if path.name.endswith(".part")]
