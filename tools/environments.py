"""Virtual environments in the user's cache, for what tests need and is too large for `make test`.

    python tools/environments.py milvus-2.3.5 milvus==2.3.5

prints the path of a Python that has these packages. Whoever asks first makes the environment, the
others wait.
"""

import fcntl
import os
import subprocess
import sys
import venv
from pathlib import Path


def python_with(name, *packages):
    """The Python of the environment `name`, whose packages are given as to pip.

    Raises `subprocess.CalledProcessError` where they cannot be had.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "arcset" / name
    folder.mkdir(parents=True, exist_ok=True)
    python, installed = folder / "bin" / "python", folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists():
            venv.create(folder, with_pip=True)
            pip = [python, "-m", "pip", "install", "--quiet", *packages]
            subprocess.run(pip, check=True, stdout=sys.stderr)
            installed.touch()
    return python


if __name__ == "__main__":
    print(python_with(*sys.argv[1:]))
