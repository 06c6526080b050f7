"""Small archives made here stand in for Omniglot; the real one is in test_omniglot.py."""

import hashlib
import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from arcset.errors import DataError
from support.datasets import Archive

NAMES = ("Greek/character01", "Greek/character02", "Latin/character01")
ARCHIVE = Archive("images_background", characters=len(NAMES), sha256=None)
NOISE = np.random.default_rng(0).random((len(NAMES), 20, 105, 105)) < 0.2  # where there is ink

Files = dict[str, bytes]


def png(ink: npt.NDArray[np.bool_], mode: str = "1", side: int = 105) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(~ink).convert(mode).resize((side, side)).save(stream, "PNG")
    return stream.getvalue()


def drawings() -> Files:
    return {
        f"images_background/{name}/{100 + c:04d}_{drawer + 1:02d}.png": png(NOISE[c, drawer])
        for c, name in enumerate(NAMES)
        for drawer in range(20)
    }


FILES = drawings()
FIRST = next(iter(FILES))


def write(path: Path, files: Files, **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def area_average(ink: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """The share of ink in each of 28×28 squares whose sides are 3.75 pixels, in 0 … 255."""
    quarters = ink.repeat(4, axis=-2).repeat(4, axis=-1)  # of a pixel; 15 of them make a side
    return 255 * quarters.reshape(*ink.shape[:-2], 28, 15, 28, 15).mean(axis=(-3, -1))


def test_characters_in_order_with_bright_ink_reduced_by_area(tmp_path: Path) -> None:
    shuffled = dict(sorted(FILES.items(), key=lambda item: hashlib.md5(item[0].encode()).digest()))
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        found = ARCHIVE.read(write(tmp_path / "a.zip", shuffled, compression=compression))
        assert tuple(found) == NAMES
        for images, ink in zip(found.values(), NOISE, strict=True):
            assert np.abs(images - area_average(ink)).max() <= 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip"]  # nothing is unpacked


def test_the_checksum_is_of_names_and_pixels(tmp_path: Path) -> None:
    digest = hashlib.sha256()
    for c, name in enumerate(NAMES):
        for drawer in range(20):
            digest.update(f"{name}/{100 + c:04d}_{drawer + 1:02d}.png".encode() + b"\0")
            digest.update(np.packbits(~NOISE[c, drawer]).tobytes())
    archive = Archive(ARCHIVE.root, len(NAMES), digest.hexdigest())
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        archive.read(write(tmp_path / "a.zip", FILES, compression=compression))
    other = {**FILES, FIRST: png(NOISE[0, 0] ^ (np.indices((105, 105)).sum(axis=0) == 0))}
    with pytest.raises(DataError, match=rf"a\.zip .*{archive.sha256}"):
        archive.read(write(tmp_path / "a.zip", other))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "0 characters"),
        ({name: FILES[name] for name in FILES if "Latin" not in name}, "2 characters"),
        ({name: FILES[name] for name in FILES if name != FIRST}, "59 drawings"),
        ({**FILES, "images_background/Greek/character01/0999_07.png": b""}, "61 drawings"),
        ({**FILES, FIRST: b"torn"}, r"Greek/character01/0100_01\.png"),
        ({**FILES, FIRST: FILES[FIRST][:-30]}, r"0100_01\.png"),
        ({**FILES, FIRST: png(NOISE[0, 0], side=28)}, "28×28 .*105×105"),
        ({**FILES, FIRST: png(NOISE[0, 0], mode="RGB")}, "type RGB"),
    ],
)
def test_archives_that_hold_something_else(tmp_path: Path, files: Files, message: str) -> None:
    path = write(tmp_path / "a.zip", files, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match=message) as caught:
        ARCHIVE.read(path)
    assert str(path) in str(caught.value)


def test_torn_and_altered_archives_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", FILES, compression=zipfile.ZIP_DEFLATED)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    refused = 0
    for trial in range(60):
        content = bytearray(whole)
        if trial % 3 == 0:
            del content[int(generator.integers(len(content))) :]
        else:
            for place in generator.integers(len(content), size=20):
                content[place] = generator.integers(256)
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ARCHIVE.read(path)
            except DataError as error:
                refused += str(path) in str(error)
    assert refused > 55  # the others were altered in a date or the like
