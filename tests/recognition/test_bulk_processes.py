"""Several real processes that embed together, are killed at any moment, and are started anew."""

import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
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


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.long)])
def test_any_number_of_processes_gives_the_same_rows(made, tmp_path, count):
    """To the last bit, as each has one thread; in the same order, too."""
    run, photos, one = made
    job = Job(count, tmp_path, run, photos, "--out", tmp_path / "out", "--shard-size", 4, "--json")
    job.done()
    found = read_embeddings(tmp_path / "out")
    check_complete(tmp_path / "out", rows_of(one), found)
    assert found.paths == one.paths
    assert found.trained_on == one.trained_on
    said = job.written.read_text()
    content = json.loads(said[said.index("{") :])  # one speaks for all
    assert (content["samples"], content["skipped"], content["inputs"]) == (119, 3, 122)
    assert (content["shards"], content["made"], content["processes"]) == (31, 31, count)
    assert said.count("stray.png") == 1


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
        check_complete(folder, expected, read_embeddings(folder))
        for name, stamp in kept.items():  # not made again
            assert (folder / name).stat().st_mtime_ns == stamp
    assert interrupted >= (trials + 1) // 2


def test_a_bad_folder_ends_all_with_one_sentence(made, tmp_path):
    run, photos, _ = made
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/letter.txt").write_text("mine")
    job = Job(2, tmp_path, run, photos, "--out", "taken")
    assert job.codes() == [2, 2]
    said = job.written.read_text()
    assert re.fullmatch(r"arcset: .*taken.*letter\.txt.*\n", said)
    job = Job(2, tmp_path, run, photos, "--out", "one.parquet")
    assert job.codes() == [2, 2]
    assert re.fullmatch(r"arcset: .*\n", job.written.read_text().removeprefix(said))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken", "written.txt"]


@pytest.mark.long
def test_under_torchrun(made, tmp_path):
    """The real thing, from the outside."""
    run, photos, one = made
    words = [run, photos, "--out", "out/", "--shard-size", "4", "--device", "cpu", "--json"]
    command = [*TORCHRUN, "--nproc-per-node=2", "-m", "arcset", "embed", *map(str, words)]
    done = subprocess.run(
        command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["processes"] == 2
    check_complete(tmp_path / "out", rows_of(one), read_embeddings(tmp_path / "out"))


def workers(folder: Path) -> dict[str, int]:
    """The processes that torchrun started for a folder, by rank."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            held = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        ranks = [item for item in held if item.startswith(b"RANK=")]
        if str(folder).encode() in words and ranks:
            found[ranks[0].decode().removeprefix("RANK=")] = int(process.name)
    return found


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("victim", ["0", "1", "torchrun"])
def test_a_process_dies_under_torchrun(tmp_path, victim):
    """One of them is replaced with the others; torchrun itself is started anew by hand."""
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
    if victim == "torchrun":
        orphans = workers(folder)
        assert len(orphans) == 2
        process.kill()
        again = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False
        )
        assert again.returncode == 0, again.stderr[-3000:]
        _, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        assert not any(Path(f"/proc/{number}").exists() for number in orphans.values())
    else:
        os.kill(workers(folder)[victim], signal.SIGKILL)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err[-3000:]
    manifest = read_manifest(folder)
    found = read_embeddings(folder)
    assert len(rows_of(found)) == manifest.samples == manifest.inputs - 3
    assert np.isfinite(found.embeddings).all()
    assert not [path for path in folder.rglob("*") if path.name.endswith(".part")]
