"""The store's counters as a page of Prometheus text.

One idea: the page has counters only, from the start of the process. So a reader takes differences, and the store keeps
no time series. S3 operations have MinIO's names, so that platforms can be compared; TSM operations have the names of
their frames.
"""

from __future__ import annotations

from collections.abc import Mapping

from .core.files.written import Written

Requests = Mapping[tuple[str, int], int]  # answers by operation and status or reason code


def page(s3: Requests, tsm: Requests, written: Mapping[str, Written]) -> str:
    """Return the page. `s3` counts by status (errors: 400 and more), `tsm` by reason code (errors: all but 0)."""
    answered: dict[str, int] = {}
    failed: dict[str, int] = {}
    for requests, error_min in ((s3, 400), (tsm, 1)):
        for (operation, code), count in requests.items():
            answered[operation] = answered.get(operation, 0) + count
            failed[operation] = failed.get(operation, 0) + (count if code >= error_min else 0)
    return "".join(
        (
            _counter("requests", "Requests that were answered or failed.", "operation", answered),
            _counter("request_errors", "Of these, refused or failed.", "operation", failed),
            _counter("written_bytes", "Bytes written.", "part", {part: each.bytes for part, each in written.items()}),
            _counter(
                "syncs", "Files and folders synced.", "part", {part: each.syncs for part, each in written.items()}
            ),
        )
    )


def _counter(name: str, words: str, label: str, values: Mapping[str, int]) -> str:
    full_name = f"archiver_store_{name}_total"
    lines = [f"# HELP {full_name} {words}", f"# TYPE {full_name} counter"]
    lines += [f'{full_name}{{{label}="{item}"}} {value}' for item, value in sorted(values.items())]
    return "\n".join(lines) + "\n"
