"""From a listing to arrays: which shape, which images are for testing, and their pixels in order.

Images for training come first and those for testing after them, so that both parts are slices of
one array, be it in memory or in a file, and nothing is copied.
"""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.data.dataset import Dataset, ImageSet, LazyRows, number_names, take_rows
from arcset.data.decode_many import Watch, decode_listing
from arcset.data.image import (
    Fit,
    Pixels,
    Reading,
    exif_orientation,
    is_grey,
    open_image,
)
from arcset.data.sources.base import Listing
from arcset.errors import DataError

_SIDE = 112  # of the square, as face recognition has it
_AS_THEY_ARE = 128  # a side: images of one size up to this keep it
_HEADERS = 256  # that are looked at, spread evenly over the samples
_EVERY = 5  # an identity with at least this many images gives every fifth for testing


def choose_reading(
    listing: Listing,
    *,
    fit: Fit = "pad",
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    invert: bool = False,
) -> Reading:
    """How to read the samples of `listing`; what is not given is chosen.

    size: a side of a square, or (height, width). Left out: the size that all images have, if it is
        one and at most 128 a side; otherwise a square, 112 a side, or less where no image has so
        long a side.
    channels: 1 or 3. Left out: 1 if every image is grey by its pixel type, else 3.

    Up to 256 headers are looked at, spread over all samples. Raises `OptionError` for values that
    are no such thing, and `DataError` where none of the images looked at can be read.
    """
    if size is None or channels is None:
        headers = _read_headers(listing)
        if size is None:
            size = _choose_size([(height, width) for height, width, _ in headers])
        if channels is None:
            channels = 1 if all(grey for _, _, grey in headers) else 3
    height, width = (size, size) if isinstance(size, int) else size
    return Reading(channels, height, width, fit, invert)


def _choose_size(sizes: list[tuple[int, int]]) -> tuple[int, int]:
    longest = max(max(size) for size in sizes)
    if len(set(sizes)) == 1 and longest <= _AS_THEY_ARE:
        return sizes[0]
    return (min(longest, _SIDE),) * 2


def _read_headers(listing: Listing) -> list[tuple[int, int, bool]]:
    """Height, width and greyness of some images; those that cannot be read are left out."""
    count = min(_HEADERS, len(listing))
    headers, why = [], ""
    for number in np.linspace(0, len(listing) - 1, count).round().astype(int).tolist():
        try:
            with open_image(listing.content(number), listing.paths[number]) as image:
                # Only here does the size in the header not know of the orientation.
                known = image.format in ("JPEG", "MPO", "WEBP")
                sideways = known and exif_orientation(image) >= 5
                width, height = reversed(image.size) if sideways else image.size
                headers.append((height, width, is_grey(image)))
        except DataError as error:
            why = why or str(error)
    if not headers:
        which = "none" if count == len(listing) else f"none of {count} that were looked at"
        raise DataError(
            f"{listing.path}: {which} of the {len(listing):,} images is readable: {why}"
        )
    return headers


@dataclass(frozen=True, eq=False)
class SampleTable:
    """All about the images of a dataset but their pixels.

    labels (N,), class_names, paths (N): as in `ImageSet`, first the `training` images for training.
    apart, skipped: as in `Dataset`.
    """

    name: str
    labels: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    paths: tuple[str, ...]
    training: int
    apart: dict[str, tuple[str, ...]]
    skipped: tuple[tuple[str, str], ...]

    def dataset(self, images: npt.NDArray[Any] | LazyRows, reading: Reading) -> Dataset:
        """With the pixels (N, …), in the same order; they are not copied."""

        def part(first: int, last: int) -> ImageSet:
            pixels = images[first:last]
            if isinstance(images, LazyRows):
                pixels = take_rows(images, np.arange(first, last))
            labels, paths = self.labels[first:last], self.paths[first:last]
            return ImageSet(pixels, labels, self.class_names, paths)

        count = len(self.labels)
        return Dataset(
            self.name,
            train=part(0, self.training),
            test=part(self.training, count) if self.training < count else None,
            licence="unknown",
            held_out="all",
            apart=self.apart,
            fit=reading.fit,
            invert=reading.invert,
            skipped=self.skipped,
        )


