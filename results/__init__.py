"""Results of a run: values, tables, figures and documents, and the published study for comparison.

This package imports neither the engine nor a platform. Callers import the modules that draw (``results.figures``,
``results.report.documents``) by name where they use them, because matplotlib takes longer to load than most commands
take to run.
"""

from results.contract import result_document, result_from_document, run_document
from results.model import ClientUsage, CriterionResult, FirstError, Latency, Result, ServerUsage
from results.reference.published import dr550
from results.table import Table
from results.tables.rates import build_tables
from results.tables.session_time import SessionTimeFit, fit_session_time
from results.text import render_csv, render_markdown, render_text

__all__ = [
    "ClientUsage",
    "CriterionResult",
    "FirstError",
    "Latency",
    "Result",
    "ServerUsage",
    "SessionTimeFit",
    "Table",
    "build_tables",
    "dr550",
    "fit_session_time",
    "render_csv",
    "render_markdown",
    "render_text",
    "result_document",
    "result_from_document",
    "run_document",
]
