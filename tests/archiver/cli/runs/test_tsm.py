"""Test `--backend tsm` on the real command line, with our library and the embedded store."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from ctypes.util import find_library
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from archiver.traces.format import SCHEMA
from archiver.values.clock import now_seconds
from archiver.values.retention import DATE_TOLERANCE_SECONDS
from backends.embedded import process as embedded
from backends.embedded.core.rules.policy import ManagementClass
from backends.tsm.library import api
from tests.support import forks
from tests.support.commands import archiver, started
from tests.support.runs import TINY, left_in

pytestmark = pytest.mark.skipif(not api.OWN_LIBRARY.exists(), reason="our TSM library was not built: no C compiler")
CLOCK_SECONDS = 1.0  # error of the server's clock, which counts whole seconds
TSM = ("run", "dr550", *TINY, "--backend", "tsm")


@pytest.fixture
def password_file(store: embedded.StoreProcess, tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.touch(0o600)
    path.write_text(f"{store.node_password}\n")
    return path


def reach(store: embedded.StoreProcess, password_file: Path) -> tuple[str, ...]:
    """Return the options that reach a running store."""
    server = f"{store.tsm_host}:{store.tsm_port}"
    return ("--tsm-server", server, "--tsm-node", store.node, "--tsm-password-file", str(password_file))


def document_of(*arguments: str) -> dict[str, Any]:
    done = archiver(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_scenario_runs_through_tsm_and_report_shows_transaction_times(home: Path, tmp_path: Path) -> None:
    document = document_of(*TSM)
    assert (document["backend"], document["platform"]["name"]) == ("tsm", "embedded")
    assert document["platform"]["details"]["retention_protected"] is True
    assert document["lock_verified"] == "verified"
    assert (document["settings"]["management_class"], document["settings"]["retain_for_seconds"]) == ("STANDARD", 300)
    assert {r["operation"] for r in document["results"]} == {"archive", "retrieve"}
    for result in document["results"]:
        assert result["objects"] > 0
        assert result["bytes"] == result["objects"] * 8192
        assert result["attempts"] == result["objects"]
        assert result["errors"] == result["refusals"] == 0
        assert (result["retention_mode"], result["session_open"], result["checksum"]) == ("CLASS", "sign-on", "none")
        transactions = result["transaction_commit_ms"]
        if result["operation"] == "archive":
            assert result["objects_per_transaction"] == 2
            assert transactions["count"] == result["transaction_send_ms"]["count"] == result["objects"] / 2
            # An object ends with its transaction, so its time includes the time of the commit.
            assert result["object_service_ms"]["p50"] >= transactions["p50"] > 0
        else:
            assert (result["objects_per_transaction"], transactions) == (None, None)
    (row, *_) = left_in(home)
    assert (row["backend"], row["platform"], row["retention_mode"]) == ("tsm", "embedded", "CLASS")
    assert row["endpoint"].startswith("tsm://ARCHIVER@127.0.0.1:")
    assert (row["bucket"], row["prefix"]) == (f"/archiver-{document['run']}", document["run"])

    assert archiver("report", "latest", "--format", "html", "--out", str(tmp_path)).returncode == 0
    report = (tmp_path / "report.html").read_text()
    assert "transaction commit" in report
    assert "transaction send" in report
    assert "management class STANDARD, 5m" in report
    assert "objects commit together" in report


def test_objects_per_transaction_1_commits_each_object(home: Path) -> None:
    document = document_of(*TSM, "--objects-per-transaction", "1")
    for result in document["results"]:
        if result["operation"] == "archive":
            assert result["objects_per_transaction"] == 1
            assert result["transaction_commit_ms"]["count"] == result["objects"]


def test_cleanup_keeps_objects_locked_by_class_and_prints_date(home: Path) -> None:
    run = document_of(*TSM)["run"]
    ended = now_seconds()
    done = archiver("cleanup", run, "--bypass-governance")
    assert done.returncode == 1
    locked_until = re.search(r"[\d,]+ objects remain: locked until (\S+)", done.stdout)
    assert locked_until is not None, done.stdout
    assert "--bypass-governance" not in done.stdout  # a bypass would not help
    latest = max(row["latest_retain_until"] for row in left_in(home) if row["objects"])
    assert datetime.fromisoformat(locked_until[1]).timestamp() <= latest  # never before the class expires
    assert latest <= ended + 300 + DATE_TOLERANCE_SECONDS + CLOCK_SECONDS


def test_cleanup_removes_expired_objects_and_file_space(home: Path) -> None:
    run = document_of(*TSM, "--management-class", "NONE")["run"]
    removed = sum(row["objects"] for row in left_in(home))
    done = archiver("cleanup", run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"removed {removed:,} objects" in done.stdout
    assert "and its file space" in done.stdout
    assert not left_in(home)


def test_running_server_is_reached_by_address_node_and_password_file(
    home: Path, store: embedded.StoreProcess, password_file: Path
) -> None:
    to_it = reach(store, password_file)
    assert document_of(*TSM, *to_it)["settings"]["retain_for_seconds"] == 300, "its policy describes its classes"
    run = document_of(*TSM, *to_it, "--management-class", "NONE")["run"]
    left = left_in(home)
    assert {row["endpoint"] for row in left} == {f"tsm://{store.node}@{store.tsm_host}:{store.tsm_port}"}
    done = archiver("cleanup", run, "--tsm-password-file", str(password_file))  # the ledger knows the server
    assert done.returncode == 0, done.stdout + done.stderr
    password = str(store.node_password).encode()
    for path in home.rglob("*"):
        assert not path.is_file() or password not in path.read_bytes(), path


def retain_for_a_second() -> None:
    """Let objects of every class expire after a second, and describe the classes as administrators do."""
    ManagementClass.description = property(lambda kept_by: "records")  # type: ignore[assignment, method-assign]
    ManagementClass.expires_ms = lambda kept_by, archived_ms, event_ms: archived_ms + 1000  # type: ignore[assignment, method-assign]


@pytest.fixture
def short_class(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[embedded.StoreProcess]:
    """A server whose class DAY has a day in its policy, and retains objects for a second."""
    monkeypatch.setattr(embedded, "_start_program", partial(forks.ForkedStore, prepare=retain_for_a_second))
    with embedded.start(tmp_path / "short", management_classes=["DAY:retver=24h"]) as running:
        yield running


def test_class_of_one_day_that_retains_for_a_second_is_weaker_in_run_and_audit(
    home: Path, short_class: embedded.StoreProcess, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text(f"{short_class.node_password}\n")
    to_it = (*reach(short_class, password), "--management-class", "DAY", "--max-retain", "24h")
    done = archiver(*TSM, *to_it, "--json")
    assert done.returncode == 1, done.stderr
    assert "did not keep the lock" in done.stderr
    assert "earlier than the" in done.stderr
    document = json.loads(done.stdout)
    assert document["lock_verified"] != "verified"
    # The ledger has what was agreed. A class in days may expire an hour later, if summer time ends before.
    (row,) = [row for row in left_in(home) if row["objects"]]
    assert row["latest_retain_until"] >= row["written_at"] + 86_400 + 3600

    audit = archiver("audit", document["run"], "--tsm-password-file", str(password), "--json")
    assert audit.returncode == 1, audit.stderr
    (finding,) = json.loads(audit.stdout)["findings"]
    assert finding["kind"] == "weaker locked"


def test_stanza_of_users_option_files_is_used(
    home: Path, store: embedded.StoreProcess, password_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "dsm.opt").write_text("SErvername OTHER\n")
    (tmp_path / "dsm.sys").write_text(
        f"SErvername RET1\n TCPServeraddress {store.tsm_host}\n TCPPort {store.tsm_port}\n NODename {store.node}\n"
    )
    files = {"DSMI_DIR": str(tmp_path), "DSMI_CONFIG": str(tmp_path / "dsm.opt")}
    done = archiver(
        *TSM, "--tsm-server", "RET1", "--tsm-password-file", str(password_file), "--management-class", "NONE",
        "--json", **files,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["platform"]["endpoints"] == [f"tsm://{store.node}@RET1"]
    assert archiver("cleanup", "latest", "--tsm-password-file", str(password_file), **files).returncode == 0


def test_cleanup_of_stanza_with_stored_password_succeeds(
    home: Path, store: embedded.StoreProcess, tmp_path: Path
) -> None:
    (tmp_path / "dsm.opt").write_text("SErvername OTHER\n")
    (tmp_path / "dsm.sys").write_text(
        f"SErvername RET1\n TCPServeraddress {store.tsm_host}\n TCPPort {store.tsm_port}\n NODename {store.node}\n"
        f' PASSWORDAccess generate\n PASsword "{store.node_password}"\n'
    )
    files = {"DSMI_DIR": str(tmp_path), "DSMI_CONFIG": str(tmp_path / "dsm.opt")}
    done = archiver(*TSM, "--tsm-server", "RET1", "--management-class", "NONE", **files)
    assert done.returncode == 0, done.stderr
    done = archiver("cleanup", "latest", **files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not left_in(home)


def test_ctrl_c_ends_a_run_whose_server_is_silent(home: Path, tmp_path: Path) -> None:
    password_file = tmp_path / "password"
    password_file.touch(0o600)
    password_file.write_text("secret\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        files = ("--tsm-password-file", str(password_file))
        with started(*TSM, "--tsm-server", address, "--tsm-node", "N", *files) as process:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)  # the client signs on and waits for an answer
                process.send_signal(signal.SIGINT)
                _, stderr = process.communicate(timeout=60)
            assert process.returncode == 130, stderr
    assert "Traceback" not in stderr


def test_file_space_named_by_the_user_is_not_removed(
    home: Path, store: embedded.StoreProcess, password_file: Path
) -> None:
    shared = (*TSM, *reach(store, password_file), "--management-class", "NONE", "--filespace", "/shared")
    first, second = document_of(*shared), document_of(*shared)
    assert (first["location"]["bucket_created"], second["location"]["bucket_created"]) == (False, False)
    for document in (second, first):
        done = archiver("cleanup", document["run"], "--tsm-password-file", str(password_file))
        assert done.returncode == 0, done.stderr
        assert "file space" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--backend", "tsm", "--retain-for", "5m"], 2, "--retain-for: with --backend tsm .* --management-class"),
        (["--backend", "tsm", "--retention-mode", "COMPLIANCE"], 2, "--retention-mode: .* --management-class"),
        (["--backend", "tsm", "--retention-mode", "none"], 2, "--retention-mode: .* --management-class"),
        (["--backend", "tsm", "--accept-locked-until", "2030-01-01T00:00:00Z"], 2, "--accept-locked-until: "),
        (["--backend", "tsm", "--bucket", "b", "--checksum", "none"], 2, "--bucket, --checksum: only for --backend s3"),
        (["--backend", "tsm", "--endpoint", "http://127.0.0.1:1"], 2, "--endpoint: only for --backend s3"),
        (["--tsm-server", "h:1", "--filespace", "/f"], 2, "--tsm-server, --filespace: only for --backend tsm"),
        (["--backend", "null", "--tsm-node", "n"], 2, "--tsm-node: only for --backend tsm; this run's backend is null"),
        (["--backend", "tsm", "--platform", "embedded", "--tsm-server", "h:1"], 2, "choose one of them"),
        (["--backend", "tsm", "--tsm-server", "127.0.0.1:1"], 2, "--tsm-node and --tsm-password-file are needed"),
        (["--backend", "tsm", "--tsm-server", "a:b:c"], 2, "neither HOST:PORT, like archive.example:1500"),
        (["--backend", "tsm", "--tsm-server", "NOSTANZA"], 3, "check dsm.opt and dsm.sys"),
        (["--backend", "tsm", "--tsm-library", "/nowhere.so", "--tsm-server", "S"], 3, "--tsm-library /nowhere.so"),
        (["--backend", "tsm", "--tsm-server", "S", "--tsm-password-file", "/nowhere"], 2, "/nowhere: cannot be read"),
        (["--backend", "tsm", "--tsm-server", "S", "--filespace", "f"], 2, "begins with /"),
        (["--backend", "tsm", "--objects-per-transaction", "0"], 2, "--objects-per-transaction"),
        (["--backend", "tsm", "--dry-run", "--max-locked-bytes", "1MB"], 2, "--max-locked-bytes"),
    ],
)
def test_bad_input_gives_one_clear_message(home: Path, arguments: list[str], status: int, words: str) -> None:
    done = archiver("run", "dr550", *arguments)
    assert done.returncode == status, done.stderr
    assert re.search(words, " ".join(done.stderr.split()))
    assert "Traceback" not in done.stderr
    assert not (home / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--management-class", "EVENT"], "no run may lock without an end"),
        (["--management-class", "NOSUCH"], "there are: STANDARD"),
        (["--max-retain", "1m"], "management class STANDARD locks objects for 5m, longer than --max-retain 60s"),
        (["--legal-hold"], "--legal-hold: the tsm backend does not offer it"),
        (["--objects-per-transaction", "5000"], "the server takes at most 4096"),
    ],
)
def test_options_against_tsm_server_policy_are_refused_before_archiving(
    home: Path, arguments: list[str], words: str
) -> None:
    done = archiver(*TSM, *arguments)
    assert done.returncode == 2, done.stderr
    assert words in " ".join(done.stderr.split())
    assert not (home / "runs").exists()
    assert not left_in(home)


def test_tsm_dry_run_names_management_class_and_creates_no_files(home: Path) -> None:
    done = archiver(*TSM, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "locks them by management class STANDARD; a phase that starts now asks for no lock beyond" in done.stdout
    assert not home.exists()


# The TSM library


def test_tsm_library_command_prints_existing_path() -> None:
    done = archiver("tsm-library")
    assert (done.returncode, Path(done.stdout.strip()).name) == (0, "libApiTSM64.so")
    assert Path(done.stdout.strip()).exists()


def test_tsm_library_check_counts_functions_and_prints_version() -> None:
    done = archiver("tsm-library", "--check")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["exports 47 of 47 functions", "version 8.2.1.0"]


CLIENT = r"""
#include <stdio.h>
#include "dsmrc.h"
#include "dsmapitd.h"
#include "dsmapifp.h"
#include "dapint64.h"
#include "release.h"

