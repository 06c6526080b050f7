"""A pack: images decoded once into one file, and used from there without being loaded.

PACK/  images.npy       uint8 (N, H, W) or (N, H, W, 3): those for training, then for testing
       labels.npy       int64 (N,)
       paths.parquet    one column, path (N)
       pack.json        everything else, see `PackManifest`
"""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.lib import format as npy
from pydantic import BaseModel, ConfigDict

from arcset.data.dataset import Dataset, LazyRows
from arcset.data.decode_many import Watch
from arcset.data.image import Fit, Reading
from arcset.data.sources.arrays import DatasetSource
from arcset.data.sources.base import PACK_FILE, kind_of
from arcset.data.sources.samples import SampleTable, choose_reading, decode_samples
from arcset.errors import DataError, OptionError
from arcset.files import file_digest, one_line, read_json, replacing_folder

IMAGES, LABELS, PATHS, MANIFEST = "images.npy", "labels.npy", "paths.parquet", PACK_FILE
_PIXELS_OF = 256  # images that the digest of a pack looks at


class PackManifest(BaseModel):
    """What pack.json says: where the images came from, how they were read, and whom they show.

    sha256: of the files that are small enough to be checked whenever a pack is opened.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    name: str
    source: str
    kind: str
    images: int
    training: int
    reading: Reading
    class_names: tuple[str, ...]
    apart: dict[str, tuple[str, ...]]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    sha256: dict[str, str]


def load_pack(path: Path | str) -> Dataset:
    """Open a pack. Its images stay in their file, of which both parts are `LazyRows`.

    Raises `DataError` with one sentence where it is damaged, incomplete or of a newer version.
    """
    from pyarrow import parquet

    path = Path(path)
    with _complete(path):
        manifest: PackManifest = read_json(path / MANIFEST, "pack", PackManifest)
        for file in (LABELS, PATHS):
            if file_digest(path / file) != manifest.sha256.get(file):
                raise DataError(f"{file} is not what its checksum in {MANIFEST} says")
        images = np.load(path / IMAGES, mmap_mode="r", allow_pickle=False)
        labels = np.load(path / LABELS, allow_pickle=False)
        shape = (manifest.images, *manifest.reading.shape)
        if images.shape != shape or images.dtype != np.uint8 or labels.shape != shape[:1]:
            raise DataError(f"{IMAGES} or {LABELS} does not hold what {MANIFEST} says")
        paths = parquet.read_table(path / PATHS, columns=["path"])["path"]
        if len(paths) != manifest.images or paths.type != "string":
            raise DataError(f"{PATHS} does not name all images")
        if not 0 < manifest.training <= manifest.images:
            raise DataError(f"{MANIFEST} does not say of all images what they are for")
        table = SampleTable(
            name=manifest.name,
            labels=labels,
            class_names=manifest.class_names,
            paths=tuple(paths.to_pylist()),
            training=manifest.training,
            apart=manifest.apart,
            skipped=manifest.skipped,
        )
        return table.dataset(LazyRows(images, np.arange(len(images))), manifest.reading)


@contextmanager
def _complete(path: Path) -> Iterator[None]:
    """Whatever numpy and Arrow raise at a damaged file, in one sentence."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"{path} is no complete pack: {one_line(error)}; make it anew with "
            "`arcset data pack --force`"
        ) from error


