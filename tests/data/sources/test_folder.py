"""Folders as people really have them."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.datasets import list_samples

Draw = Callable[..., Path]


def test_a_folder_per_identity(photos: Path) -> None:
    found = list_samples(photos)
    assert len(found) == 13
    assert found.names == ["anna"] * 6 + ["ben"] * 5 + ["carl"] * 2
    assert found.paths[:2] == ["anna/0.png", "anna/1.png"]
    assert found.content(0) == (photos / "anna" / "0.png").read_bytes()
    assert (found.parts, found.skipped, found.notes) == (None, [], [])


def test_folders_within_the_folder_of_an_identity(tmp_path: Path, draw: Draw) -> None:
    draw(tmp_path / "a" / "1.png")
    draw(tmp_path / "a" / "b" / "1.png")
    found = list_samples(tmp_path)
    assert found.names == ["a", "a/b"]
    (note,) = found.notes
    assert "a/b" in note


def test_what_is_passed_over(photos: Path, draw: Draw) -> None:
    draw(photos / ".thumbnails" / "anna" / "0.png")
    draw(photos / "anna" / ".hidden.png")
    for name in ("notes.txt", "more.TXT", "Makefile", "scan.eps"):
        (photos / "anna" / name).write_text("x")
    (photos / "empty").mkdir()
    found = list_samples(photos)
    assert len(found) == 13
    (note,) = found.notes
    assert re.search(r"4 files.*\.txt.*\.eps", note)


@pytest.mark.parametrize("name", ["a.PNG", "b.JpG", "e.webp"])
def test_extensions_of_any_case(tmp_path: Path, draw: Draw, name: str) -> None:
    draw(tmp_path / "x" / name)
    assert list_samples(tmp_path).paths == [f"x/{name}"]


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode on this system")
def test_names_that_are_no_unicode(tmp_path: Path, draw: Draw) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    draw(Path(folder) / "1.png")
    draw(tmp_path / "Zoë" / "1.png")
    found = list_samples(tmp_path)
    assert found.names == ["Zoë", "caf\\xe9"]
    assert found.paths == ["Zoë/1.png", "caf\\xe9/1.png"]
    "".join(found.paths).encode()  # valid Unicode, whatever it is written to
    assert found.content(1) == (Path(folder) / "1.png").read_bytes()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_folders_that_cannot_be_read(photos: Path) -> None:
    (photos / "carl").chmod(0)
    try:
        found = list_samples(photos)
    finally:
        (photos / "carl").chmod(0o755)
    assert len(found) == 11
    assert [path for path, _ in found.skipped] == ["carl"]


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
    assert set(list_samples(root).names) == {"anna", "ben", "outside/carl", "outside/dora"}
