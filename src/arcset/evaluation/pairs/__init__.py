"""Same or different: decisions about pairs of embeddings."""

from arcset.evaluation.pairs.verification import Verification, verification

__all__ = ["Verification", "verification"]
