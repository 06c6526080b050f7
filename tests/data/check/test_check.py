import re
from pathlib import Path

import pytest

from arcset.data.check import DataCheck, check_data
from arcset.errors import DataError
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
        "2 pictures appear under two identities or more: of each, one of the labels is wrong",
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
        "1 image too many, for pairs that are too easy",
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


def test_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "anna").mkdir()
    for name in ("1.png", "2.png"):
        (tmp_path / "anna" / name).write_text("no image")
    with pytest.raises(DataError) as caught:
        check_data(tmp_path)
    assert re.search(rf"2 images of {tmp_path}.*anna/1\.png", str(caught.value))
    with pytest.raises(DataError, match=str(tmp_path / "none")):
        check_data(tmp_path / "none")
