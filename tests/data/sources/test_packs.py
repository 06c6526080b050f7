"""Packs: equal to what they were made of, mapped and not loaded, and never half there."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arcset.data import Dataset, ImageSet, Pack, Reading, load_dataset, load_pack, pack
from arcset.data.dataset import LazyRows
from arcset.errors import DataError, OptionError

Draw = Callable[..., Path]


def assert_equal(one: Dataset, other: Dataset) -> None:
    for field in ("name", "licence", "held_out", "apart", "fit", "invert", "skipped"):
        assert getattr(one, field) == getattr(other, field), field
    for part in ("train", "test"):
        a, b = getattr(one, part), getattr(other, part)
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.class_names, a.paths) == (b.class_names, b.paths)
            np.testing.assert_array_equal(a.labels, b.labels)
            np.testing.assert_array_equal(a.images, b.images)


def mapped(part: ImageSet) -> bool:
    """Whether the pixels stay in a file."""
    return isinstance(part.images, LazyRows) and isinstance(part.images.base, np.memmap)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": 9, "channels": 3, "fit": "crop"},
        {"reading": Reading(1, 4, 7, fit="stretch", invert=True)},
    ],
)
def test_a_pack_equals_what_is_loaded(
    photos: Path, tmp_path: Path, options: dict[str, object]
) -> None:
    made = pack(photos, tmp_path / "p", **options)
    dataset = load_pack(tmp_path / "p")
    assert_equal(dataset, load_dataset(photos, **options))
    assert isinstance(made, Pack)
    assert (made.manifest.images, made.manifest.training, len(made.manifest.class_names)) == (
        13,
        11,
        3,
    )
    assert made.size == sum(file.stat().st_size for file in (tmp_path / "p").iterdir())
    assert {file.name for file in (tmp_path / "p").iterdir()} == {
        "images.npy",
        "labels.npy",
        "paths.parquet",
        "pack.json",
    }


def test_broken_files(photos: Path, tmp_path: Path, draw: Draw) -> None:
    for number in range(40):
        draw(photos / "dora" / f"{number}.png")
    for path in ("anna/0.png", "dora/7.png", "carl/0.png", "carl/1.png"):
        (photos / path).write_bytes(b"broken")
    pack(photos, tmp_path / "p")
    dataset = load_pack(tmp_path / "p")
    assert_equal(dataset, load_dataset(photos))
    assert dataset.class_names == ("anna", "ben", "dora")
    assert len(dataset.skipped) == 4 + 1  # and carl


def test_what_is_there_is_not_replaced_unasked(photos: Path, tmp_path: Path) -> None:
    pack(photos, tmp_path / "p", size=4)
    with pytest.raises(OptionError, match=r"p .*--force"):
        pack(photos, tmp_path / "p", size=5)
    assert load_pack(tmp_path / "p").train.images.shape[1:] == (4, 4)
    pack(photos, tmp_path / "p", size=5, force=True)
    assert load_pack(tmp_path / "p").train.images.shape[1:] == (5, 5)
    assert {file.name for file in tmp_path.iterdir()} == {"p", "photos"}


def test_nothing_half_written(photos: Path, tmp_path: Path) -> None:
    pack(photos, tmp_path / "p", size=4)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(photos, tmp_path / "p", size=5, force=True, watch=stop)
    assert {file.name for file in tmp_path.iterdir()} == {"p", "photos"}
    assert load_pack(tmp_path / "p").train.images.shape[1:] == (4, 4)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def change(**entries: object) -> Callable[[Path], object]:
    """Of what the manifest says."""
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


@pytest.mark.parametrize(
    ("file", "harm"),
    [
        ("images.npy", cut),
        ("images.npy", Path.unlink),
        ("labels.npy", flip),
        ("paths.parquet", flip),
        ("paths.parquet", Path.unlink),
        ("pack.json", cut),
        ("pack.json", change(version=2)),
        ("pack.json", change(training=14)),
        ("pack.json", change(images=12)),
        ("pack.json", change(class_names=["anna"])),
        ("pack.json", change(sha256={})),
    ],
)
def test_damage(photos: Path, tmp_path: Path, file: str, harm: Callable[[Path], object]) -> None:
    pack(photos, tmp_path / "p")
    harm(tmp_path / "p" / file)
    with pytest.raises(DataError, match=str(tmp_path / "p")) as raised:
        load_pack(tmp_path / "p")
    assert "\n" not in str(raised.value)


@pytest.mark.long
def test_packing_does_not_hold_the_images(tmp_path: Path) -> None:
    side, count = 1024, 200
    Image.new("L", (side, side), 80).save(tmp_path / "one.png")
    rows = [f"one.png,{'ab'[number % 2]}" for number in range(count)]
    (tmp_path / "t.csv").write_text("\n".join(["path,label", *rows]))
    pack(tmp_path / "t.csv", tmp_path / "first", size=8)  # imports what it needs
    tracemalloc.start()
    try:
        pack(tmp_path / "t.csv", tmp_path / "p", size=side)
        packed = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        load_dataset(tmp_path / "t.csv", size=side)
        loaded = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert loaded > side * side * count  # what a pack saves, so that the measure is worth something
    assert packed < 100 << 20
