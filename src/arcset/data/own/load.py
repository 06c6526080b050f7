"""Own data as a dataset in memory."""

from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset
from arcset.data.image import Pixels, Reading
from arcset.data.own.arrays import load_arrays
from arcset.data.own.assembly import assemble, check_memory
from arcset.data.own.decoding import Watch
from arcset.data.own.listing import list_samples
from arcset.data.own.packs import is_pack, load_pack
from arcset.data.own.rereading import reread
from arcset.data.own.shapes import choose_reading

__all__ = ["load_own"]


def load_own(
    place: Path | str,
    *,
    reading: Reading | None = None,
    fit: str = "pad",
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    invert: bool = False,
    watch: Watch | None = None,
    single: bool = False,
) -> Dataset:
    """Read a folder tree, a table (CSV, Parquet), records (.rec), arrays (.npz) or a pack.

    reading: how images become arrays; if left out, it is found from fit, size, channels, invert and
        the headers of some images, as `choose_reading` says. It overrides these four.
    single: whether a single identity will do, as for images that are only to be embedded.
    watch: called with the number of images done and of all, from time to time.

    Files that cannot be read are in `Dataset.skipped`, with the reason, and so is an identity that
    loses all of its images. Every fifth image of an identity that has five or more is for testing,
    unless a table's column `split` says otherwise: then rows for validation or testing of an
    identity that others of its rows train on are test images, and identities without a row for
    training are `Dataset.apart`. See `for_testing`.

    Raises `DataError` where nothing can be read, where there are fewer than two identities, and
    where the images would take more than 2 GiB, `OptionError` for impossible options.
    """
    place = Path(place)
    if place.suffix.lower() == ".npz" and place.is_file():
        found = load_arrays(place)
        return reread(found, reading or _asked(found, size, channels, fit, invert), place)
    if is_pack(place):
        found = load_pack(place)
        return reread(found, reading or _asked(found, size, channels, fit, invert), place)
    listing = list_samples(place)
    if reading is None:
        reading = choose_reading(listing, fit=fit, size=size, channels=channels, invert=invert)
    check_memory(len(listing), reading, place)
    images = np.empty((len(listing), *reading.shape), np.uint8)
    filled = 0

    def write(chunk: Pixels) -> None:
        nonlocal filled
        images[filled : filled + len(chunk)] = chunk
        filled += len(chunk)

    def swap(one: int, other: int) -> None:
        images[[one, other]] = images[[other, one]]

    assembly = assemble(listing, reading, write=write, swap=swap, watch=watch, single=single)
    return assembly.dataset(images[:filled], reading)


def _asked(
    found: Dataset, size: int | tuple[int, int] | None, channels: int | None, fit: str, invert: bool
) -> Reading | None:
    """How pictures that are arrays already are to be read again; None if as they are."""
    if found.train.images.dtype != np.uint8 or (size, channels, invert) == (None, None, False):
        return None
    own_channels, *own_size = found.train.shape
    height, width = own_size if size is None else (size, size) if isinstance(size, int) else size
    return Reading(channels or own_channels, height, width, fit=fit, invert=invert or found.invert)  # type: ignore[arg-type]
