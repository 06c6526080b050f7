"""MNIST: 70,000 handwritten digits, found on this machine or downloaded.

LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition (1998).
"""

from arcset.data.idx_files import IdxDownload
from arcset.data.registry import DATASETS, DatasetEntry

__all__ = ["CLASS_NAMES", "LICENCE", "MNIST"]

LICENCE = "CC BY-SA 3.0 (Yann LeCun, Corinna Cortes, Christopher J. C. Burges)"
CLASS_NAMES = tuple("0123456789")

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
