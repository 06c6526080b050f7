"""Real datasets, read once for all tests of a process; and how a test reads files of any kind.

What tests need from inside `arcset.data` is imported here and nowhere else.
"""

from functools import cache
from pathlib import Path

from arcset.data import Dataset, Listing, load_dataset, open_source
from arcset.data.named.fetch import download
from arcset.data.named.mnist import FILES, MNIST, SAMPLE_CHECKSUMS, IdxFiles, read_idx
from arcset.data.named.omniglot import OMNIGLOT, Archive, Omniglot
from arcset.data.sources.base import Entry
from arcset.data.sources.insightface import read_verification_bin

__all__ = [
    "FILES",
    "MNIST",
    "OMNIGLOT",
    "SAMPLE_CHECKSUMS",
    "Archive",
    "Entry",
    "IdxFiles",
    "Omniglot",
    "download",
    "list_samples",
    "loaded",
    "read_idx",
    "read_pairs",
]


@cache
def loaded(name: str) -> Dataset:
    """The dataset as `load_dataset` reads it; not to be changed."""
    return load_dataset(name)


def read_pairs(path: Path | str) -> tuple[list[bytes], list[bool]]:
    """The encoded images of a verification file (.bin), and for each pair whether it is genuine."""
    pairs = read_verification_bin(path)
    return list(pairs.contents), pairs.same.tolist()


def list_samples(path: Path | str) -> Listing:
    """All samples of a folder, a table or records, without decoding one."""
    return open_source(Path(path)).list_samples()
