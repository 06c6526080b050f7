"""Cosines of all pairs of a large set: not kept, but counted by their value.

Cosines are float32 products, rounded to multiples of 2⁻²¹. The rounding moves a cosine by at most
2.4e-7, which is about what float32 products of some hundred terms are off by anyway; and as there
are but four million such multiples, a count for each holds all there is to know about a billion
pairs. So nothing is sampled or guessed: accept rates, thresholds, AUC and EER are those of all the
rounded cosines. What rounding itself can change is bounded in `curves`.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from arcset.evaluation.pairs.blocks import Block, SortedRows
from arcset.evaluation.pairs.ranked import Ranked

__all__ = ["CELLS", "cell_values", "tally_all_pairs", "to_cells"]

BLOCK = (2048, 16384)  # rows and columns of cosines computed at once, 134 MB
STEP = 2.0**-21
SPARE = 64  # cells beyond −1 and beyond 1, where rounding may lead
CELLS = 2**22 + 1 + 2 * SPARE
# From 4 to 8 the float32 numbers are 2⁻²¹ apart and their bits count upwards, so that adding 6 to
# a cosine rounds it, and its bits, less those of 5, number its multiple.
SHIFT = 6.0
FIRST = int(torch.tensor(SHIFT - 1.0).view(torch.int32)) - SPARE


def to_cells(cosines: Tensor) -> Tensor:
    """The number of the multiple of 2⁻²¹ that is nearest, int32; overwrites its input.

    >>> to_cells(torch.tensor([-1.0, 0.0, 1.0])) - SPARE
    tensor([      0, 2097152, 4194304], dtype=torch.int32)
    """
    return cosines.add_(SHIFT).view(torch.int32).sub_(FIRST)


def cell_values() -> npt.NDArray[np.float32]:
    """The cosine that each cell stands for (CELLS,)."""
    values = np.arange(-SPARE, CELLS - SPARE, dtype=np.float64) * STEP - 1.0
    return values.clip(-1.0, 1.0).astype(np.float32)


def tally_all_pairs(rows: SortedRows) -> tuple[Ranked, Ranked]:
    """Rounded cosines of all pairs of float32 `rows`: those with equal labels, and the others.

    Memory: a block of cosines, and two counters of 34 MB, and as much while counting, per thread.
    """
    threads = torch.get_num_threads()
    counters = [torch.zeros(2, CELLS, dtype=torch.int64) for _ in range(threads)]
    memory = rows.memory(*BLOCK)
    with ThreadPoolExecutor(threads) as pool:
        for block in rows.blocks(*BLOCK):
            # Counting is a walk of one thread, so that each takes some of the rows.
            cosines = rows.cosines(block, memory)
            pieces = cosines.chunk(threads)
            tops = np.cumsum([block.top, *map(len, pieces)])
            parts = [
                Block(int(top), int(bottom), block.left, block.right, block.mixed)
                for top, bottom in pairwise(tops)
            ]
            used = counters[: len(parts)]
            list(pool.map(_count, used, pieces, [rows] * len(parts), parts))
    for counter in counters[1:]:
        counters[0] += counter
    counts = counters[0].numpy()  # (2, CELLS)
    counts[:, SPARE] += counts[:, :SPARE].sum(axis=1)
    counts[:, -1 - SPARE] += counts[:, -SPARE:].sum(axis=1)
    values = cell_values()[SPARE:-SPARE]
    genuine, impostor = counts[:, SPARE:-SPARE]
    return Ranked.counted(values, genuine), Ranked.counted(values, impostor)


def _count(counter: Tensor, cosines: Tensor, rows: SortedRows, block: Block) -> None:
    cells = to_cells(cosines)
    if not block.mixed:
        _add(counter[1], cells.view(-1))
        return
    for kind, chosen in enumerate(rows.kinds(block)):
        _add(counter[kind], torch.from_numpy(cells.numpy()[chosen]))


def _add(counter: Tensor, cells: Tensor) -> None:
    if len(cells):
        found = torch.bincount(cells)
        counter[: len(found)] += found
