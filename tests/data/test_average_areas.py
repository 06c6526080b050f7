"""Area averages against the slow and obvious: every share of every pixel, in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arcset.data.image import average_areas

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


def reference(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    rows = [averaged_line([Fraction(int(v)) for v in row], width) for row in pixels]
    columns = [averaged_line([row[x] for row in rows], height) for x in range(width)]
    return np.array([[round(columns[x][y]) for x in range(width)] for y in range(height)])


@settings(max_examples=150)
@given(
    pixels=hnp.arrays(np.uint8, st.tuples(SIDES, SIDES)),
    data=st.data(),
)
def test_as_in_exact_fractions(pixels: np.ndarray, data: st.DataObject) -> None:
    height, width = (data.draw(st.integers(1, side)) for side in pixels.shape)
    # Python rounds fractions half to even, as rint does.
    np.testing.assert_array_equal(
        average_areas(pixels, height, width), reference(pixels, height, width)
    )


@pytest.mark.parametrize("size", [(5, 9), (13, 3)])
def test_channels_do_not_mix(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (13, 11, 3), np.uint8)
    together = average_areas(pixels, *size)
    for channel in range(3):
        np.testing.assert_array_equal(
            together[..., channel], average_areas(pixels[..., channel], *size)
        )


def test_whole_factors_are_means_of_blocks() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (28 * 3, 28 * 5), np.uint8)
    blocks = pixels.reshape(28, 3, 28, 5).astype(np.float64).mean(axis=(1, 3))
    np.testing.assert_array_equal(average_areas(pixels, 28, 28), np.rint(blocks))


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
    again = average_areas(rounded, *size, blocks=blocks, whole=(height, width))
    spread = rounded.repeat(blocks[0], 0).repeat(blocks[1], 1)[:height, :width]
    np.testing.assert_array_equal(again, average_areas(spread, *size))
