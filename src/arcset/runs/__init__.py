"""The run folder and its typed configuration."""

from arcset.runs.config import RunConfig
from arcset.runs.folder import Run

__all__ = ["Run", "RunConfig"]
