"""Rows of an array that may lie in a file, against the same rows of one in memory."""

import numpy as np
import pytest

from arcset.data.dataset import LazyRows, join_rows, take_rows

BASE = np.arange(60, dtype=np.uint8).reshape(10, 3, 2)
ROWS = np.array([7, 0, 3, 3])


@pytest.mark.parametrize(
    "index",
    [
        1,
        -1,
        np.int64(2),
        slice(1, 3),
        slice(None, None, -1),
        [0, 2],
        np.array([3, 0]),
        np.array([True, False, False, True]),
        ...,
        (0, 1),
        (np.int64(-1), slice(None), 0),
        (slice(1, 4), 2),
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
    copied = take_rows(BASE, mask)
    assert isinstance(copied, np.ndarray)
    assert np.array_equal(copied, BASE[mask])
    again = take_rows(take_rows(LazyRows(BASE, np.arange(10)), mask), np.array([2, 0]))
    assert again.base is BASE
    assert np.array_equal(np.asarray(again), BASE[mask][[2, 0]])
    assert len(take_rows(again, np.array([], dtype=np.int64))) == 0


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
