"""The peak memory of one contender, in a process that does nothing else."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from head import machine
from head.contenders import CONTENDERS, Cell

STEPS = 2  # the second may hold more than the first: an optimizer has its state by then
TINY = 64  # classes


def measure(name: str, cell: Cell) -> dict[str, Any]:
    """The peak of two steps, over what the process held before the centers were made.

    A step on a few classes comes first, for code and thread pools that are loaded with it. What
    only building the loss needed is not counted.
    """
    tiny = CONTENDERS[name](replace(cell, classes=TINY))
    tiny.prepare()
    tiny.step(*tiny.cell.data(0))
    del tiny
    machine.trim()
    start = machine.resident()
    contender = CONTENDERS[name](cell)
    contender.prepare()
    batches = [cell.data(seed) for seed in range(STEPS)]
    machine.trim()

    def work() -> None:
        for embeddings, labels in batches:
            contender.step(embeddings, labels)

    peak, method = machine.peak_of(work)
    used = peak - start
    return {"bytes": used, "weights": used / cell.weight_bytes, "method": method}


def measure_apart(name: str, cell: Cell, threads: int) -> dict[str, Any]:
    """`measure` in a fresh process; {"skipped": why} if it would not fit or did not end well."""
    if not machine.PROC.exists():
        return {"skipped": "needs Linux"}
    reason = shortage(CONTENDERS[name](cell).need)
    if reason:
        return {"skipped": reason}
    script = Path(__file__).parent.parent / "head.py"
    options = {
        "measure": name,
        "classes": cell.classes,
        "batch": cell.batch,
        "dim": cell.dim,
        "threads": threads,
    }
    words = [f"--{option}={value}" for option, value in options.items()]
    done = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, check=False
    )
    if done.returncode < 0:
        return {"skipped": f"killed by signal {-done.returncode}"}
    if done.returncode:
        sys.exit(f"head.py --measure {name} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def shortage(need: int) -> str | None:
    """Why `need` bytes cannot be had, or None; a tenth of the free memory is left to others."""
    free = machine.available()
    if free is None or need < 0.9 * free:
        return None
    return f"needs about {need / 2**30:.0f} GB, {free / 2**30:.0f} GB are free"
