"""Programs with ARCHIVER_TSM_TRACE: their journals are imported as traces, and recording never stops a program."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from archiver.cli import main
from archiver.traces.format import Trace, TracedOperation
from archiver.traces.importing import ImportReport
from archiver.traces.tsm import import_journals
from archiver.values.errors import UsageError
from archiver.values.record import TSM_ERROR, Status
from backends.embedded import process
from backends.tsm.library.codes import Code
from tests.backends.tsm.program_options import run, settings
from tests.backends.tsm.tsm_sessions import Server, reached

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 60  # reached only if a program hangs
DAY = 86_400.0
ABORTED, REFUSED = TSM_ERROR + Code.ABORT_BY_CLIENT, TSM_ERROR + Code.ABORT_DELETE_NOT_ALLOWED


@pytest.fixture(scope="module")
def server(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with process.start(tmp_path_factory.mktemp("tsm") / "store") as store, reached(store, shim) as server:
        yield server


def start(server: Server, what: str, journal: Path, **more: str) -> subprocess.Popen[str]:
    """Start traced_program.py with this journal."""
    password = server.store.node_password
    assert password is not None
    environment = {**os.environ, "TSM_NODE": server.store.node, "TSM_PASSWORD": password, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, Path(__file__).with_name("traced_program.py"), what, server.library, server.configuration],
        env={**environment, "ARCHIVER_TSM_TRACE": str(journal), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(running: subprocess.Popen[str]) -> tuple[str, str]:
    with running:
        output, errors = running.communicate(timeout=SECONDS_MAX)
    assert running.returncode == 0, errors
    return output, errors


def traced(*journals: Path) -> tuple[ImportReport, list[TracedOperation]]:
    out = journals[0].with_suffix(".parquet")
    report = import_journals(out, journals, overwrite=True)
    return report, list(Trace.open(out).operations(must_rise=True))


def of(rows: list[TracedOperation], *operations: str) -> list[TracedOperation]:
    return [row for row in rows if row.operation in operations]


@pytest.fixture(scope="module")
def journal(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a program that performed every operation."""
    journal = tmp_path_factory.mktemp("traced") / "all.journal"
    finish(start(server, "everything", journal))
    return journal


@pytest.fixture(scope="module")
def everything(journal: Path) -> list[TracedOperation]:
    report, rows = traced(journal)
    assert (report.lines_left_out, rows[0].due_ns) == (0, 0)
    return rows


def test_traced_archives_have_size_and_transaction_outcome(
    everything: list[TracedOperation],
) -> None:
    shown = [
        (row.key, row.size_bytes, row.retention_mode, row.retain_for_seconds, row.status)
        for row in of(everything, "archive")
    ]
    assert shown == [
        ("/traced/in/a", 1000, "CLASS", 0.0, 0),
        ("/traced/in/b", 3000, "CLASS", DAY, 0),
        ('/traced/in/\\xff"\\\n', 2, "CLASS", DAY, 0),
        ("/traced/in/c", 500, "CLASS", DAY, ABORTED),
        ("/traced/in/d", 700, "CLASS", DAY, ABORTED),
        ("/traced/in/e", 10, "CLASS", DAY, ABORTED),  # its session ended before the vote
    ]


def test_traced_transactions_have_committed_bytes_and_votes(everything: list[TracedOperation]) -> None:
    shown = [(row.size_bytes, row.status) for row in of(everything, "transaction")]
    not_by_event = next(row.status for row in of(everything, "other") if row.status and row.key)
    assert not_by_event > TSM_ERROR
    assert shown == [
        (4002, 0), (0, ABORTED), (0, 0), (0, 0), (0, not_by_event), (0, 0), (0, REFUSED), (0, ABORTED)
    ]  # fmt: skip


