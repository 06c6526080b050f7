"""Random draws that are the same on every platform and with every release of numpy.

They use the raw stream of a bit generator, the only one numpy promises to keep, and whole numbers.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["draw_in_order"]

POOL = 2**20  # numbers held ready to be drawn, 8 MB

Numbers = npt.NDArray[np.intp]


def draw_in_order(sizes: Numbers, random: npt.NDArray[np.uint64]) -> Numbers:
    """For each row r, k distinct numbers below `sizes[r]` in random order; (R, k).

    The shuffle of Fisher and Yates, stopped after k steps; k ≤ sizes.

    Parameters:
        sizes: (R,), how many there are to draw from.
        random: (R, k), what chance says. Taken modulo at most `sizes`, which favours some numbers
            by less than one in 2⁶⁴ / sizes.

        >>> draw_in_order(np.array([3, 5]), np.array([[1, 1], [4, 3]], dtype=np.uint64))
        array([[1, 2],
               [4, 0]])
    """
    drawn = np.empty(random.shape, dtype=np.intp)
    step = max(1, min(len(sizes), POOL // int(sizes.max(initial=1))))
    pool = np.tile(np.arange(sizes.max(initial=1)), (step, 1))
    for start in range(0, len(sizes), step):
        block = slice(start, min(start + step, len(sizes)))
        row = np.arange(block.stop - start)
        touched = np.empty_like(drawn[block])
        for i in range(random.shape[1]):
            left = (sizes[block] - i).astype(np.uint64)
            at = i + (random[block, i] % left).astype(np.intp)
            drawn[block, i] = pool[row, at]
            pool[row, at] = pool[row, i]
            touched[:, i] = at
        pool[row[:, None], touched] = touched  # in order again, for the next rows
    return drawn
