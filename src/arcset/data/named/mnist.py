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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arcset.data.dataset import Dataset, ImageSet
from arcset.data.named.fetch import PublicFiles
from arcset.data.named.registry import DATASETS, DatasetEntry
from arcset.errors import DataError
from arcset.files import reading

LICENCE = "CC BY-SA 3.0 (Yann LeCun, Corinna Cortes, Christopher J. C. Burges)"

# The names that MNIST gave them, in the order (train, test) × (images, labels).
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read_idx(path: Path, sha256: str) -> npt.NDArray[np.uint8]:
    """The array in an idx file, read-only, gzipped or not (its first bytes tell, not its name).

    sha256: checksum of the *uncompressed* bytes, in hex: gzip files of the same content differ.
    Raises `DataError`, naming the file, where it cannot be read or is another one.
    """
    with reading(path, "idx file"):
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        if (digest := hashlib.sha256(content).hexdigest()) != sha256:
            raise DataError(
                f"{path} is not the original file: the sha256 of its uncompressed bytes is "
                f"{digest}, and should be {sha256}; replace or remove it"
            )
        rank = content[3]
        shape = np.frombuffer(content, ">u4", count=rank, offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def _read_digits(name: str, checksums: Mapping[str, str], find: Callable[[str], Path]) -> Dataset:
    """Read the four files that `find` turns names from `FILES` into; raises `DataError`."""

    def part(images: str, labels: str) -> ImageSet:
        return ImageSet(
            read_idx(find(images), checksums[images]),  # (N, H, W)
            read_idx(find(labels), checksums[labels]).astype(np.int64),  # (N,)
            tuple("0123456789"),
        )

    return Dataset(name, train=part(*FILES[:2]), test=part(*FILES[2:]), licence=LICENCE)


@dataclass(frozen=True, kw_only=True)
class IdxFiles(PublicFiles):
    """A public set of four idx files, each NAME.gz on the mirrors.

    checksums: see `read_idx`; verified at every reading.
    """

    checksums: Mapping[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(f"{file}.gz" for file in FILES)

    def check(self, file: str, path: Path) -> None:
        read_idx(path, self.checksums[file.removesuffix(".gz")])

    def load(self) -> Dataset:
        return _read_digits(self.name, self.checksums, lambda file: self.fetch(f"{file}.gz"))


MNIST = IdxFiles(
    name="mnist",
    title="MNIST, handwritten digits, 28×28 grey",
    licence=LICENCE,
    classes=10,
    train=60_000,
    test=10_000,
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    checksums={
        FILES[0]: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        FILES[1]: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        FILES[2]: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        FILES[3]: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)
DATASETS.add(MNIST.name, MNIST)

SAMPLE_CHECKSUMS = {
    "train-images-idx3-ubyte": "0593cbcc1b04ce4d226ba6f6a5a4835b2b73bd1435c3154ce16afdb19658e146",
    "train-labels-idx1-ubyte": "1a8b23e374b7468fd0dfb9a092802e928d63629b5b8014b8a3af187491ea62de",
    "t10k-images-idx3-ubyte": "e34ac79494079bf1efa0ebcdbc75a377d96970a709655c1f4adb65dec496422b",
    "t10k-labels-idx1-ubyte": "8e266343a0d6fa179381a70b2b953b8a2768cf57e6c82b177e5cc3c426ba1fa0",
}


class _Sample(DatasetEntry):
    """The part of MNIST that lies in this package."""

    def locate(self) -> str:
        return "shipped"

    def download(self) -> str:
        return self.locate()

    def load(self) -> Dataset:
        folder = Path(__file__).parent / "mnist_sample"
        return _read_digits(self.name, SAMPLE_CHECKSUMS, lambda file: folder / f"{file}.gz")


SAMPLE = _Sample(
    name="mnist-sample",
    title="5,000 digits of MNIST, in the package",
    licence=LICENCE,
    classes=10,
    train=4_000,
    test=1_000,
)
DATASETS.add(SAMPLE.name, SAMPLE)