def test_traced_retrieves_use_names_from_queries(everything: list[TracedOperation]) -> None:
    a, b = "/traced/in/a", "/traced/in/b"
    shown = [
        (row.operation, row.key, row.size_bytes, row.offset, row.length, row.session, row.status)
        for row in of(everything, "retrieve", "range-retrieve")
    ]
    assert shown == [
        ("retrieve", a, 1000, None, None, 0, 0),
        ("retrieve", b, 3000, None, None, 0, 0),
        ("range-retrieve", b, 3000, 100, 300, 0, 0),
        ("range-retrieve", b, 3000, 2500, 500, 0, 0),
        ("range-retrieve", b, 3000, 0, 1000, 0, 0),  # the program stopped there
        ("retrieve", f"#{1 << 40}", None, None, None, 0, TSM_ERROR + Code.ABORT_NO_MATCH),
        ("retrieve", b, 3000, None, None, 1, 0),  # in a session that did not query its name
    ]


def test_traced_holds_releases_and_deletions_are_separate_rows(everything: list[TracedOperation]) -> None:
    a, b = "/traced/in/a", "/traced/in/b"
    shown = [
        (row.operation, row.key, row.legal_hold, row.status) for row in of(everything, "hold", "release", "delete")
    ]
    assert shown == [
        ("hold", a, True, 0), ("hold", b, True, 0), ("release", a, False, 0), ("release", b, False, 0),
        ("delete", a, None, 0), ("delete", b, None, REFUSED),
    ]  # fmt: skip


def test_queries_and_remaining_calls_are_list_or_other_rows(everything: list[TracedOperation]) -> None:
    assert [(row.key, row.status) for row in of(everything, "list")] == [("/traced/in*", 0)]
    others = [(row.key, bool(row.status)) for row in of(everything, "other")]
    assert others == [
        ("/traced", False), ("/traced", False),  # registered and looked up
        ("/traced/in/a", True), ("/traced/in/b", True),  # an event, refused
        (None, True),  # a password that was not changed
    ]  # fmt: skip


def test_traced_sessions_belong_to_client_and_enclose_their_rows(everything: list[TracedOperation]) -> None:
    assert {(row.client, row.session) for row in everything} == {(0, 0), (0, 1)}
    for session in (0, 1):
        rows = [row for row in everything if row.session == session]
        assert (rows[0].operation, rows[-1].operation) == ("open", "close")
        assert all(row.sent_ns == row.due_ns for row in rows)
        done_ns = [row.done_ns for row in rows if row.done_ns is not None]
        assert len(done_ns) == len(rows)
        assert all(done_ns[0] <= row.due_ns <= done for row, done in zip(rows[1:], done_ns[1:], strict=True))
        assert max(done_ns) == done_ns[-1]


def test_traced_objects_fall_within_their_transaction(everything: list[TracedOperation]) -> None:
    first = of(everything, "transaction")[0]
    objects = of(everything, "archive")[:3]
    assert [row.done_ns for row in objects] == [first.done_ns] * 3
    sent = [row.due_ns for row in objects]
    assert first.first_byte_ns is not None
    assert [first.due_ns, *sent, first.first_byte_ns] == sorted({first.due_ns, *sent, first.first_byte_ns})


def test_no_secret_is_in_a_journal(server: Server, journal: Path) -> None:
    told = journal.read_bytes().lower()
    assert b'"node":"archiver"' in told
    for secret in (server.store.node_password, "not-the-old-one", "not-the-new-one"):
        assert secret is not None
        assert secret.lower().encode() not in told


def test_refused_sign_on_is_traced_as_a_failed_open(server: Server, tmp_path: Path) -> None:
    journal = tmp_path / "refused.journal"
    finish(start(server, "refused", journal, TSM_PASSWORD="wrong-as-wrong-can-be"))
    _, rows = traced(journal)
    assert [(row.operation, row.status) for row in rows] == [("open", TSM_ERROR + Code.AUTH_FAILURE)]
    assert b"wrong-as" not in journal.read_bytes().lower()


def test_transactions_finished_before_kill_are_recorded(server: Server, tmp_path: Path) -> None:
    journal = tmp_path / "killed.journal"
    with start(server, "transactions", journal) as running:
        assert running.stdout is not None
        seen = [int(running.stdout.readline()) for _ in range(5)]
        running.kill()
        seen += [int(line) for line in running.stdout.read().split("\n")[:-1]]
    report, rows = traced(journal)
    assert report.lines_left_out == 0
    good = [row for row in of(rows, "transaction") if row.status == 0]
    assert len(good) >= len(seen) >= 5
    assert len(of(rows, "archive")) == 2 * len(good)
    assert not of(rows, "close")


