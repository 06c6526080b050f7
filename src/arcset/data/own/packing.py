"""Making a pack: own images are decoded once and written as they come, whatever their number."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from arcset.data.image import Pixels, Reading
from arcset.data.own.assembly import assemble
from arcset.data.own.decoding import Watch
from arcset.data.own.listing import list_samples
from arcset.data.own.packs import IMAGES, LABELS, PATHS, REST, VERSION, PackFile, is_pack
from arcset.data.own.shapes import choose_reading
from arcset.errors import DataError, OptionError
from arcset.files import replacing_folder

__all__ = ["Pack", "pack"]


@dataclass(frozen=True)
class Pack:
    """A pack that was made: where it is, its size on disk in bytes, and what it says of itself."""

    place: Path
    size: int
    said: PackFile

    def json(self) -> dict[str, Any]:
        """What `arcset data pack --json` prints."""
        said = self.said.model_dump(mode="json", exclude={"class_names", "sha256"})
        return {
            "out": str(self.place),
            "bytes": self.size,
            "identities": len(self.said.class_names),
            "testing": self.said.images - self.said.training,
            **said,
        }


def pack(
    place: Path | str,
    out: Path | str,
    *,
    reading: Reading | None = None,
    fit: str = "pad",
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    watch: Watch | None = None,
    force: bool = False,
) -> Pack:
    """Decode a folder tree, a table or records once, into the folder `out`.

    `load_pack(out)` then equals `load_own(place)` with the same options, bit for bit, without
    holding the images in memory; making it does not hold them either.
    force: replace a pack that is there.
    Raises `OptionError` where something is at `out`, and `DataError` as `load_own` does; what was
    at `out` stays until the new pack is complete.
    """
    place, out = Path(place), Path(out)
    _check_out(out, force)
    if place.suffix.lower() == ".npz" or is_pack(place):
        raise OptionError(f"{place} holds arrays already, and is used as it is: no pack is needed")
    listing = list_samples(place)
    if reading is None:
        reading = choose_reading(listing, fit=fit, size=size, channels=channels)
    shape = (len(listing), *reading.shape)
    with replacing_folder(out) as folder:
        _check_room(folder, prod(shape))
        with _ImageFile(folder / IMAGES, shape) as images:
            found = assemble(listing, reading, write=images.write, swap=images.swap, watch=watch)
        np.save(folder / LABELS, found.labels, allow_pickle=False)
        _write_paths(folder / PATHS, found.paths or ())
        said = PackFile(
            version=VERSION,
            name=found.name,
            source=str(place),
            kind=listing.kind,
            images=len(found.labels),
            training=found.training,
            reading=reading,
            class_names=found.class_names,
            apart=found.apart,
            skipped=found.skipped,
            notes=tuple(listing.notes),
            sha256={name: _sha256(folder / name) for name in (LABELS, PATHS)},
        )
        (folder / REST).write_text(said.model_dump_json(indent=1), encoding="utf-8")
    return Pack(out, sum(file.stat().st_size for file in out.iterdir()), said)


class _ImageFile:
    """An npy file that grows by images (n, …) until it is closed, and then knows their number."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self._file = path.open("w+b")
        self._inner = shape[1:]
        self._count = 0
        self._start = self._header(shape[0])

    def __enter__(self) -> "_ImageFile":
        return self

    def __exit__(self, *_: object) -> None:
        # numpy leaves room in the header for a number of any length, so that files can grow.
        start = self._header(self._count)
        assert start == self._start
        self._file.close()

    def _header(self, count: int) -> int:
        shape = (count, *self._inner)
        self._file.seek(0)
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, header)
        return self._file.tell()

    def write(self, images: Pixels) -> None:
        self._file.write(np.ascontiguousarray(images).data)
        self._count += len(images)

    def swap(self, one: int, other: int) -> None:
        contents = [self._at(row).read(prod(self._inner)) for row in (one, other)]
        for row, content in zip((other, one), contents, strict=True):
            self._at(row).write(content)
        self._file.seek(0, os.SEEK_END)

    def _at(self, row: int) -> Any:
        self._file.seek(self._start + row * prod(self._inner))
        return self._file


def _check_out(out: Path, force: bool) -> None:
    if not out.exists() and not out.is_symlink():
        return
    if not force:
        raise OptionError(f"{out} is there already; replace it with --force, or name another place")
    if not is_pack(out):  # never somebody's pictures
        raise OptionError(f"{out} is no pack, and is not replaced; name another place")


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"the pack would take {needed / 2**30:.3g} GiB, and {folder.parent} has "
            f"{free / 2**30:.3g} left; choose a smaller --size, or another place"
        )


def _write_paths(path: Path, paths: tuple[str, ...]) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    parquet.write_table(arrow.table({"path": arrow.array(paths, arrow.string())}), path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
