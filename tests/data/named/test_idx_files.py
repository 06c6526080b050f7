"""The shipped digits, served and stored as if they were a public set, stand in for MNIST here."""

import gzip
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcset.data import load_dataset
from arcset.errors import DataError
from support.datasets import FILES, SAMPLE_CHECKSUMS, IdxFiles

NOWHERE = ("http://127.0.0.1:9/never/",)  # the tests that name it fail if it is asked


def shipped(file: str) -> bytes:
    return (resources.files("arcset.data.named") / "mnist_sample" / f"{file}.gz").read_bytes()


def public(mirrors: tuple[str, ...]) -> IdxFiles:
    return IdxFiles("digits", mirrors, SAMPLE_CHECKSUMS)


def put(folder: Path, files: tuple[str, ...] = FILES, *, packed: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
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


@pytest.mark.parametrize("place", ["mine", "cache"])
def test_a_wrong_file_is_named_and_never_replaced(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirror: Any, place: str
) -> None:
    monkeypatch.setenv("ARCSET_DATA", str(tmp_path / "mine"))
    folder = cache / "digits" if place == "cache" else tmp_path / "mine" / "digits"
    put(folder, packed=False)
    wrong = folder / FILES[3]
    content = bytearray(wrong.read_bytes())
    content[-1] ^= 1  # one label, and the file is as long as ever
    wrong.write_bytes(content)
    for file in FILES:
        mirror.serve(f"/{file}.gz", shipped(file))
    with pytest.raises(DataError, match=str(wrong)):
        public((mirror.url,)).load()
    assert wrong.read_bytes() == content
    assert mirror.asked == []
