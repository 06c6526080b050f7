"""Small images, and how they are kept in files."""

import io

import numpy as np
from PIL import Image

from arcset.data import Reading

FITS = ("pad", "crop", "stretch")
GREY, RGB = Reading(1, 4, 4), Reading(3, 4, 4)
SHADES = np.arange(16, dtype=np.uint8).reshape(4, 4) * 17  # 0, 17 … 255
COLOURS = np.random.default_rng(0).integers(0, 256, (4, 4, 3), np.uint8)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def luma(rgb: np.ndarray) -> np.ndarray:
    """ITU-R 601, in the whole numbers that PIL uses."""
    weighted = rgb.astype(np.int64) @ np.array([19595, 38470, 7471])
    return ((weighted + 0x8000) >> 16).astype(np.uint8)
