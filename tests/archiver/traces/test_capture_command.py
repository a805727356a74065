"""Test `archiver capture` as a command: refused options, its end, and recovery after a kill."""

from __future__ import annotations

import resource
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest
import trustme

from archiver.traces.capture.journal import Beginning, Journal, LeftJournal, journal_path
from archiver.traces.format import Trace, TracedOperation
from archiver.values.record import Status
from backends.embedded import process as embedded
from tests.archiver.traces.capturing import HANG_SECONDS, Capture, capturing, run
from tests.support.documented import example

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab"


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """Run a server that answers the first request of every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    if connection.recv(65536):
                        connection.sendall(ANSWER)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def ask(capture: Capture, key: str) -> None:
    with urlopen(f"{capture.endpoint}/b/{key}", timeout=HANG_SECONDS) as reply:
        assert reply.read() == b"ab"


def test_ctrl_c_leaves_a_complete_trace_and_reports_its_counts(tmp_path: Path, upstream: str) -> None:
    out = tmp_path / "trace.parquet"
    with capturing(out, upstream) as capture:
        ask(capture, "one")
        ask(capture, "two")
        rows = capture.end()
    assert [(row.operation, row.key, row.size_bytes, row.session) for row in rows] == [
        ("retrieve", "b/one", 2, 0),
        ("retrieve", "b/two", 2, 1),
    ]
    assert "2 operations of 1 clients" in capture.said
    info = Trace.open(out).info
    assert [(origin.kind, origin.name) for origin in info.origins] == [("capture", upstream)]
    assert info.rises
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.parquet"]


def test_killed_capture_is_recovered_from_its_journal(tmp_path: Path, upstream: str) -> None:
    out = tmp_path / "trace.parquet"
    with capturing(out, upstream) as capture:
        for number in range(5):
            ask(capture, f"k{number}")
        assert len(capture.rows_so_far("b/k4", 1)) == 1
        early = run("--recover", out)
        assert early.returncode == 2
        assert "still writing" in early.stderr
        second = run("--upstream", upstream, out)
        assert second.returncode == 2
        assert "another capture is writing it" in second.stderr
        capture.process.kill()
        capture.process.wait()
    assert not out.exists()
    with journal_path(out).open("ab") as journal:
        journal.write(b'[1,2,3,"half a li')
    done = run("--recover", out)
    assert done.returncode == 0, done.stderr
    assert "half a line" in done.stderr
    assert [row.key for row in Trace.open(out).operations(must_rise=True)] == [f"b/k{number}" for number in range(5)]
    assert not journal_path(out).exists()


def test_full_disk_ends_the_recording_but_not_the_traffic(tmp_path: Path, upstream: str) -> None:
    out = tmp_path / "trace.parquet"
    with capturing(out, upstream) as capture:
        ask(capture, "before")
        assert capture.rows_so_far("b/before", 1)
        size = journal_path(out).stat().st_size
        resource.prlimit(capture.process.pid, resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))
        ask(capture, "while-full")
        while journal_path(out).stat().st_size == size:  # ten bytes of the row still fit
            pass
        for _ in range(3):
            ask(capture, "later")
        resource.prlimit(capture.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        capture.process.send_signal(signal.SIGINT)
        said = capture.process.communicate()
    assert capture.process.returncode == 1
    assert "ends before the traffic did" in said
    assert [row.key for row in Trace.open(out).operations()] == ["b/before"]


def test_failed_upstream_connection_is_recorded(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with capturing(tmp_path / "trace.parquet", f"http://127.0.0.1:{port}") as capture:
            listener.close()
            with socket.create_connection(("127.0.0.1", capture.port), HANG_SECONDS) as client:
                client.sendall(b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n")
                with pytest.raises(ConnectionResetError):
                    client.recv(1)
            rows = capture.end()
    assert [(row.key, row.status) for row in rows] == [("b/k", Status.CONNECT_FAILED)]
    assert "for 1 connections the upstream could not be reached" in capture.said


def test_the_example_in_the_help_captures_until_ctrl_c(tmp_path: Path, upstream: str) -> None:
    line = (
        example("archiver capture").replace("http://127.0.0.1:9000", upstream).replace("127.0.0.1:9100", "127.0.0.1:0")
    )
    words = shlex.split(line)
    process = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert process.stdout is not None
    with closing(process.stdout):
        assert "listens on http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_SECONDS) == 0


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ((), 2, "--upstream is missing"),
        (("--upstream", "ftp://h"), 2, "not an address"),
        (("--upstream", "http://h:99999"), 2, "not an address"),
        (("--upstream", "http://key:secret@h"), 2, "leave the credentials out"),
        (("--upstream", "http://h/bucket"), 2, "leave out path, query and fragment"),
        (("--upstream", "http://h", "--listen", "9100"), 2, "write it like 127.0.0.1:9100"),
        (("--upstream", "http://h", "--listen", "0.0.0.0:9100"), 2, "--beyond-loopback"),
        (("--upstream", "https://h", "--ca-bundle", "missing.pem"), 2, "cannot be read as PEM"),
        (("--upstream", "http://127.0.0.1:1"), 3, "cannot be reached"),
        (("--recover",), 2, "not a capture's journal"),
    ],
)
def test_refused_capture_options_are_explained_and_leave_no_files(
    tmp_path: Path, options: tuple[str, ...], status: int, words: str
) -> None:
    done = run(tmp_path / "trace.parquet", *options)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_address_in_use_and_existing_file_are_refused(tmp_path: Path, upstream: str) -> None:
    taken = run("--upstream", upstream, "--listen", upstream.removeprefix("http://"), tmp_path / "trace.parquet")
    assert taken.returncode == 2
    assert "cannot listen there" in taken.stderr
    there = tmp_path / "there.parquet"
    there.write_text("mine")
    done = run("--upstream", upstream, there)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert there.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [there]


def test_a_certificate_that_is_not_trusted_is_refused(tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    with embedded.start(
        tmp_path / "store", tls_certificate=tmp_path / "server.pem", tls_key=tmp_path / "server.key"
    ) as store:
        done = run("--upstream", store.endpoint.replace("127.0.0.1", "localhost"), tmp_path / "trace.parquet")
    assert done.returncode == 3
    assert "not trusted" in done.stderr
    assert "--ca-bundle" in done.stderr


def rows_of(count: int) -> Iterator[TracedOperation]:
    """Yield rows in the order in which operations end."""
    for number in range(count):
        yield TracedOperation((number * 7919) % count, operation="archive", key=f"k{number}", client=number % 3)


def test_journal_larger_than_the_sort_memory_is_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archiver.traces.capture.journal._RUN_ROWS", 100)
    out = tmp_path / "trace.parquet"
    journal = Journal(journal_path(out), Beginning(1, 5, "http://h"))
    for row in rows_of(1050):
        journal.write(row)
    journal.flush()
    journal.close()
    with closing(LeftJournal(journal_path(out))) as left:
        info = left.make_trace(out)
    assert (info.operations, info.streams, info.began_at_ns, info.rises) == (1050, 3, 5, True)
    assert list(Trace.open(out).operations()) == sorted(rows_of(1050))
    assert [path.name for path in tmp_path.iterdir()] == ["trace.parquet"]


def test_damaged_journal_is_kept_and_its_line_named(tmp_path: Path) -> None:
    out = tmp_path / "trace.parquet"
    journal = Journal(journal_path(out), Beginning(1, 5, "http://h"))
    for row in rows_of(3):
        journal.write(row)
    journal.flush()
    journal.close()
    lines = journal_path(out).read_bytes().splitlines(keepends=True)
    lines[2] = b'["no number"]\n'
    journal_path(out).write_bytes(b"".join(lines))
    done = run("--recover", out)
    assert done.returncode == 1
    assert "line 3: damaged" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["trace.parquet.journal"]
