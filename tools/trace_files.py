"""In how many Python files of the package a command calls functions.

    python tools/trace_files.py train faces/ --out runs/faces --epochs 1
    python tools/trace_files.py --list identify people.db visitor.jpg

Everything after the options of this tool is a command of arcset, run in this process under
`sys.setprofile`. What a module does while it is imported does not count: class bodies, decorators
and registries run for everybody who imports the file. Threads count, other processes do not.
Templates, which Jinja compiles, are listed and not counted.
"""

import argparse
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import arcset

PACKAGE = Path(arcset.__file__).parent


class Calls:
    """Counts calls by file, those made while a module of the package is imported left out."""

    def __init__(self) -> None:
        self.by_file: Counter[str] = Counter()
        self._prefix = str(PACKAGE) + "/"

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """As `sys.setprofile` calls it."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self._prefix):
            return
        if code.co_name != "<module>" and not _within_import(frame):
            self.by_file[code.co_filename[len(self._prefix) :]] += 1


def _within_import(frame: FrameType | None) -> bool:
    """Whether a frame runs because a module is being imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] != "__main__":
            return True
        frame = frame.f_back
    return False


def trace(words: list[str]) -> tuple[Calls, int]:
    """Run `arcset WORDS…`; the calls, and the exit code."""
    from arcset.cli import main

    calls, code = Calls(), 0
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls, code


def tell() -> int:
    """Print the number of files, with `--list` each of them and its calls; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name the files and count the calls")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="a command of arcset")
    options = parser.parse_args()
    calls, code = trace(options.words)
    if options.list:
        for file, count in sorted(calls.by_file.items()):
            print(f"{count:>9,}  {file}")
    print(f"{sum(file.endswith('.py') for file in calls.by_file)} files")
    return code


if __name__ == "__main__":
    sys.exit(tell())
