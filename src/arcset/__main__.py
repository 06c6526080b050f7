"""`python -m arcset`, the same as the command `arcset`."""

import atexit
import os
import sys

from arcset.cli import main


def _ended(code: int) -> None:
    """End this process; one of several, without taking the interpreter down.

    Now and then a thread of gloo's aborts a process whose work is done, while Python tidies up
    behind it, and torchrun would call that a failure.
    """
    library = sys.modules.get("torch.distributed")
    if library is not None and library.is_available() and library.is_initialized():
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    try:
        main()
    except SystemExit as end:
        _ended(end.code if isinstance(end.code, int) else 1)
