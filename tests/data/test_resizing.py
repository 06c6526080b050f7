"""Resizing against the slow and obvious: every share of every pixel, in exact fractions.

These go with resizing that is the same bit for bit on every machine; that images come out as a
person would expect is held by test_reading.py.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arcset.data.resizing import resized

pytestmark = pytest.mark.long

SIDES = st.integers(1, 12)


def averaged_line(line: list[Fraction], target: int) -> list[Fraction]:
    """Each new pixel spans len/target old ones, and takes of each the share that it covers."""
    span = Fraction(len(line), target)
    return [
        sum(
            value * max(0, min(old + 1, (new + 1) * span) - max(old, new * span))
            for old, value in enumerate(line)
        )
        / span
        for new in range(target)
    ]


def interpolated_line(line: list[Fraction], target: int) -> list[Fraction]:
    """Straight lines between the centers of old pixels, constant beyond the outermost."""
    found = []
    for new in range(target):
        place = (new + Fraction(1, 2)) * Fraction(len(line), target) - Fraction(1, 2)
        place = min(max(place, Fraction(0)), Fraction(len(line) - 1))
        before = int(place)
        after = min(before + 1, len(line) - 1)
        found.append(line[before] + (place - before) * (line[after] - line[before]))
    return found


def reference(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    def line(values: list[Fraction], target: int) -> list[Fraction]:
        return (averaged_line if target < len(values) else interpolated_line)(values, target)

    rows = [line([Fraction(int(v)) for v in row], width) for row in pixels]
    columns = [line([row[x] for row in rows], height) for x in range(width)]
    return np.array([[round(columns[x][y]) for x in range(width)] for y in range(height)])


@settings(max_examples=150)
@given(
    pixels=hnp.arrays(np.uint8, st.tuples(SIDES, SIDES)),
    height=SIDES,
    width=SIDES,
)
def test_as_in_exact_fractions(pixels: np.ndarray, height: int, width: int) -> None:
    # Python rounds fractions half to even, as rint does.
    np.testing.assert_array_equal(resized(pixels, height, width), reference(pixels, height, width))


@given(
    value=st.integers(0, 255),
    before=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    after=st.tuples(st.integers(1, 300), st.integers(1, 300)),
)
def test_constant_images_stay_constant(
    value: int, before: tuple[int, int], after: tuple[int, int]
) -> None:
    found = resized(np.full(before, value, np.uint8), *after)
    assert found.shape == after
    assert (found == value).all()


@pytest.mark.parametrize("size", [(5, 9), (20, 3), (13, 17)])
def test_channels_do_not_mix(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (13, 11, 3), np.uint8)
    together = resized(pixels, *size)
    for channel in range(3):
        np.testing.assert_array_equal(together[..., channel], resized(pixels[..., channel], *size))


def test_whole_factors_are_means_of_blocks() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (28 * 3, 28 * 5), np.uint8)
    blocks = pixels.reshape(28, 3, 28, 5).astype(np.float64).mean(axis=(1, 3))
    np.testing.assert_array_equal(resized(pixels, 28, 28), np.rint(blocks))


@given(
    pixels=hnp.arrays(np.uint8, st.tuples(st.integers(8, 40), st.integers(8, 40))),
    blocks=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    size=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_blocks_count_by_what_they_cover(
    pixels: np.ndarray, blocks: tuple[int, int], size: tuple[int, int]
) -> None:
    height, width = pixels.shape
    rows, columns = (range(0, n, block) for n, block in zip(pixels.shape, blocks, strict=True))
    means = np.array(
        [[pixels[y : y + blocks[0], x : x + blocks[1]].mean() for x in columns] for y in rows]
    )
    rounded = np.rint(means).astype(np.uint8)
    again = resized(rounded, *size, blocks=blocks, whole=(height, width))
    spread = rounded.repeat(blocks[0], 0).repeat(blocks[1], 1)[:height, :width]
    np.testing.assert_array_equal(again, resized(spread, *size))
