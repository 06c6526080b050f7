"""Files that look like images and mean harm: small ones that unpack to gigabytes, and torn ones."""

import functools
import io
import struct
import zlib

import numpy as np
from PIL import Image

__all__ = ["IMAGES", "many_scans"]

SIDE = 60_000  # pixels, of images that are bombs


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def png(width: int, height: int, *, chunks: bytes = b"", data: bytes = b"") -> bytes:
    """Grey, of the size that is said; by default with next to no data."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", head),
            chunks,
            _chunk(b"IDAT", data or zlib.compress(b"\0")),
            _chunk(b"IEND", b""),
        ]
    )


def _saved(kind: str, size: tuple[int, int] = (64, 64), **options: object) -> bytes:
    shades = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(shades).save(out, kind, **options)
    return out.getvalue()


@functools.cache
def _zeros(count: int) -> bytes:
    packer, block = zlib.compressobj(9), bytes(1 << 20)
    parts = [packer.compress(block) for _ in range(count >> 20)]
    return b"".join([*parts, packer.flush()])


@functools.cache
def png_bomb() -> bytes:
    """A quarter of a megabyte that unpacks to 256."""
    return png(16_384, 16_384, data=_zeros(1 << 28))


def png_text_bomb() -> bytes:
    """Compressed notes of 100 MB beside a tiny picture."""
    text = _chunk(b"zTXt", b"note\0\0" + _zeros(1 << 20))
    return png(8, 8, chunks=text * 100, data=zlib.compress(bytes(9 * 8)))


def png_profile_bomb() -> bytes:
    """A colour profile of 128 MB."""
    return png(
        8,
        8,
        chunks=_chunk(b"iCCP", b"p\0\0" + _zeros(1 << 27)),
        data=zlib.compress(bytes(9 * 8)),
    )


def jpeg_of(width: int, height: int) -> bytes:
    """A small JPEG that says it is large."""
    content = bytearray(_saved("JPEG"))
    place = content.index(b"\xff\xc0")
    content[place + 5 : place + 9] = struct.pack(">HH", height, width)
    return bytes(content)


def many_scans(width: int, height: int, scans: int) -> bytes:
    """A progressive JPEG that goes over its pixels again and again, with a few bytes each time.

    Every further scan is the same refinement of all blocks, by nothing.
    """
    out = io.BytesIO()
    Image.new("L", (width, height), 90).save(out, "JPEG", progressive=True, quality=50)
    content = out.getvalue()
    last = content.rindex(b"\xff\xda")
    scan = content[last:-2]
    return content[:-2] + scan * scans + content[-2:]


def gif_of(width: int, height: int) -> bytes:
    content = bytearray(_saved("GIF"))
    content[6:10] = struct.pack("<HH", width, height)
    return bytes(content)


def gif_frame() -> bytes:
    """A small screen with a frame of four thousand million pixels."""
    content = bytearray(_saved("GIF"))
    place = content.index(b"\x2c", 13 + 3 * 256)
    content[place + 5 : place + 9] = struct.pack("<HH", 65_535, 65_535)
    return bytes(content)


def tiff_of(width: int, height: int, *, rows: int | None = None) -> bytes:
    """One strip of uncompressed grey, with next to no data."""
    entries = [
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 8),
        (277, 3, 1, 1),
        (278, 4, 1, rows or height),
        (279, 4, 1, 64),
    ]
    fields = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    content = b"II*\0" + struct.pack("<I", 72) + bytes(64)
    return content + struct.pack("<H", len(entries)) + fields + struct.pack("<I", 0)


def tiff_loop() -> bytes:
    """Its directory says that the next one is itself."""
    content = tiff_of(8, 8)
    return content[:-4] + struct.pack("<I", 72)


def bmp_of(width: int, height: int) -> bytes:
    content = bytearray(_saved("BMP"))
    content[18:26] = struct.pack("<ii", width, height)
    return bytes(content)


def webp_of(side: int) -> bytes:
    """An extended file that says it is large."""
    inner = _saved("WEBP", lossless=True)[12:]
    size = (side - 1).to_bytes(3, "little")
    body = b"WEBP" + b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + size + size
    frame = bytes(6) + (63).to_bytes(3, "little") * 2 + bytes(4) + inner
    body += b"ANIM" + struct.pack("<I", 6) + bytes(6)
    body += b"ANMF" + struct.pack("<I", len(frame)) + frame
    return b"RIFF" + struct.pack("<I", len(body)) + body


SVG = (
    b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    b'<svg xmlns="http://www.w3.org/2000/svg"><text>&x;</text></svg>'
)
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n%%EOF\n"

#: By name, what makes the file. None of them is to be decoded to its end.
IMAGES = {
    "png bomb": png_bomb,
    "png that says it is large": lambda: png(SIDE, SIDE),
    "png of two thousand million columns": lambda: png(2**31 - 1, 1),
    "png without pixels": lambda: png(0, 0),
    "png with notes that unpack": png_text_bomb,
    "png with a profile that unpacks": png_profile_bomb,
    "png with too little data": lambda: png(64, 64),
    "png cut short": lambda: _saved("PNG")[:400],
    "jpeg that says it is large": lambda: jpeg_of(65_500, 65_500),
    "jpeg of many scans": lambda: many_scans(2_000, 2_000, 50_000),
    "jpeg cut short": lambda: _saved("JPEG")[:700],
    "jpeg of its first bytes": lambda: b"\xff\xd8\xff",
    "gif that says it is large": lambda: gif_of(65_535, 65_535),
    "gif with a frame that is large": gif_frame,
    "gif cut short": lambda: _saved("GIF")[:900],
    "tiff that says it is large": lambda: tiff_of(SIDE, SIDE),
    "tiff of one pixel a row": lambda: tiff_of(1, 2**31 - 1, rows=1),
    "tiff with too little data": lambda: tiff_of(4_000, 4_000),
    "bmp that says it is large": lambda: bmp_of(SIDE, SIDE),
    "webp that says it is large": lambda: webp_of(16_383),
    "svg with an outside entity": lambda: SVG,
    "postscript": lambda: EPS,
    "zip": lambda: b"PK\x03\x04" + bytes(200),
    "nothing": lambda: b"",
    "text": lambda: b"/etc/passwd",
    "null bytes": lambda: bytes(5_000),
}