static int DSMLINKAGE compare(dsStruct64_t one, dsStruct64_t other)
{
    if (one.hi != other.hi) {
        return one.hi > other.hi ? DS_GREATERTHAN : DS_LESSTHAN;
    }
    return one.lo == other.lo ? DS_EQUAL : one.lo > other.lo ? DS_GREATERTHAN : DS_LESSTHAN;
}

int main(void)
{
    dsmApiVersionEx version = {.stVersion = apiVersionExVer};
    dsStruct64_t one = {0, 1}, two = {0, 2};
    int gone[] = {DSM_COMM_PVM_IUCV, DSM_COMM_3270, DSM_COMM_IUCV, DSM_COMM_PWSCS, DSM_COMM_SNA_LU6_2,
                  DSM_COMM_IPXSPX, DSM_COMM_NETBIOS, DSM_COMM_400COMM, DSM_COMM_CLIO};
    dsmQueryApiVersionEx(&version);
    printf("%d.%d %d %d %d\n", version.version, version.release, version.version == COMMON_VERSION, compare(one, two),
           gone[8]);
    return 0;
}
"""


def test_c_client_compiles_and_runs_with_printed_folder_and_pkg_config(tmp_path: Path) -> None:
    compiler, pkg_config = shutil.which("cc"), shutil.which("pkg-config")
    if compiler is None or pkg_config is None:
        pytest.skip("needs a C compiler and pkg-config")
    done = archiver("tsm-library", "--include")
    assert done.returncode == 0, done.stderr
    environment = {**os.environ, "PKG_CONFIG_PATH": done.stdout.strip()}
    flags = subprocess.run(
        [pkg_config, "--cflags", "--libs", "archiver-tsm"], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    (tmp_path / "client.c").write_text(CLIENT)
    subprocess.run(
        [compiler, "-Wall", "-Werror", str(tmp_path / "client.c"), "-o", tmp_path / "client", *flags], check=True
    )
    said = subprocess.run([tmp_path / "client"], capture_output=True, text=True, check=True).stdout
    assert said == "8.2 1 -1 12\n"


def test_unusable_library_gives_exit_status_3() -> None:
    for path in ("/nowhere.so", find_library("c") or "libc.so.6"):
        done = archiver("tsm-library", "--check", "--tsm-library", path)
        assert done.returncode == 3
        assert f"--tsm-library {path}" in done.stderr


@pytest.mark.parametrize("how", [(), ("--workers", "2"), ("--objects-per-transaction", "3")])
def test_operation_log_ledger_and_cleanup_count_the_same_objects(
    home: Path, tmp_path: Path, store: embedded.StoreProcess, password_file: Path, how: tuple[str, ...]
) -> None:
    log = tmp_path / "log"
    document = document_of(
        *TSM, *reach(store, password_file), "--management-class", "NONE", *how, "--op-log", str(log),
        "--set", "objects_per_session=1,10", "--set", "clients=1,2", "--set", "stop.bytes_max=1MB",
        "--set", "stop.client_bytes_max=500KB", "--set", "stop.warm_up_seconds=50ms",
    )  # fmt: skip
    rows = [row for file in sorted(log.iterdir()) for row in pq.read_table(file, schema=SCHEMA).to_pylist()]
    archived = [row for row in rows if row["operation"] == "archive"]
    transactions = [row for row in rows if row["operation"] == "transaction"]
    keys = {row["key"] for row in archived}
    left = sum(row["objects"] for row in left_in(home))
    with closing(sqlite3.connect(home / "runs" / document["run"] / "run.db")) as database:
        ((probes,),) = database.execute("SELECT sum(archived) FROM probe").fetchall()  # probes are not in the log
    logged = left - probes
    assert len(archived) == len(keys) == logged
    assert sum(row["size_bytes"] for row in transactions) == sum(row["size_bytes"] for row in archived) == logged * 8192
    assert {(row["done_ns"], row["client"]) for row in archived} == {(r["done_ns"], r["client"]) for r in transactions}
    if how and how[0] == "--objects-per-transaction":
        assert max(row["size_bytes"] for row in transactions) == 3 * 8192
    assert all(row["due_ns"] <= row["sent_ns"] <= row["first_byte_ns"] <= row["done_ns"] for row in rows)
    done = archiver("cleanup", document["run"], "--tsm-password-file", str(password_file))
    assert f"removed {left:,} objects" in done.stdout  # the number of objects in the store
