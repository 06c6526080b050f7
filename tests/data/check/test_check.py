from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from arcset.data import Reading
from arcset.data.check import DataCheck, check_data, look_at
from arcset.data.contact_sheet import contact_sheet
from arcset.errors import DataError
from support.datasets import list_samples
from support.image_files import saved
from support.pictures import picture, save


def kinds(check: DataCheck) -> list[tuple[str, bool]]:
    return [(finding.kind, finding.serious) for finding in check.findings]


def finding(check: DataCheck, kind: str) -> tuple[str, tuple[str, ...]]:
    found = next(finding for finding in check.findings if finding.kind == kind)
    assert found.advice or kind == "note"
    return found.text, found.examples


def test_data_in_order(clean: Path) -> None:
    check = check_data(clean)
    assert (check.images, check.readable, dict(check.per_identity)) == (
        (12, 12, {"anna": 6, "bert": 6})
    )
    assert (check.sizes, check.modes, check.formats) == ({(12, 16): 12}, {"L": 12}, {"PNG": 12})
    assert check.findings == ()
    assert not check.serious
    assert check.table().splitlines() == [
        f"{clean}: folder tree",
        "",
        "images      12, all readable",
        "identities  2 with 6 images each",
        "sizes       12×16",
        "pixels      grey",
        "formats     PNG",
        "",
        "identities by their images",
        f"  5–9  2  {'█' * 32}",
        "",
        "No problems found.",
    ]


def test_what_is_wrong_worst_first(messy: Path) -> None:
    check = check_data(str(messy))
    assert check.serious
    assert kinds(check) == [
        ("labels", True),
        ("unreadable", True),
        ("empty", True),
        ("skipped", True),
        ("blank", True),
        ("blank", True),
        ("once", False),
        ("repeated", False),
        ("few", False),
        ("mixed", False),
        ("note", False),
    ]
    assert (check.images, check.readable) == (23, 20)
    assert dict(check.per_identity) == {"anna": 8, "bert": 9, "carl": 1, "dora": 2, "emma": 0}
    assert finding(check, "labels") == (
        "2 pictures appear under two or more identities: of each, one of the labels is wrong",
        (
            "anna/0.png = bert/as anna 0.bmp (other files, same pixels)",
            "anna/1.png = carl/as anna 1.png = dora/as anna 1.png (other files, same pixels)",
        ),
    )
    text, examples = finding(check, "unreadable")
    assert text == "3 images of 23 cannot be read, and will be left out"
    assert [example.partition(": ")[0] for example in examples] == [
        "carl/broken.png",
        "carl/text.jpg",
        "emma/empty.png",
    ]
    assert finding(check, "empty") == ("1 identity has no image that can be read", ("emma",))
    assert finding(check, "skipped")[1][0].startswith("stray.png: lies in no sub-folder")
    assert (check.black, check.plain) == (
        (("anna/black.png", "bert/black.png"), ("bert/orange.png",))
    )
    assert finding(check, "once")[1] == ("carl",)
    assert finding(check, "repeated") == (
        "1 picture appears more than once under one identity: "
        "1 image too many, and pairs of them are too easy",
        ("anna/2 again.png = anna/2.png",),
    )
    assert finding(check, "few")[1] == ("dora: 2",)
    assert "mixed, 16 and 4:" in finding(check, "mixed")[0]
    assert "1 file is no image by its extension" in finding(check, "note")[0]


def test_one_identity_is_not_enough(tmp_path: Path) -> None:
    for place in range(3):
        save(picture(place), tmp_path / f"{place}.png")
    check = check_data(tmp_path)
    assert kinds(check) == [("alone", True), ("few", False)]


def test_the_same_picture_for_training_and_testing(clean: Path) -> None:
    table = clean / "table.csv"
    rows = [f"{name}/{place}.png,{name}" for name in ("anna", "bert") for place in range(6)]
    parts = ["train"] * 4 + ["test"] * 2
    lines = [f"{row},{part}" for row, part in zip(rows, 2 * parts, strict=True)]
    table.write_text("\n".join(["path,label,split", *lines]))
    assert not check_data(table).serious
    (clean / "anna" / "5.png").write_bytes((clean / "anna" / "0.png").read_bytes())
    check = check_data(table)
    assert kinds(check) == [("leaks", True), ("repeated", False)]
    text, examples = finding(check, "leaks")
    assert text.startswith("1 picture appears in more than one part of the split: ")
    assert examples == ("anna/0.png (train) = anna/5.png (test)",)


def test_a_misspelled_split_is_refused_before_anything_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no image")
    (tmp_path / "table.csv").write_text("path,label,split\na.png,a,tset\n")
    with pytest.raises(DataError, match="'tset'"):
        check_data(tmp_path / "table.csv")


def test_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "anna").mkdir()
    for name in ("1.png", "2.png"):
        (tmp_path / "anna" / name).write_text("no image")
    with pytest.raises(DataError, match=rf"2 images of {tmp_path}.*anna/1\.png"):
        check_data(tmp_path)


RNG = np.random.default_rng(0)
GREY = Image.fromarray(RNG.integers(0, 256, (20, 30), np.uint8))
COLOUR = Image.fromarray(RNG.integers(0, 256, (20, 30, 3), np.uint8))


def pixels(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    return look_at(saved(image, kind, **options), "x").pixels


def test_the_same_picture_in_any_lossless_form() -> None:
    for image in (GREY, COLOUR):
        first = pixels(image)
        assert pixels(image, "BMP") == pixels(image, "TIFF") == first
        assert pixels(image.convert("RGB")) == pixels(image.convert("RGBA")) == first
    assert pixels(GREY.convert("P")) == pixels(GREY)
    assert look_at(saved(GREY, "PNG"), "x").content != look_at(saved(GREY, "BMP"), "x").content


def page(level: int, ink: int, marks: int, noise: int = 0) -> Image.Image:
    """100×100, of one level, with so many pixels of another, and noise of up to ± so many."""
    values = np.full((100, 100), level, np.int64) + RNG.integers(-noise, noise + 1, (100, 100))
    values.flat[:marks] = ink
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize(
    ("image", "blank"),
    [
        (page(0, 0, 0), "black"),
        (page(8, 0, 0, noise=7), "black"),
        (page(0, 255, 4), "black"),  # a few hot pixels
        (page(0, 255, 40), ""),  # a thin stroke
        (page(200, 200, 0, noise=4), "plain"),
        (page(200, 200, 0, noise=5), ""),
        (page(255, 0, 40), ""),
        (Image.new("RGB", (9, 9), (0, 0, 90)), "plain"),
        (Image.merge("RGB", [page(90, 90, 0), page(90, 90, 0), page(90, 0, 5000)]), ""),
    ],
)
def test_images_that_show_nothing(image: Image.Image, blank: str) -> None:
    assert look_at(saved(image, "PNG"), "x").blank == blank


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
