"""lfw-sample: 433 photos of 352 people of Labeled Faces in the Wild, deep-funneled.

Huang, Ramesh, Berg, Learned-Miller: Labeled Faces in the Wild (2007); Huang, Mattar, Lee,
Learned-Miller: Learning to align from scratch (2012). None of these people is in the set's own
list of pairs, so that a model trained on them can still be judged by the usual test.
"""

from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.image import Pixels, decode_expected, read_file
from arcset.data.named.fetch import LocalFolder
from arcset.data.named.registry import DATASETS
from arcset.errors import DataError

_PEOPLE, _PHOTOS, _SEVERAL = 352, 433, 52  # several: people with more photos than one


class _LfwSample(LocalFolder):
    def load(self) -> Dataset:
        folder = self.find()
        photos = _photos(folder)
        counts = [len(paths) for paths in photos.values()]
        if (len(counts), sum(counts)) != (_PEOPLE, _PHOTOS):
            raise DataError(
                f"{folder} holds {sum(counts)} photos of {len(counts)} people, and should hold "
                f"{_PHOTOS} of {_PEOPLE}; copy it again"
            )
        images = [_read(path) for paths in photos.values() for path in paths]
        # Of people with several photos, the last one is for testing.
        testing = [number == count > 1 for count in counts for number in range(1, count + 1)]
        labels = np.repeat(np.arange(len(counts)), counts)
        train = ImageSet(np.stack(images), labels, tuple(photos))  # (433, 250, 250, 3)
        return Dataset(self.name, train, None, self.licence).divide(np.array(testing))


def _read(path: Path) -> Pixels:
    return decode_expected(read_file(path), mode="RGB", size=(250, 250), source=str(path))


def _photos(folder: Path) -> dict[str, list[Path]]:
    """Everybody's photos by name, both in order; other files, as lists or previews, are left."""
    people = sorted(path.name for path in folder.iterdir() if path.is_dir())
    photos = {
        name: sorted((folder / name).glob(f"{name}_[0-9][0-9][0-9][0-9].jpg")) for name in people
    }
    return {name: paths for name, paths in photos.items() if paths}


LFW_SAMPLE = _LfwSample(
    name="lfw-sample",
    title="a part of LFW, faces, 250×250 RGB",
    licence="University of Massachusetts, research use",
    classes=_PEOPLE,
    train=_PHOTOS - _SEVERAL,
    test=_SEVERAL,
    layout="NAME/NAME_0001.jpg …",
)
DATASETS.add(LFW_SAMPLE.name, LFW_SAMPLE)
