"""The shipped sample of MNIST: 400 training and 100 test images of each digit, always at hand."""

from importlib import resources

from arcset.data.dataset import Dataset
from arcset.data.idx_files import read_idx_dataset
from arcset.data.mnist import CLASS_NAMES, LICENCE
from arcset.data.registry import DATASETS, DatasetEntry

__all__ = ["CHECKSUMS"]

CHECKSUMS = {  # of the uncompressed bytes
    "train-images-idx3-ubyte": "0593cbcc1b04ce4d226ba6f6a5a4835b2b73bd1435c3154ce16afdb19658e146",
    "train-labels-idx1-ubyte": "1a8b23e374b7468fd0dfb9a092802e928d63629b5b8014b8a3af187491ea62de",
    "t10k-images-idx3-ubyte": "e34ac79494079bf1efa0ebcdbc75a377d96970a709655c1f4adb65dec496422b",
    "t10k-labels-idx1-ubyte": "8e266343a0d6fa179381a70b2b953b8a2768cf57e6c82b177e5cc3c426ba1fa0",
}


def _load() -> Dataset:
    folder = resources.files("arcset.data") / "sample"
    return read_idx_dataset(
        "mnist-sample", LICENCE, CLASS_NAMES, CHECKSUMS, lambda file: folder / f"{file}.gz"
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
        load=_load,
        download=_shipped,
    ),
)
