"""What tests of galleries share: a model that is quick, slow references, and the bytes on disk."""

import hashlib
import itertools
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from arcset.data import Reading
from arcset.errors import ArcsetError
from arcset.recognition.embedder import Embedded
from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.inputs import as_sources, files_of

#: Whatever a subject may be called.
NAMES = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=256
)


class Projection:
    """An embedder: 8×8 grey pixels times a fixed random matrix, of length 1."""

    def __init__(self, dim=16, seed=0, thresholds=None):
        self.name, self.dim, self.thresholds = f"projection-{seed}", dim, thresholds
        self.reading = Reading(1, 8, 8, fit="stretch")
        self.weights = np.random.default_rng(seed).normal(size=(64, dim))
        self.digest = hashlib.sha256(self.weights.tobytes()).hexdigest()

    def embed(self, images, *, progress=None):
        sources = as_sources(images)
        pixels = np.stack([self.reading.read(source) for source in sources])
        rows = (pixels.reshape(len(pixels), 64) + 1.0) @ self.weights
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def embed_files(self, paths, *, progress=None):
        kept, rows, skipped = [], [np.empty((0, self.dim), np.float32)], {}
        for path in files_of(paths):
            try:
                rows.append(self.embed([path]))
                kept.append(path)
            except ArcsetError as error:
                skipped[path] = str(error)
        return Embedded(tuple(kept), np.concatenate(rows), skipped)


_numbers = itertools.count()


class Place:
    """Where galleries of one kind are made; `place("people")` is the same one each time."""

    def __init__(self, kind, folder):
        self.kind, self._folder, self._names = kind, folder, {}

    def clear(self):
        """Make the folder quick to close again."""
        if self.kind == "milvus":
            connection = Connection(Address.parse(f"milvus:{self._folder}/unused"))
            for name, number in self._names.items():
                for end in ("", "_subjects", "_about"):
                    connection.call("drop_collection", f"{name}_{number}{end}")
            connection.close()

    def __call__(self, name="people"):
        if self.kind == "file":
            return self._folder / f"{name}.db"
        number = self._names.setdefault(name, next(_numbers))
        return f"milvus:{self._folder}/{name}_{number}"

    def anew(self):
        """A place where there is nothing yet, for one of many examples."""
        return self(f"g{next(_numbers)}")


def unit(count, dim, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def score(cosines, scoring):
    """Of one subject, from the cosines of its samples; slow and plain."""
    falling = sorted(cosines, reverse=True)
    if scoring == "max":
        return falling[0]
    best = falling if scoring == "mean" else falling[: int(scoring.removeprefix("top-"))]
    return sum(best) / len(best)


def brute_force(samples, probe, scoring):
    """(name, score) of all subjects, falling, equal ones in the order of `samples`.

    samples: name to rows (n, D), in the order of enrolling.
    """
    wide = np.asarray(probe, np.float64)
    found = [
        (name, score([float(np.dot(row.astype(np.float64), wide)) for row in rows], scoring))
        for name, rows in samples.items()
    ]
    return sorted(found, key=lambda pair: -pair[1])


def bytes_of(path):
    """Everything that a gallery has on the disk."""
    path = Path(path)
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))