def decode_samples(
    listing: Listing,
    reading: Reading,
    append: Callable[[Pixels], object],
    *,
    watch: Watch | None = None,
    single: bool = False,
) -> SampleTable:
    """Decode every sample, those for training first; what cannot be decoded is skipped.

    append: called with the next images (n, H, W) or (n, H, W, 3), again and again.
    single: whether a single identity will do.
    An identity none of whose images for training can be read is left out.
    Raises `DataError` where fewer than two identities are left.
    """
    names = listing.names
    if not single:
        check_identities(set(names), listing.path)
    is_test = for_testing(names, listing.paths, listing.parts)
    numbers = np.flatnonzero(~is_test).tolist()
    training, unreadable = _decode(listing, numbers, reading, append, watch)
    if not training:
        raise DataError(
            f"{listing.path}: none of the {len(names):,} images can be read, as "
            f"{': '.join(unreadable[0])}"
        )
    identities = {names[number] for number in training}
    if not single:
        check_identities(identities, listing.path)
    numbers = [number for number in np.flatnonzero(is_test).tolist() if names[number] in identities]
    testing, more = _decode(
        listing, numbers, reading, append, watch, done=len(names) - len(numbers)
    )
    left_out = [
        (name, f"is left out: none of its {count:,} images for training can be read")
        for name, count in Counter(compress(names, ~is_test)).items()
        if name not in identities
    ]
    rows = training + testing
    class_names, labels = number_names([names[row] for row in rows])
    parts = None if listing.parts is None else [listing.parts[row] for row in rows]
    path = listing.path if listing.path.name not in ("", "..") else listing.path.resolve()
    return SampleTable(
        name=path.name if path.is_dir() else path.stem,
        labels=labels,
        class_names=class_names,
        paths=tuple(listing.paths[row] for row in rows),
        training=len(training),
        apart=apart_identities([names[row] for row in rows], parts),
        skipped=(*listing.skipped, *unreadable, *more, *left_out),
    )


def _decode(
    listing: Listing,
    numbers: Sequence[int],
    reading: Reading,
    append: Callable[[Pixels], object],
    watch: Watch | None,
    done: int = 0,
) -> tuple[list[int], list[tuple[str, str]]]:
    """Decode these samples; which could be read, and (path, why) of the others.

    done: how many of all samples have been dealt with before, for `watch`.
    """

    def read(number: int) -> Pixels:
        return reading.read(listing.content(number), listing.paths[number])

    rows: list[int] = []
    unreadable: list[tuple[str, str]] = []
    chunk = min(1024, max(1, (1 << 25) // math.prod(reading.shape)))  # some 32 MB
    for decoded in decode_listing(
        listing, numbers, read, unreadable, chunk=chunk, done=done, watch=watch
    ):
        if decoded:
            append(np.stack([image for _, image in decoded]))
            rows += [number for number, _ in decoded]
    return rows, unreadable


def check_identities(names: set[str], path: Path) -> None:
    """Raises `DataError` for fewer than two."""
    if len(names) < 2:
        only = f"only one identity, {min(names)!r}" if names else "no identity"
        raise DataError(
            f"{path} holds {only}, and at least two are needed: give each a sub-folder, "
            f"or a label, of its own"
        )


def for_testing(
    names: Sequence[str], paths: Sequence[str] | None, parts: Sequence[str] | None = None
) -> npt.NDArray[np.bool_]:
    """(N,): whether an image is for testing.

    Without `parts`: the images of an identity are ordered by a hash of their paths (or numbers,
    where they have none), and every fifth one is for testing; none where there are fewer than five.
    Neither the order of the samples nor the other identities matter.
    With them: the rows of an identity that are not for training, be they for validation or for
    testing, are test images where others of its rows are for training. Where none is, it is an
    identity apart (see `apart_identities`), and its images divide as they would without `parts`.

        >>> for_testing(["a"] * 5 + ["b"] * 4, [f"{i}.png" for i in range(9)]).tolist()
        [False, False, True, False, False, False, False, False, False]
    """
    testing = np.zeros(len(names), np.bool_)
    if paths is None:
        paths = [str(row) for row in range(len(names))]
    trained = _names_in_training(names, parts)
    members = defaultdict(list)
    for index, name in enumerate(names):
        if parts is not None and name in trained:
            testing[index] = parts[index] != "train"
        else:
            members[name].append(index)
    for indices in members.values():
        if len(indices) >= _EVERY:
            ordered = sorted(indices, key=lambda index: (_hash(paths[index]), paths[index]))
            testing[ordered[_EVERY - 1 :: _EVERY]] = True
    return testing


def apart_identities(
    names: Sequence[str], parts: Sequence[str] | None
) -> dict[str, tuple[str, ...]]:
    """Identities without a row for training, under "validation" and "test"; sorted.

    One that has rows of both kinds is for the test.

        >>> apart_identities(["a", "a", "b", "c"], ["train", "test", "validation", "test"])
        {'validation': ('b',), 'test': ('c',)}
    """
    if parts is None:
        return {}
    trained = _names_in_training(names, parts)
    apart: dict[str, set[str]] = {"validation": set(), "test": set()}
    for name, part in zip(names, parts, strict=True):
        if name not in trained:
            apart[part].add(name)
    apart["validation"] -= apart["test"]
    return {part: tuple(sorted(members)) for part, members in apart.items() if members}


def _names_in_training(names: Sequence[str], parts: Sequence[str] | None) -> set[str]:
    if parts is None:
        return set()
    return {name for name, part in zip(names, parts, strict=True) if part == "train"}


def _hash(path: str) -> bytes:
    return hashlib.blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest()
