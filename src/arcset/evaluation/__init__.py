"""Measures of an embedding: pure functions on arrays.

Each takes numpy arrays or torch tensors and returns a number or a frozen result object:

- `dunn_index`: how far classes stand apart, measured in their own size.
- `verification`: same or different? Accept rates, thresholds, EER and AUC over pairs.
- `no_threshold`: samples nearer to another class than to their own, about which no threshold on
  a distance can be right.
- `confidence`: how sure a closed-set classifier is of what it has never seen.
"""

from arcset.evaluation.confidence import Confidence, confidence
from arcset.evaluation.geometry import NoThreshold, dunn_index, no_threshold
from arcset.evaluation.pairs import Verification, verification

__all__ = [
    "Confidence",
    "NoThreshold",
    "Verification",
    "confidence",
    "dunn_index",
    "no_threshold",
    "verification",
]
