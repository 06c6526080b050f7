"""MNIST: 70,000 handwritten digits, found on this machine or downloaded, and a sample of them.

LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition (1998).
The sample, 400 training and 100 test images of each digit, lies in this package.

Four files, images and labels for training and for testing, in the idx format: a big-endian header,
then unsigned bytes.

    00 00 08 RANK, then RANK sizes of four bytes each, then the elements, last axis fastest

08 means "unsigned byte"; the format has other element types, which no dataset here uses.
"""

import gzip
import hashlib
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.named.fetch import GZIP_MAGIC, cache_folder, download, find_file
from arcset.data.named.registry import DATASETS, DatasetEntry
from arcset.errors import DataError

__all__ = ["FILES", "MNIST", "SAMPLE_CHECKSUMS", "IdxDownload", "read_idx"]

LICENCE = "CC BY-SA 3.0 (Yann LeCun, Corinna Cortes, Christopher J. C. Burges)"
CLASS_NAMES = tuple("0123456789")

# The names that MNIST gave them, in the order (train, test) × (images, labels).
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read_idx_dataset(
    name: str,
    licence: str,
    class_names: tuple[str, ...],
    checksums: Mapping[str, str],
    find: Callable[[str], Path | Traversable],
) -> Dataset:
    """Read the four files that `find` turns names from `FILES` into.

    checksums: the sha256 of each file's uncompressed bytes, in hex; verified here, every time.
    Raises `DataError` as `read_idx` does.
    """

    def part(images: str, labels: str) -> ImageSet:
        return ImageSet(
            read_idx(find(images), rank=3, sha256=checksums[images]),  # (N, H, W)
            read_idx(find(labels), rank=1, sha256=checksums[labels]).astype(np.int64),  # (N,)
            class_names,
        )

    return Dataset(name, train=part(*FILES[:2]), test=part(*FILES[2:]), licence=licence)


@dataclass(frozen=True)
class IdxDownload:
    """A public set of four idx files: found on this machine, or fetched into the cache.

    mirrors: addresses of folders, tried in this order, that hold each file as NAME.gz.
    Each file is looked for by itself, as NAME and as NAME.gz, so that a broken-off download goes
    on where it stopped. A file that is found is never replaced, whatever its checksum.
    """

    name: str
    licence: str
    class_names: tuple[str, ...]
    checksums: Mapping[str, str]
    mirrors: tuple[str, ...]

    def load(self) -> Dataset:
        """Read the set, after downloading what is not here; raises `DataError`."""
        return read_idx_dataset(
            self.name, self.licence, self.class_names, self.checksums, self._fetch
        )

    def download(self) -> str:
        """Download what is not here; says where the files are, as `locate` does."""
        for file in FILES:
            self._fetch(file)
        return self.locate()

    def locate(self) -> str:
        """The folder (or folders) of the files, or where those would come from; no network."""
        found = [path for path in map(self._find, FILES) if path is not None]
        folders = " and ".join(dict.fromkeys(str(path.parent) for path in found))
        missing = len(FILES) - len(found)
        if not missing:
            return folders
        source = f"would be downloaded from {self.mirrors[0]}"
        if not found:
            return f"not here: {source}"
        return f"{folders}, but {missing} of {len(FILES)} files are missing: {source}"

    def _find(self, file: str) -> Path | None:
        return find_file(self.name, file, f"{file}.gz")

    def _fetch(self, file: str) -> Path:
        return self._find(file) or download(
            [f"{mirror.rstrip('/')}/{file}.gz" for mirror in self.mirrors],
            cache_folder() / self.name / file,
            sha256=self.checksums[file],
        )


MNIST = IdxDownload(
    name="mnist",
    licence=LICENCE,
    class_names=CLASS_NAMES,
    checksums={  # of the uncompressed bytes: gzip files of the same content differ
        "train-images-idx3-ubyte": (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
        ),
        "train-labels-idx1-ubyte": (
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
        ),
        "t10k-images-idx3-ubyte": (
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
        ),
        "t10k-labels-idx1-ubyte": (
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
        ),
    },
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
)

