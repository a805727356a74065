"""Test `archiver run` on the real command line and the embedded store."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from backends.embedded import process as embedded
from tests.support.commands import archiver, started
from tests.support.runs import TINY, ask, keys_of, left_in, s3
from tests.support.waiting import wait_until

ENDLESS = ("run", "dr550", *TINY, "--set", "stop.bytes_max=24MB", "--repeat", "33")  # for tests that wait


@pytest.fixture
def store(tmp_path: Path) -> Iterator[embedded.StoreProcess]:
    """A running store that another owner runs. The credential `weak` may not set retention."""
    with embedded.start(tmp_path / "store", credentials=["weak:without=retention"]) as running:
        yield running


def test_json_document_has_consistent_results(home: Path) -> None:
    done = archiver("run", "dr550", *TINY, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)  # pure JSON on stdout
    assert document["scenario"] == "dr550"
    assert document["backend"] == "s3"
    assert document["platform"]["name"] == "embedded"
    assert {r["operation"] for r in document["results"]} == {"archive", "retrieve"}
    for result in document["results"]:
        assert result["object_bytes"] == 8192
        assert result["objects"] > 0
        assert result["bytes"] == result["objects"] * 8192
        assert result["attempts"] == result["objects"]  # no failures and no retries
        assert result["errors"] == result["refusals"] == 0
        assert result["objects_per_second"] == pytest.approx(result["objects"] / result["seconds"])
        assert result["megabytes_per_second"] == pytest.approx(result["bytes"] / result["seconds"] / 1e6)
        assert result["retention_mode"] == "GOVERNANCE"
        assert result["object_ms"]["p99"] >= result["object_service_ms"]["p50"] > 0
        assert result["server"]["cpu_percent"] is not None
        assert result["client"]["cpu_microseconds_per_object"] > 0
    assert document["lock_verified"] == "verified"
    assert "locks them in mode GOVERNANCE" in done.stderr  # announced before the run starts
    assert all(r["verified"] == "all" for r in document["results"] if r["operation"] == "retrieve")


def test_reported_objects_are_in_the_store_and_cleanup_removes_them(home: Path, store: embedded.StoreProcess) -> None:
    done = archiver("run", "dr550", *TINY, "--endpoint", store.endpoint, "--json", **keys_of(store))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    bucket = document["location"]["bucket"]
    pages = s3(store).get_paginator("list_object_versions").paginate(Bucket=bucket)
    held = [version for page in pages for version in page.get("Versions", [])]
    archives = [r for r in document["results"] if r["operation"] == "archive"]
    reported = sum(r["objects"] + r["warm_up_objects"] + r["drained_objects"] for r in archives)
    ledger = left_in(home)
    # The drift check's objects are in the ledger, not among the results.
    assert len(held) == sum(row["objects"] for row in ledger) >= reported
    assert all(row["objects"] <= row["objects_max"] for row in ledger)

    run = document["run"]
    locked = archiver("cleanup", run, **keys_of(store))
    assert locked.returncode == 1
    assert f"{len(held):,} objects remain: locked until" in locked.stdout
    assert len(s3(store).list_object_versions(Bucket=bucket)["Versions"]) == min(1000, len(held))

    bypassed = archiver("cleanup", run, "--bypass-governance", **keys_of(store))
    assert bypassed.returncode == 0, bypassed.stderr
    assert f"removed {len(held):,} objects" in bypassed.stdout
    assert s3(store).list_buckets()["Buckets"] == []
    again = archiver("cleanup", run, **keys_of(store))
    assert (again.returncode, "removed already" in again.stdout) == (0, True)


def test_cleanup_leaves_objects_that_the_run_did_not_make(home: Path, store: embedded.StoreProcess) -> None:
    client = s3(store)
    client.create_bucket(Bucket="production", ObjectLockEnabledForBucket=True)
    client.put_object(Bucket="production", Key="records/1", Body=b"kept")
    done = archiver(
        "run", "dr550", *TINY, "--endpoint", store.endpoint, "--bucket", "production", "--json", **keys_of(store)
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    assert archiver("cleanup", run, "--bypass-governance", **keys_of(store)).returncode == 0
    assert [o["Key"] for o in client.list_objects_v2(Bucket="production")["Contents"]] == ["records/1"]


def test_lock_stays_in_ledger_if_another_platform_answers_at_its_address(
    home: Path, tmp_path: Path, store: embedded.StoreProcess
) -> None:
    done = archiver("run", "dr550", *TINY, "--endpoint", store.endpoint, "--json", **keys_of(store))
    assert done.returncode == 0, done.stderr
    port = int(store.endpoint.rpartition(":")[2])
    store.stop()
    with embedded.start(tmp_path / "another", port=port) as another:
        found = archiver("cleanup", "latest", "--bypass-governance", **keys_of(another))
    assert found.returncode == 3
    assert "check whether another platform answers at that address" in found.stderr
    assert left_in(home), "objects that are still locked have left the ledger"


def test_lock_that_ends_during_its_phase_matches_requested_lock(home: Path, store: embedded.StoreProcess) -> None:
    """A retention period of 2 s ends before the phase does; the lock still matches."""
    slow = ("--set", "archive.stop.seconds_min=2100ms", "--set", "archive.stop.seconds_max=2200ms")
    done = archiver(
        "run", "dr550", *TINY, *slow, "--retain-for", "2s", "--endpoint", store.endpoint, "--json", **keys_of(store)
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["lock_verified"] == "verified"


def test_legal_holds_stay_until_they_are_released(home: Path, store: embedded.StoreProcess) -> None:
    done = archiver("run", "dr550", *TINY, "--endpoint", store.endpoint, "--legal-hold", "--json", **keys_of(store))
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    held = archiver("cleanup", run, "--bypass-governance", **keys_of(store))
    assert held.returncode == 1
    assert "under hold (--release-holds)" in held.stdout
    assert archiver("cleanup", run, "--bypass-governance", "--release-holds", **keys_of(store)).returncode == 0


def test_event_holds_stay_until_release_and_then_for_their_period(home: Path, store: embedded.StoreProcess) -> None:
    run_it = ("run", "dr550", *TINY, "--endpoint", store.endpoint, "--event-hold", "1d", "--json")
    refused = archiver(*run_it, **keys_of(store))
    assert refused.returncode == 2
    assert "would stay locked for 24h after the release" in refused.stderr
    done = archiver(*run_it, "--max-retain", "1d", **keys_of(store))
    assert done.returncode == 0, done.stderr
    assert "places event holds" in done.stderr
    document = json.loads(done.stdout)
    assert document["lock_verified"] == "verified"
    run, bucket = document["run"], document["location"]["bucket"]
    key = s3(store).list_objects_v2(Bucket=bucket)["Contents"][0]["Key"]
    shown = s3(store).head_object(Bucket=bucket, Key=key)
    assert (shown["ObjectLockEventHold"], shown["ObjectLockEventHoldDurationDays"]) == ("ON", 1)
    audited = archiver("audit", run, **keys_of(store))
    assert audited.returncode == 0, audited.stdout + audited.stderr
    (holding,) = json.loads(archiver("ledger", "--json").stdout)["holdings"]
    assert holding["state"] == "held"
    held = archiver("cleanup", run, **keys_of(store))
    assert "under hold (--release-holds)" in held.stdout
    released = archiver("cleanup", run, "--release-holds", **keys_of(store))
    assert released.returncode == 1  # the retention period of a day has begun
    assert "(GOVERNANCE: --bypass-governance)" in released.stdout
    assert s3(store).head_object(Bucket=bucket, Key=key)["ObjectLockEventHold"] == "OFF"
    (holding,) = json.loads(archiver("ledger", "--json").stdout)["holdings"]
    assert holding["state"] == "locked"
    assert 86_000 < holding["locked_until_epoch_seconds"] - time.time() < 87_000
    audited = archiver("audit", run, **keys_of(store))
    assert audited.returncode == 0, audited.stdout + audited.stderr
    assert archiver("cleanup", run, "--bypass-governance", **keys_of(store)).returncode == 0


def test_f1_run_with_every_put_denied_reports_zero_rate_and_fails(home: Path, store: embedded.StoreProcess) -> None:
    s3(store).create_bucket(Bucket="worm", ObjectLockEnabledForBucket=True)
    done = archiver(
        "run", "dr550", *TINY, "--endpoint", store.endpoint, "--bucket", "worm", "--json", **keys_of(store, "weak")
    )
    assert done.returncode == 1
    (result,) = json.loads(done.stdout)["results"]
    assert (result["objects"], result["bytes"], result["objects_per_second"]) == (0, 0, 0.0)
    assert result["errors"] > 0
    assert result["first_errors"][0]["reason"] == "403 AccessDenied"
    assert result["first_errors"][0]["count"] == result["errors"]
    assert result["first_errors"][0]["request_id"]
    assert "403 AccessDenied" in done.stderr
    assert json.loads(done.stdout)["verdict"] == "fail"


class _Html(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<html><body>Welcome to the console</body></html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_endpoint_that_answers_html_is_reported(home: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Html) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        done = archiver("run", "dr550", *TINY, "--endpoint", endpoint, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
        server.shutdown()
    assert done.returncode == 3
    assert endpoint in done.stderr
    assert "console or a proxy" in done.stderr
    assert "Traceback" not in done.stderr


class _Liar(_Html):
    """Answer every request with success and report Object Lock as enabled, but lock nothing."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply(
            b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"
            if "object-lock" in self.path
            else b"<ListAllMyBucketsResult><Buckets></Buckets></ListAllMyBucketsResult>"
        )

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._reply(b"")

    def do_HEAD(self) -> None:
        self._reply(b"")

    def _reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_platform_that_accepts_but_does_not_keep_locks_is_detected(home: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Liar) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        done = archiver(
            "run", "dr550", *TINY, "--endpoint", endpoint, "--json", AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b"
        )
        server.shutdown()
    assert done.returncode == 1
    assert "did not keep the lock" in done.stderr
    assert "the platform reports no mode, not GOVERNANCE" in done.stderr
    document = json.loads(done.stdout)
    assert document["lock_verified"] != "verified"
    assert document["doubts"][0].startswith("the lock did not hold")
    assert document["results"] == [], "clients started although the first lock was not there"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["run", "nosuch"], 2, "neither a file nor one of"),
        (
            ["run", "dr550", "--clients", "4"],
            2,
            "change the scenario with --set clients=4 ([[sweep]]) or --set "
            "WORKLOAD.clients=4 ([[phase]]), or measure without a scenario: archiver bench --clients 4",
        ),
        (["run", "--size=8KiB", "dr550"], 2, "--set object_sizes=8KiB ([[sweep]])"),
        (["run", "dr550", "--duration", "30s"], 2, "--set stop.seconds_min=30s --set stop.seconds_max=30s ([[sweep]])"),
        (["run", "dr550", "--rate", "5/s"], 2, "with --set WORKLOAD.arrivals.per_second=5 ([[phase]])"),
        (
            ["run", "dr550", "--operation"],
            2,
            "--operation is no option of run: measure without a scenario: archiver bench --operation ...",
        ),
        (["run", "dr550", "--sise", "8KiB"], 2, "No such option '--sise'"),
        (["run", "dr550", "--set", "object_sizes=8XB"], 2, "unknown size unit"),
        (["run", "dr550", "--set", "object_sizes=0"], 2, "write 1B to 64MiB"),
        (["run", "dr550", "--set", "objects_per_session=501"], 2, "--allow-large-sessions"),
        (["run", "dr550", "--retain-for", "2h"], 2, "--max-retain"),
        (["run", "dr550", "--max-locked-bytes", "1MB"], 2, "--max-locked-bytes"),
        (["run", "dr550", "--retention-mode", "COMPLIANCE"], 2, "--accept-locked-until"),
        (["run", "dr550", "--retain-until", "2026-01-01"], 2, "no time zone"),
        (["run", "dr550", "--retain-until", "2026-01-01T00:00:00Z"], 2, "not in the future"),
        (["run", "dr550", "--endpoint", "127.0.0.1:9000"], 2, "write it like http://127.0.0.1:9000"),
        (["run", "dr550", "--endpoint", "http://127.0.0.1:1", "--platform", "embedded"], 2, "choose one of them"),
        (["run", "dr550", "--endpoint", "http://127.0.0.1:1"], 2, "AWS_ACCESS_KEY_ID"),
        (["run", "dr550", "--backend", "nosuch"], 2, "no backend named 'nosuch'"),
        (["run", "dr550", "--retain-for", "500ms"], 2, "use --retain-for 2s or more"),
        (["run", "dr550", "--retain-for", "2h", "--dry-run"], 2, "--max-retain"),
        (["run", "dr550", "--op-log", "/proc/nowhere"], 2, "--op-log /proc/nowhere: cannot be written"),
        (["run", "dr550", "--endpoint", "http://user:secret@h:9000"], 2, "credentials do not belong in an endpoint"),
        (["cleanup", "nosuch"], 2, "the ledger has no such run"),
        (["report", "nosuch"], 2, "no such run"),
        (["scenarios", "show", "dr55"], 2, "did you mean dr550"),
    ],
)
def test_bad_input_gives_one_clear_message(home: Path, arguments: list[str], status: int, words: str) -> None:
    done = archiver(*arguments)
    assert done.returncode == status, done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (home / "runs").exists()


