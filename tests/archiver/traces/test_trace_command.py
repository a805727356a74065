"""Test the `archiver trace` commands."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from archiver.cli import main
from archiver.cli.runs.trace import trace
from archiver.traces.format import TracedOperation
from tests.archiver.traces.made import HERE, read, write, write_example_files

SCENARIO = """
name = "little"
title = "A little of everything"
[stop]
warm_up_sessions = 0
sessions_min = 1
large_sessions_min = 1
large_session = "100MB"
seconds_min = "1ms"
precision = 0.0
seconds_max = "1s"
bytes_max = "240KiB"
warm_up_seconds = "1ms"
client_bytes_max = "240KiB"
[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["8KiB"]
objects_per_session = [10]
clients = [1, 2]
[[sweep]]
name = "retrieve"
operation = "retrieve"
object_sizes = ["8KiB"]
objects_per_session = [5]
clients = [1]
"""


def ask(*words: str | Path) -> Result:
    done = CliRunner().invoke(main, ["trace", *map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def example(command: click.Command) -> list[str]:
    found = re.search(r"Example:\n\s+archiver trace (.*)", command.help or "")
    assert found
    return shlex.split(found[1])


@pytest.mark.parametrize("name", sorted(trace.commands))
def test_every_example_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    write_example_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = ask(*example(trace.commands[name]))
    assert done.exit_code == 0, done.output
    made = sorted(path.name for path in tmp_path.glob("*.parquet"))
    assert len(made) == (2 if name in ("info", "head") else 3)
    again = ask(*example(trace.commands[name]))
    if name not in ("info", "head"):
        assert again.exit_code == 2
        assert "exists already; name another file, or use --overwrite" in again.stderr
        assert ask(*example(trace.commands[name]), "--overwrite").exit_code == 0


def test_info_reports_the_same_facts_as_text_and_json(tmp_path: Path) -> None:
    path = write(
        tmp_path / "trace.parquet",
        [
            TracedOperation(0, operation="archive", key="a", size_bytes=8192),
            TracedOperation(10**9, operation="retrieve", key="b", size_bytes=8192, client=1),
        ],
    )
    text = ask("info", path).stdout
    assert "2 operations on objects in 1.000 s, 2.00/s; 50% reads, 50% writes" in text
    assert "2 streams, 2 sessions" in text
    assert "objects that it needs but did not write before: 1" in text
    (document,) = json.loads(ask("info", path, "--json").stdout)["traces"]
    assert document["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert document["sha256"] in text
    assert document["kinds"]["archive"]["transferred_bytes"] == 8192
    assert (document["unwritten_objects"], document["read_share"], document["rises"]) == (1, 0.5, True)


def test_info_reports_empty_and_unsorted_traces(tmp_path: Path) -> None:
    assert "0 operations" in ask("info", write(tmp_path / "empty.parquet", [])).stdout
    unsorted = write(tmp_path / "unsorted.parquet", [TracedOperation(5), TracedOperation(4)])
    assert "not in order of time; archiver trace sort" in ask("info", unsorted).stdout


def test_head_escapes_control_characters_in_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.parquet", [TracedOperation(i, key="a\x1b[2J\nü\0") for i in range(5)])
    text = ask("head", path, "-n", "2").stdout
    assert text.count(r"a\u001b[2J\u000aü\u0000") == 2
    rows = json.loads(ask("head", path, "-n", "2", "--json").stdout)["operations"]
    assert [row["key"] for row in rows] == ["a\x1b[2J\nü\0"] * 2


def test_import_reports_left_out_lines_with_counts(tmp_path: Path) -> None:
    done = ask("import", "--kind", "nginx", HERE / "logs" / "nginx.log", tmp_path / "out.parquet")
    assert done.exit_code == 0
    assert "left out: 2 lines (nginx.log:9, nginx.log:12): is not a complete line of nginx's format" in done.stderr
    assert "kept: 1 line (nginx.log:6): has a request that is not understood; kept as `other`" in done.stderr
    assert "the log has whole seconds" in done.stderr
    assert f"{tmp_path / 'out.parquet'}: 8 operations of 12 lines, 4 left out, 3 streams" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "missing.parquet"], "missing.parquet: there is no such file"),
        (["head", "text.txt"], "text.txt: is not a trace"),
        (["cut", "out.parquet", "day.parquet", "--clients", "1,x"], "'x' is no number of a stream"),
        (["cut", "out.parquet", "day.parquet", "--from", "1h"], "it has no operation in that part"),
        (["scale", "out.parquet", "day.parquet", "--speed", "0"], "--speed 0: a factor"),
        (["anonymise", "out.parquet", "day.parquet", "--key-file", "none.key"], "--key-file none.key: No such file"),
        (["import", "--kind", "aws", "access.log", "out.parquet"], "no request of --kind aws in 12 lines"),
        (["import", "--kind", "nginx", "--strict", "access.log", "out.parquet"], "access.log:6: has a request"),
        (["merge", "nowhere/out.parquet", "day.parquet"], "out.parquet: cannot be written"),
    ],
)
def test_bad_input_gives_one_message_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    write_example_files(tmp_path)
    (tmp_path / "text.txt").write_text("no trace")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    done = ask(*words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert sorted(tmp_path.iterdir()) == before


def test_cut_keeps_streams_by_their_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.parquet", [TracedOperation(i, client=i) for i in range(10)])
    assert ask("cut", tmp_path / "out.parquet", path, "--clients", "0,3-5").exit_code == 0
    assert [row.client for row in read(tmp_path / "out.parquet")] == [0, 3, 4, 5]


def test_sort_may_overwrite_its_input_file(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.parquet", [TracedOperation(due) for due in (3, 1, 2)])
    done = ask("sort", path, path, "--overwrite")
    assert done.exit_code == 0
    assert [row.due_ns for row in read(path)] == [1, 2, 3]


def test_operation_logs_of_a_run_are_merged_into_a_trace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    scenario = tmp_path / "small.toml"
    scenario.write_text(SCENARIO)
    done = CliRunner().invoke(main, ["run", str(scenario), "--backend", "null", "--op-log", str(log), "--quiet"])
    assert done.exit_code == 0, done.output
    files = sorted(log.glob("*.parquet"))
    assert files
    assert ask("merge", tmp_path / "all.parquet", *files).exit_code == 0
    (document,) = json.loads(ask("info", tmp_path / "all.parquet", "--json").stdout)["traces"]
    assert document["rises"]
    assert {origin["kind"] for origin in document["origins"]} == {"operation-log"}
    assert document["rows"] == sum(len(read(file)) for file in files)
    assert document["unwritten_objects"] == 0
