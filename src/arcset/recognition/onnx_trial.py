"""The first run of an ONNX file, in a process of its own with limits of time and memory.

A graph may loop without end, or make a tensor that fills all memory: nothing in the file tells
before. What passes is remembered by the SHA-256 of the file, so that it is tried once.

This file is also the program that is run there, by its path. Imports of arcset, which would take
that program a second, are in the functions of the process that waits for it.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcset.recognition.onnx_file import OnnxFile

__all__ = ["attempt", "first_line", "limit", "remember", "run_apart"]

RECORDS = "ARCSET_ONNX_RECORDS"  # the folder of records; in the cache folder if not set
SECONDS, USUAL_SECONDS = "ARCSET_ONNX_SECONDS", 60.0
GIGABYTES = "ARCSET_ONNX_GIGABYTES"
# ONNX Runtime took 0.2 GB besides 3.2 times the size of the file, of files of 39 and 617 MB.
_CONSTANT, _TIMES = 2.0, 6  # GB, and times the size


def run_apart(file: "OnnxFile", **task: Any) -> None:
    """Load and run a model once in another process, unless its file is remembered.

    task: name, dtype and shape of a sample as the graph takes it, batches, output: see `attempt`.
    Raises `DataError` where the model cannot be loaded or computed within the limits, and
    `OptionError` where a limit is set to something else than a number.
    """
    from arcset.errors import DataError

    seconds = _limit_of(SECONDS, USUAL_SECONDS)
    gigabytes = _limit_of(GIGABYTES, _CONSTANT + _TIMES * file.size / 2**30)
    if _is_remembered(file.digest):
        return
    task |= {"seconds": seconds, "memory": int(gigabytes * 2**30)}
    task["folder"] = str(file.path.parent.resolve()) if file.external else None
    # By its path, and without its folder among those that modules are imported from.
    command = [sys.executable, "-P", __file__, json.dumps(task)]
    stopped = f"{file.path} was stopped: its first run"
    try:
        ended = subprocess.run(command, input=file.content, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise DataError(
            f"{stopped} took more than {seconds:g} seconds; allow more in the environment variable "
            f"{SECONDS} if you trust it"
        ) from None
    except OSError as error:
        raise DataError(f"{file.path} cannot be tried in a process of its own: {error}") from None
    try:
        outcome = json.loads(ended.stdout)
    except ValueError:
        raise DataError(f"{stopped} crashed, with exit code {ended.returncode}") from None
    if outcome.get("memory"):
        raise DataError(
            f"{stopped} needs more than {gigabytes:.3g} GB of memory; allow more in the "
            f"environment variable {GIGABYTES} if you trust it"
        )
    # A model may call its batch free and take one sample only: then the first one has passed.
    if "error" in outcome and not outcome["passed"]:
        what = "computed" if outcome["loaded"] else "loaded"
        raise DataError(f"{file.path} cannot be {what}: {first_line(outcome['error'])}")
    _keep(file.digest)


def first_line(error: object) -> str:
    """What ONNX Runtime says, in one line without its codes, and not all of a long one."""
    text = str(error).strip()
    if (failed := re.search(r"while running (\w+) node", text)) is not None:
        return f"its operator {failed[1]} fails"
    first = text.splitlines()[0] if text else "it gives no reason"
    short = first.rsplit(" : ", 1)[-1].strip() or first
    return "".join(letter if letter.isprintable() else "?" for letter in short[:200])


def remember(content: bytes) -> None:
    """Spare a file of these bytes the trial: one that this program has just made itself."""
    _keep(hashlib.sha256(content).hexdigest())


def _limit_of(name: str, usual: float) -> float:
    from arcset.errors import OptionError

    text = os.environ.get(name, "")
    try:
        value = float(text) if text else usual
    except ValueError:
        value = math.nan
    if not 0 < value <= 1_000_000:
        raise OptionError(
            f"the environment variable {name} is {text!r}, expected a number above 0 and at most "
            "1,000,000"
        )
    return value


def _record(digest: str) -> Path:
    from arcset.data.named.fetch import cache_folder

    folder = os.environ.get(RECORDS)
    return (Path(folder) if folder else cache_folder() / "onnx") / digest


# Where records cannot be read or written, a file is tried each time. RuntimeError: no home folder.


def _is_remembered(digest: str) -> bool:
    try:
        return _record(digest).is_file()
    except (OSError, RuntimeError):
        return False


def _keep(digest: str) -> None:
    from arcset.files import write_text

    with contextlib.suppress(OSError, RuntimeError):
        write_text(_record(digest), "This ONNX file has run within the limits.\n")


# What runs in the other process


def limit(seconds: float, memory: int) -> None:
    """Bound this process: by processor time where there are such limits, by bytes on Linux.

    The time is bounded a second time here, as the process that waits for this one may be killed.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    wanted = {resource.RLIMIT_CPU: int(seconds) + 1, resource.RLIMIT_CORE: 0}
    if sys.platform == "linux":  # elsewhere it does not count what is mapped
        wanted[resource.RLIMIT_DATA] = memory
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def attempt(task: Mapping[str, Any]) -> dict[str, Any]:
    """Load the model on stdin and run it on batches of ones; says how far it came.

    task: name of the input, dtype, shape (of one sample), batches, output, and folder, where
        further weights lie, or None.
    """
    outcome: dict[str, Any] = {"loaded": False, "passed": 0}
    try:
        import numpy as np
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        if task["folder"] is not None:
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", task["folder"]
            )
        session = onnxruntime.InferenceSession(
            sys.stdin.buffer.read(), options, providers=["CPUExecutionProvider"]
        )
        outcome["loaded"] = True
        for batch in task["batches"]:
            samples = np.ones((batch, *task["shape"]), task["dtype"])
            session.run([task["output"]], {task["name"]: samples})
            outcome["passed"] += 1
    except BaseException as error:
        text = str(error) or type(error).__name__
        words = ("bad_alloc", "Failed to allocate memory")
        outcome["error"] = text
        outcome["memory"] = isinstance(error, MemoryError) or any(word in text for word in words)
    return outcome


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    limit(given["seconds"], given["memory"])
    sys.stdout.write(json.dumps(attempt(given)))
