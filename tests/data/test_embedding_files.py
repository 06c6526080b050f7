from dataclasses import replace

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from arcset.data.embeddings import (
    MANIFEST,
    EmbeddingSet,
    Manifest,
    check_shard,
    read_embeddings,
    read_manifest,
    skipped_path,
    with_columns,
    write_embeddings,
    write_shard,
)
from arcset.errors import DataError, OptionError


def some(paths=True):
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    return EmbeddingSet.of(
        rows, ["b", "a", "b", "é/c", "a"], [f"{i}.png" for i in range(5)] if paths else None
    )


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
@pytest.mark.parametrize("paths", [True, False])
def test_round_trip(tmp_path, suffix, paths):
    wrote = some(paths)
    write_embeddings(tmp_path / f"e.{suffix}", wrote)
    read = read_embeddings(tmp_path / f"e.{suffix}")
    np.testing.assert_array_equal(read.embeddings, wrote.embeddings)
    assert read.embeddings.dtype == np.float32
    assert (read.class_names, read.paths) == (wrote.class_names, wrote.paths)
    assert read.labels.tolist() == [1, 0, 1, 2, 0]
    assert [path.name for path in tmp_path.iterdir()] == [f"e.{suffix}"]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({"label": ["a", "b"], "embedding": [[1.0], [1.0, 2.0, 3.0]]}, "embedding"),
        ({"label": ["a", None], "embedding": [[1.0], [1.0]]}, "label for sample 1"),
        ({"label": ["a", "b"], "vector": [[1.0], [1.0]]}, "label, vector"),
    ],
)
def test_parquet_that_does_not_fit(tmp_path, column, text):
    parquet.write_table(pyarrow.table(column), tmp_path / "o.parquet")
    with pytest.raises(DataError, match=text):
        read_embeddings(tmp_path / "o.parquet")


def test_npz_that_does_not_fit(tmp_path):
    np.savez(tmp_path / "o.npz", embeddings=np.eye(2), labels=np.arange(3))
    with pytest.raises(DataError, match=r"label .*\(3,\).* 2 "):
        read_embeddings(tmp_path / "o.npz")


