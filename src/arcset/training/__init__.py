"""Whole jobs: training a run, measuring it, comparing several."""

from arcset.models import load_model
from arcset.training.compare import Comparison, LossSpec, compare
from arcset.training.loop import resume, train
from arcset.training.measure import measure

__all__ = ["Comparison", "LossSpec", "compare", "load_model", "measure", "resume", "train"]
