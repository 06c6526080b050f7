"""The first run of an ONNX file, in a process of its own with limits of time and memory.

A graph may loop without end, or make a tensor that fills all memory: nothing in the file tells
before. What passes is remembered by the SHA-256 of the file, so that it is tried once.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from arcset.data.named.fetch import cache_folder
from arcset.errors import DataError, OptionError
from arcset.files import write_text
from arcset.recognition import onnx_trial_process
from arcset.recognition.onnx_file import OnnxFile
from arcset.recognition.onnx_input import GraphInput

__all__ = ["first_line", "remember", "run_apart"]

RECORDS = "ARCSET_ONNX_RECORDS"  # the folder of records; in the cache folder if not set
SECONDS = "ARCSET_ONNX_SECONDS"
GIGABYTES = "ARCSET_ONNX_GIGABYTES"

_SECONDS, _MOST = 60.0, 1_000_000
# ONNX Runtime took 0.2 GB besides 3.2 times the size of the file, of files of 39 and 617 MB.
_CONSTANT, _TIMES = 2 << 30, 6


def run_apart(file: OnnxFile, takes: GraphInput, shape: tuple[int, ...], output: str) -> None:
    """Load and run a model once in another process, unless its file is remembered.

    shape: of one sample as the recognizer has it, (C, H, W) or (F,). Raises `DataError` where the
    model cannot be loaded or computed, within the limits; `OptionError` where a limit is set to
    something else than a number.
    """
    seconds, memory = _limit(SECONDS, _SECONDS), _memory(file)
    if _is_remembered(file.digest):
        return
    task = {
        "seconds": seconds,
        "memory": memory,
        "input": takes.name,
        "dtype": takes.dtype.__name__,
        "shape": (*shape[1:], shape[0]) if takes.layout == "NHWC" else shape,
        "batches": (1, 2) if takes.batch is None else (takes.batch,),
        "output": output,
        "folder": str(file.path.parent.resolve()) if file.external else None,
    }
    # By its path, and without its folder among those that modules are imported from.
    command = [sys.executable, "-P", onnx_trial_process.__file__, json.dumps(task)]
    try:
        ended = subprocess.run(command, input=file.content, capture_output=True, timeout=seconds)
        done = json.loads(ended.stdout) if ended.returncode == 0 else None
    except subprocess.TimeoutExpired:
        raise DataError(
            f"{file.path} was stopped: its first run took more than {seconds:g} seconds; allow "
            f"more in the environment variable {SECONDS} if you trust it"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file.path} cannot be tried: a process cannot be started for it ({error})"
        ) from None
    if done is None:
        raise DataError(f"{file.path} was stopped: its first run ended with {_end(ended)}")
    if done.get("memory"):
        raise DataError(
            f"{file.path} was stopped: its first run needs more than {memory / 2**30:.3g} GB of "
            f"memory; allow more in the environment variable {GIGABYTES} if you trust it"
        )
    # A model may call its batch free and take one sample only: then the first one has passed.
    if "error" in done and not done["shapes"]:
        what = "computed" if done["loaded"] else "loaded"
        raise DataError(f"{file.path} cannot be {what}: {first_line(done['error'])}")
    _keep(file.digest)


def remember(content: bytes) -> None:
    """Spare a file of these bytes the trial: one that this program has just made itself."""
    _keep(hashlib.sha256(content).hexdigest())


def first_line(said: str) -> str:
    """What ONNX Runtime says, in one line without its codes, and not all of a long one."""
    if (failed := re.search(r"while running (\w+) node", said)) is not None:
        return f"its operator {failed[1]} fails"
    first = said.strip().splitlines()[0] if said.strip() else "it gives no reason"
    short = first.rsplit(" : ", 1)[-1].strip() or first
    short = "".join(letter if letter.isprintable() else "?" for letter in short)
    return short if len(short) <= 200 else short[:197] + "…"


def _limit(name: str, usual: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else usual
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST:
        raise OptionError(
            f"the environment variable {name} is {text!r}, expected a number above 0 and at most "
            f"{_MOST:,}"
        )
    return value


def _memory(file: OnnxFile) -> int:
    """How many bytes the trial may take."""
    usual = (_CONSTANT + _TIMES * file.size) / 2**30
    return int(_limit(GIGABYTES, usual) * 2**30)


def _end(ended: "subprocess.CompletedProcess[bytes]") -> str:
    if ended.returncode >= 0:
        return f"exit code {ended.returncode}"
    try:
        name = signal.Signals(-ended.returncode).name
    except ValueError:
        name = f"signal {-ended.returncode}"
    return f"{name}, which the system sends when memory is short" if name == "SIGKILL" else name


def _record(digest: str) -> Path:
    folder = os.environ.get(RECORDS)
    return (Path(folder) if folder else cache_folder() / "onnx") / digest


# Where records cannot be read or written, a file is tried each time. RuntimeError: no home folder.


def _is_remembered(digest: str) -> bool:
    try:
        return _record(digest).is_file()
    except (OSError, RuntimeError):
        return False


def _keep(digest: str) -> None:
    with contextlib.suppress(OSError, RuntimeError):
        write_text(_record(digest), "This ONNX file has run within the limits.\n")