@pytest.mark.parametrize(
    ("keys", "endpoint", "words"),
    [
        ({"AWS_ACCESS_KEY_ID": "nobody"}, None, "check AWS_ACCESS_KEY_ID"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, None, "check AWS_SECRET_ACCESS_KEY"),
        ({}, "http://127.0.0.1:1", "check --endpoint"),
        ({}, "http://no-such-host.invalid:9000", "the host name is unknown"),
    ],
)
def test_unusable_platform_gives_exit_status_3(
    home: Path, store: embedded.StoreProcess, keys: dict[str, str], endpoint: str | None, words: str
) -> None:
    done = archiver("run", "dr550", *TINY, "--endpoint", endpoint or store.endpoint, **{**keys_of(store), **keys})
    assert done.returncode == 3
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert keys_of(store)["AWS_SECRET_ACCESS_KEY"] not in done.stderr


def test_bucket_without_object_lock_is_refused_unless_mode_is_none(home: Path, store: embedded.StoreProcess) -> None:
    s3(store).create_bucket(Bucket="plain")
    to_plain = ("run", "dr550", *TINY, "--endpoint", store.endpoint, "--bucket", "plain")
    refused = archiver(*to_plain, **keys_of(store))
    assert refused.returncode == 3
    assert "bucket plain has no Object Lock" in refused.stderr
    assert not (home / "ledger.db").exists()
    assert archiver(*to_plain, "--retention-mode", "none", "--quiet", **keys_of(store)).returncode == 0


