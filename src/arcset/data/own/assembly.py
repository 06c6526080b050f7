"""Own images in the order that a dataset wants: those for training first, those for testing after.

So both parts are slices of one array, be it in memory or in a file, and nothing is copied.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.image import Pixels, Reading
from arcset.data.own.decoding import Watch, decoded
from arcset.data.own.listing import Listing
from arcset.data.own.parts import apart_identities, for_testing
from arcset.errors import DataError

__all__ = [
    "LICENCE",
    "MOST_MEMORY",
    "Assembly",
    "assemble",
    "check_identities",
    "check_memory",
    "place_name",
]

LICENCE = "unknown"
MOST_MEMORY = 1 << 31  # bytes of pixels, 2 GiB


@dataclass(frozen=True, eq=False)
class Assembly:
    """All about the images but their pixels.

    labels (N,), class_names, paths (N): as in `ImageSet`, first the `training` images for training.
    apart, skipped: as in `Dataset`.
    """

    name: str
    labels: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None
    training: int
    apart: dict[str, tuple[str, ...]]
    skipped: tuple[tuple[str, str], ...] = ()

    def dataset(self, images: npt.NDArray[Any], reading: Reading | None) -> Dataset:
        """With the pixels (N, …), in the same order; they are not copied."""

        def part(rows: slice) -> ImageSet:
            paths = None if self.paths is None else self.paths[rows]
            return ImageSet(images[rows], self.labels[rows], self.class_names, paths)

        more = self.training < len(self.labels)
        return Dataset(
            self.name,
            train=part(slice(self.training)),
            test=part(slice(self.training, None)) if more else None,
            licence=LICENCE,
            held_out="all",
            apart=self.apart,
            fit="pad" if reading is None else reading.fit,
            invert=False if reading is None else reading.invert,
            skipped=self.skipped,
        )


def assemble(
    listing: Listing,
    reading: Reading,
    *,
    write: Callable[[Pixels], None],
    swap: Callable[[int, int], None],
    watch: Watch | None = None,
    single: bool = False,
) -> Assembly:
    """Decode every sample and hand the images over in their order.

    write: takes the next images (n, H, W) or (n, H, W, 3).
    swap: exchanges two of the images written before, by their numbers.
    single: whether a single identity will do.
    Raises `DataError` where fewer than two identities are left.
    """
    names = listing.names
    if not single:
        check_identities(set(names), listing.place)
    testing = for_testing(names, listing.paths, listing.parts)
    order = np.concatenate([np.flatnonzero(~testing), np.flatnonzero(testing)])
    skipped = list(listing.skipped)
    kept = [np.empty(0, np.int64)]
    for indices, images in decoded(listing, order, reading, skipped, watch):
        write(images)
        kept.append(indices)
    rows = np.concatenate(kept).tolist()
    left = {names[row] for row in rows}
    for name, count in Counter(names).items():
        if name not in left:
            skipped.append((name, f"is left out: none of its {count:,} images can be read"))
    if not rows:
        first = ": ".join(skipped[len(listing.skipped)])
        raise DataError(
            f"{listing.place}: none of the {len(names):,} images can be read, as {first}"
        )
    if not single:
        check_identities(left, listing.place)
    training = len(rows) - int(testing[rows].sum())
    training = _train_on_everybody(rows, names, training, swap)
    class_names = tuple(sorted(left))
    numbers = {name: number for number, name in enumerate(class_names)}
    parts = None if listing.parts is None else [listing.parts[row] for row in rows]
    return Assembly(
        name=place_name(listing.place),
        labels=np.array([numbers[names[row]] for row in rows], np.int64),
        class_names=class_names,
        paths=tuple(listing.paths[row] for row in rows),
        training=training,
        apart=apart_identities([names[row] for row in rows], parts),
        skipped=tuple(skipped),
    )


def _train_on_everybody(
    rows: list[int], names: Any, training: int, swap: Callable[[int, int], None]
) -> int:
    """Give an identity whose training images cannot be read one of its test images for training."""
    known = {names[row] for row in rows[:training]}
    for place in range(training, len(rows)):
        if names[rows[place]] not in known:
            known.add(names[rows[place]])
            if place != training:
                swap(place, training)
                rows[place], rows[training] = rows[training], rows[place]
            training += 1
    return training


def check_memory(count: int, reading: Reading, place: Path) -> None:
    """Raises `DataError` where the pixels of `count` images would take more than `MOST_MEMORY`."""
    needed = count * math.prod(reading.shape)
    if needed > MOST_MEMORY:
        raise DataError(
            f"the {count:,} images of {place} would take {needed / 2**30:.3g} GiB in memory, "
            f"more than {MOST_MEMORY / 2**30:.3g}: run `arcset data pack {place} --out PACK`, and "
            f"use the pack, which stays on disk"
        )


def check_identities(names: set[str], place: Path) -> None:
    """Raises `DataError` for fewer than two."""
    if len(names) < 2:
        only = f"only one identity, {min(names)!r}" if names else "no identity"
        raise DataError(
            f"{place} holds {only}, and at least two are needed: give each a sub-folder, "
            f"or a label, of its own"
        )


def place_name(place: Path) -> str:
    """What the dataset is called: the name of the folder, or of the file without its extension."""
    whole = place if place.name not in ("", "..") else place.resolve()
    return whole.name if whole.is_dir() else whole.stem
