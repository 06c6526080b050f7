"""One of several processes: how it ends."""

import atexit
import os
import sys
from typing import NoReturn

__all__ = ["leave"]


def leave(code: int) -> NoReturn:
    """End this process, one of several, without taking the interpreter down.

    Now and then a thread of gloo's aborts a process whose work is done, while Python tidies up
    behind it, and torchrun would call that a failure. What was registered to run at the end runs.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