def test_what_is_no_file_of_embeddings(tmp_path):
    with pytest.raises(DataError, match=r"none\.npz"):
        read_embeddings(tmp_path / "none.npz")
    (tmp_path / "o.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"o\.parquet"):
        read_embeddings(tmp_path / "o.parquet")
    with pytest.raises(OptionError, match=r"o\.csv"):
        read_embeddings(tmp_path / "o.csv")


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_what_was_trained_on_goes_with_the_file(tmp_path, suffix):
    wrote = EmbeddingSet.of(np.eye(2, dtype=np.float32), ["a", "b"], trained_on=["a", "é"])
    write_embeddings(tmp_path / f"e.{suffix}", wrote)
    assert read_embeddings(tmp_path / f"e.{suffix}").trained_on == ("a", "é")
    assert wrote.keep(["b"]).trained_on == ("a", "é")


# Folders of shards: written one by one, read as a whole, and refused where anything is wrong.


ROWS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
NAMES = ["b", "é/c", "a", "b", "a"]


@pytest.fixture
def folder(tmp_path):
    """Seven inputs in shards of three, of which two were skipped: all of the last shard, too."""
    place = tmp_path / "folder"
    (place / "_arcset").mkdir(parents=True)
    manifest = Manifest(
        model="m",
        digest="d",
        dim=3,
        unit=False,
        source="s",
        kind="k",
        inputs=7,
        listed="l",
        identities=3,
        shard_size=3,
    )
    manifest.save(place)
    paths = [f"{number}.png" for number in range(5)]
    write_shard(place, manifest, 0, paths[:3], NAMES[:3], ROWS[:3], [])
    write_shard(place, manifest, 1, paths[3:], NAMES[3:], ROWS[3:], [("x.png", "is empty")])
    write_shard(place, manifest, 2, [], [], np.empty((0, 3)), [("ü.png", "is no image")])
    return place


def test_read_as_one(folder):
    found = read_embeddings(folder)
    np.testing.assert_array_equal(found.embeddings, ROWS)
    assert found.names.tolist() == NAMES
    assert found.class_names == ("a", "b", "é/c")
    assert found.paths == ("0.png", "1.png", "2.png", "3.png", "4.png")
    assert found.trained_on is None
    read_manifest(folder).model_copy(update={"trained_on": ("a", "ü")}).save(folder)
    assert read_embeddings(folder).trained_on == ("a", "ü")


def test_what_was_skipped(folder):
    manifest = read_manifest(folder)
    assert check_shard(folder, manifest, 0) == (3, [])
    assert check_shard(folder, manifest, 1) == (2, [("x.png", "is empty")])
    assert check_shard(folder, manifest, 2, full=True) == (0, [("ü.png", "is no image")])
    for content in ("[", "[1]", "[]", '[["a", "b"], ["c", "d"]]'):
        skipped_path(folder, 1).write_text(content)
        with pytest.raises(DataError, match=r"00001\."):
            check_shard(folder, manifest, 1)
    skipped_path(folder, 1).unlink()
    with pytest.raises(DataError, match=r"skipped-00001\.json"):
        check_shard(folder, manifest, 1)
    write_shard(folder, manifest, 1, ["a"] * 3, ["a"] * 3, ROWS[:3], [], "stamp")  # now it can be
    assert check_shard(folder, manifest, 1, stamp="stamp") == (3, [])
    with pytest.raises(DataError, match="00001"):
        check_shard(folder, manifest, 1, stamp="another")


def test_values_that_are_not_finite_are_noticed_by_a_full_check(folder):
    manifest = read_manifest(folder)
    write_shard(folder, manifest, 0, ["a"] * 3, ["a"] * 3, ROWS[:3] * np.float32(np.nan), [])
    check_shard(folder, manifest, 0)
    with pytest.raises(DataError, match=r"shard-00000\.parquet"):
        check_shard(folder, manifest, 0, full=True)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"version": 2}'])
def test_a_manifest_that_is_damaged_or_newer(folder, content):
    (folder / MANIFEST).write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json"):
        read_embeddings(folder)


def test_further_columns_of_what_embeddings_come_from(tmp_path):
    """Of a file in its order, of a table by path, and `group` by the names of identities."""
    content = replace(some(), class_names=("x/a", "x/b", "y/c"))
    far = {"country": ["DE", "FR", "", "FR", "DE"], "age": [30, 40, 50, 60, 70]}
    arrays = {"embeddings": content.embeddings, "labels": content.names}
    np.savez(tmp_path / "e.npz", **arrays, **far)
    table = {"embedding": content.embeddings.tolist(), "label": content.names.tolist(), **far}
    parquet.write_table(pyarrow.table(table), tmp_path / "e.parquet")
    lines = [f"{i}.png;{content.names[i]};{far['country'][i]};{far['age'][i]}" for i in range(5)]
    (tmp_path / "e.csv").write_text("\n".join(["path;label;country;age", *reversed(lines)]))
    for name in ("e.npz", "e.parquet", "e.csv"):
        found = with_columns(content, tmp_path / name, ["country", "age", "group"])
        assert found.columns["country"].tolist() == ["DE", "FR", "(none)", "FR", "DE"]
        assert found.columns["age"].tolist() == ["30", "40", "50", "60", "70"]
        assert found.columns["group"].tolist() == ["x", "x", "x", "y", "x"]
        assert found.keep(["x/b"]).columns["age"].tolist() == ["30", "50"]
        with pytest.raises(OptionError, match=r"'contry'.*'country'.*age"):
            with_columns(content, tmp_path / name, ["contry"])
    with pytest.raises(OptionError, match=r"'group'.*photos"):
        with_columns(some(), "photos", ["group"])
