"""The store's counts as a page of Prometheus text, for anybody who watches it.

One idea: counters only, from the start of the process, so that a reader takes differences and the store keeps no time.
Operations have the names that MinIO gives them, so that platforms compare; the TSM door's are its frames' names.
"""

from __future__ import annotations

from collections.abc import Mapping

from .core.files.written import Written

Requests = Mapping[tuple[str, int], int]  # how often an operation was answered with a status or a reason code


def page(s3: Requests, tsm: Requests, written: Mapping[str, Written]) -> str:
    """`s3` by status, of which 400 and more is an error; `tsm` by reason code, of which any but 0 is one."""
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
