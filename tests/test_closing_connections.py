"""A platform that closes each connection after a few requests: runs, replays, audits and background load continue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from archiver.worm.repeats.load import BackgroundLoad, order_for
from backends.embedded import process as embedded
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from tests.support.commands import archiver
from tests.support.runs import TINY, keys_of, s3
from tests.support.servers import fault_proxy as wire
from tests.support.waiting import wait_until

REQUESTS = 3  # per connection


@pytest.fixture
def proxy(store: embedded.StoreProcess) -> Iterator[wire.FaultProxy]:
    ends = wire.every(REQUESTS, wire.end_politely)
    with wire.FaultProxy(int(store.endpoint.rpartition(":")[2]), answers=ends) as running:
        yield running


def test_run_audit_and_replay_continue_when_connections_are_closed(
    tmp_path: Path, home: Path, store: embedded.StoreProcess, proxy: wire.FaultProxy
) -> None:
    reach = ("--endpoint", proxy.url, "--json", "--quiet")
    eight = ("--set", "objects_per_session=8", "--op-log", str(tmp_path / "log"))
    done = archiver("run", "dr550", *TINY, *eight, *reach, **keys_of(store))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    for result in document["results"]:
        assert result["errors"] == 0
        assert result["requests_per_connection"] == REQUESTS
        assert result["connections_per_session"] > 1
        assert 0 < result["reconnect_ms"]["count"] < result["objects"]
    assert any(f"closed the connection after every {REQUESTS} requests" in doubt for doubt in document["doubts"])
    audited = archiver("audit", document["run"], "--json", **keys_of(store))
    assert audited.returncode == 0, audited.stdout
    logs = sorted(str(path) for path in (tmp_path / "log").glob("*.parquet"))
    merged = archiver("trace", "merge", str(tmp_path / "all.parquet"), *logs)
    assert merged.returncode == 0, merged.stderr
    replayed = archiver("replay", str(tmp_path / "all.parquet"), "--tolerance", "10s", *reach, **keys_of(store))
    (result,) = [each for each in json.loads(replayed.stdout)["results"] if each["replayed"]]
    assert (result["errors"], result["requests_per_connection"]) == (0, REQUESTS)
    assert result["replayed"]["begun"] == result["replayed"]["operations"] == result["objects"]


def test_conformance_load_continues_when_connections_are_closed(
    store: embedded.StoreProcess, proxy: wire.FaultProxy
) -> None:
    s3(store).create_bucket(Bucket="loaded", ObjectLockEnabledForBucket=True)
    backend = S3Backend(
        S3Options((proxy.url,), credentials=Credentials(store.access_key, store.secret_key, None), region="us-east-1")
    )
    backend.profile()
    with BackgroundLoad(order_for(backend, "loaded", "run-1")) as load:
        wait_until(lambda: proxy.connections >= 20, "connection after connection")
        report = load.stop()
    assert (report.errors, report.first_error) == (0, "")
    assert report.retrieved > 0
    held = s3(store).list_object_versions(Bucket="loaded")["Versions"]
    assert len(held) == len({row["Key"] for row in held}) == len(report.archived)
