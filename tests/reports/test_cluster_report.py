from pathlib import Path

import numpy as np

from arcset.reports.cluster_report import PICTURES, Member, write_cluster_report

EVIL = '"><script>alert(1)</script>'


def member(name: str, label: str | None = None) -> Member:
    return Member(name, label, lambda: np.full((12, 12, 3), 90, np.uint8))


def written(folder: Path, *groups: list[Member], title: str = "Groups") -> str:
    out = folder / "groups.html"
    write_cluster_report(out, groups, title=title, lead=["three images"], command="arcset cluster")
    return out.read_text(encoding="utf-8")


def test_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    page = written(tmp_path, [member("a.png"), member(EVIL, EVIL)], title=EVIL)
    assert [path.name for path in tmp_path.iterdir()] == ["groups.html"]
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    assert "Three images." in page
    assert page == written(tmp_path, [member("a.png"), member(EVIL, EVIL)], title=EVIL)


def test_whoever_is_from_another_folder_is_marked(tmp_path: Path) -> None:
    anna = [member("anna/1.png", "anna"), member("anna/2.png", "anna")]
    page = written(tmp_path, [*anna, member("b/1.png", "b")], [member("c/1.png", "c")])
    assert page.count('<li class="odd"') == 1
    assert '<li class="odd" title="b/1.png">' in page
    assert "3 pictures · 2 of anna, 1 of 1 other" in page
    assert "marked" in page
    page = written(tmp_path, anna)
    assert "marked" not in page
    assert "2 pictures · anna" in page


def test_what_is_left_out_is_counted_and_not_read(tmp_path: Path) -> None:
    read = []
    group = [
        Member(f"{n}.png", None, lambda n=n: read.append(n))  # type: ignore[misc]
        for n in range(30)
    ]
    page = written(tmp_path, group, *[[member(f"x{n}.png")] for n in range(69)])
    assert len(read) == PICTURES
    assert "… 6 more pictures" in page
    assert "69 pictures are like no other." in page
    assert "… 9 more pictures" in page
    assert page.count("cannot be shown") == PICTURES
    page = written(tmp_path, *[[member(f"{n}.png"), member(f"{n}.jpg")] for n in range(204)])
    assert "… 4 more groups" in page
    assert "1 picture is like no other." in written(tmp_path, [member("a.png")])
