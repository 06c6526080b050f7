from pathlib import Path

import numpy as np
import numpy.typing as npt

from arcset.data import Reading
from arcset.data.check import check_data
from arcset.data.contact_sheet import contact_sheet
from support.datasets import list_samples
from support.pictures import picture, save

SIDE, STEP, FIRST = 112, 120, (32 + 216, 32 + 80)  # cells, their distance, the first one


def sheet(folder: Path) -> npt.NDArray[np.uint8]:
    listing = list_samples(folder)
    return np.asarray(contact_sheet(listing, check_data(listing)))


def cell(image: npt.NDArray[np.uint8], left: int, top: int) -> npt.NDArray[np.uint8]:
    return image[top : top + SIDE, left : left + SIDE]


def read(file: Path) -> npt.NDArray[np.uint8]:
    return Reading(3, SIDE, SIDE, "pad").read(file)


def test_identities_in_rows(clean: Path) -> None:
    image = sheet(clean)
    assert image.shape == (2 * 32 + 80 + 2 * STEP, 1232, 3)
    for row, name in enumerate(("anna", "bert")):
        for column in range(6):
            found = cell(image, FIRST[0] + column * STEP, FIRST[1] + row * STEP)
            np.testing.assert_array_equal(found, read(clean / name / f"{column}.png"))
        empty = cell(image, FIRST[0] + 6 * STEP, FIRST[1] + row * STEP)
        assert (empty == 255).all()
        label = image[FIRST[1] + row * STEP :, 32 : 32 + 200][:SIDE]
        assert 20 < (label < 128).sum() < 2000  # there is writing
    np.testing.assert_array_equal(image, sheet(clean))


def test_what_is_suspicious_stands_below(messy: Path) -> None:
    image = sheet(messy)
    clean = 2 * 32 + 80 + 5 * STEP
    assert image.shape[0] == clean + 4 * 64 + 3 * (SIDE + 52) + 3 * 24
    top = 32 + 80 + 5 * STEP + 64
    step = SIDE + 36
    for column, path in enumerate(
        ("anna/0.png", "bert/as anna 0.bmp", "anna/1.png", "carl/as anna 1.png")
    ):
        found = cell(image, 32 + column * step, top)
        np.testing.assert_array_equal(found, read(messy / path))
    below = top + 2 * (SIDE + 52 + 64)
    for column, path in enumerate(("anna/black.png", "bert/black.png", "bert/orange.png")):
        np.testing.assert_array_equal(cell(image, 32 + column * step, below), read(messy / path))


def test_more_than_there_is_room_for(tmp_path: Path) -> None:
    for place in range(12):
        save(picture(place), tmp_path / "anna" / f"{place}.png")
        for copy in range(5):
            save(picture(place), tmp_path / f"bert{copy}" / f"{place}.bmp")
        (tmp_path / "anna" / f"broken{place}.png").touch()
    image = sheet(tmp_path)
    rows = 2 * 32 + 80 + 6 * STEP
    assert image.shape[0] == rows + (64 + 4 * (SIDE + 52) + 24) + (64 + 8 * 24 + 24)
