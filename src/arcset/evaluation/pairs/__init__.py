"""Same or different: decisions about pairs of embeddings."""

from arcset.evaluation.pairs.curves import Roc
from arcset.evaluation.pairs.folds import FoldAccuracy, fold_accuracy
from arcset.evaluation.pairs.verification import FARS, Verification, verification

__all__ = ["FARS", "FoldAccuracy", "Roc", "Verification", "fold_accuracy", "verification"]
