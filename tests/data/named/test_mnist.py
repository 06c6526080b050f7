"""The shipped digits, served and stored as if they were a public set, stand in for MNIST here."""

import dataclasses
import gzip
import hashlib
import struct
import subprocess
import sys
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcset.data import load_dataset, locate
from arcset.errors import DataError
from support.datasets import FILES, MNIST, SAMPLE_CHECKSUMS, IdxFiles, read_idx

NOWHERE = ("http://127.0.0.1:9/never/",)  # the tests that name it fail if it is asked


def packaged(name: str) -> bytes:
    return (resources.files("arcset.data.named") / "mnist_sample" / name).read_bytes()


def shipped(file: str) -> bytes:
    return packaged(f"{file}.gz")


def public(mirrors: tuple[str, ...]) -> IdxFiles:
    return dataclasses.replace(MNIST, name="digits", mirrors=mirrors, checksums=SAMPLE_CHECKSUMS)


def put(folder: Path, *, packed: bool = True) -> None:
    folder.mkdir(parents=True)
    for file in FILES:
        path = folder / (f"{file}.gz" if packed else file)
        path.write_bytes(shipped(file) if packed else gzip.decompress(shipped(file)))


def check(found: Any) -> None:
    expected = load_dataset("mnist-sample")
    for part in ("train", "test"):
        np.testing.assert_array_equal(getattr(found, part).images, getattr(expected, part).images)
        np.testing.assert_array_equal(getattr(found, part).labels, getattr(expected, part).labels)


@pytest.mark.parametrize("packed", [True, False])
def test_found_in_arcset_data(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setenv("ARCSET_DATA", str(tmp_path / "mine"))
    put(tmp_path / "mine" / "digits", packed=packed)
    digits = public(NOWHERE)
    assert digits.locate() == digits.download() == str(tmp_path / "mine" / "digits")
    check(digits.load())
    assert not cache.exists()


def test_downloaded_into_the_cache_once(cache: Path, mirror: Any) -> None:
    for file in FILES:
        mirror.serve(f"/public/{file}.gz", shipped(file))
    digits = public((mirror.url + "/gone/", mirror.url + "/public/"))
    assert digits.locate() == f"not here: would be downloaded from {mirror.url}/gone/"
    assert mirror.asked == []  # looking asks nobody
    check(digits.load())
    assert sorted(path.name for path in (cache / "digits").iterdir()) == sorted(
        f"{file}.gz" for file in FILES
    )
    assert mirror.asked == [f"/{way}/{file}.gz" for file in FILES for way in ("gone", "public")]
    check(digits.load())
    assert digits.download() == str(cache / "digits")
    assert len(mirror.asked) == 8


def test_a_wrong_file_is_named_and_never_replaced(cache: Path, mirror: Any) -> None:
    put(cache / "digits", packed=False)
    wrong = cache / "digits" / FILES[3]
    content = bytearray(wrong.read_bytes())
    content[-1] ^= 1  # one label, and the file is as long as ever
    wrong.write_bytes(content)
    for file in FILES:
        mirror.serve(f"/{file}.gz", shipped(file))
    with pytest.raises(DataError, match=str(wrong)):
        public((mirror.url,)).load()
    assert wrong.read_bytes() == content
    assert mirror.asked == []


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
    [b"", PLAIN + b"\0", PACKED[:-9], PACKED[:12] + b"\xff\xff" + PACKED[14:]],
    ids=lambda content: f"{len(content)} bytes",
)
def test_damage_is_named_with_its_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "digits"
    path.write_bytes(content)
    with pytest.raises(DataError, match=str(path)):
        read_idx(path, SHA256)


TOOL = Path(__file__).parents[3] / "tools" / "make_mnist_sample.py"


def test_every_digit_has_its_share() -> None:
    sample = load_dataset("mnist-sample")
    assert np.bincount(sample.train.labels).tolist() == [400] * 10
    assert np.bincount(sample.test.labels).tolist() == [100] * 10
    assert sample.train.images.shape[1:] == sample.test.images.shape[1:] == (28, 28)


def test_the_shipped_files_are_small_and_their_licence_stands_beside_them() -> None:
    assert sum(len(packaged(f"{file}.gz")) for file in FILES) < 1_000_000
    for note in ("README.md", "LICENSE"):
        text = packaged(note).decode()
        for words in ("CC BY-SA 3.0", "Yann LeCun", "Corinna Cortes", "Christopher J. C. Burges"):
            assert words in text


@pytest.mark.long
def test_the_tool_gives_the_shipped_files_again(tmp_path: Path) -> None:
    if locate("mnist").startswith("not here"):
        pytest.skip(f"mnist is {locate('mnist')}; set ARCSET_DATA to a folder that holds mnist/")
    subprocess.run([sys.executable, str(TOOL), "--out", str(tmp_path)], check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{f}.gz" for f in FILES)
    for file in FILES:
        made = (tmp_path / f"{file}.gz").read_bytes()
        assert gzip.decompress(made) == gzip.decompress(shipped(file))
        if "ng" not in zlib.ZLIB_RUNTIME_VERSION:  # zlib-ng packs the same content differently
            assert made == shipped(file)
