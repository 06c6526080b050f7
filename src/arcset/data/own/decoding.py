"""Own images decoded by several threads, chunk after chunk, so that memory stays bounded."""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from arcset.data.image import Pixels, Reading
from arcset.data.own.listing import Listing
from arcset.errors import DataError

__all__ = ["Watch", "decoded"]

Watch = Callable[[int, int], None]  # how many are done, of how many

_CHUNK_BYTES = 1 << 25  # of decoded images
_MOST_THREADS = 16


def decoded(
    listing: Listing,
    order: npt.NDArray[np.int64],
    reading: Reading,
    skipped: list[tuple[str, str]],
    watch: Watch | None = None,
) -> Iterator[tuple[npt.NDArray[np.int64], Pixels]]:
    """The images `order` (N,) of a listing, in this order, as chunks.

    Yields the numbers (n,) of those that could be read and their images (n, H, W) or (n, H, W, 3);
    what could not be goes to `skipped`, as path and why.
    """
    size = min(1024, max(_threads(), _CHUNK_BYTES // math.prod(reading.shape)))

    def read(index: int) -> Pixels | str:
        try:
            return reading.read(listing.content(index), listing.paths[index])
        except DataError as error:
            return str(error)

    with ThreadPoolExecutor(_threads(), "decode") as pool:
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            results = list(pool.map(read, chunk.tolist()))
            kept = [isinstance(result, np.ndarray) for result in results]
            for index, result in zip(chunk.tolist(), results, strict=True):
                if isinstance(result, str):
                    skipped.append((listing.paths[index], _why(result, listing.paths[index])))
            if any(kept):
                images = [result for result in results if isinstance(result, np.ndarray)]
                yield chunk[np.array(kept)], np.stack(images)
            if watch is not None:
                watch(start + len(chunk), len(order))


def _why(said: str, path: str) -> str:
    """The message without the path, which stands beside it."""
    return said.removeprefix(path).lstrip(" :") or said


def _threads() -> int:
    """PIL decodes without holding the interpreter's lock; one more waits for the disk."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    return min(cores + 1, _MOST_THREADS)
