"""One archive of Omniglot: a zip of drawings, read in memory and never unpacked to disk.

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

from arcset.data.image import Pixels, average_areas, decode_expected
from arcset.errors import DataError

__all__ = ["DRAWERS", "SIDE", "Archive"]

DRAWERS = 20
SIDE = 28  # of an image as the dataset holds it

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
            ink = np.empty((DRAWERS, _DRAWN, _DRAWN), np.uint8)
            for drawer in range(DRAWERS):
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
            if drawings.keys() != set(range(DRAWERS)):
                raise DataError(
                    f"{path} holds {len(drawings)} drawings of {name}, "
                    f"and should hold 01 to {DRAWERS}"
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
    return average_areas(pixels, SIDE, SIDE).transpose(2, 0, 1)
