"""A Python that has Ray beside all that the tests have, or a clear line where it cannot be had."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import arcset
from support.processes import environment

_ROOT = Path(__file__).parents[2]
_TOOL = _ROOT / "tools" / "environments.py"
_CONSTRAINTS = _ROOT / "constraints.txt"


def ray_python() -> tuple[str, dict[str, str]]:
    """The interpreter, and the environment variables to run it with."""
    if importlib.util.find_spec("ray") is not None:
        return sys.executable, environment()
    (pinned,) = (
        line for line in _CONSTRAINTS.read_text("utf-8").splitlines() if line.startswith("ray==")
    )
    name, packages = pinned.replace("==", "-"), pinned.replace("ray", "ray[data]")
    command = [sys.executable, _TOOL, name, packages, "--constraint", _CONSTRAINTS]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"Ray cannot be installed: {done.stderr[-300:]}")
    here = environment()
    paths = [
        here["PYTHONPATH"],
        str(Path(arcset.__file__).parents[1]),
        sysconfig.get_path("purelib"),
    ]
    return done.stdout.strip(), {**here, "PYTHONPATH": os.pathsep.join(paths)}
