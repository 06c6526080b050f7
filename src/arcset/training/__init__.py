"""Whole jobs: training a run, measuring it, comparing variants of it."""

from arcset.runs.model import load_model
from arcset.training.compare import Comparison, compare
from arcset.training.trainer import resume, train

__all__ = ["Comparison", "compare", "load_model", "resume", "train"]
