"""Own data as a dataset: shapes that are chosen, files that are broken, memory that is bounded."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from arcset.data import Dataset, Reading, load_dataset, pack
from arcset.data.sources.samples import for_testing
from arcset.errors import DataError, OptionError

Draw = Callable[..., Path]


def rows(dataset: Dataset) -> dict[str, tuple[str, bool, bytes]]:
    """Path → identity, whether it is for testing, pixels."""
    found = {}
    for testing, part in ((False, dataset.train), (True, dataset.test)):
        if part is None:
            continue
        assert part.paths is not None
        for path, label, image in zip(part.paths, part.labels, part.images, strict=True):
            found[path] = (part.class_names[label], testing, image.tobytes())
    return found


def test_a_folder_tree(photos: Path) -> None:
    dataset = load_dataset(photos)
    assert (dataset.name, dataset.licence, dataset.held_out) == ("photos", "unknown", "all")
    assert dataset.class_names == ("anna", "ben", "carl")
    assert dataset.train.images.shape == (11, 6, 5)
    assert dataset.test is not None
    assert dataset.class_names[dataset.test.labels[0]] == "anna"
    assert (dataset.apart, dataset.skipped, dataset.fit, dataset.invert) == ({}, (), "pad", False)
    found = rows(dataset)
    assert len(found) == 13
    assert sorted(name for name, testing, _ in found.values() if testing) == ["anna", "ben"]
    for path, (name, _, pixels) in found.items():
        assert path.startswith(f"{name}/")
        assert pixels == np.asarray(Image.open(photos / path)).tobytes()


@pytest.mark.parametrize(
    ("sizes", "coloured", "shape"),
    [
        ([(128, 40), (128, 40)], 0, (2, 128, 40)),  # one size up to 128 is kept
        ([(129, 40), (129, 40)], 2, (2, 112, 112, 3)),  # a larger one becomes a square
        ([(20, 31), (24, 9)], 0, (2, 31, 31)),  # different ones a square that enlarges nothing
        ([(20, 31), (24, 9), (24, 500)], 0, (3, 112, 112)),
        ([(6, 5), (6, 5)], 1, (2, 6, 5, 3)),  # one in colour makes all coloured
    ],
)
def test_the_shape_that_is_chosen(
    tmp_path: Path, draw: Draw, sizes: list[tuple[int, int]], coloured: int, shape: tuple[int, ...]
) -> None:
    for number, size in enumerate(sizes):
        draw(tmp_path / "ab"[number % 2] / f"{number}.png", size, number < coloured)
    assert load_dataset(tmp_path).train.images.shape == shape
    assert load_dataset(tmp_path, channels=1).train.images.ndim == 3


def test_a_photo_held_upright_counts_as_it_is_seen(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for name, image in (("a", Image.new("L", (30, 20))), ("b", Image.new("L", (20, 30)))):
        (tmp_path / name).mkdir()
        options = {"exif": exif} if name == "a" else {}
        image.save(tmp_path / name / "1.jpg", **options)
    assert load_dataset(tmp_path).train.images.shape == (2, 30, 20)


def test_what_is_asked_for(photos: Path) -> None:
    assert load_dataset(photos, size=9).train.images.shape[1:] == (9, 9)
    assert load_dataset(photos, size=(8, 7), channels=3).train.images.shape[1:] == (8, 7, 3)
    reading = Reading(1, 3, 4, fit="crop", invert=True)
    dataset = load_dataset(photos, reading=reading, size=50, channels=3, fit="pad")
    assert dataset.train.images.shape[1:] == (3, 4)
    assert (dataset.fit, dataset.invert) == ("crop", True)
    assert dataset.train.paths is not None
    np.testing.assert_array_equal(
        dataset.train.images[0], reading.read(photos / dataset.train.paths[0])
    )
    with pytest.raises(OptionError, match="'zoom'"):
        load_dataset(photos, fit="zoom")


def test_an_identity_without_a_readable_image_for_training_is_left_out(photos: Path) -> None:
    testing = {path: test for path, (_, test, _) in rows(load_dataset(photos)).items()}
    for path, test in testing.items():
        if path.startswith("ben/") and not test:
            (photos / path).write_bytes(b"broken")
    dataset = load_dataset(photos)
    assert dataset.class_names == ("anna", "carl")
    assert dataset.skipped[-1][0] == "ben"
    for path, (_, test, pixels) in rows(dataset).items():
        assert pixels == np.asarray(Image.open(photos / path)).tobytes()
        assert test == testing[path]


@pytest.mark.parametrize("options", [{}, {"size": 8, "channels": 1}])
def test_nothing_is_readable(photos: Path, options: dict[str, int]) -> None:
    for file in photos.rglob("*.png"):
        file.write_bytes(b"broken")
    with pytest.raises(DataError, match=r"photos.* 13 .*anna/"):
        load_dataset(photos, **options)


def test_the_column_split_decides(photos: Path) -> None:
    lines = ["path,label,split"]
    for path, name, part in (
        ("anna/0.png", "anna", "train"),
        ("anna/1.png", "anna", "val"),
        ("anna/2.png", "anna", "test"),
        ("ben/0.png", "ben", "train"),
        ("carl/0.png", "carl", "valid"),
        ("carl/1.png", "dora", "test"),
        ("carl/9.png", "dora", "test"),
    ):
        lines.append(f"{path},{name},{part}")
    (photos / "faces.csv").write_text("\n".join(lines))
    dataset = load_dataset(photos / "faces.csv")
    assert dataset.name == "faces"
    assert dataset.class_names == ("anna", "ben", "carl", "dora")
    assert dataset.apart == {"validation": ("carl",), "test": ("dora",)}
    testing = {path for path, (_, test, _) in rows(dataset).items() if test}
    assert testing == {"anna/1.png", "anna/2.png"}
    assert [path for path, _ in dataset.skipped] == ["carl/9.png"]


def test_too_much_for_memory(photos: Path) -> None:
    """Refused before anything is decoded: 44 images of 4096×4096×3 take more than 2 GiB."""
    rows = [f"{name}/0.png,{name}" for name in ("anna", "ben")] * 22
    (photos / "many.csv").write_text("\n".join(["path,label", *rows]))
    with pytest.raises(DataError, match=r"44 images .*many\.csv.*arcset data pack"):
        load_dataset(photos / "many.csv", size=4096, channels=3)


@pytest.mark.parametrize("kind", ["pack", "npz"])
def test_pictures_that_are_arrays_take_another_size(photos: Path, kind: str) -> None:
    path = photos.parent / f"people.{kind}"
    usual = load_dataset(photos)
    if kind == "pack":
        pack(photos, path)
    else:
        np.savez(path, images=usual.train.images, labels=usual.train.labels)
    smaller = load_dataset(path, size=(4, 3), channels=3)
    assert smaller.train.shape == (3, 4, 3)
    assert load_dataset(path).train.shape == (1, 6, 5)
    if kind == "pack":
        expected = load_dataset(photos, size=(4, 3), channels=3)
        assert np.array_equal(smaller.train.images, expected.train.images)
        negative = load_dataset(path, invert=True)
        assert np.array_equal(negative.train.images, 255 - usual.train.images)


# Which images are for testing, and who stays apart.


@pytest.mark.parametrize("count", [1, 4, 5, 9, 10, 22])
def test_every_fifth_of_an_identity(count: int) -> None:
    testing = for_testing(["a"] * count, [f"a/{number}.png" for number in range(count)])
    assert testing.sum() == count // 5


@given(counts=st.lists(st.integers(1, 12), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_neither_order_nor_others_matter(counts: list[int], seed: int) -> None:
    names = [f"n{i}" for i, count in enumerate(counts) for _ in range(count)]
    paths = [f"{name}/{i}.png" for i, name in enumerate(names)]
    testing = dict(zip(paths, for_testing(names, paths), strict=True))
    order = np.random.default_rng(seed).permutation(len(names))
    again = for_testing([names[i] for i in order], [paths[i] for i in order])
    assert dict(zip([paths[i] for i in order], again, strict=True)) == testing
    first = [i for i, name in enumerate(names) if name == "n0"]
    alone = for_testing(["n0"] * len(first), [paths[i] for i in first])
    assert alone.tolist() == [testing[paths[i]] for i in first]
