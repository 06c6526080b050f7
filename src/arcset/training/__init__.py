"""Whole jobs: training a run, measuring it, comparing several, searching a grid."""

from arcset.runs.model import load_model
from arcset.training.compare import Comparison, LossSpec, compare
from arcset.training.loop import resume, train
from arcset.training.sweep import Point, Sweep, sweep

__all__ = [
    "Comparison",
    "LossSpec",
    "Point",
    "Sweep",
    "compare",
    "load_model",
    "resume",
    "sweep",
    "train",
]