def test_dry_run_creates_no_files(home: Path) -> None:
    done = archiver("run", "dr550", *TINY, "--dry-run")
    assert done.returncode == 0
    assert "archives at most" in done.stdout
    assert "asks for no lock beyond" in done.stdout
    assert not home.exists()


def test_ctrl_c_saves_finished_results_and_exits_130(home: Path) -> None:
    with started(*ENDLESS, "--json") as process:
        result_of(home)
        os.killpg(process.pid, signal.SIGINT)  # to the whole group, as a terminal does
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == 130, stderr
    document = json.loads(stdout)
    assert document["results"]
    assert any("ended early" in doubt for doubt in document["doubts"])
    assert "Traceback" not in stderr


@pytest.mark.parametrize(("clients", "workers"), [("1", 1), ("1,3", 3)])
def test_number_of_workers_is_at_most_number_of_clients(home: Path, clients: str, workers: int) -> None:
    done = archiver("run", "dr550", *TINY, "--set", f"clients={clients}", "--workers", "4", "--quiet")
    assert done.returncode == 0, done.stderr
    (path,) = home.glob("runs/*/run.db")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT workers FROM run").fetchall() == [(workers,)]
        assert db.execute("SELECT count(DISTINCT worker) FROM worker").fetchall() == [(workers,)]


