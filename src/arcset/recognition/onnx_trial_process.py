"""The program that `onnx_trial` starts: loads a model and runs it once, within limits.

It is run by its path and imports nothing of arcset, whose imports would take seconds. The model
comes on stdin, what to do with it as JSON in the first argument; the outcome is JSON on stdout.
"""

import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["attempt", "limit"]


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
    """Load the model and run it on batches of ones; says how far it came.

    task: input, dtype, shape (of one sample), batches, output, and folder, where further weights
        lie, or None.
    """
    done: dict[str, Any] = {"loaded": False, "shapes": []}
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
        done["loaded"] = True
        for batch in task["batches"]:
            samples = np.ones((batch, *task["shape"]), task["dtype"])
            (found,) = session.run([task["output"]], {task["input"]: samples})
            done["shapes"].append(list(np.shape(found)))
    except BaseException as error:
        said = str(error) or type(error).__name__
        done["error"] = said
        done["memory"] = isinstance(error, MemoryError) or any(
            word in said for word in ("bad_alloc", "Failed to allocate memory")
        )
    return done


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    limit(given["seconds"], given["memory"])
    sys.stdout.write(json.dumps(attempt(given)))
