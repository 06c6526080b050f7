"""ORL: ten pictures each of 40 people, also known as the AT&T faces.

Samaria, Harter: Parameterisation of a stochastic model for human face identification (1994).
"""

from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.image import Pixels, decode_expected, read_file
from arcset.data.named.fetch import LocalFolder
from arcset.data.named.registry import DATASETS

_PEOPLE, _PICTURES = 40, 10
_TRAINING = 8  # pictures 1 to 8 of each person; 9 and 10 are for testing


class _Orl(LocalFolder):
    def load(self) -> Dataset:
        folder = self.find()
        names = tuple(f"s{person}" for person in range(1, _PEOPLE + 1))
        images = [
            _read(folder / name / f"{picture}.pgm")
            for name in names
            for picture in range(1, _PICTURES + 1)
        ]
        labels = np.repeat(np.arange(_PEOPLE), _PICTURES)
        train = ImageSet(np.stack(images), labels, names)  # (400, 112, 92)
        testing = np.tile(np.arange(_PICTURES) >= _TRAINING, _PEOPLE)
        return Dataset(self.name, train, None, self.licence).divide(testing)


def _read(path: Path) -> Pixels:
    return decode_expected(read_file(path), mode="L", size=(112, 92), source=str(path))


ORL = _Orl(
    name="orl",
    title="ORL (AT&T) faces, 112×92 grey",
    licence="AT&T Laboratories Cambridge, research use",
    classes=_PEOPLE,
    train=_PEOPLE * _TRAINING,
    test=_PEOPLE * (_PICTURES - _TRAINING),
    layout="s1/1.pgm … s40/10.pgm",
)
DATASETS.add(ORL.name, ORL)
