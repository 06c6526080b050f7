"""The program in which an ONNX file runs for the first time, with limits of time and memory.

`run_apart` in `onnx_model` starts it by its path, with the model on stdin and the task as JSON; it
answers on stdout. It imports nothing of arcset, which would take it a second.
"""

import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any


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
