"""Data to embed in bulk, and processes that share the work, without a launcher."""

import contextlib
import io
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from PIL import Image

from arcset.cli import main
from arcset.data.embeddings import read_embeddings, read_manifest
from support.forked import started
from support.random_runs import random_run

__all__ = ["Job", "RefusedError", "embed", "photo_run", "read_embeddings", "rows_of"]


class RefusedError(Exception):
    """`arcset embed` ended with exit code 2, and said this."""


def embed(run: object, data: object, out: object, **options: object) -> SimpleNamespace:
    """`arcset embed RUN DATA --out OUT --json` in this process; what it says, as attributes.

    options: as `shard_size=8` or `check=True`; data: None for the run's own.
    """
    words = ["embed", run, *([] if data is None else [data]), "--out", out, "--device", "cpu"]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    said, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        try:
            main([str(word) for word in (*words, "--json")])
        except SystemExit as ended:
            if ended.code:
                raise RefusedError(told.getvalue()) from None
    return SimpleNamespace(**json.loads(said.getvalue()), told=told.getvalue())


def photo_run(place: Path, classes: int = 6, each: int = 10) -> tuple[Path, Path]:
    """A run with random weights, and a folder of small pictures, of which three cannot be read."""
    random = np.random.default_rng(1)
    photos = place / "photos"
    for label in range(classes):
        folder = photos / f"person {label}"
        folder.mkdir(parents=True)
        for number in range(each):
            pixels = random.integers(0, 256, (10, 10), np.uint8)
            Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    run = random_run(place / "run", data=photos)
    (photos / "person 0/03.png").write_bytes(b"no image")
    (photos / "person 1/empty.png").touch()
    (photos / "stray.png").write_bytes((photos / "person 2/00.png").read_bytes())
    return run.path, photos


def rows_of(found) -> dict[str, tuple[str, bytes]]:
    """Label and embedding of each sample by its path; fails where one is there twice."""
    rows = {
        path: (name, row.tobytes())
        for path, name, row in zip(found.paths, found.names, found.embeddings, strict=True)
    }
    assert len(rows) == len(found)
    return rows


class Job:
    """`arcset embed` by so many processes, each of which can be killed."""

    def __init__(self, count: int, place: Path, *words: object) -> None:
        self.written = place / "written.txt"
        self.processes = [
            started(
                _work,
                rank,
                count,
                [str(word) for word in words],
                place=place,
                written=self.written,
            )
            for rank in range(count)
        ]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
        self.codes()

    def codes(self) -> list[int | None]:
        until = time.monotonic() + 120
        for process in self.processes:
            process.join(max(0.1, until - time.monotonic()))
        return [process.exitcode for process in self.processes]

    def done(self) -> None:
        assert set(self.codes()) == {0}, self.written.read_text()[-3000:]


def _work(rank: int, count: int, words: list[str]) -> None:
    if count > 1:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count))
    main(["embed", *words, "--device", "cpu"])


def check_complete(folder: Path, expected: dict[str, tuple[str, bytes]], found) -> None:
    """Every sample once, with the embedding expected, and nothing half-written."""
    manifest = read_manifest(folder)
    assert rows_of(found) == expected
    assert (manifest.samples, manifest.inputs) == (len(expected), len(expected) + 3)
    left = [path for path in folder.rglob("*") if path.name.endswith(".part")]
    assert not left
    assert len(list(folder.glob("shard-*.parquet"))) == manifest.shards