def test_transaction_open_at_server_crash_is_connection_lost(shim: Path, tmp_path: Path) -> None:
    journal = tmp_path / "lost.journal"
    with (
        process.start(tmp_path / "store") as store,
        reached(store, shim) as server,
        start(server, "transactions", journal) as running,
    ):
        assert running.stdout is not None
        running.stdout.readline()
        store.kill()
        running.communicate(timeout=SECONDS_MAX)
    report, rows = traced(journal)
    assert report.lines_left_out == 0
    *before, last = of(rows, "transaction")
    assert {row.status for row in before} == {0}
    assert last.status == Status.CONNECTION_LOST
    assert {row.status for row in of(rows, "archive") if row.due_ns >= last.due_ns} <= {Status.CONNECTION_LOST}
    assert rows[-1].operation == "close"


def test_full_journal_ends_while_program_continues(server: Server, tmp_path: Path) -> None:
    journal, log = tmp_path / "full.journal", server.configuration / "dsierror.log"
    log.unlink(missing_ok=True)
    with start(server, "transactions", journal) as running:
        assert running.stdout is not None
        for _ in range(5):
            running.stdout.readline()
        size = journal.stat().st_size + 100
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (size, size))
        after = [int(running.stdout.readline()) for _ in range(200)]  # Python ignores the signal that this sends
        running.kill()
    assert after == list(range(5, 205))
    assert journal.stat().st_size <= size
    assert log.read_text().count("File too large") == log.read_text().count("\n") == 1
    report, rows = traced(journal)
    assert report.lines_left_out == 1
    assert len(of(rows, "transaction")) >= 5


def test_ids_are_per_server_and_clients_per_node_owner_and_process(tmp_path: Path) -> None:
    journal = tmp_path / "made.journal"
    lines: list[dict[str, object] | list[object]] = []
    whose = [("N", "", "one:1", 7), ("N", "", "two:1", 7), ("N", "OWNER", "one:1", 7), ("N", "", "one:1", 8)]
    for session, (node, owner, server, pid) in enumerate(whose, start=10):
        began = {"archiver_tsm_trace": 1, "session": session, "process": pid}
        lines.append({**began, "node": node, "owner": owner, "server": server})
        row = TracedOperation(session, key="#5", operation="delete", client=pid, session=session)
        lines.append([*row])
    for session, name in ((10, "/of/one"), (11, "/of/two")):
        lines.append({"id": 5, "session": session, "size_bytes": 1, "key": name})
    journal.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    _, rows = traced(journal)
    shown = [(row.due_ns, row.key, row.client, row.session) for row in rows]
    assert shown == [(0, "/of/one", 0, 0), (1, "/of/two", 0, 1), (2, "/of/one", 1, 0), (3, "/of/one", 2, 0)]