class PackSource(DatasetSource):
    """A pack as a source; its images stay in their file."""

    def __init__(self, path: Path) -> None:
        super().__init__(load_pack(path), str(path), "pack")
        self._manifest = path / MANIFEST

    def stamp_of_all(self) -> str:
        """What it says of itself, with the checksums of its lists, and some of its pixels."""
        digest = hashlib.sha256(self._manifest.read_bytes())
        count = len(self.samples)
        for row in np.linspace(0, count - 1, min(_PIXELS_OF, count)).astype(int).tolist():
            digest.update(self.samples.images[row].tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Pack:
    """A pack that was made: where it is, its size on disk in bytes, and what it says of itself."""

    path: Path
    size: int
    manifest: PackManifest

    def __str__(self) -> str:
        manifest, reading = self.manifest, self.manifest.reading
        lines = [
            f"{self.path}: {manifest.images:,} images of {len(manifest.class_names):,} identities, "
            f"{reading.height}×{reading.width} {'grey' if reading.channels == 1 else 'RGB'}, "
            f"{self.size / 1e6:,.1f} MB; {manifest.images - manifest.training:,} of the images are "
            "for testing"
        ]
        apart = manifest.apart.items()
        lines += [f"held out for {part}: {len(names):,} identities" for part, names in apart]
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """What `arcset data pack --json` prints."""
        manifest = self.manifest.model_dump(mode="json", exclude={"class_names", "sha256"})
        return {
            "out": str(self.path),
            "bytes": self.size,
            "identities": len(self.manifest.class_names),
            "testing": self.manifest.images - self.manifest.training,
            **manifest,
        }


def pack(
    path: Path | str,
    out: Path | str,
    *,
    reading: Reading | None = None,
    fit: Fit = "pad",
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    watch: Watch | None = None,
    force: bool = False,
) -> Pack:
    """Decode a folder tree, a table or records once, into the folder `out`.

    `load_pack(out)` then equals `load_dataset(path)` with the same options, bit for bit, without
    holding the images in memory; making it does not hold them either.
    force: replace a pack that is there.
    Raises `OptionError` where something is at `out`, and `DataError` as `load_dataset` does; what
    was at `out` stays until the new pack is complete.
    """
    import pyarrow as arrow
    from pyarrow import parquet

    from arcset.data.sources.load import open_source  # which opens packs, too

    path, out = Path(path), Path(out)
    _check_out(out, force)
    if kind_of(path) in ("arrays", "pack"):
        raise OptionError(f"{path} holds arrays already, and is used as it is: no pack is needed")
    listing = open_source(path).list_samples()
    if reading is None:
        reading = choose_reading(listing, fit=fit, size=size, channels=channels)
    shape = (len(listing), *reading.shape)
    with replacing_folder(out) as folder:
        _check_room(folder, prod(shape))
        with (folder / IMAGES).open("wb") as file:
            _write_header(file, shape)
            table = decode_samples(
                listing, reading, lambda images: file.write(images.data), watch=watch
            )
            _write_header(file, (len(table.labels), *reading.shape))
        np.save(folder / LABELS, table.labels, allow_pickle=False)
        paths = arrow.table({"path": arrow.array(table.paths, arrow.string())})
        parquet.write_table(paths, folder / PATHS)
        manifest = PackManifest(
            name=table.name,
            source=str(path),
            kind=listing.kind,
            images=len(table.labels),
            training=table.training,
            reading=reading,
            class_names=table.class_names,
            apart=table.apart,
            skipped=table.skipped,
            notes=tuple(listing.notes),
            sha256={name: file_digest(folder / name) for name in (LABELS, PATHS)},
        )
        (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
    return Pack(out, sum(file.stat().st_size for file in out.iterdir()), manifest)


def _write_header(file: BinaryIO, shape: tuple[int, ...]) -> None:
    """At the start of an npy file. numpy leaves room in it for a number of images of any length."""
    file.seek(0)
    npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})


def _check_out(out: Path, force: bool) -> None:
    if not out.exists() and not out.is_symlink():
        return
    if not force:
        raise OptionError(f"{out} is there already; replace it with --force, or name another path")
    if not (out / MANIFEST).is_file():  # never a folder of pictures
        raise OptionError(f"{out} is no pack, and is not replaced; name another path")


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"the pack would take {needed / 2**30:.3g} GiB, and {folder.parent} has "
            f"{free / 2**30:.3g} left; choose a smaller --size, or another path"
        )
