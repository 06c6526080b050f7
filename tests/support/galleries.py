"""What tests of galleries share: a model that is quick, slow references, and the bytes on disk."""

import hashlib
import io
import itertools
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from arcset import Gallery
from arcset.data import Reading
from arcset.recognition.recognizer import EmbeddedImage

#: Whatever a subject may be called.
NAMES = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=256
)


class Projection:
    """An embedder: 8×8 grey pixels times a fixed random matrix, of length 1."""

    origin = None  # no file that could be remembered
    published = None

    def __init__(self, dim=16, seed=0, thresholds=None):
        self.name, self.dim, self.thresholds = f"projection-{seed}", dim, thresholds
        self.reading = Reading(1, 8, 8, fit="stretch")
        self.weights = np.random.default_rng(seed).normal(size=(64, dim))
        self.digest = hashlib.sha256(self.weights.tobytes()).hexdigest()

    def embed(self, images, *, progress=None):
        several = images if isinstance(images, list | tuple) else [images]
        pixels = np.stack([self.reading.read(image) for image in several])
        rows = (pixels.reshape(len(pixels), 64) + 1.0) @ self.weights
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def embed_each(self, images, *, most=None, progress=None):
        return [EmbeddedImage(row[None]) for row in self.embed(images)]


_numbers = itertools.count()


class Location:
    """Where galleries of one kind are made; `location("people")` is the same one each time.

    kind: "file", or "milvus" for Lite and for a server. base: a folder, or what an address begins
    with. client: of Milvus.
    """

    def __init__(self, base, client=None):
        self.kind = "milvus" if client else "file"
        self._base, self._client, self._names = base, client, {}

    def clear(self):
        """Drop what was made in Milvus, which gets slower with every collection."""
        made = {f"{name}_{number}" for name, number in self._names.items()}
        for collection in made.intersection(self._client.list_collections()) if made else ():
            self._client.drop_collection(collection)

    def __call__(self, name="people"):
        if self.kind == "file":
            return self._base / f"{name}.db"
        number = self._names.setdefault(name, next(_numbers))
        return f"{self._base}/{name}_{number}"

    def anew(self):
        """A location where there is nothing yet, for one of many examples."""
        return self(f"g{next(_numbers)}")


def picture(seed):
    """A PNG of 8×8 random pixels."""
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 8), np.uint8)).save(out, "PNG")
    return out.getvalue()


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
    found = []
    for name, rows in samples.items():
        cosines = [np.dot(row.astype(np.float64), wide) for row in rows]
        found.append((name, score([round(cosine * 2**21) / 2**21 for cosine in cosines], scoring)))
    return sorted(found, key=lambda pair: -pair[1])


def impatient(monkeypatch):
    """Galleries in files that are opened from now on wait for others for a moment only."""
    monkeypatch.setattr("arcset.recognition.gallery.sqlite.PATIENCE", 0.05)


def check_kept(gallery):
    """What an open gallery holds in memory is what whoever opens it anew finds."""
    with Gallery.open(gallery.path, read_only=True) as anew:
        assert gallery.subjects() == anew.subjects()
        (rows, names), (others, owners) = gallery.labelled(), anew.labelled()
        assert names == owners
        assert np.array_equal(rows, others)
        if names:
            assert repr(gallery.search(rows, 3)) == repr(anew.search(rows, 3))


def bytes_of(path):
    """Everything that a gallery has on the disk."""
    path = Path(path)
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))
