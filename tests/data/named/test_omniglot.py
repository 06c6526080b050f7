"""Small archives made here, served and stored as the public ones are, stand in for Omniglot."""

import dataclasses
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

from arcset.data import select
from arcset.errors import DataError
from support.datasets import OMNIGLOT, Archive, Omniglot

NAMES = ("Greek/character01", "Greek/character02", "Latin/character01")
ARCHIVE = Archive("images_background", characters=len(NAMES), sha256=None)
NOISE = np.random.default_rng(0).random((len(NAMES), 20, 105, 105)) < 0.2  # where there is ink

Files = dict[str, bytes]


def png(ink: npt.NDArray[np.bool_], mode: str = "1", side: int = 105) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(~ink).convert(mode).resize((side, side)).save(stream, "PNG")
    return stream.getvalue()


FILES: Files = {
    f"images_background/{name}/{100 + c:04d}_{drawer + 1:02d}.png": png(NOISE[c, drawer])
    for c, name in enumerate(NAMES)
    for drawer in range(20)
}
FIRST = next(iter(FILES))


def write(path: Path, files: Files, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
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
    archive.read(write(tmp_path / "a.zip", FILES))
    other = {**FILES, FIRST: png(NOISE[0, 0] ^ (np.indices((105, 105)).sum(axis=0) == 0))}
    with pytest.raises(DataError, match=rf"a\.zip .*{archive.sha256}"):
        archive.read(write(tmp_path / "a.zip", other))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "0 characters"),
        ({name: FILES[name] for name in FILES if name != FIRST}, "59 drawings"),
        ({**FILES, FIRST: FILES[FIRST][:-30]}, r"0100_01\.png"),
        ({**FILES, FIRST: png(NOISE[0, 0], side=28)}, "28×28 .*105×105"),
        ({**FILES, FIRST: png(NOISE[0, 0], mode="RGB")}, "type RGB"),
    ],
)
def test_archives_that_hold_something_else(tmp_path: Path, files: Files, message: str) -> None:
    path = write(tmp_path / "a.zip", files)
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


# As a dataset: found, or fetched.


@pytest.fixture
def omniglot(mirror: Any, cache: Path, tmp_path: Path) -> Omniglot:
    """Two small archives of three characters each, on a mirror."""
    rename = {"Greek": "Mongolian", "Latin": "Tibetan", "background": "evaluation"}
    others = {}
    for name, content in FILES.items():
        for old, new in rename.items():
            name = name.replace(old, new)
        others[name] = content
    for name, files in (("images_background.zip", FILES), ("images_evaluation.zip", others)):
        mirror.serve(f"/{name}", write(tmp_path / name, files).read_bytes())
    return dataclasses.replace(
        OMNIGLOT,
        mirrors=(mirror.url,),
        background=ARCHIVE,
        evaluation=Archive("images_evaluation", 3, None),
    )


def test_load_fetches_the_background_set(omniglot: Omniglot, mirror: Any, cache: Path) -> None:
    assert omniglot.locate() == f"not here: would be downloaded from {mirror.url}"
    dataset = omniglot.load()
    assert mirror.asked == ["/images_background.zip"]
    assert omniglot.locate() == str(cache / "omniglot")
    assert [path.name for path in (cache / "omniglot").iterdir()] == ["images_background.zip"]
    assert dataset.class_names == NAMES
    assert (dataset.train.images.shape, dataset.test.images.shape) == ((48, 28, 28), (12, 28, 28))
    assert dataset.held_out == "all"
    omniglot.load()
    assert mirror.asked == ["/images_background.zip"]


def test_download_fetches_both(omniglot: Omniglot, mirror: Any, cache: Path) -> None:
    assert omniglot.download() == f"{cache / 'omniglot'}, with the evaluation set: 6 classes"
    dataset = omniglot.load()
    assert dataset.class_names[3:] == dataset.apart["test"]
    assert dataset.class_names[3] == "Mongolian/character01"
    assert len(dataset.train) == 96
    omniglot.download()
    assert mirror.asked == ["/images_background.zip", "/images_evaluation.zip"]


def test_drawers_17_to_20_are_the_test(omniglot: Omniglot, cache: Path) -> None:
    dataset = omniglot.load()
    drawn = ARCHIVE.read(cache / "omniglot" / "images_background.zip")
    for label, images in enumerate(drawn.values()):
        train, test = (part.images[part.labels == label] for part in (dataset.train, dataset.test))
        np.testing.assert_array_equal(train, images[:16])
        np.testing.assert_array_equal(test, images[16:])
    unseen = select(dataset, ",".join(NAMES[:2])).unseen
    assert unseen is not None
    np.testing.assert_array_equal(unseen.images[:20], drawn["Latin/character01"])


def test_a_bad_download_leaves_nothing_behind(
    omniglot: Omniglot, mirror: Any, cache: Path, tmp_path: Path
) -> None:
    bad = write(tmp_path / "bad.zip", {name: FILES[name] for name in list(FILES)[:20]})
    mirror.serve("/images_background.zip", bad.read_bytes())
    with pytest.raises(DataError, match="1 characters in 20 drawings"):
        omniglot.load()
    assert list((cache / "omniglot").iterdir()) == []
