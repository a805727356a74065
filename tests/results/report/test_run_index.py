"""The index of runs: it lists every run with its key figures, or with the reason why it cannot be read."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import ResultsError
from results.recorded.database import FILE_NAME, RunDatabase, RunRecord
from results.recorded.model import Result
from results.report.index import listed_runs, write_index
from tests.results.watched_run import RECORD, phase_record

MakeResult = Callable[..., Result]


def run_in(folder: Path, *results: Result, **record: Any) -> Path:
    """Make a finished run with these results; its id is the name of the folder."""
    values: dict[str, Any] = {**RECORD, "id": folder.name, "phases_planned": len(results), **record}
    database = RunDatabase.create(folder / FILE_NAME, RunRecord(**values))
    for place, each in enumerate(results, 1):
        database.add_phase(phase_record(place, each, place, place + 0.5))
    database.finish(20.0, "none")
    database.close()
    return folder


def test_runs_are_listed_latest_first_with_their_key_figures(tmp_path: Path, make_result: MakeResult) -> None:
    slow, fast = (
        make_result(objects_per_second=50.0, position=1),
        make_result(objects_per_second=70.0, clients=2, position=2),
    )
    run_in(tmp_path / "older", slow, fast)
    newer = run_in(tmp_path / "deeper" / "newer <&>", make_result("retrieve"), started_at=86400.0)
    (newer / "report").mkdir()
    (newer / "report" / "report.html").write_text("a report")
    path, count = write_index(tmp_path)
    assert (path, count) == (tmp_path / "index.html", 2)
    text = path.read_text()
    rows = re.findall(r"<tr><th.*?</tr>", text)
    assert len(rows) == 2
    assert "newer &lt;&amp;&gt;" in rows[0]
    assert 'href="deeper/newer%20%3C%26%3E/report/report.html"' in rows[0]
    assert "<a" not in rows[1]
    cells = re.sub(r"<[^>]*>", "|", rows[1])
    said = ("older", "1970-01-01 00:00 UTC", "minio through s3", "dr550", "finished", "8KiB x 25, 2 clients")
    assert [each for each in said if f"|{each}|" not in cells] == []
    assert "|70 |A|" in cells
    assert write_index(tmp_path)[0].read_text() == text


def test_a_doubtful_rate_is_marked(tmp_path: Path, make_result: MakeResult) -> None:
    run_in(tmp_path / "one", make_result(limited_by="client"))
    text = write_index(tmp_path)[0].read_text()
    assert "limited by the client: the platform may be faster than this" in text
    assert "8KiB x 25, 1 client" in text  # the point of these rates


def test_unreadable_runs_are_listed_with_their_problem(tmp_path: Path, make_result: MakeResult) -> None:
    whole = run_in(tmp_path / "whole", make_result())
    for name in ("newer", "damaged", "forged", "text", "empty", "torn"):
        shutil.copytree(whole, tmp_path / name)
    with sqlite3.connect(tmp_path / "newer" / FILE_NAME) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with sqlite3.connect(tmp_path / "damaged" / FILE_NAME) as db:
        db.execute("UPDATE result SET document = '{\"operation\": '")
    db.close()
    with sqlite3.connect(tmp_path / "forged" / FILE_NAME) as db:
        db.execute("UPDATE run SET platform = json_set(platform, '$.details', NULL)")
    db.close()
    (tmp_path / "text" / FILE_NAME).write_text("no database" * 100)
    (tmp_path / "empty" / FILE_NAME).write_bytes(b"")
    content = (whole / FILE_NAME).read_bytes()
    (tmp_path / "torn" / FILE_NAME).write_bytes(content[: len(content) // 2])
    runs = listed_runs(tmp_path)
    problems = {run.folder.name: run.problem for run in runs}
    assert problems.pop("whole") == ""
    assert "has format version 99" in problems.pop("newer")
    assert "damaged" in problems.pop("damaged")
    assert all(problems.values()), problems
    assert runs[0].folder.name == "whole"
    path, count = write_index(tmp_path, tmp_path / "elsewhere")
    assert count == 7
    text = path.read_text()
    assert "Runs that cannot be read" in text
    assert "<li>../newer: " in text


def test_index_of_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"there is no run under it; name the folder that contains"):
        write_index(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_index_path_is_named_in_error(tmp_path: Path, make_result: MakeResult) -> None:
    run_in(tmp_path / "one", make_result())
    (tmp_path / "in the way").write_text("a file")
    with pytest.raises(ResultsError, match=r"cannot write .*in the way.*--out"):
        write_index(tmp_path, tmp_path / "in the way")
