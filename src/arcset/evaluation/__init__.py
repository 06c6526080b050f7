"""Measures of an embedding: pure functions on arrays.

Each takes numpy arrays or torch tensors and returns a number or a frozen result object:

- `dunn_index`: how far classes stand apart, measured in their own size.
- `verification`: same or different? Accept rates, thresholds, EER and AUC over pairs.
"""

from arcset.evaluation.dunn import dunn_index
from arcset.evaluation.verification import Verification, verification

__all__ = ["Verification", "dunn_index", "verification"]
