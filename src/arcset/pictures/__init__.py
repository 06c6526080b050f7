"""Pictures of a run: stills, films, reports."""

from arcset.pictures.film import write_film
from arcset.pictures.story import Story
from arcset.pictures.view import RunView

__all__ = ["RunView", "Story", "write_film"]
