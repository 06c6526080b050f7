"""Arrays of pictures and of anything else, in files and in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcset.data import Dataset, ImageSet, Reading, load_dataset
from arcset.data.sources.arrays import dataset_of_arrays, hold_back_tests
from arcset.errors import DataError

NAMES = np.array(["b", "a"] * 6)
PICTURES = np.random.default_rng(0).integers(0, 256, (12, 5, 4, 3), np.uint8)


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def whole(dataset: Dataset) -> np.ndarray:
    parts = [part for part in (dataset.train, dataset.test) if part is not None]
    return np.concatenate([np.asarray(part.images) for part in parts])


@pytest.mark.parametrize(
    ("images", "labels"), [("images", "labels"), ("X", "y"), ("embeddings", "targets")]
)
def test_names_that_others_use(tmp_path: Path, images: str, labels: str) -> None:
    dataset = load_dataset(saved(tmp_path / "set.npz", **{images: PICTURES, labels: NAMES}))
    assert (dataset.name, dataset.licence, dataset.held_out) == ("set", "unknown", "all")
    assert dataset.class_names == ("a", "b")
    assert dataset.test is not None
    assert (len(dataset.train), len(dataset.test)) == (10, 2)  # a fifth of six, twice
    assert dataset.train.paths is None
    given = {picture.tobytes(): name for picture, name in zip(PICTURES, NAMES, strict=True)}
    for part in (dataset.train, dataset.test):
        for picture, label in zip(part.images, part.labels, strict=True):
            assert given.pop(picture.tobytes()) == dataset.class_names[label]
    assert not given


@pytest.mark.parametrize(
    ("shape", "dtype", "inner", "kind"),
    [
        ((12, 5, 4), np.uint8, (5, 4), np.uint8),
        ((12, 5, 4, 1), np.uint8, (5, 4), np.uint8),
        ((12, 7), np.uint8, (7,), np.float32),
        ((12, 5, 4, 6), np.float64, (5, 4, 6), np.float32),
        ((12, 2, 3, 2, 2), np.float32, (24,), np.float32),
    ],
)
def test_shapes(
    tmp_path: Path, shape: tuple[int, ...], dtype: type, inner: tuple[int, ...], kind: type
) -> None:
    images = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    dataset = load_dataset(saved(tmp_path / "set.npz", X=images, y=np.arange(12) % 3))
    assert dataset.train.images.shape[1:] == inner
    assert dataset.train.images.dtype == kind
    assert dataset.class_names == ("0", "1", "2")
    np.testing.assert_array_equal(
        np.sort(whole(dataset).reshape(12, -1), axis=0),
        np.sort(images.reshape(12, -1), axis=0),
    )


def test_paths_and_splits(tmp_path: Path) -> None:
    names = ["a", "a", "b", "b", "c", "d"]
    split = ["train", "val", "train", "test", "dev", "test"]
    paths = [f"p{i}" for i in range(6)]
    features = np.arange(12, dtype=np.float32).reshape(6, 2)
    dataset = load_dataset(
        saved(tmp_path / "s.npz", features=features, labels=names, split=split, paths=paths)
    )
    assert dataset.apart == {"validation": ("c",), "test": ("d",)}
    assert dataset.train.paths == ("p0", "p2", "p4", "p5")
    assert dataset.test is not None
    assert dataset.test.paths == ("p1", "p3")
    assert dataset.test.images[0].tolist() == [2, 3]


def test_a_reading_reshapes_pictures_and_leaves_features(tmp_path: Path) -> None:
    path = saved(tmp_path / "s.npz", images=PICTURES, labels=NAMES)
    reading = Reading(1, 3, 3, fit="stretch", invert=True)
    dataset = load_dataset(path, reading=reading)
    plain = load_dataset(path)
    assert (dataset.fit, dataset.invert) == ("stretch", True)
    assert dataset.train.images.shape == (10, 3, 3)
    for image, picture in zip(whole(dataset), whole(plain), strict=True):
        np.testing.assert_array_equal(image, reading.read(picture))
    features = load_dataset(saved(tmp_path / "f.npz", X=np.eye(12), y=NAMES), reading=reading)
    assert features.train.images.shape == (10, 12)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.eye(3)}, "holds X.*label"),
        ({"X": np.eye(3), "y": [0.5, 1, 2]}, "label"),
        ({"X": np.eye(3), "y": ["a", "", "b"]}, "sample 1"),
        ({"X": np.eye(3), "y": [1, 1, 1]}, "'1'"),
        ({"X": np.zeros((3, 0)), "y": [1, 2, 3]}, r"images .*\(3, 0\)"),
        ({"X": [[1.0], [np.nan], [1e300]], "y": [1, 2, 3]}, "2 of 3 .*float32.* 1"),
        ({"X": np.eye(2), "y": [1, 2], "split": ["train", "x"]}, "split 'x'"),
        ({"X": np.array([[None], [{}]]), "y": [1, 2]}, r"s\.npz"),
    ],
)
def test_what_is_refused(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    path = saved(tmp_path / "s.npz", **arrays)
    with pytest.raises(DataError, match=words) as raised:
        load_dataset(path)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


# In memory.


def test_arrays_in_memory_are_read_as_a_file_of_them(tmp_path: Path) -> None:
    path = saved(tmp_path / "images.npz", images=PICTURES, labels=NAMES)
    given, read = dataset_of_arrays(PICTURES, NAMES), load_dataset(path)
    for part in ("train", "test"):
        first, second = getattr(given, part), getattr(read, part)
        assert np.array_equal(first.images, second.images)
        assert np.array_equal(first.labels, second.labels)
        assert first.class_names == second.class_names


@pytest.mark.parametrize("labels", [[1.5, 2.5], [1], [[1], [2]], [None, "a"]], ids=str)
def test_labels_that_are_no_names_or_numbers_are_refused(labels: Any) -> None:
    with pytest.raises(DataError, match="labels"):
        dataset_of_arrays(np.zeros((2, 4, 4), np.uint8), labels)


def test_a_test_part_that_is_there_stays() -> None:
    images = ImageSet(np.zeros((12, 4, 4), np.uint8), np.arange(12) % 2, ("a", "b"))
    divided = hold_back_tests(Dataset("whole", train=images, test=None, licence="unknown"))
    assert (len(divided.train), len(divided.test)) == (10, 2)
    assert hold_back_tests(divided) is divided
