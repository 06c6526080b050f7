"""What a gallery holds: subjects and samples, as it lists them and as they are brought to it."""

import hashlib
import io
import itertools
import os
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from arcset.data.embeddings import EmbeddingSet, holds_shards, read_embeddings, read_manifest
from arcset.errors import DataError, InputError, OptionError
from arcset.evaluation import pairs
from arcset.evaluation.arrays import as_array, embedding_matrix, refuse_zero_rows
from arcset.recognition.inputs import SourceImage
from arcset.recognition.recognizer import Embeddings

if TYPE_CHECKING:
    from arcset.recognition.gallery.base import Gallery

LONGEST_NAME = 256  # characters

# Control characters, halves of characters that no encoding can hold, and ends of lines.
_REFUSED = {"Cc", "Cs", "Zl", "Zp"}
_PNG_MODES = ("1", "L", "LA", "I;16", "P", "RGB", "RGBA")
_UNIT = 1e-5  # how far the square of a length that is 1 may be from it, by rounding


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def as_time(microseconds: int) -> datetime:
    """A moment as it is stored, in microseconds since 1970, with the time zone UTC."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC)


@dataclass(frozen=True)
class Subject:
    """Somebody or something enrolled.

    Fields:
        name: what the gallery answers with.
        samples: how many embeddings it holds of this subject.
        added: when the first of these was enrolled.
    """

    name: str
    samples: int
    added: datetime

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "added": self.added.isoformat()}


@dataclass(frozen=True)
class Sample:
    """One embedding of a subject.

    Fields:
        id: its number, never given to another sample of the gallery.
        source: the path or name that it came from; None where that is unknown.
        digest: SHA-256 of the image's bytes, hexadecimal; None without an image.
        added: when it was enrolled.
        has_image: whether the gallery holds the image itself.
    """

    id: int
    source: str | None
    digest: str | None
    added: datetime
    has_image: bool

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "added": self.added.isoformat()}


# As they are enrolled


class Row(NamedTuple):
    """A sample as it is written and read: what every kind of gallery stores of it.

    embedding: (D,) float32, of length 1. digest: SHA-256 of the image. image: the bytes of its
    file; empty where it is stored and was not asked for. added: microseconds since 1970; 0 for now.
    id: 0 until the gallery gives one.
    """

    name: str
    embedding: Embeddings
    source: str | None = None
    digest: bytes | None = None
    image: bytes | None = None
    added: int = 0
    id: int = 0

    def check(self) -> None:
        """Raise `ValueError` or `TypeError` unless its values are as `make_rows` makes them.

        For rows of files, which may come from anybody.
        """
        check_name(self.name)
        as_time(self.added)
        for value, kind in ((self.source, str), (self.digest, bytes), (self.image, bytes)):
            if value is not None and not isinstance(value, kind):
                raise InputError(f"a sample of {self.name!r} holds {value!r:.40}")


def check_name(name: object) -> str:
    """`name`, if a subject may be called so: 1 to 256 characters on one line.

    Raises `OptionError` otherwise.

        >>> check_name('Anna "Ann" O\\'Hara')
        'Anna "Ann" O\\'Hara'
        >>> check_name("anna\\n")
        Traceback (most recent call last):
        arcset.errors.OptionError: 'anna\\n' cannot be a name, expected text of 1 to 256 ...
    """
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= LONGEST_NAME
        # The first is quick, and true of nearly all names.
        or not (name.isprintable() or _REFUSED.isdisjoint(map(unicodedata.category, name)))
    ):
        raise OptionError(
            f"{name!r:.60} cannot be a name, expected text of 1 to {LONGEST_NAME} characters,"
            " control characters not among them"
        )
    return str(name)


def make_rows(
    names: Sequence[str],
    embeddings: Embeddings,
    images: Sequence[Any] | None,
    sources: Sequence[Any] | None,
    keep_images: bool,
) -> list[Row]:
    """One row for each of the embeddings (N, D), with what is known about it.

    Raises `InputError` for images or sources that are not N.
    """
    for what, items in (("images", images), ("sources", sources)):
        if items is not None and len(items) != len(embeddings):
            raise InputError(f"there are {len(embeddings):,} embeddings, but {len(items):,} {what}")
    originals = itertools.repeat(None) if images is None else map(original, images)
    texts = itertools.repeat(None) if sources is None else sources
    return [
        Row(
            name,
            vector,
            _text(source) if source is not None else image and image.source,
            image and image.digest,
            image.content if image and keep_images else None,
        )
        for name, vector, image, source in zip(names, embeddings, originals, texts, strict=False)
    ]


def _text(source: Any) -> str:
    """A path or a name as text that any file can hold."""
    text = source if isinstance(source, str | os.PathLike) else str(source)
    return os.fsencode(text).decode("utf-8", "replace")


class Original(NamedTuple):
    """An image: source, the path it has; digest, SHA-256 of its bytes; content, these bytes."""

    source: str | None
    digest: bytes
    content: bytes


def original(image: Any) -> Original:
    """A file or its bytes as they are, an array or a PIL image as PNG.

    Raises `DataError` for a file that cannot be read, and `InputError` for what is no image.
    """
    source = None
    if isinstance(image, SourceImage):
        image, source = image.content(), str(image)
    if isinstance(image, str | Path):
        source = _text(image)
        try:
            content = Path(image).read_bytes()
        except OSError as error:
            raise DataError(f"{image} cannot be read: {error.strerror}") from None
    elif isinstance(image, bytes):
        content = image
    else:
        content = _png(image)
    return Original(source, hashlib.sha256(content).digest(), content)


def _png(image: Any) -> bytes:
    if isinstance(image, np.ndarray):
        flat = image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image
        if flat.dtype != np.uint8 or flat.shape[2:] not in ((), (3,), (4,)):
            raise InputError(
                "an image as an array is uint8, (H, W) or (H, W, C), and this one is"
                f" {image.dtype}, {image.shape}: give embeddings instead"
            )
        image = Image.fromarray(flat)
    if not isinstance(image, Image.Image):
        raise InputError(f"an image is a path, bytes, a PIL image or an array, not {image!r:.50}")
    if image.mode not in _PNG_MODES:
        image = image.convert("RGB")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def unit_rows(embeddings: Any, dim: int) -> Embeddings:
    """(N, D) of any length as (N, D) float32 of length 1; one embedding (D,) is one row.

    float32 rows that have length 1 stay as they are, to the last digit.

    Raises `InputError` for another dimension, NaN, infinity, and rows that are all zero.

        >>> unit_rows([[3, 4], [0, 2]], dim=2).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """
    rows = as_array(embeddings, "embeddings")
    rows = rows[None] if rows.ndim == 1 else rows
    is_unit = np.zeros(rows.shape[:1], bool)
    if rows.dtype == np.float32 and rows.shape[1:] == (dim,):
        is_unit = np.abs(np.einsum("nd,nd->n", rows, rows) - 1) < _UNIT  # false for NaN
        if len(rows) and is_unit.all():
            return rows
    rows = embedding_matrix(rows)
    if rows.shape[1] != dim:
        raise InputError(
            f"embeddings have {rows.shape[1]} numbers each, and the gallery's have {dim}"
        )
    refuse_zero_rows(rows)
    units = pairs.unit_rows(rows)
    units[is_unit] = rows[is_unit]
    return units


def single_vector(embedding: Any) -> Any:
    """(D,) or (1, D) as it is; raises `InputError` for several."""
    vector = as_array(embedding, "embedding")
    if vector.ndim != 1 and vector.shape[:1] != (1,):
        raise InputError(f"embedding has shape {vector.shape}, expected one of shape (D,)")
    return vector


def read_embeddings_for(gallery: "Gallery", source: Path) -> EmbeddingSet:
    """Embeddings from a file; from a folder of `arcset embed` if the gallery's model made them."""
    digest = read_manifest(source).digest if holds_shards(source) else gallery.model_digest
    if gallery.model_digest not in ("", digest):
        raise OptionError(
            f"{source} was embedded by another model, and {gallery.path} belongs to"
            f" {gallery.model_name}: embed the images with that one"
        )
    return read_embeddings(source)
