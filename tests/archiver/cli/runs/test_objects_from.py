"""Test `archiver run --objects-from`: objects of an earlier run are read again, and nothing is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from backends.embedded import process as embedded
from tests.support.commands import archiver
from tests.support.runs import TINY, keys_of, left_in, s3

READING = ("--quick", "--set", "objects_per_session=2", "--set", "clients=1", "--set", "stop.seconds_min=20ms",
           "--set", "stop.seconds_max=40ms", "--set", "stop.warm_up_seconds=20ms", "--json")  # fmt: skip
SMALL = ("--set", "object_sizes=8KiB")


@pytest.fixture
def earlier(home: Path, store: embedded.StoreProcess) -> str:
    """A run that left its objects on a platform of another owner."""
    done = archiver("run", "dr550", *TINY, "--endpoint", store.endpoint, "--json", **keys_of(store))
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["run"])


def test_objects_of_run_with_lost_folder_are_only_read(home: Path, store: embedded.StoreProcess, earlier: str) -> None:
    shutil.rmtree(home / "runs" / earlier)
    ledger = [tuple(row) for row in left_in(home)]
    buckets = [each["Name"] for each in s3(store).list_buckets()["Buckets"]]
    held = s3(store).list_object_versions(Bucket=buckets[0])["Versions"]

    done = archiver("run", "dr550", *READING, *SMALL, "--objects-from", earlier, **keys_of(store))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {result["operation"] for result in document["results"]} == {"retrieve"}
    assert all(result["objects"] and not result["errors"] for result in document["results"])
    assert all(result["retention_mode"] == "GOVERNANCE" for result in document["results"])  # of the objects read
    source = document["objects_from"]
    assert source["run"] == earlier
    assert 0 < source["age_seconds_min"] <= source["age_seconds_max"] < 3600
    assert any(f"of run {earlier}, archived" in doubt for doubt in document["doubts"])
    assert "archives and locks nothing" in done.stderr
    assert [tuple(row) for row in left_in(home)] == ledger
    assert [each["Name"] for each in s3(store).list_buckets()["Buckets"]] == buckets
    assert s3(store).list_object_versions(Bucket=buckets[0])["Versions"] == held
    report = archiver("report", document["run"], "--format", "html")
    assert report.returncode == 0, report.stderr
    assert earlier in (home / "runs" / document["run"] / "report" / "report.html").read_text()


def test_invalid_objects_from_is_refused_before_start(home: Path, store: embedded.StoreProcess, earlier: str) -> None:
    for more, status, message in (
        (("--set", "object_sizes=64KiB"), 2, "no objects of 64KiB; it has objects of 8KiB: --set object_sizes=8KiB"),
        ((*SMALL, "--retain-for", "10s"), 2, "--retain-for: with --objects-from nothing is archived"),
        ((*SMALL, "--platform", "minio", "--platform", "embedded"), 2, "name one --platform at most"),
        ((*SMALL, "--platform", "embedded"), 3, "NoSuchBucket"),  # the bucket is on another store
    ):
        refused = archiver("run", "dr550", *READING, *more, "--objects-from", earlier, **keys_of(store))
        assert (refused.returncode, refused.stdout) == (status, ""), refused.stderr
        assert message in refused.stderr
        assert "Traceback" not in refused.stderr
    refused = archiver("run", "dr550", *READING, *SMALL, "--objects-from", "nobody", **keys_of(store))
    assert (refused.returncode, "the ledger has no run" in refused.stderr) == (2, True)
    assert [folder.name for folder in (home / "runs").iterdir()] == [earlier]

    assert archiver("cleanup", earlier, "--bypass-governance", **keys_of(store)).returncode == 0
    refused = archiver("run", "dr550", *READING, *SMALL, "--objects-from", earlier, **keys_of(store))
    assert (refused.returncode, "its objects were removed" in refused.stderr) == (2, True)


def test_objects_replaced_since_archiving_are_refused(home: Path, store: embedded.StoreProcess, earlier: str) -> None:
    client = s3(store)
    (bucket,) = [each["Name"] for each in client.list_buckets()["Buckets"]]
    for each in client.list_object_versions(Bucket=bucket)["Versions"]:
        client.put_object(Bucket=bucket, Key=each["Key"], Body=b"x" * 8192)  # a new version of the locked object
    refused = archiver("run", "dr550", *READING, *SMALL, "--objects-from", earlier, **keys_of(store))
    assert refused.returncode == 3
    assert "cannot be read as it was archived" in refused.stderr
    assert [folder.name for folder in (home / "runs").iterdir()] == [earlier]
