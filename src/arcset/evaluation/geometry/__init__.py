"""How classes lie in space: how compact, how far apart, at what angles."""

from arcset.evaluation.geometry.angles import PAPER, Angles, angle_samples, angles
from arcset.evaluation.geometry.no_threshold import NoThreshold, no_threshold
from arcset.evaluation.geometry.shape import dunn_index, silhouette

__all__ = [
    "PAPER",
    "Angles",
    "NoThreshold",
    "angle_samples",
    "angles",
    "dunn_index",
    "no_threshold",
    "silhouette",
]