DATASETS.add(
    MNIST.name,
    DatasetEntry(
        name=MNIST.name,
        title="MNIST, handwritten digits, 28×28 grey",
        licence=LICENCE,
        classes=10,
        train=60_000,
        test=10_000,
        locate=MNIST.locate,
        load=MNIST.load,
        download=MNIST.download,
    ),
)

SAMPLE_CHECKSUMS = {  # of the uncompressed bytes
    "train-images-idx3-ubyte": "0593cbcc1b04ce4d226ba6f6a5a4835b2b73bd1435c3154ce16afdb19658e146",
    "train-labels-idx1-ubyte": "1a8b23e374b7468fd0dfb9a092802e928d63629b5b8014b8a3af187491ea62de",
    "t10k-images-idx3-ubyte": "e34ac79494079bf1efa0ebcdbc75a377d96970a709655c1f4adb65dec496422b",
    "t10k-labels-idx1-ubyte": "8e266343a0d6fa179381a70b2b953b8a2768cf57e6c82b177e5cc3c426ba1fa0",
}


def _load_sample() -> Dataset:
    folder = resources.files("arcset.data.named") / "mnist_sample"
    return read_idx_dataset(
        "mnist-sample", LICENCE, CLASS_NAMES, SAMPLE_CHECKSUMS, lambda file: folder / f"{file}.gz"
    )


def _shipped() -> str:
    return "shipped"


DATASETS.add(
    "mnist-sample",
    DatasetEntry(
        name="mnist-sample",
        title="5,000 digits of MNIST, in the package",
        licence=LICENCE,
        classes=10,
        train=4_000,
        test=1_000,
        locate=_shipped,
        load=_load_sample,
        download=_shipped,
    ),
)


_RANKS = range(1, 33)  # numpy itself ends at 32 or 64 axes, depending on its version


def read_idx(
    path: Path | Traversable, *, rank: int | None = None, sha256: str | None = None
) -> npt.NDArray[np.uint8]:
    """The array in an idx file, read-only, gzipped or not (its first bytes tell, not its name).

    rank: how many axes it must have. sha256: checksum of the *uncompressed* bytes, in hex.
    Raises `DataError`, naming the file, where it cannot be read, is cut short, goes on past its
    end, is no idx file of unsigned bytes, or is not what `rank` and `sha256` say.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "labels").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
        ...     read_idx(Path(folder, "labels"), rank=1)
        array([7, 2, 1], dtype=uint8)
    """
    content = _uncompressed(path)
    array = _decode(content, str(path), rank)
    if sha256 is not None and (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise DataError(
            f"{path} is not the original file: the sha256 of its uncompressed bytes is {found}, "
            f"and should be {sha256}; replace or remove it"
        )
    return array


def _uncompressed(path: Path | Traversable) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except EOFError as error:
        raise DataError(
            f"{path} is truncated: its gzip stream breaks off after {len(content)} bytes"
        ) from error
    except (gzip.BadGzipFile, zlib.error, struct.error) as error:
        raise DataError(f"{path} is a damaged gzip file: {error}") from error


def _decode(content: bytes, source: str, rank: int | None) -> npt.NDArray[np.uint8]:
    if len(content) < 4:
        raise DataError(f"{source} is no idx file: it holds {len(content)} bytes")
    if content[:3] != b"\x00\x00\x08" or content[3] not in _RANKS:
        raise DataError(
            f"{source} is no idx file of unsigned bytes: it starts with {content[:4].hex(' ')}, "
            f"and not with 00 00 08 and the number of axes"
        )
    axes = content[3]
    if rank is not None and axes != rank:
        raise DataError(f"{source} holds an array of {axes} axes, and {rank} were expected")
    start = 4 + 4 * axes
    if len(content) < start:
        raise DataError(f"{source} is truncated: it ends within its header")
    shape = struct.unpack_from(f">{axes}I", content, 4)
    elements = math.prod(shape)
    if len(content) != start + elements:
        wrong = "is truncated" if len(content) < start + elements else "has bytes past its end"
        raise DataError(
            f"{source} {wrong}: {len(content) - start} bytes follow its header, "
            f"and its shape {shape} needs {elements}"
        )
    try:
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    except ValueError as error:  # no elements, and still axes longer than numpy allows
        raise DataError(f"{source} has the impossible shape {shape}") from error
