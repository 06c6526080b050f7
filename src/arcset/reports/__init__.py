"""Pictures of a run: stills, films, reports."""

from arcset.reports.film import write_film
from arcset.reports.story import Story
from arcset.reports.view import RunView

__all__ = ["RunView", "Story", "write_film"]
