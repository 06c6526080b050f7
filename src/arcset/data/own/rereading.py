"""Pictures that are arrays already, brought to another shape."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.image import Reading
from arcset.data.own.assembly import check_memory

__all__ = ["reread"]


def reread(dataset: Dataset, reading: Reading | None, place: Path) -> Dataset:
    """The pictures of a dataset in the shape of `reading`; features stay as they are.

    Nothing is done, or copied, where they have this shape already. `place` is for messages:
    `DataError` where they would take more memory than is granted.
    """
    if reading is None or dataset.train.images.dtype != np.uint8:
        return dataset
    again = replace(reading, invert=reading.invert != dataset.invert)
    if dataset.train.images.shape[1:] == reading.shape and not again.invert:
        return dataset
    parts = [part for part in (dataset.train, dataset.test) if part is not None]
    check_memory(sum(len(part) for part in parts), reading, place)
    train, *test = (_reread(part, again) for part in parts)
    return replace(
        dataset,
        train=train,
        test=test[0] if test else None,
        fit=reading.fit,
        invert=reading.invert,
    )


def _reread(part: ImageSet, reading: Reading) -> ImageSet:
    images = np.empty((len(part), *reading.shape), np.uint8)
    for row, image in enumerate(part.images):
        images[row] = reading.read(image)
    return replace(part, images=images)
