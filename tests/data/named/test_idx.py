import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from arcset.errors import DataError
from support.datasets import read_idx

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
PLAIN = struct.pack(">BBBB3I", 0, 0, 8, 3, *PIXELS.shape) + PIXELS.tobytes()
PACKED = gzip.compress(PLAIN, mtime=0)
SHA256 = hashlib.sha256(PLAIN).hexdigest()


@pytest.mark.parametrize("content", [PLAIN, PACKED], ids=["plain", "gzipped"])
@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_content_decides_about_gzip_and_not_the_name(
    tmp_path: Path, content: bytes, name: str
) -> None:
    (tmp_path / name).write_bytes(content)
    pixels = read_idx(tmp_path / name, SHA256)
    np.testing.assert_array_equal(pixels, PIXELS)
    assert pixels.dtype == np.uint8


@pytest.mark.parametrize(
    "content",
    [
        b"",
        PLAIN[:-1],
        PLAIN + b"\0",
        b"\x89PNG" + PLAIN,
        PACKED[:-9],
        PACKED[:12] + b"\xff\xff" + PACKED[14:],
        PACKED + b"rest",
    ],
    ids=lambda content: f"{len(content)} bytes",
)
def test_damage_is_named_with_its_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "digits"
    path.write_bytes(content)
    with pytest.raises(DataError, match=str(path)):
        read_idx(path, SHA256)
