"""Images as they were handed in: what they are called, their bytes, and the digest of these."""

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from arcset.errors import DataError

__all__ = ["Original", "original"]


@dataclass(frozen=True)
class Original:
    """An image: source, the path it has; digest, SHA-256 of its bytes; content, these bytes."""

    source: str | None
    digest: bytes
    content: bytes


def original(image: Any) -> Original:
    """A file or its bytes as they are, an array or a PIL image as PNG.

    Raises `DataError` for a file that cannot be read.
    """
    source = None
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
        image = Image.fromarray(flat)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
