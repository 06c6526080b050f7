"""Pictures of a run: stills, films, reports."""

from arcset.reports.film import write_film
from arcset.reports.run_report import RunReport
from arcset.reports.view import RunView

Story = RunReport  # its name until all callers have moved

__all__ = ["RunReport", "RunView", "Story", "write_film"]
