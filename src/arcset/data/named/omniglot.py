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
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arcset.data.dataset import Dataset, divided
from arcset.data.image import Pixels, average_areas, decode_expected
from arcset.data.named.fetch import cache_folder, download, find_file
from arcset.data.named.registry import DATASETS, DatasetEntry
from arcset.errors import DataError

__all__ = ["OMNIGLOT", "Archive", "Omniglot"]

LICENCE = "MIT (Brenden Lake, Ruslan Salakhutdinov, Joshua Tenenbaum)"

_TRAINING = 16  # drawers 01 to 16 of every character; 17 to 20 are for testing

_DRAWERS = 20
_SIDE = 28  # of an image as the dataset holds it

_DRAWN = 105  # of a drawing
_NAME = re.compile(r"([^/]+/character\d+)/\d+_(\d\d)\.png", re.ASCII)

# Bounds that no archive of drawings comes near: a small file cannot ask for much memory.
_MOST_BYTES, _MOST_ENTRIES, _MOST_IMAGE = 1 << 26, 1 << 17, 1 << 14

# What zipfile raises for damaged archives and for kinds it does not read, as encrypted ones.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    OverflowError,
)


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

    def check(self, path: Path) -> None:
        """Raises `DataError` as `read` does."""
        self.read(path)

    def read(self, path: Path) -> dict[str, Pixels]:
        """ALPHABET/characterNN, in order, to its drawings by drawer (20, 28, 28), ink bright.

        Raises `DataError`, naming the file, where it is damaged or holds anything else.
        """
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise DataError(
                    f"{path} holds {path.stat().st_size:,} bytes, and is no {self.file}"
                )
            with zipfile.ZipFile(path) as archive:
                found, digest = self._read(archive, path)
        except _DAMAGED as error:
            raise DataError(f"{path} cannot be read as a zip archive: {error}") from error
        if len(found) != self.characters:
            raise DataError(
                f"{path} holds {len(found)} characters, and should hold {self.characters}"
            )
        if self.sha256 is not None and digest != self.sha256:
            raise DataError(
                f"{path} does not hold the original drawings: the sha256 over their names and "
                f"pixels is {digest}, and should be {self.sha256}; replace or remove it"
            )
        return found

    def _read(self, archive: zipfile.ZipFile, path: Path) -> tuple[dict[str, Pixels], str]:
        """The characters, and the checksum that they have."""
        found: dict[str, Pixels] = {}
        digest = hashlib.sha256()
        for character, drawings in self._listed(archive, path).items():
            ink = np.empty((_DRAWERS, _DRAWN, _DRAWN), np.uint8)
            for drawer in range(_DRAWERS):
                info = drawings[drawer]
                pixels = _pixels(archive, info, f"{info.filename} in {path}")
                name = info.filename.removeprefix(f"{self.root}/")
                digest.update(name.encode() + b"\0" + np.packbits(pixels).tobytes())
                ink[drawer] = 1 - pixels  # drawn black on white
            found[character] = _shrink(ink)
        return found, digest.hexdigest()

    def _listed(
        self, archive: zipfile.ZipFile, path: Path
    ) -> dict[str, dict[int, zipfile.ZipInfo]]:
        """Character → drawer from 0 → entry, characters in order; complete, or an error."""
        entries = archive.infolist()
        if len(entries) > _MOST_ENTRIES:
            raise DataError(f"{path} holds {len(entries):,} entries, and is no {self.file}")
        found: dict[str, dict[int, zipfile.ZipInfo]] = {}
        for info in entries:
            top, _, name = info.filename.partition("/")
            hidden = name.rpartition("/")[2].startswith(".")  # what file managers leave behind
            if top != self.root or info.is_dir() or hidden:
                continue
            fits = _NAME.fullmatch(name)
            if fits is None:
                raise DataError(
                    f"{path} holds {info.filename}, which is not called as drawings are"
                )
            character, drawer = found.setdefault(fits[1], {}), int(fits[2]) - 1
            if drawer in character:
                raise DataError(f"{path} holds drawing {fits[2]} of {fits[1]} twice")
            character[drawer] = info
        for name, drawings in found.items():
            if drawings.keys() != set(range(_DRAWERS)):
                raise DataError(
                    f"{path} holds {len(drawings)} drawings of {name}, "
                    f"and should hold 01 to {_DRAWERS}"
                )
        return dict(sorted(found.items()))


def _pixels(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: str) -> Pixels:
    """One drawing (105, 105), 1 where the paper is blank and 0 where there is ink."""
    if info.file_size > _MOST_IMAGE:
        raise DataError(f"{source} holds {info.file_size:,} bytes, too many for a drawing")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{source} is compressed in a way that is not read here")
    return decode_expected(
        archive.read(info), kind="PNG", mode="1", size=(_DRAWN, _DRAWN), source=source
    )


def _shrink(ink: Pixels) -> Pixels:
    """(N, 105, 105) of 0 and 1 to (N, 28, 28): the share of ink under each pixel, 255 for all."""
    pixels = np.ascontiguousarray((255 * ink).transpose(1, 2, 0))  # (105, 105, N)
    return average_areas(pixels, _SIDE, _SIDE).transpose(2, 0, 1)


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
            np.stack(list(found.values())).reshape(-1, _SIDE, _SIDE),  # (20 C, 28, 28)
            np.repeat(np.arange(len(found)), _DRAWERS),
            tuple(found),
            testing=np.tile(np.arange(_DRAWERS) >= _TRAINING, len(found)),
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
        return find_file("omniglot", archive.file)

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
        test=OMNIGLOT.background.characters * (_DRAWERS - _TRAINING),
        locate=OMNIGLOT.locate,
        load=OMNIGLOT.load,
        download=OMNIGLOT.download,
    ),
)
