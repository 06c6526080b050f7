"""Images as text: figures and sheets of thumbnails as data addresses."""

import base64
import io
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from PIL import Image, UnidentifiedImageError

from arcset.errors import InputError
from arcset.reports.theme import pixels

__all__ = ["figure_image", "sprite_sheet"]

THUMBNAIL = 40  # largest side in pixels; small images stay as they are
KINDS = {"PNG": "image/png", "GIF": "image/gif", "JPEG": "image/jpeg"}


def figure_image(figure: Figure | bytes) -> tuple[str, int, int]:
    """The data address, width and height of a matplotlib figure or of the bytes of an image.

    Figures become PNG with at most 256 colours, which is a third of the size and looks the same.
    Raises `InputError` where bytes are no PNG, GIF or JPEG.
    """
    if isinstance(figure, Figure):
        picture = Image.fromarray(pixels(figure)).convert("RGB")
        picture = picture.quantize(256, dither=Image.Dither.NONE)
        return _address("image/png", _png(picture)), *picture.size
    try:
        with Image.open(io.BytesIO(figure)) as opened:
            kind, size = KINDS.get(opened.format or ""), opened.size
    except UnidentifiedImageError:
        kind, size = None, (0, 0)
    if kind is None:
        raise InputError("a figure's bytes must be a PNG, GIF or JPEG image")
    return _address(kind, figure), *size


def sprite_sheet(images: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """All images (N, H, W[, 3]) on one PNG, row by row: its address, columns, and tile size."""
    tiles = [_thumbnail(Image.fromarray(image)) for image in images]
    width, height = tiles[0].size
    columns = math.ceil(math.sqrt(len(tiles)))
    sheet = Image.new(tiles[0].mode, (columns * width, math.ceil(len(tiles) / columns) * height))
    for place, tile in enumerate(tiles):
        sheet.paste(tile, (place % columns * width, place // columns * height))
    grey = sheet.mode == "L"
    sheet = sheet.quantize(16 if grey else 256, dither=Image.Dither.NONE)
    address = _address("image/png", _png(sheet))
    return {"url": address, "columns": columns, "width": width, "height": height}


def _thumbnail(image: Image.Image) -> Image.Image:
    longest = max(image.size)
    if longest <= THUMBNAIL:
        return image
    width, height = (max(1, round(side * THUMBNAIL / longest)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    # The next level takes five times as long, for some hundredths of the size.
    image.save(file, format="PNG", compress_level=8)
    return file.getvalue()


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
