"""Thresholds at which pairs are counted anew in every draw, and which of them accept a pair."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from arcset.evaluation.pairs.blocks import Block, SortedRows
from arcset.evaluation.pairs.curves import Roc
from arcset.evaluation.pairs.ranked import Ranked, Scores
from arcset.evaluation.pairs.scores import rounded
from arcset.evaluation.pairs.tally import cell_values, to_cells

__all__ = ["Bins"]

MOST_SCORES = 2**13  # distinct ones that are all made thresholds, such as LFW's 6,000 pairs


@dataclass(frozen=True, eq=False)
class Bins:
    """Ascending thresholds. A pair is in bin k if k of them accept it, 0 … T.

    thresholds: (T,).
    accepted: how many impostor pairs each accepts (T,).
    complete: whether they are all the distinct scores there are, so that nothing lies between.
    exact: whether the scores were kept in float64.
    """

    thresholds: npt.NDArray[np.float64]
    accepted: npt.NDArray[np.int64]
    complete: bool
    exact: bool

    @classmethod
    def choose(cls, genuine: Ranked, impostor: Ranked, curve: Roc) -> "Bins":
        """All distinct scores where they are few, otherwise the thresholds of the curve."""
        exact = genuine.values.dtype == np.float64
        either = np.concatenate((genuine.distinct(), impostor.distinct()))
        if len(either) <= MOST_SCORES:
            distinct = np.unique(either)
            accepted = impostor.total - impostor.below(distinct)
            return cls(distinct.astype(np.float64), accepted, True, exact)
        accepted = np.rint(curve.far[::-1] * impostor.total).astype(np.int64)
        return cls(curve.threshold[::-1].copy(), accepted, False, exact)

    def __len__(self) -> int:
        return len(self.thresholds)

    def of_scores(self, scores: Scores) -> npt.NDArray[np.intp]:
        """The bin of each score."""
        return np.searchsorted(self.thresholds, scores, side="right")

    def of_rows(self, rows: SortedRows, height: int, width: int) -> Callable[[Block], Tensor]:
        """A function from a block of `rows` to the bins (rows, columns) of its cosines, int32.

        A block has at most `height` × `width` cosines.

        Where scores are exact, or the thresholds are the scores themselves, cosines must be what
        they were when scored. Otherwise their last bits matter no more than what lies between two
        thresholds: float32 products, rounded as `tally` does, have their bin in a table.
        """
        if (self.complete or self.exact) and rows.units.dtype == torch.float64:
            wide = rows.memory(height, width)

            def searched(block: Block) -> Tensor:
                cosines = rounded(rows.cosines(block, wide).numpy())
                if not self.exact:
                    cosines = cosines.astype(np.float32)
                return torch.from_numpy(self.of_scores(cosines).astype(np.int32))

            return searched
        rows = replace(rows, units=rows.units.float())
        memory = rows.memory(height, width)
        table = torch.from_numpy(self.of_scores(cell_values()).astype(np.int32))

        def looked_up(block: Block) -> Tensor:
            cells = to_cells(rows.cosines(block, memory))
            return torch.index_select(table, 0, cells.view(-1)).view(cells.shape)

        return looked_up
