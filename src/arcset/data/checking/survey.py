"""All images of a listing, looked at by several threads; what is kept of each is 33 bytes."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from arcset.data.checking.look import DIGEST, Look, look_at
from arcset.data.own.decoding import Watch
from arcset.data.own.listing import Listing
from arcset.errors import DataError

__all__ = ["Survey", "survey"]

_AT_ONCE = 256  # images handed to the threads
_MOST_THREADS = 16
_BLANK = ("", "black", "plain")


@dataclass(eq=False)
class Survey:
    """What was seen of the N images of a listing.

    contents, pixels: checksums as in `Look`, (N, 16) uint8; zeros where an image is unreadable.
    blank: (N,) uint8, a place in ("", "black", "plain").
    unreadable: position → why. sizes: by (width, height).
    """

    contents: npt.NDArray[np.uint8]
    pixels: npt.NDArray[np.uint8]
    blank: npt.NDArray[np.uint8]
    unreadable: dict[int, str] = field(default_factory=dict)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)

    @property
    def readable(self) -> npt.NDArray[np.bool_]:
        """(N,)"""
        mask = np.ones(len(self.blank), np.bool_)
        mask[list(self.unreadable)] = False
        return mask

    def blanks(self, kind: str) -> list[int]:
        """The positions of images that are "black", or "plain"."""
        return np.flatnonzero(self.blank == _BLANK.index(kind)).tolist()

    def add(self, position: int, seen: Look | str) -> None:
        """Keep what was seen of one image, or why it cannot be read."""
        if isinstance(seen, str):
            self.unreadable[position] = seen
            return
        self.contents[position] = np.frombuffer(seen.content, np.uint8)
        self.pixels[position] = np.frombuffer(seen.pixels, np.uint8)
        self.blank[position] = _BLANK.index(seen.blank)
        self.sizes[seen.width, seen.height] += 1
        self.modes[seen.mode] += 1
        self.formats[seen.format] += 1

    def same_pixels(self) -> list[list[int]]:
        """Positions of images that show the very same, two or more together; blank ones are not.

        Each group rises, and the groups rise by their first positions.
        """
        chosen = np.flatnonzero(self.readable & (self.blank == 0))
        high, low = self.pixels[chosen].view(np.uint64).T  # (n,) each
        order = np.lexsort((chosen, low, high))
        differs = (np.diff(high[order]) != 0) | (np.diff(low[order]) != 0)
        groups = np.split(chosen[order], np.flatnonzero(differs) + 1)
        return sorted(group.tolist() for group in groups if len(group) > 1)


def survey(listing: Listing, watch: Watch | None = None) -> Survey:
    """Look at every image; `watch` is called with the numbers of images done and of all."""
    count = len(listing)
    found = Survey(
        np.zeros((count, DIGEST), np.uint8),
        np.zeros((count, DIGEST), np.uint8),
        np.zeros(count, np.uint8),
    )

    def look(position: int) -> Look | str:
        path = listing.paths[position]
        try:
            return look_at(listing.content(position), path)
        except DataError as error:
            return str(error).removeprefix(path).lstrip(" :") or str(error)

    with ThreadPoolExecutor(min((os.cpu_count() or 1) + 1, _MOST_THREADS), "look") as pool:
        for start in range(0, count, _AT_ONCE):
            chunk = range(start, min(start + _AT_ONCE, count))
            for position, seen in zip(chunk, pool.map(look, chunk), strict=True):
                found.add(position, seen)
            if watch is not None:
                watch(chunk.stop, count)
    return found
