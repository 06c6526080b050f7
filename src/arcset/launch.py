"""What torchrun, or any launcher like it, has told this process: its rank, and how it ends."""

import atexit
import os
import sys
from typing import NoReturn

from arcset.errors import OptionError


def world_size() -> int:
    """How many processes were started together; 1 for one that was started alone."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    return count if "MASTER_ADDR" in os.environ else 1


def rank_and_size() -> tuple[int, int]:
    """Which of how many processes this is: (0, 1) for one that was started alone.

    As RANK and WORLD_SIZE say, which torchrun and others set, or Slurm's SLURM_PROCID and
    SLURM_NTASKS. For work that is shared without any exchange between the processes.
    """
    for names in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        texts = [os.environ.get(name, "") for name in names]
        if not all(texts):
            continue
        if not (all(map(str.isdecimal, texts)) and int(texts[0]) < int(texts[1])):
            raise OptionError(f"{names[0]}={texts[0]} is no process of {names[1]}={texts[1]}")
        return int(texts[0]), int(texts[1])
    return 0, 1


def is_main_process() -> bool:
    """Whether this process is alone, or the first of those that were started together."""
    return world_size() < 2 or os.environ.get("RANK", "0") == "0"


def is_restarted() -> bool:
    """Whether torchrun has started this process again after one of its kind had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def leave(code: int) -> NoReturn:
    """End this process, one of several, without taking the interpreter down.

    Now and then a thread of gloo's aborts a process whose work is done, while Python tidies up
    behind it, and torchrun would call that a failure. What was registered to run at the end runs.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
