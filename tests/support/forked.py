"""Real processes that need not import everything anew: each is forked from one that has.

That one is started with the first of them, does nothing but fork, and ends with the tests.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

__all__ = ["started"]

_PRELOADED = ["arcset.cli", "arcset.recognition.bulk", "pyarrow.parquet", "sklearn.isotonic"]
_PRELOADED += ["torch._dynamo", "arcset.service.app", "arcset.service.server"]


def started(work: Callable[..., object], *words: Any, place: Path, written: Path) -> BaseProcess:
    """A process that does `work(*words)` in the folder `place` and writes to the file `written`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    process = context.Process(target=_work, args=(work, words, place, written))
    process.start()
    return process


def _work(work: Callable[..., object], words: tuple[Any, ...], place: Path, written: Path) -> None:
    os.chdir(place)
    with written.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    torch.set_num_threads(1)
    work(*words)
