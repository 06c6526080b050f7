"""Folders of shards: written one by one, read as a whole, and refused where anything is wrong."""

import numpy as np
import pytest

from arcset.data.embeddings import (
    MANIFEST,
    Manifest,
    check_shard,
    read_embeddings,
    read_manifest,
    skipped_path,
    write_shard,
)
from arcset.errors import DataError

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
