"""Whole jobs: training a run, and in `compare` several variants of one."""

from typing import TYPE_CHECKING

from arcset.lazy import import_later

if TYPE_CHECKING:
    from arcset.runs.model import load_model
    from arcset.training.trainer import resume, train

__all__ = ["load_model", "resume", "train"]

__getattr__ = import_later(
    __name__,
    {
        "arcset.runs.model": ["load_model"],
        "arcset.training.trainer": ["resume", "train"],
    },
)
