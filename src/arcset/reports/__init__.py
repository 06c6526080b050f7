"""Pictures of a run: stills, films, reports."""

from arcset.reports.film import write_film
from arcset.reports.run_report import RunReport
from arcset.reports.view import RunView

__all__ = ["RunReport", "RunView", "write_film"]
