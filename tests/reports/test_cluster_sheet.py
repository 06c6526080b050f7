from collections import Counter
from pathlib import Path

import numpy as np

from arcset.reports.cluster_sheet import SheetGroup, SheetPicture, evenly, write_cluster_sheet


def picture(name: str, label: str | None = None) -> SheetPicture:
    return SheetPicture(np.full((12, 12, 3), 90, np.uint8), name, label)


def written(
    place: Path, groups: list[SheetGroup], alone: list[SheetPicture], **more: object
) -> str:
    several, single = (len(groups), len(alone)) if "count" not in more else more.pop("count")
    write_cluster_sheet(
        place / "groups.html",
        groups,
        alone,
        title=str(more.get("title", "Groups")),
        lead=["three images"],
        count=(several, single),
        command="arcset cluster photos",
    )
    return (place / "groups.html").read_text(encoding="utf-8")


def test_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    page = written(tmp_path, [SheetGroup(1, 2, Counter(), [picture("a.png")] * 2)], [])
    assert [path.name for path in tmp_path.iterdir()] == ["groups.html"]
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    assert "Three images." in page
    assert page == written(tmp_path, [SheetGroup(1, 2, Counter(), [picture("a.png")] * 2)], [])


def test_whoever_is_from_another_folder_is_marked(tmp_path: Path) -> None:
    members = [
        picture("anna/1.png", "anna"),
        picture("anna/2.png", "anna"),
        picture("b/1.png", "b"),
    ]
    group = SheetGroup(1, 3, Counter(anna=2, b=1), members)
    page = written(tmp_path, [group], [picture("c/1.png", "c")])
    assert page.count('<li class="odd"') == 1
    assert '<li class="odd" title="b/1.png">' in page
    assert "3 pictures · 2 of anna, 1 of 1 other" in page
    assert "marked" in page
    pure = SheetGroup(1, 2, Counter(anna=2), members[:2])
    page = written(tmp_path, [pure], [])
    assert "marked" not in page
    assert "2 pictures · anna" in page


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    group = SheetGroup(1, 30, Counter(), [picture(f"{n}.png") for n in range(24)])
    page = written(tmp_path, [group], [picture("x.png")], count=(5, 9))
    assert "… 6 more pictures" in page
    assert "… 4 more groups" in page
    assert "… 8 more pictures" in page
    assert "9 pictures are like no other." in page


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script>'
    page = written(
        tmp_path, [SheetGroup(1, 1, Counter({evil: 1}), [picture(evil, evil)])], [], title=evil
    )
    assert "<script" not in page


def test_what_cannot_be_shown_is_said(tmp_path: Path) -> None:
    page = written(tmp_path, [], [SheetPicture(None, "gone.png")])
    assert "cannot be shown" in page
    assert "1 picture is like no other." in page
    assert "<img " not in page


def test_evenly() -> None:
    assert evenly(range(10), 4) == [0, 3, 6, 9]
    assert evenly("ab", 5) == ["a", "b"]
    assert evenly([], 3) == []
