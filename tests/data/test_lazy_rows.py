"""Rows of an array that may lie in a file, against the same rows of one in memory."""

import numpy as np
import pytest

from arcset.data.lazy_rows import LazyRows, is_mapped, join_rows, take_rows

BASE = np.arange(60, dtype=np.uint8).reshape(10, 3, 2)
ROWS = np.array([7, 0, 3, 3])


@pytest.fixture
def mapped(tmp_path):
    np.save(tmp_path / "a.npy", BASE)
    return np.load(tmp_path / "a.npy", mmap_mode="r")


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


def test_a_view_looks_like_an_array() -> None:
    view = LazyRows(BASE, ROWS)
    assert (len(view), view.shape, view.ndim, view.dtype) == (4, (4, 3, 2), 3, np.uint8)
    assert np.array_equal(np.asarray(view), BASE[ROWS])
    assert np.asarray(view, dtype=np.float32).dtype == np.float32
    assert np.array_equal(np.array(view), BASE[ROWS])
    assert np.array_equal(np.stack(list(view)), BASE[ROWS])


def test_what_lies_in_a_file(mapped) -> None:
    assert is_mapped(mapped)
    assert is_mapped(mapped[2:5])
    assert is_mapped(LazyRows(mapped, ROWS))
    assert is_mapped(LazyRows(np.asarray(mapped), ROWS))
    assert not is_mapped(BASE)
    assert not is_mapped(mapped[ROWS].copy())
    assert not is_mapped(np.array(mapped))


def test_chosen_rows_are_copied_from_memory_and_seen_in_a_file(mapped) -> None:
    mask = np.arange(10) % 3 == 0
    copied = take_rows(BASE, mask)
    assert isinstance(copied, np.ndarray)
    assert np.array_equal(copied, BASE[mask])
    seen = take_rows(mapped, mask)
    assert isinstance(seen, LazyRows)
    assert np.array_equal(np.asarray(seen), BASE[mask])
    again = take_rows(seen, np.array([2, 0]))
    assert again.base is mapped  # of the file, and not of a view
    assert np.array_equal(np.asarray(again), BASE[mask][[2, 0]])
    assert np.array_equal(np.asarray(take_rows(seen, np.array([], dtype=np.int64))), BASE[:0])


def test_joined_rows(mapped) -> None:
    order = np.array([5, 0, 3, 4, 1, 2])
    expected = np.concatenate([BASE[2:5], BASE[7:]])[order]
    in_memory = join_rows([BASE[2:5], BASE[7:]], order)
    assert isinstance(in_memory, np.ndarray)
    assert np.array_equal(in_memory, expected)
    for parts in (
        [mapped[2:5], mapped[7:]],
        [take_rows(mapped, np.array([2, 3, 4])), mapped[7:]],
        [mapped[2:5], take_rows(mapped[5:], np.array([2, 3, 4]))],  # rows of a part
        [np.asarray(mapped)[2:5], mapped[7:].view()],
    ):
        joined = join_rows(parts, order)
        assert isinstance(joined, LazyRows)
        assert np.array_equal(np.asarray(joined), expected)


def test_parts_of_two_files_or_of_none_are_copied(mapped, tmp_path) -> None:
    np.save(tmp_path / "b.npy", BASE + 100)
    other = np.load(tmp_path / "b.npy", mmap_mode="r")
    order = np.arange(4)[::-1]
    for parts, plain in (
        ([mapped[:2], other[:2]], [BASE[:2], BASE[:2] + 100]),
        ([mapped[:2], BASE[:2]], [BASE[:2], BASE[:2]]),
        ([LazyRows(BASE, ROWS[:2]), mapped[:2]], [BASE[ROWS[:2]], BASE[:2]]),
    ):
        joined = join_rows(parts, order)
        assert isinstance(joined, np.ndarray)
        assert np.array_equal(joined, np.concatenate(plain)[order])


def test_rows_that_were_skipped_or_turned_in_a_slice(mapped) -> None:
    parts = [mapped[::2], mapped[1::2]]
    joined = join_rows(parts, np.arange(10))
    assert np.array_equal(np.asarray(joined), np.concatenate([BASE[::2], BASE[1::2]]))
    backwards = join_rows([mapped[::-1], mapped[:1]], np.arange(11))
    assert np.array_equal(np.asarray(backwards), np.concatenate([BASE[::-1], BASE[:1]]))
    narrow = join_rows([mapped[:2, :2], mapped[4:5, 1:]], np.arange(3))  # no whole rows
    assert np.array_equal(narrow, np.concatenate([BASE[:2, :2], BASE[4:5, 1:]]))


def test_a_file_that_was_given_its_shape_later(tmp_path) -> None:
    flat = np.memmap(tmp_path / "raw", np.uint8, "w+", shape=(60,))
    flat[:] = BASE.reshape(-1)
    shaped = flat.reshape(10, 3, 2)
    joined = join_rows([shaped[4:6], shaped[:1]], np.array([2, 0, 1]))
    assert np.array_equal(np.asarray(joined), BASE[[0, 4, 5]])
