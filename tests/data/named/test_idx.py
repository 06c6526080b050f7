import contextlib
import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from arcset.errors import DataError
from support.datasets import read_idx

# Each example writes its file anew, so that one folder serves them all.
one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def write_idx(path: Path, array: np.ndarray) -> None:
    content = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    content += array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@one_folder
@given(
    arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=5, min_side=0, max_side=5)),
    st.sampled_from(["file", "file.gz"]),
)
def test_what_is_written_is_read(tmp_path: Path, array: np.ndarray, name: str) -> None:
    write_idx(tmp_path / name, array)
    read = read_idx(tmp_path / name, rank=array.ndim)
    np.testing.assert_array_equal(read, array)
    assert (read.shape, read.dtype) == (array.shape, np.uint8)


@one_folder
@given(st.sampled_from([b"", b"\0\0\x08", b"\x1f\x8b\x08"]), st.binary(max_size=60))
def test_any_other_bytes_give_an_array_or_a_data_error(
    tmp_path: Path, start: bytes, rest: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(start + rest)
    with contextlib.suppress(DataError):
        assert read_idx(path).dtype == np.uint8


def test_content_decides_about_gzip_and_not_the_name(tmp_path: Path) -> None:
    write_idx(tmp_path / "one.gz", PIXELS)
    write_idx(tmp_path / "two", PIXELS)
    assert (tmp_path / "one.gz").read_bytes().startswith(b"\x1f\x8b")
    (tmp_path / "one.gz").rename(tmp_path / "packed")
    (tmp_path / "two").rename(tmp_path / "plain.gz")
    np.testing.assert_array_equal(read_idx(tmp_path / "packed"), PIXELS)
    np.testing.assert_array_equal(read_idx(tmp_path / "plain.gz"), PIXELS)


PLAIN = bytes.fromhex("00000803 00000002 00000003 00000004") + bytes(range(24))
PACKED = gzip.compress(PLAIN, mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (PLAIN[:3], "3 bytes"),
        (PLAIN[:15], "header"),
        (PLAIN[:-1], r"23 bytes .*\(2, 3, 4\)"),
        (PLAIN + b"\0", "25 bytes"),
        (b"\x89PNG" + PLAIN, "89 50 4e 47"),
        (b"\0\0\x0d" + PLAIN[3:], "00 00 0d 03"),
        (b"\0\0\x08\0", "00 00 08 00"),
        (bytes.fromhex("00000801 00000002 0000"), "1 axes.* 3 "),
        (PACKED[:-9], "gzip"),
        (PACKED[:5], "gzip"),
        (PACKED[:12] + b"\xff\xff" + PACKED[14:], "gzip"),
        (PACKED[:-8] + bytes(4) + PACKED[-4:], "gzip"),
        (PACKED[:-4] + bytes(4), "gzip"),
        (PACKED + b"rest", "gzip"),
        (gzip.compress(PLAIN[:-1], mtime=0), "23 bytes"),
        (gzip.compress(PLAIN + b"\0", mtime=0), "25 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_damage_is_named_with_its_file(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "digits"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(path, rank=3)
    assert str(path) in str(caught.value)


def test_huge_sizes_are_refused_before_memory_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "digits"
    path.write_bytes(b"\0\0\x08\x03" + b"\xff" * 12 + bytes(9))
    with pytest.raises(DataError, match=r"digits .*9 bytes"):
        read_idx(path)
    path.write_bytes(b"\0\0\x08\x05" + b"\xff" * 16 + bytes(4))
    with pytest.raises(DataError, match="digits"):
        read_idx(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing"):
        read_idx(tmp_path / "nothing")
    with pytest.raises(DataError, match=str(tmp_path)):
        read_idx(tmp_path)


def test_the_checksum_is_that_of_the_uncompressed_bytes(tmp_path: Path) -> None:
    for name, content in (("file", PLAIN), ("file.gz", PACKED)):
        (tmp_path / name).write_bytes(content)
        read_idx(tmp_path / name, sha256=hashlib.sha256(PLAIN).hexdigest())
        with pytest.raises(DataError, match=r"file(\.gz)? .*sha256"):
            read_idx(tmp_path / name, sha256=hashlib.sha256(PACKED).hexdigest())
