"""Reports of decoded messages: `write_report` writes an HTML page with plots."""

from towpath.report.page import write_report
from towpath.report.summary import FIELDS

__all__ = ["FIELDS", "write_report"]
