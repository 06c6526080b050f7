"""Memory that is there before it is written."""

import ctypes
import sys
import threading

import numpy as np
import numpy.typing as npt

__all__ = ["provide"]

_PAGE = 4096
_AT_ONCE = 1 << 24  # bytes; so that faults of others do not wait for long
_WORTH = 1 << 26  # bytes from which on a thread is worth it
_POPULATE_WRITE = 23  # madvise: provide pages for writing, and leave what is in them


def provide(memory: npt.NDArray[np.generic]) -> None:
    """Let the system provide the pages of a new array in the background.

    It does so anyway when they are first written, but whoever writes has to wait then; for a large
    gallery that takes as long as reading its file. Where the system does not know how (Linux has
    known since 5.14), nothing happens. What is in the array stays.
    """
    if sys.platform != "linux" or memory.nbytes < _WORTH:
        return
    threading.Thread(target=_provide, args=(memory,), daemon=True).start()


def _provide(memory: npt.NDArray[np.generic]) -> None:
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    start = -(-memory.ctypes.data // _PAGE) * _PAGE
    stop = (memory.ctypes.data + memory.nbytes) // _PAGE * _PAGE
    for place in range(start, stop, _AT_ONCE):
        if advise(place, min(_AT_ONCE, stop - place), _POPULATE_WRITE) != 0:
            return
