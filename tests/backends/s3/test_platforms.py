"""Runs on real platforms: request counts, cleanup, TLS, and a server crash."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import requests
import trustme
from prometheus_client.parser import text_string_to_metric_families

from archiver.platforms.servers import Server, running
from tests.support.commands import archiver
from tests.support.runs import left_in
from tests.support.servers import real

pytestmark = pytest.mark.platforms

SESSIONS, OBJECTS_PER_SESSION = 25, 100
LISTING_PAGE = 1000
# One client performs exactly the given number of sessions, so its objects can be counted.
STOP = f"""
[stop]
warm_up_sessions = 1
warm_up_seconds = "100ms"
sessions_min = {SESSIONS}
large_sessions_min = 1
large_session = "100MB"
seconds_min = "1ms"
seconds_max = "10m"
bytes_max = 1
client_bytes_max = "100MB"
precision = 0.05
"""
COUNTED = f"""
name = "counted"
title = "A counted archive, and retrieves of it"
{STOP}
[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["1KiB"]
objects_per_session = [{OBJECTS_PER_SESSION}]
clients = [1]

[[sweep]]
name = "retrieve"
operation = "retrieve"
object_sizes = ["1KiB"]
objects_per_session = [{OBJECTS_PER_SESSION}]
clients = [1]
stop = {{ sessions_min = 3 }}
"""
# The second phase does not end by itself.
ENDLESS = f"""
name = "endless"
title = "A counted archive, and one without end"
{STOP}
[[sweep]]
name = "counted"
operation = "archive"
object_sizes = ["1KiB"]
objects_per_session = [2]
clients = [1]

[[sweep]]
name = "endless"
operation = "archive"
object_sizes = ["2KiB"]
objects_per_session = [10]
clients = [2]
stop = {{ seconds_min = "10m" }}
"""


@pytest.fixture(scope="module", params=real.NAMES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with real.real_server(request.param, tmp_path_factory.mktemp(request.param)) as started:
        yield started


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "counted.toml"
    path.write_text(COUNTED)
    return str(path)


def listed(server: Server, bucket: str) -> dict[tuple[str, str], int]:
    """Return the size of every version in the bucket. versitygw lists some twice (see deviations.py)."""
    pages = real.client_of(server).get_paginator("list_object_versions").paginate(Bucket=bucket)
    versions = [version for page in pages for version in page.get("Versions", [])]
    return {(version["Key"], version["VersionId"]): version["Size"] for version in versions}


def test_server_object_count_matches_report_and_cleanup_removes_all(home: Path, server: Server, scenario: str) -> None:
    keys = real.environment_of(server)
    done = archiver("run", scenario, "--endpoint", server.endpoint, "--order", "paper", "--json", **keys)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    archived, retrieved = document["results"]
    assert document["lock_verified"] == "verified"
    assert (archived["errors"], retrieved["errors"], retrieved["verified"]) == (0, 0, "all")
    reported = archived["objects"] + archived["warm_up_objects"] + archived["drained_objects"]
    assert archived["objects"] == SESSIONS * OBJECTS_PER_SESSION
    assert reported > 2 * LISTING_PAGE  # a listing has three pages

    bucket = document["location"]["bucket"]
    held = listed(server, bucket)
    reported += 1  # the probe object, which is in no result
    assert len(held) == reported == sum(row["objects"] for row in left_in(home))
    assert set(held.values()) == {1024}

    locked = archiver("cleanup", document["run"], **keys)
    assert locked.returncode == 1
    assert f"{reported:,} objects remain: locked until" in locked.stdout
    assert len(listed(server, bucket)) == reported

    bypassed = archiver("cleanup", document["run"], "--bypass-governance", **keys)
    assert bypassed.returncode == 0, bypassed.stdout + bypassed.stderr
    assert f"removed {reported:,} objects" in bypassed.stdout
    assert "and its bucket" in bypassed.stdout
    assert bucket not in [each["Name"] for each in real.client_of(server).list_buckets()["Buckets"]]
    assert left_in(home) == []


def test_versitygw_request_log_matches_our_counts(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    log = tmp_path / "access.log"
    monkeypatch.setenv("VGW_ACCESS_LOG", str(log))
    with real.real_server("versitygw", tmp_path / "server") as server:
        done = archiver(
            "run", scenario, "--endpoint", server.endpoint, "--order", "paper", **real.environment_of(server)
        )
    assert done.returncode == 0, done.stderr
    sent, probes = sent_by_us(home)
    logged = Counter(word for line in log.read_text().splitlines() for word in line.split() if word.startswith("s3_"))
    assert (logged["s3_PutObject"], logged["s3_GetObject"]) == (sent["archive"] + probes, sent["retrieve"])


def counted_by_seaweedfs(server: Server, bucket: str) -> Counter[str]:
    """Return the successful requests for this bucket, by method, from its metrics page."""
    options = dict(word.partition("=")[::2] for word in psutil.Process(server.pid).cmdline())
    page = requests.get(f"http://127.0.0.1:{options['-metricsPort']}/metrics", timeout=30).text
    counted: Counter[str] = Counter()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == "SeaweedFS_s3_request_total" and sample.labels["bucket"] == bucket:
                counted[sample.labels["type"]] += int(sample.value) if sample.labels["code"].startswith("2") else 0
    return counted


def test_seaweedfs_request_counters_agree_with_our_counts(home: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "short.toml"
    scenario.write_text(COUNTED.replace(f"sessions_min = {SESSIONS}", "sessions_min = 2"))
    with real.real_server("seaweedfs", tmp_path / "server") as server:
        done = archiver(
            "run", str(scenario), "--endpoint", server.endpoint, "--order", "paper", "--json",
            **real.environment_of(server),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        counted = counted_by_seaweedfs(server, json.loads(done.stdout)["location"]["bucket"])
    sent, probes = sent_by_us(home)
    bucket_made = 1
    assert counted["PUT"] == sent["archive"] + probes + bucket_made
    assert counted["GET"] >= sent["retrieve"]  # It also counts listings and lock queries here.


def sent_by_us(home: Path) -> tuple[dict[str, int], int]:
    """Return the requests of each kind in the only run, and the probes."""
    (path,) = home.glob("runs/*/run.db")
    with closing(sqlite3.connect(path)) as database:
        sent = dict(database.execute("SELECT workload, sum(attempts) FROM interval GROUP BY workload"))
        ((probes,),) = database.execute("SELECT sum(tries) FROM probe").fetchall()
    return sent, probes


def test_ceph_rgw_request_log_matches_our_counts(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    monkeypatch.setenv("CEPH_ARGS", "--debug-rgw=1")  # a line for each request
    with real.real_server("ceph-rgw", tmp_path / "server") as server:
        done = archiver(
            "run", scenario, "--set", "archive.stop.sessions_min=2", "--endpoint", server.endpoint, "--order", "paper",
            **real.environment_of(server),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sent, probes = sent_by_us(home)
    log = (tmp_path / "server" / "client.rgw.log").read_text()
    logged = Counter(re.findall(r'"(PUT|GET) /archiver-[^/ ]+/[^? ]+ HTTP', log))  # not of a bucket or a lock
    assert (logged["PUT"], logged["GET"]) == (sent["archive"] + probes, sent["retrieve"])


def test_minio_counts_every_request_that_we_count(server: Server, scenario: str) -> None:
    if server.name != "minio":
        pytest.skip(f"no counters of {server.name} are read; its log is compared above")
    keys = real.environment_of(server)
    done = archiver(
        "run", scenario, "--backend", "minio", "--endpoint", server.endpoint, "--order", "paper", "--json", **keys
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    counts = {each["operation"]: each for each in document["requests"]}
    assert {"PutObject", "GetObject"} <= counts.keys()
    assert all(each["difference"] == 0 for each in counts.values() if each["sent"] is not None)
    assert counts["PutObject"]["counted"] > 2 * LISTING_PAGE
    assert document["platform"]["details"]["drives_online"] == 1
    assert document["results"][0]["server"]["cpu_percent"] > 0


@pytest.mark.parametrize("name", real.NAMES)
def test_a_run_over_tls_trusts_the_given_authority_and_no_other(tmp_path: Path, name: str, scenario: str) -> None:
    authority, folder, bundle = trustme.CA(), tmp_path / "server", tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(bundle)
    certificate = authority.issue_cert("127.0.0.1")
    (folder / "certificates").mkdir(parents=True)
    certificate.cert_chain_pems[0].write_to_path(folder / "certificates" / "public.crt")
    certificate.private_key_pem.write_to_path(folder / "certificates" / "private.key")
    with real.real_server(name, folder, tls=bundle) as server:
        assert server.endpoint.startswith("https://")
        to_server = ("run", scenario, "--set", "archive.stop.sessions_min=2", "--set", "retrieve.stop.sessions_min=2",
                     "--order", "paper", "--endpoint", server.endpoint, "--json")  # fmt: skip
        keys = real.environment_of(server)
        refused = archiver(*to_server, **keys)
        assert refused.returncode == 3
        assert "TLS failed" in refused.stderr
        assert "--ca-bundle" in refused.stderr
        assert real.client_of(server, verify=str(bundle)).list_buckets()["Buckets"] == []
        trusted = archiver(*to_server, "--ca-bundle", str(bundle), **keys)
        assert trusted.returncode == 0, trusted.stderr
        assert [result["errors"] for result in json.loads(trusted.stdout)["results"]] == [0, 0]


@pytest.mark.parametrize("name", real.NAMES)
def test_server_crash_mid_run_keeps_results_and_correct_ledger(home: Path, tmp_path: Path, name: str) -> None:
    folder, scenario = tmp_path / "server", tmp_path / "endless.toml"
    scenario.write_text(ENDLESS)
    with real.real_server(name, folder) as server:
        run = subprocess.Popen(
            [sys.executable, "-m", "archiver", "run", str(scenario), "--order", "paper", "--json",
             "--endpoint", server.endpoint],
            env={**os.environ, **real.environment_of(server)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            second = wait_for_the_second_phase(home, server, run)
            os.kill(server.pid, signal.SIGKILL)
            stdout, stderr = run.communicate(timeout=120)
        finally:
            run.kill()
            run.communicate()
    assert run.returncode == 1, stderr
    assert "Traceback" not in stderr
    document = json.loads(stdout)
    counted, endless = document["results"]
    assert (counted["objects"], counted["errors"]) == (2 * SESSIONS, 0)
    assert endless["errors"] > 0
    assert endless["first_errors"], "what went wrong is said"
    assert document["verdict"] == "fail"

    port = int(server.endpoint.rpartition(":")[2])
    with running(name, folder, port=port) as again:  # with other credentials, the same data
        held = listed(again, document["location"]["bucket"])
        ledger = left_in(home)
        assert {row["phase"] for row in ledger} >= {second}
        assert 0 < len(held) <= sum(row["objects"] for row in ledger)
        done = archiver("cleanup", "latest", "--bypass-governance", **real.environment_of(again))
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"removed {len(held):,} objects" in done.stdout


def wait_for_the_second_phase(home: Path, server: Server, run: subprocess.Popen[str]) -> str:
    """Wait until objects of the second phase are on the server. Returns the phase's label."""
    while run.poll() is None:
        try:
            rows = left_in(home)
        except sqlite3.OperationalError:
            continue  # The ledger is being created.
        if len(rows) > 2 and 2048 in listed(server, rows[-1]["bucket"]).values():  # set-up, first phase, second
            label: str = rows[-1]["phase"]
            return label
    raise AssertionError("the run ended before its second phase")
