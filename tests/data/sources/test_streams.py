"""A stream of samples finds what a listing finds, which holds them all."""

import itertools
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from arcset.data import Listing
from arcset.data.sources.base import Entry
from arcset.data.sources.folder import FolderSource
from arcset.data.sources.table import TableSource
from arcset.errors import DataError
from support.datasets import list_samples

Draw = Callable[..., Path]


def same(stream: Iterable[Entry], listing: Listing) -> list[Entry]:
    """All entries; those that can be samples and those that cannot are the listing's."""
    found = list(stream)
    good = [(entry.path, entry.label) for entry in found if not entry.why]
    bad = [(entry.path, entry.why) for entry in found if entry.why]
    assert sorted(good) == sorted(zip(listing.paths, listing.names, strict=True))
    assert sorted(bad) == sorted(listing.skipped)
    return found


def test_a_folder_tree(photos: Path, draw: Draw) -> None:
    """With all that people have in such folders."""
    draw(photos / "anna" / "older" / "deep" / "1.png")
    draw(photos / "anna b" / "1.png")
    draw(photos / "anna" / ".hidden" / "1.png")
    draw(photos / ".trash" / "1.png")
    draw(photos / "stray.png")
    (photos / "anna" / "notes.txt").write_text("no image")
    (photos / "empty").mkdir()
    entries = same(FolderSource(photos).entries(), list_samples(photos))
    assert entries == list(FolderSource(photos).entries())
    assert [entry.path for entry in entries if entry.why] == ["stray.png"]
    labels = [entry.label for entry in entries]
    changes = sum(one != other for one, other in itertools.pairwise(labels))
    assert changes + 1 == len(set(labels))  # each folder's images stand together


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_links_to_folders(tmp_path: Path, draw: Draw) -> None:
    """Each folder once, by its own name where it has one here."""
    root = tmp_path / "root"
    draw(root / "anna" / "1.png")
    draw(root / ".store" / "ben" / "1.png")
    draw(tmp_path / "elsewhere" / "carl" / "1.png")
    draw(tmp_path / "elsewhere" / "dora" / "1.png")
    links = {
        "again": root / "anna",
        "ben": root / ".store" / "ben",
        "outside": tmp_path / "elsewhere",
        "whole": root,
        "outside too": tmp_path / "elsewhere" / "dora",
        "nowhere": tmp_path / "missing",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    (tmp_path / "elsewhere" / "back").symlink_to(root)
    (root / "anna" / "linked.png").symlink_to(tmp_path / "elsewhere" / "carl" / "1.png")
    found = same(FolderSource(root).entries(), list_samples(root))
    assert {entry.label for entry in found} == {
        "anna",
        "ben",
        "outside/carl",
        "outside/dora",
    }


def test_names_that_are_no_unicode(tmp_path: Path, draw: Draw) -> None:
    draw(tmp_path / "é" / "1.png")
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/a\xff")  # noqa: PTH102
    except OSError:
        pytest.skip("the file system takes Unicode only")
    (tmp_path / os.fsdecode(b"a\xff") / "1.png").write_bytes(b"")
    found = same(FolderSource(tmp_path).entries(), list_samples(tmp_path))
    assert [entry.path for entry in found] == ["a\\xff/1.png", "é/1.png"]
    assert (tmp_path / found[0].file).is_file()


def test_pictures_in_one_folder_are_one_identity(tmp_path: Path, draw: Draw) -> None:
    for name in "cab":
        draw(tmp_path / f"{name}.png")
    found = same(FolderSource(tmp_path).entries(), list_samples(tmp_path))
    assert [(entry.path, entry.label) for entry in found] == [
        ("a.png", "."),
        ("b.png", "."),
        ("c.png", "."),
    ]


def test_a_tree_without_images(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.txt").touch()
    with pytest.raises(DataError) as listed:
        list_samples(tmp_path)
    with pytest.raises(DataError) as streamed:
        list(FolderSource(tmp_path).entries())
    assert str(streamed.value) == str(listed.value)
    with pytest.raises(DataError, match="missing"):
        list(FolderSource(tmp_path / "missing").entries())


def test_a_folder_that_cannot_be_listed(tmp_path: Path, draw: Draw) -> None:
    draw(tmp_path / "a" / "1.png")
    (tmp_path / "b").mkdir(mode=0)
    try:
        if os.access(tmp_path / "b", os.R_OK):
            pytest.skip("this user may read everything")
        assert [entry.path for entry in FolderSource(tmp_path).entries()] == ["a/1.png", "b"]
    finally:
        (tmp_path / "b").chmod(0o700)


def test_tables(tmp_path: Path) -> None:
    text = "path,label,split\na/1.png,a,train\n,b,test\nb/1.png,,\nc/1.png,7,val\na/1.png,a,test\n"
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "plain.csv").write_text("\n".join(row[: row.rindex(",")] for row in text.split()))
    found = same(
        TableSource(tmp_path / "plain.csv").entries(), list_samples(tmp_path / "plain.csv")
    )
    plain = [entry._replace(split="") for entry in TableSource(tmp_path / "t.csv").entries()]
    assert plain == found  # whatever the split
    assert [(entry.path, entry.label) for entry in found[1:3]] == [("row 2", "b"), ("b/1.png", "")]
    assert all(entry.why for entry in found[1:3])
    rows = {"path": ["x.png", None], "label": [3, 4]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "t.parquet")
    same(TableSource(tmp_path / "t.parquet").entries(), list_samples(tmp_path / "t.parquet"))
    (tmp_path / "empty.csv").write_text("path,label\n,\n")
    with pytest.raises(DataError, match=r"empty\.csv"):
        list(TableSource(tmp_path / "empty.csv").entries())
