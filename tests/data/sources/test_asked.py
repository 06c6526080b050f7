"""What is asked for beside the data: size, channels, negatives, a single identity."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arcset.data import load_dataset, pack
from arcset.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for name in ("anna", "ben"):
        (tmp_path / "people" / name).mkdir(parents=True)
        for number in range(3):
            pixels = random.integers(0, 255, (12, 10), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "people" / name / f"{number}.png")
    return tmp_path / "people"


def test_own_images_are_read_as_negatives(folder: Path) -> None:
    usual, negative = load_dataset(folder), load_dataset(folder, invert=True)
    assert negative.invert
    assert np.array_equal(negative.train.images, 255 - usual.train.images)


@pytest.mark.parametrize("kind", ["pack", "npz"])
def test_pictures_that_are_arrays_take_another_size(folder: Path, kind: str) -> None:
    place = folder.parent / f"people.{kind}"
    usual = load_dataset(folder)
    if kind == "pack":
        pack(folder, place)
    else:
        np.savez(place, images=usual.train.images, labels=usual.train.labels)
    smaller = load_dataset(place, size=(6, 5), channels=3)
    assert smaller.train.shape == (3, 6, 5)
    assert np.array_equal(
        smaller.train.images, load_dataset(folder, size=(6, 5), channels=3).train.images
    )
    assert load_dataset(place).train.shape == (1, 12, 10)
    negative = load_dataset(place, invert=True)
    assert np.array_equal(negative.train.images, 255 - usual.train.images)


def test_a_folder_of_images_alone_is_one_identity(folder: Path) -> None:
    with pytest.raises(DataError, match="one identity"):
        load_dataset(folder / "anna")
    found = load_dataset(folder / "anna", single=True)
    assert found.class_names == (".",)
    assert found.train.paths == ("0.png", "1.png", "2.png")
