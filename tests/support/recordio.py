"""Writes `.rec` and `.idx` files for tests, from the description of the format alone.

It shares nothing with the reader: it writes byte by byte, and cuts a payload wherever four bytes at
a multiple of four are the magic, as dmlc-core's writer does.
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

MAGIC = bytes.fromhex("0a23d7ce")  # 0xced7230a, lowest byte first


def head(flag: int, length: int) -> bytes:
    return MAGIC + (flag * 2**29 + length).to_bytes(4, "little")


def record(payload: bytes) -> bytes:
    """A payload as it stands in the file: one part, or several."""
    pieces, piece = [], b""
    for start in range(0, len(payload), 4):
        word = payload[start : start + 4]
        if word == MAGIC:
            pieces.append(piece)
            piece = b""
        else:
            piece += word
    pieces.append(piece)
    flags = [0] if len(pieces) == 1 else [1, *[2] * (len(pieces) - 2), 3]
    written = b"".join(
        head(flag, len(piece)) + piece for flag, piece in zip(flags, pieces, strict=True)
    )
    return written + b"\0" * (-len(written) % 4)


def image_payload(label: float | Sequence[float], image: bytes, number: int) -> bytes:
    """Header and image; a sequence of labels stands behind the header."""
    if isinstance(label, float | int):
        return struct.pack("<IfQQ", 0, label, number, 0) + image
    header = struct.pack("<IfQQ", len(label), 0.0, number, 0)
    return header + struct.pack(f"<{len(label)}f", *label) + image


def write_records(path: Path, records: Iterable[tuple[int, bytes]], index: bool = True) -> None:
    """Write (key, payload) in this order, and the `.idx` file beside them."""
    lines, content = [], b""
    for key, payload in records:
        lines.append(f"{key}\t{len(content)}\n")
        content += record(payload)
    path.write_bytes(content)
    if index:
        path.with_suffix(".idx").write_text("".join(lines))


def insightface_records(images: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """(label, image) as InsightFace's tool orders them: images from 1, record 0, identities.

    Images of one identity must stand together.
    """
    records, starts = [], []
    last = None
    for key, (label, image) in enumerate(images, 1):
        records.append((key, image_payload([label, 1.0], image, key)))
        if label != last:
            starts.append(key)
            last = label
    past = len(images) + 1
    ends = [*starts[1:], past]
    records.append((0, image_payload([past, past + len(starts)], b"", 0)))
    for key, (start, end) in enumerate(zip(starts, ends, strict=True), past):
        records.append((key, image_payload([start, end], b"", key)))
    return records
