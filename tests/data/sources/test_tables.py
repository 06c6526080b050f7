"""Tables as people and their programs write them."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as arrow
import pytest
from pyarrow import parquet

from arcset.errors import DataError
from support.datasets import list_samples

Draw = Callable[..., Path]


@pytest.mark.parametrize(
    ("delimiter", "encoding", "end"),
    [
        (",", "utf-8", "\n"),
        (";", "utf-8-sig", "\r\n"),
        ("\t", "utf-16", "\r\n"),
        ("|", "utf-16", "\n"),
    ],
)
def test_csv_of_any_kind(tmp_path: Path, delimiter: str, encoding: str, end: str) -> None:
    rows = [
        ("path", "label", "split"),
        ("a/1.png", "anna", "train"),
        ("a/2.png", "anna", "val"),
        ("b/1.png", "7", "test"),
    ]
    content = end.join(delimiter.join(row) for row in rows)
    (tmp_path / "t.csv").write_bytes(content.encode(encoding))
    found = list_samples(tmp_path / "t.csv")
    assert found.kind == "CSV table"
    assert found.names == ["anna", "anna", "7"]
    assert found.paths == ["a/1.png", "a/2.png", "b/1.png"]
    assert found.parts == ["train", "validation", "test"]


def test_other_columns_other_order_other_case(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text(
        '"Age" ; "Identity" ; "File"\n31;"Anna; the first";"a,b/1.png"\n\n32;Ben;2.png\n'
    )
    found = list_samples(table)
    assert found.names == ["Anna; the first", "Ben"]
    assert found.paths == ["a,b/1.png", "2.png"]
    assert found.parts is None


@pytest.mark.parametrize("labels", [["1", "2"], [1, 2], [1.0, 2.0]])
def test_parquet(tmp_path: Path, labels: list[object]) -> None:
    table = tmp_path / "t.parquet"
    columns = {"label": labels, "extra": [[1.0], [2.0]], "path": ["x.png", "y.png"]}
    parquet.write_table(arrow.table(columns), table)
    found = list_samples(table)
    assert found.kind == "Parquet table"
    assert (found.names, found.paths, found.parts) == (["1", "2"], ["x.png", "y.png"], None)
    split = arrow.array(["Train", "TEST"]).dictionary_encode()
    parquet.write_table(arrow.table({**columns, "split": split}), table)
    assert list_samples(table).parts == ["train", "test"]


def test_paths_are_relative_to_the_table_or_absolute(
    tmp_path: Path, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = draw(tmp_path / "data" / "in.png"), draw(tmp_path / "out.png")
    table = tmp_path / "data" / "t.csv"
    table.write_text(f"path,label\nin.png,a\n../out.png,b\n{outside},c\ngone.png,d\n")
    monkeypatch.chdir("/")
    found = list_samples(table)
    assert found.content(0) == inside.read_bytes()
    assert found.content(1) == found.content(2) == outside.read_bytes()
    with pytest.raises(DataError, match=r"gone\.png"):
        found.content(3)


def test_rows_without_path_or_label_are_skipped(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("path,label\n1.png,a\n,b\n2.png,\n3.png\n  , \n4.png,d\n")
    found = list_samples(table)
    assert found.paths == ["1.png", "4.png"]
    assert [path for path, _ in found.skipped] == ["row 2", "2.png", "3.png", "row 5"]
    assert "row 3" in found.skipped[1][1]
    missing = {"path": ["1.png", None, "2.png"], "label": [1.0, 2.0, None]}
    parquet.write_table(arrow.table(missing), tmp_path / "t.parquet")
    found = list_samples(tmp_path / "t.parquet")
    assert (found.paths, found.names, len(found.skipped)) == (["1.png"], ["1"], 2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"path,name\n1.png,a\n", "path, name.*label"),
        (b"", "nothing.*path"),
        (b"path,label,split\n1.png,a,holdout\n", "'holdout'.*train"),
        (b"path,label,split\n1.png,a,train\n2.png,b,\n", "split ''"),
        (b"path,label\n" + b"x" * 200_000 + b",a\n", "CSV"),
        (b"\xff\xfep", "CSV"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=words) as raised:
        _ = list_samples(tmp_path / "t.csv").parts
    assert str(raised.value).startswith(str(tmp_path / "t.csv"))
    assert "\n" not in str(raised.value)


def test_parquet_that_cannot_be_read(tmp_path: Path) -> None:
    table = tmp_path / "t.parquet"
    table.write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match=r"t\.parquet"):
        list_samples(table)
    parquet.write_table(arrow.table({"embedding": [[1.0]], "label": ["a"]}), table)
    with pytest.raises(DataError, match=r"embedding, label.*path"):
        list_samples(table)
