import dataclasses

import numpy as np
import pytest

from arcset.data import Dataset, ImageSet
from arcset.data.dataset import LazyRows, join_rows, take_rows
from arcset.errors import InputError

GREY = np.zeros((3, 4, 5), np.uint8)
LABELS = np.array([0, 1, 1])
NAMES = ("a", "b")


@pytest.mark.parametrize(
    ("images", "labels", "names", "message"),
    [
        (GREY.astype(float), LABELS, NAMES, "images .*float64"),
        (GREY, LABELS.astype(np.int32), NAMES, "labels .*int32"),
        (GREY, LABELS[:2], NAMES, r"labels .*\(3,\).*\(2,\)"),
        (GREY, LABELS - 1, NAMES, r"-1 \.\. 0"),
        (GREY, LABELS, ("a", "a"), "class_names .*'a'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    images: np.ndarray, labels: np.ndarray, names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ImageSet(images, labels, names)


def test_nothing_can_be_changed_through_the_set() -> None:
    mine = GREY.copy()
    images = ImageSet(mine, LABELS, NAMES)
    with pytest.raises(ValueError, match="read-only"):
        images.images[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        images.labels[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        images.class_names = ()  # type: ignore[misc]
    mine[0] = 1  # the caller's own array stays the caller's
    assert np.shares_memory(mine, images.images)


def test_both_parts_share_their_image_size() -> None:
    train = ImageSet(GREY, LABELS, NAMES)
    assert Dataset("set", train, train, "free").class_names == NAMES
    with pytest.raises(InputError, match=r"'set'.*\(1, 4, 5\).*\(1, 3, 5\)"):
        Dataset("set", train, ImageSet(GREY[:, 1:], LABELS, NAMES), "free")


# Rows of an array that may lie in a file, against the same rows of one in memory.


BASE = np.arange(60, dtype=np.uint8).reshape(10, 3, 2)
ROWS = np.array([7, 0, 3, 3])


@pytest.mark.parametrize(
    "index",
    [
        -1,
        np.int64(2),
        slice(None, None, -1),
        [0, 2],
        np.array([True, False, False, True]),
        ...,
        (..., 1),
        None,
        (np.int64(-1), slice(None), 0),
        (slice(None), slice(None), 1),
        ([0, 1], 2, 1),
        (slice(None), [0, 2]),
    ],
    ids=str,
)
def test_a_view_is_indexed_as_the_array_it_stands_for(index) -> None:
    view, plain = LazyRows(BASE, ROWS), BASE[ROWS]
    assert np.array_equal(view[index], plain[index])


def test_chosen_rows_are_copied_from_memory_and_seen_in_a_file() -> None:
    mask = np.arange(10) % 3 == 0
    assert np.array_equal(take_rows(BASE, mask), BASE[mask])
    again = take_rows(take_rows(LazyRows(BASE, np.arange(10)), mask), np.array([2, 0]))
    assert again.base is BASE
    assert np.array_equal(np.asarray(again), BASE[mask][[2, 0]])


def test_joined_rows() -> None:
    order = np.array([5, 0, 3, 4, 1, 2])
    expected = np.concatenate([BASE[2:5], BASE[7:]])[order]
    parts = [LazyRows(BASE, np.arange(2, 5)), LazyRows(BASE, np.arange(7, 10))]
    joined = join_rows(parts, order)
    assert isinstance(joined, LazyRows)
    assert np.array_equal(np.asarray(joined), expected)
    other = LazyRows(BASE.copy(), np.arange(7, 10))  # of another file
    for mixed in ([parts[0], other], [parts[0], BASE[7:]], [BASE[2:5], BASE[7:]]):
        copied = join_rows(mixed, order)
        assert isinstance(copied, np.ndarray)
        assert np.array_equal(copied, expected)
