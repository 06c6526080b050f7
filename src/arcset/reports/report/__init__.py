"""The report: one HTML file with the table, the interactive view and every figure inside it."""

from arcset.reports.report.page import write_report
from arcset.reports.report.pieces import Section

__all__ = ["Section", "write_report"]
