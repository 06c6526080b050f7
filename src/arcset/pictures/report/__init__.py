"""The report: one HTML file with the table, the interactive view and every figure inside it."""

from arcset.pictures.report.page import write_report
from arcset.pictures.report.pieces import Section

__all__ = ["Section", "write_report"]
