"""Draw the sample of MNIST that ships with the package.

    ARCSET_DATA=FOLDER python tools/make_mnist_sample.py [--out FOLDER]

400 training and 100 test images of each digit, in their original order. Which ones is decided by
a hash of the seed, the part and the image's place, so that the draw depends on no random generator
and gives the same bytes everywhere.
"""

import argparse
import gzip
import hashlib
import io
import struct
from pathlib import Path

import numpy as np

from arcset.data import ImageSet, load_dataset
from arcset.data.named.mnist import FILES
from arcset.files import write_bytes

SEED = 0
PER_CLASS = {"train": 400, "test": 100}
PACKAGED = (
    Path(__file__).resolve().parents[1] / "src" / "arcset" / "data" / "named" / "mnist_sample"
)


def draw(part: str, images: ImageSet) -> np.ndarray:
    """The places of the drawn images, ascending."""

    def ticket(place: int) -> bytes:
        return hashlib.sha256(f"{SEED}/{part}/{place}".encode()).digest()

    drawn: list[int] = []
    for label in range(len(images.class_names)):
        places = np.flatnonzero(images.labels == label).tolist()
        drawn += sorted(places, key=ticket)[: PER_CLASS[part]]
    return np.sort(np.array(drawn))


def write_idx(path: Path, array: np.ndarray) -> None:
    """Write uint8 as a gzipped idx file; the same array always gives the same bytes."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    packed = io.BytesIO()
    # Not gzip.compress: the header it writes differs between Python versions.
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as stream:
        stream.write(header + array.tobytes())
    write_bytes(path, packed.getvalue())


def main() -> None:
    """Write the four files and print their sizes and the checksums of their contents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=PACKAGED, help="folder to write to")
    folder = parser.parse_args().out
    mnist = load_dataset("mnist")
    arrays = []
    for part, images in (("train", mnist.train), ("test", mnist.test)):
        places = draw(part, images)
        arrays += [images.images[places], images.labels[places].astype(np.uint8)]
    for name, array in zip(FILES, arrays, strict=True):
        path = folder / f"{name}.gz"
        write_idx(path, array)
        checksum = hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
        print(f"{checksum}  {name} ({path.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
