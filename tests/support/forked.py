"""Real processes that need not import everything anew: each is forked from one that has.

That one is started with the first of them, does nothing but fork, and ends with the tests.
"""

import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

__all__ = ["started", "together"]

_PRELOADED = [
    "arcset.cli.train",
    "arcset.cli.embed",
    "arcset.cli.gallery",
    "arcset.recognition.embed_many",
    "pyarrow.parquet",
    "sklearn.isotonic",
]
_PRELOADED += ["torch._dynamo", "arcset.service.app", "arcset.service.server"]


def started(work: Callable[..., object], *words: Any, place: Path, written: Path) -> BaseProcess:
    """A process that does `work(*words)` in the folder `place` and writes to the file `written`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    process = context.Process(target=_work, args=(work, words, place, written))
    process.start()
    return process


def together(count: int, work: Callable[..., object], *words: Any, place: Path) -> None:
    """`count` processes that do `work(*words)`, each as if torchrun had started it.

    Where one fails the others are killed, and the error holds what all of them wrote.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    written = place / f"{work.__name__}-{count}-{port}.txt"
    written.touch()
    group = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_PORT": str(port)}
    variables = [{**group, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    processes = [
        started(_one_of, one, work, words, place=place, written=written) for one in variables
    ]
    while any(process.is_alive() for process in processes):
        if any(process.exitcode for process in processes):
            for process in processes:
                process.kill()
        time.sleep(0.02)
    assert [process.exitcode for process in processes] == [0] * count, written.read_text()


def _one_of(variables: dict[str, str], work: Callable[..., object], words: tuple[Any, ...]) -> None:
    os.environ.update(variables, MASTER_ADDR="127.0.0.1")
    work(*words)


def _work(work: Callable[..., object], words: tuple[Any, ...], place: Path, written: Path) -> None:
    os.chdir(place)
    with written.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    torch.set_num_threads(1)
    work(*words)