def test_damaged_lines_are_left_out_and_named(journal: Path, tmp_path: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    impossible = lines[1].replace(b'"open"', b'"opening"')
    cut = tmp_path / "cut.journal"
    cut.write_bytes(b"".join([*lines[:3], lines[3][:40] + lines[4], impossible, b"\n", *lines[5:], lines[-1][:-5]]))
    report, rows = traced(cut)
    whole = traced(journal)[1]
    last = len(lines) + 2
    (reason, noted), *others = report.left_out.items()
    assert others == []
    assert "truncated or damaged" in reason
    assert (noted.lines, noted.first) == (3, ["cut.journal:4", "cut.journal:5", f"cut.journal:{last}"])
    assert len(rows) == len(whole) - 2
    with pytest.raises(UsageError, match=r"cut\.journal:4: .*truncated or damaged.*--strict"):
        import_journals(tmp_path / "strict.parquet", [cut], strict=True)


def test_processes_and_threads_share_a_file(server: Server, tmp_path: Path) -> None:
    journal = tmp_path / "shared.journal"
    programs = [start(server, "some_transactions", journal) for _ in range(2)]
    for program in programs:
        finish(program)
    report, rows = traced(journal)
    assert report.lines_left_out == 0
    assert {row.client for row in rows} == {0, 1}
    archives = of(rows, "archive")
    assert len({row.key for row in archives}) == len(archives) == 2 * 2 * 40 * 5
    for client in (0, 1):
        mine = [row for row in rows if row.client == client]
        assert {row.session for row in mine} == {0, 1, 2}
        assert len(of(mine, "transaction")) == 80


def test_object_name_queried_by_another_program_is_resolved(server: Server, journal: Path, tmp_path: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    names = [line for line in lines if line.startswith(b'{"id"')]
    session = lines[0]
    (tmp_path / "names.journal").write_bytes(b"".join([session, *names]))
    (tmp_path / "rows.journal").write_bytes(b"".join(line for line in lines if line not in names))
    alone, together = (
        traced(tmp_path / "rows.journal")[1],
        traced(tmp_path / "rows.journal", tmp_path / "names.journal"),
    )
    assert all(row.key is not None and row.key[0] == "#" for row in of(alone, "hold"))
    assert [row.key for row in of(together[1], "hold")] == ["/traced/in/a", "/traced/in/b"]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("folder", "Is a directory"),
        ("pipe", "it is no file"),
        ("nowhere/at/all", "No such file or directory"),
        ("/dev/full", "it is no file"),
    ],
)
def test_unwritable_journal_is_logged_once_without_stopping_program(
    server: Server, tmp_path: Path, place: str, why: str
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    log = server.configuration / "dsierror.log"
    log.unlink(missing_ok=True)
    reader = os.open(tmp_path / "pipe", os.O_RDWR)  # A slow reader must not block the program.
    try:
        finish(start(server, "some_transactions", tmp_path / place))
    finally:
        os.close(reader)
    said = log.read_text()
    assert said.count("\n") == said.count("ARCHIVER_TSM_TRACE") == 1
    assert f"{tmp_path / place} cannot be written: {why}" in said


def test_program_with_file_size_limit_is_not_recorded(server: Server, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        running = start(server, "some_transactions", tmp_path / "limited.journal")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    finish(running)
    assert "ulimit" in (server.configuration / "dsierror.log").read_text()


def test_without_the_variable_nothing_is_written(server: Server, tmp_path: Path) -> None:
    finish(start(server, "some_transactions", tmp_path / "none.journal", ARCHIVER_TSM_TRACE=""))
    assert list(tmp_path.iterdir()) == []


def test_api_program_passes_when_recorded_under_sanitizers(sanitized: Path, tmp_path: Path) -> None:
    journal = tmp_path / "program.journal"
    with process.start(tmp_path / "store") as store:
        environment = settings(tmp_path / "options", store)
        run([str(sanitized)], {**environment, "ARCHIVER_TSM_TRACE": str(journal)})
    report, rows = traced(journal)
    assert report.lines_left_out == 0
    assert len(of(rows, "archive")) > 100
    assert len(of(rows, "open")) >= len(of(rows, "close"))


def test_import_command_creates_a_trace_from_a_journal(journal: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["trace", "import", "--kind", "tsm", str(journal), str(tmp_path / "out.parquet")])
    assert done.exit_code == 0, done.output
    assert "1 stream" in done.output
    patterned = ["trace", "import", "--kind", "tsm", "--pattern", "x", str(journal), str(tmp_path / "no.parquet")]
    assert "--pattern" in CliRunner().invoke(main, patterned).output


def test_invalid_journal_is_refused(tmp_path: Path) -> None:
    for content, said in ((b"", "no lines"), (b"[1,2\nnothing\n", "no request of --kind tsm in 2 lines")):
        log = tmp_path / "log"
        log.write_bytes(content)
        with pytest.raises(UsageError, match=said):
            import_journals(tmp_path / "out.parquet", [log])
    (tmp_path / "log").write_bytes(
        b'{"archiver_tsm_trace":9,"session":1,"process":1,"node":"","owner":"","server":""}\n'
    )
    with pytest.raises(UsageError, match="version is 9"):
        import_journals(tmp_path / "out.parquet", [tmp_path / "log"])
