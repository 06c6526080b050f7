"""How classes lie in space: how compact, how far apart, at what angles."""

from arcset.evaluation.geometry.dunn import dunn_index
from arcset.evaluation.geometry.no_threshold import NoThreshold, no_threshold

__all__ = ["NoThreshold", "dunn_index", "no_threshold"]