def test_killed_run_keeps_finished_phases_and_its_ledger_rows(home: Path) -> None:
    with started(*ENDLESS, "--quiet") as process:
        database = result_of(home)
        process.kill()
    shown = archiver("report", str(database.parent), "--format", "text")
    assert shown.returncode == 0, shown.stderr
    assert left_in(home)


def result_of(home: Path) -> Path:
    """Wait until the only run has committed its first phase; return its database."""

    def committed() -> list[Path]:
        return [path for path in home.glob("runs/*/run.db") if ask(path, "SELECT * FROM result")]

    wait_until(committed, "result")
    (path,) = committed()
    return path


def test_serve_names_a_port_in_use(tmp_path: Path, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = archiver("serve", "--port", str(port), "--data", str(tmp_path / "other"))
    assert done.returncode == 3
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr


def titles(output: str) -> set[str]:
    """Return the titles of the printed tables."""
    named = {"Rates, latency and limits", "What limits", "Archive: objects/s", "Service times"}
    return named & set(output.splitlines())


def test_only_requested_tables_are_printed(home: Path) -> None:
    """By default one table has rates, latency and limits. Names select others, and unknown names are reported."""
    ran = archiver("run", "dr550", *TINY)
    assert titles(ran.stdout) == {"Rates, latency and limits"}
    as_text = ("report", "latest", "--format", "text")
    assert archiver(*as_text).stdout == ran.stdout, "a report as text is what the run printed"
    none = archiver(*as_text, "--tables", "none")
    assert titles(none.stdout) == set()
    assert "archiver cleanup" in none.stdout
    some = archiver("run", "dr550", *TINY, "--tables", "limits", "--tables", "latency", "--tables", "latencies")
    assert titles(some.stdout) == {"What limits", "Service times"}
    assert "--tables latencies: there is no such table here; there are cells, " in some.stderr
    assert some.returncode == 0, "a wrong name loses no measurement"
    again = archiver(*as_text, "--tables", "limits", "--tables", "latency")
    assert again.stdout == some.stdout
    for options, words in (
        (("--tables", "limits"), "--tables: only --format text prints tables"),
        (("--format", "text", "--out", "somewhere", "--drives", "4"), "--out, --drives: --format text prints"),
    ):
        refused = archiver("report", "latest", *options)
        assert refused.returncode == 2
        assert words in refused.stderr
