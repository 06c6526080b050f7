"""Omniglot: characters of many alphabets, each drawn by twenty people, found here or downloaded.

Lake, Salakhutdinov, Tenenbaum: Human-level concept learning through probabilistic program
induction (2015). The images are 28×28, reduced from 105×105 by area averaging, with bright strokes
on black as in MNIST. Each of the two archives is a zip of drawings, read in memory and never
unpacked to disk:

    images_background/ALPHABET/characterNN/IIII_DD.png     105×105, one bit per pixel

IIII numbers the character, DD from 01 to 20 is the person who drew it.
"""

import hashlib
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.image import Pixels, decode_expected
from arcset.data.named.fetch import PublicFiles
from arcset.data.named.registry import DATASETS
from arcset.errors import DataError
from arcset.files import reading

_TRAINING = 16  # drawers 01 to 16 of every character; 17 to 20 are for testing

_DRAWERS = 20
_SIDE = 28  # of an image as the dataset holds it

_DRAWN = 105  # of a drawing


@dataclass(frozen=True)
class Archive:
    """What one archive is called and must hold.

    root: its top folder, and its name without `.zip`. characters: how many it has.
    sha256: checksum, in hex, over all drawings, by character and drawer: of each its name below the
        root (UTF-8), a zero byte, and its pixels, eight to a byte, row after row. The same drawings
        may be compressed in many ways, and this does not depend on how. None if it is not known.
    """

    root: str
    characters: int
    sha256: str | None

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.root}.zip"

    def read(self, path: Path) -> dict[str, Pixels]:
        """ALPHABET/characterNN, in order, to its drawings by drawer (20, 28, 28), ink bright.

        Raises `DataError`, naming the file, where it is damaged or holds other drawings.
        """
        characters: dict[str, Pixels] = {}
        digest = hashlib.sha256()
        with reading(path, "zip archive"), zipfile.ZipFile(path) as archive:
            for character, names in self._list_drawings(archive, path).items():
                ink = np.empty((_DRAWERS, _DRAWN, _DRAWN), np.uint8)
                for drawer, name in enumerate(names):
                    pixels = decode_expected(  # 1 where the paper is blank and 0 where there is ink
                        archive.read(name),
                        mode="1",
                        size=(_DRAWN, _DRAWN),
                        source=f"{name} in {path}",
                    )
                    below = name.removeprefix(f"{self.root}/")
                    digest.update(below.encode() + b"\0" + np.packbits(pixels).tobytes())
                    ink[drawer] = 1 - pixels
                characters[character] = _shrink(ink)
        if self.sha256 is not None and digest.hexdigest() != self.sha256:
            raise DataError(
                f"{path} does not hold the original drawings: the sha256 over their names and "
                f"pixels is {digest.hexdigest()}, and should be {self.sha256}; replace or remove it"
            )
        return characters

    def _list_drawings(self, archive: zipfile.ZipFile, path: Path) -> dict[str, list[str]]:
        """The names of the drawings of each character, both in order."""
        pattern = re.compile(rf"{self.root}/([^/]+/character\d+)/\d+_\d\d\.png", re.ASCII)
        names: dict[str, list[str]] = {}
        for name in sorted(archive.namelist()):
            if drawing := pattern.fullmatch(name):
                names.setdefault(drawing[1], []).append(name)
        if [len(drawn) for drawn in names.values()] != [_DRAWERS] * self.characters:
            raise DataError(
                f"{path} holds {len(names)} characters in {sum(map(len, names.values()))} "
                f"drawings, and should hold {self.characters} in {_DRAWERS} each"
            )
        return names


def _shrink(ink: Pixels) -> Pixels:
    """(N, 105, 105) of 0 and 1 to (N, 28, 28): the share of ink under each pixel, 255 for all."""
    # A pixel is 3.75 of a drawing's: how many quarters of each of 105 it covers along a side.
    quarters = np.eye(_DRAWN, dtype=np.float32).repeat(4, axis=1)  # (105, 420)
    weights = quarters.reshape(_DRAWN, _SIDE, 15).sum(axis=2)  # (105, 28)
    shares = weights.T @ ink @ weights / 15**2
    pixels: Pixels = np.rint(255 * shares).astype(np.uint8)
    return pixels


_BACKGROUND = Archive(
    "images_background",
    characters=964,
    sha256="306aabf16afaaaf1c294c247b9f9c91f85f28cc13d8647562a5ce87e78f513a0",
)


@dataclass(frozen=True, kw_only=True)
class Omniglot(PublicFiles):
    """background: the archive that is always read. evaluation: further alphabets, read where that
    archive is here; only `download` fetches it.
    """

    background: Archive
    evaluation: Archive

    @property
    def files(self) -> tuple[str, ...]:
        return (self.background.file,)

    def check(self, file: str, path: Path) -> None:
        archive = self.background if file == self.background.file else self.evaluation
        archive.read(path)

    def load(self) -> Dataset:
        drawings = self.background.read(self.fetch(self.background.file))
        apart: dict[str, tuple[str, ...]] = {}
        if (further := self.find(self.evaluation.file)) is not None:
            evaluation = self.evaluation.read(further)
            drawings |= evaluation
            apart["test"] = tuple(evaluation)
        images = np.stack(list(drawings.values())).reshape(-1, _SIDE, _SIDE)  # (20 C, 28, 28)
        labels = np.repeat(np.arange(len(drawings)), _DRAWERS)
        train = ImageSet(images, labels, tuple(drawings))
        dataset = Dataset(self.name, train, None, self.licence, apart=apart, invert=True)
        return dataset.divide(np.tile(np.arange(_DRAWERS) >= _TRAINING, len(drawings)))

    def download(self) -> str:
        super().download()
        self.fetch(self.evaluation.file)
        return self.locate()

    def locate(self) -> str:
        text = super().locate()
        if None in (self.find(self.background.file), self.find(self.evaluation.file)):
            return text
        both = self.background.characters + self.evaluation.characters
        return f"{text}, with the evaluation set: {both:,} classes"


OMNIGLOT = Omniglot(
    name="omniglot",
    title="Omniglot, drawn characters, 28×28 grey",
    licence="MIT (Brenden Lake, Ruslan Salakhutdinov, Joshua Tenenbaum)",
    classes=_BACKGROUND.characters,
    train=_BACKGROUND.characters * _TRAINING,
    test=_BACKGROUND.characters * (_DRAWERS - _TRAINING),
    mirrors=("https://raw.githubusercontent.com/brendenlake/omniglot/master/python/",),
    background=_BACKGROUND,
    evaluation=Archive("images_evaluation", characters=659, sha256=None),
)
DATASETS.add(OMNIGLOT.name, OMNIGLOT)
