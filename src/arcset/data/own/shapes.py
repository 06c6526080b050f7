"""Which shape own images are read in, where nobody says: found from the headers of some of them."""

import numpy as np

from arcset.data.image import FITS, Reading, exif_orientation, is_grey, open_image
from arcset.data.own.listing import Listing
from arcset.errors import DataError, OptionError

__all__ = ["SIDE", "choose_reading"]

SIDE = 112  # of the square, as face recognition has it
AS_THEY_ARE = 128  # a side: images of one size up to this keep it
LOOKED_AT = 256  # headers, spread evenly over the samples


def choose_reading(
    listing: Listing,
    *,
    fit: str = "pad",
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
    if fit not in FITS:
        raise OptionError(f"fit {fit!r} is unknown, expected one of: {', '.join(FITS)}")
    if size is None or channels is None:
        heads = _heads(listing)
        if size is None:
            size = _size([(height, width) for height, width, _ in heads])
        if channels is None:
            channels = 1 if all(grey for _, _, grey in heads) else 3
    height, width = (size, size) if isinstance(size, int) else size
    return Reading(channels, height, width, fit=fit, invert=invert)


def _size(sizes: list[tuple[int, int]]) -> tuple[int, int]:
    longest = max(max(size) for size in sizes)
    if len(set(sizes)) == 1 and longest <= AS_THEY_ARE:
        return sizes[0]
    return (min(longest, SIDE),) * 2


def _heads(listing: Listing) -> list[tuple[int, int, bool]]:
    """Height, width and greyness of some images; those that cannot be read are left out."""
    count = min(LOOKED_AT, len(listing))
    heads, why = [], ""
    for index in np.linspace(0, len(listing) - 1, count).round().astype(int).tolist():
        try:
            heads.append(_head(listing.content(index), listing.paths[index]))
        except DataError as error:
            why = why or str(error)
    if not heads:
        which = "none" if count == len(listing) else f"none of {count} that were looked at"
        raise DataError(
            f"{listing.place}: {which} of the {len(listing):,} images is readable: {why}"
        )
    return heads


def _head(content: bytes, name: str) -> tuple[int, int, bool]:
    with open_image(content, name) as image:
        # Only here does the size in the header not know of the orientation.
        turned = image.format in ("JPEG", "MPO", "WEBP") and exif_orientation(image) >= 5
        width, height = reversed(image.size) if turned else image.size
        return height, width, is_grey(image)
