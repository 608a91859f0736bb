"""The batch: archived spans and stored payloads, joined, and the census of every call.

Read it in this order: ``spans`` (what is kept of a span), ``otlp`` (OTLP/JSON to spans), ``archive`` (files to
spans), ``payloads`` (the store to graded queries), ``tables`` and ``parquet`` (what is written, and how), ``rows`` (a
graded call as rows), ``join`` with ``sql/`` (which span belongs to which call), ``census_job`` (the whole run) and
``report`` (what it found).

duckdb and pyarrow come with the extra ``batch`` and are loaded only when a run begins.
"""

from __future__ import annotations

from otel_prompt_trace.batch.census_job import run_census
from otel_prompt_trace.batch.payloads import Found, PayloadReader
from otel_prompt_trace.batch.report import CallRow, CensusReport, Totals, Unjoined

__all__ = ["CallRow", "CensusReport", "Found", "PayloadReader", "Totals", "Unjoined", "run_census"]
