"""What is listed, and what is said where nothing can be."""

from pathlib import Path

import pytest

from arcset.data import list_samples
from arcset.errors import DataError


def test_each_kind_is_recognized(photos: Path) -> None:
    (photos / "all.csv").write_text("path,label\nanna/0.png,anna\n")
    assert list_samples(photos).kind == "folder tree"
    assert list_samples(str(photos / "all.csv")).kind == "CSV table"


def test_what_is_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none .*folder, CSV, Parquet, npz"):
        list_samples(tmp_path / "none")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=r"notes\.txt"):
        list_samples(tmp_path / "notes.txt")
