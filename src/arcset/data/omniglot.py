"""Omniglot: characters of many alphabets, each drawn by twenty people, found here or downloaded.

Lake, Salakhutdinov, Tenenbaum: Human-level concept learning through probabilistic program
induction (2015). The images are 28×28, reduced from 105×105 by area averaging, with bright strokes
on black as in MNIST.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset, divided
from arcset.data.download import download
from arcset.data.omniglot_archive import DRAWERS, SIDE, Archive
from arcset.data.places import cache_folder, data_folders
from arcset.data.registry import DATASETS, DatasetEntry

__all__ = ["OMNIGLOT", "Omniglot"]

LICENCE = "MIT (Brenden Lake, Ruslan Salakhutdinov, Joshua Tenenbaum)"

_TRAINING = 16  # drawers 01 to 16 of every character; 17 to 20 are for testing


@dataclass(frozen=True)
class Omniglot:
    """The archives, found on this machine or fetched into the cache.

    mirrors: addresses of folders, tried in this order. background: what is always read.
    evaluation: further alphabets, read where the archive is here; only `download` fetches it.
    """

    mirrors: tuple[str, ...]
    background: Archive
    evaluation: Archive

    def load(self) -> Dataset:
        """Read what is here, after downloading the background set if it is not; `DataError`."""
        found = self.background.read(self._fetch(self.background))
        apart: dict[str, tuple[str, ...]] = {}
        if (further := self._find(self.evaluation)) is not None:
            evaluation = self.evaluation.read(further)
            found |= evaluation
            apart["test"] = tuple(evaluation)
        return divided(
            "omniglot",
            np.stack(list(found.values())).reshape(-1, SIDE, SIDE),  # (20 C, 28, 28)
            np.repeat(np.arange(len(found)), DRAWERS),
            tuple(found),
            testing=np.tile(np.arange(DRAWERS) >= _TRAINING, len(found)),
            licence=LICENCE,
            apart=apart,
            invert=True,
        )

    def download(self) -> str:
        """Download what is not here of both archives; says where they are, as `locate` does."""
        for archive in (self.background, self.evaluation):
            self._fetch(archive)
        return self.locate()

    def locate(self) -> str:
        """Where the archives are, or would come from; no network."""
        main, further = self._find(self.background), self._find(self.evaluation)
        if main is None:
            return f"not here: would be downloaded from {self.mirrors[0]}"
        if further is None:
            return str(main.parent)
        both = self.background.characters + self.evaluation.characters
        folders = " and ".join(dict.fromkeys(str(path.parent) for path in (main, further)))
        return f"{folders}, with the evaluation set: {both:,} classes"

    def _find(self, archive: Archive) -> Path | None:
        paths = (folder / archive.file for folder in data_folders("omniglot"))
        return next((path for path in paths if path.exists()), None)

    def _fetch(self, archive: Archive) -> Path:
        return self._find(archive) or download(
            [f"{mirror.rstrip('/')}/{archive.file}" for mirror in self.mirrors],
            cache_folder() / "omniglot" / archive.file,
            sha256=None,  # the archive judges its content itself, however it was compressed
            check=archive.check,
            unpack=False,
        )


OMNIGLOT = Omniglot(
    mirrors=("https://raw.githubusercontent.com/brendenlake/omniglot/master/python/",),
    background=Archive(
        "images_background",
        characters=964,
        sha256="306aabf16afaaaf1c294c247b9f9c91f85f28cc13d8647562a5ce87e78f513a0",
    ),
    evaluation=Archive("images_evaluation", characters=659, sha256=None),
)

DATASETS.add(
    "omniglot",
    DatasetEntry(
        name="omniglot",
        title="Omniglot, drawn characters, 28×28 grey",
        licence=LICENCE,
        classes=OMNIGLOT.background.characters,
        train=OMNIGLOT.background.characters * _TRAINING,
        test=OMNIGLOT.background.characters * (DRAWERS - _TRAINING),
        locate=OMNIGLOT.locate,
        load=OMNIGLOT.load,
        download=OMNIGLOT.download,
    ),
)
