"""Test that the run list caches no state that a later transaction may have replaced."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from archiver.web.run_states import RunList
from results.recorded.database import FILE_NAME
from tests.archiver.web.served import ended_run


@pytest.mark.parametrize(("seconds_ago", "words"), [(0.0, "failed"), (60.0, "finished")])
def test_run_state_is_cached_only_for_settled_files(home: Path, seconds_ago: float, words: str) -> None:
    ended_run(home, "run-1")
    database = home / "runs" / "run-1" / FILE_NAME
    changed_ns = time.time_ns() - int(seconds_ago * 1e9)
    os.utime(database, ns=(changed_ns, changed_ns))
    runs = RunList(home / "runs")
    assert runs.runs()["run-1"].words == "finished"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE run SET verdict = 'fail'")
    os.utime(database, ns=(changed_ns, changed_ns))
    assert runs.runs()["run-1"].words == words
