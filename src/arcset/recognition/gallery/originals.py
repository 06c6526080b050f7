"""Images as they were handed in: what they are called, their bytes, and the digest of these."""

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from arcset.errors import DataError, InputError
from arcset.recognition.inputs import SourceImage

__all__ = ["Original", "original"]

_PNG_MODES = ("1", "L", "LA", "I;16", "P", "RGB", "RGBA")


@dataclass(frozen=True)
class Original:
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
        source = os.fsencode(image).decode("utf-8", "replace")
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
