"""Test a full disk on the client: one message, an exit status, and a ledger that covers every stored object.

The command runs with a limit on the size of its files, so the kernel refuses the writes. The store is a separate
process without a limit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3

from archiver.ledger.ledger import Ledger, Placement
from backends.embedded.process import StoreProcess
from results.recorded.database import RunDatabase

_LIMITED = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from archiver.cli import main
main(sys.argv[2:])
"""


def archiver(
    limit_bytes: int, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command whose files cannot grow beyond ``limit_bytes``."""
    return subprocess.run(
        [sys.executable, "-c", _LIMITED, str(limit_bytes), *arguments],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **(environment or {})},
    )  # fmt: skip


def small_run(store: StoreProcess, limit_bytes: int) -> subprocess.CompletedProcess[str]:
    return archiver(
        limit_bytes,
        "run", "dr550", "--quick", "--quiet", "--repeat", "9", "--endpoint", store.endpoint, "--workers", "1",
        "--set", "object_sizes=8KiB", "--set", "objects_per_session=1", "--set", "clients=1",
        "--set", "stop.warm_up_seconds=20ms", "--set", "stop.seconds_min=0.1s", "--set", "stop.seconds_max=0.2s",
        "--set", "stop.bytes_max=24MB",
        environment={"AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key},
    )  # fmt: skip


def objects_of(store: StoreProcess) -> int:
    client: Any = boto3.client(
        "s3", endpoint_url=store.endpoint, region_name="us-east-1", aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
    )  # fmt: skip
    return sum(
        len(page.get("Contents", []))
        for bucket in client.list_buckets()["Buckets"]
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket["Name"])
    )


def test_run_sends_nothing_if_ledger_cannot_grow(home: Path, store: StoreProcess) -> None:
    ledger = Ledger(home / "ledger.db")
    other = Placement(
        run="other", phase="1", backend="s3", platform=None, endpoint="http://127.0.0.1:9", region="us-east-1",
        bucket="b" * 4_000_000, bucket_created=True, prefix="p/", retention_mode="NONE", latest_retain_until=None,
        legal_hold=False, objects_max=0, bytes_max=0, objects=0, bytes=0,
    )  # fmt: skip
    ledger.open_placement(other)
    ledger.open_placement(replace(other, phase="2", bucket="b" * 3000))
    ledger.close()
    done = small_run(store, (home / "ledger.db").stat().st_size - 2_000_000)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        f"archiver: {home / 'ledger.db'}, the record of locked objects, cannot"
    )
    assert store_is_untouched(store)


def store_is_untouched(store: StoreProcess) -> bool:
    client: Any = boto3.client(
        "s3", endpoint_url=store.endpoint, region_name="us-east-1", aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
    )  # fmt: skip
    return not client.list_buckets()["Buckets"]


def test_unwritable_results_end_run_and_ledger_covers_stored_objects(home: Path, store: StoreProcess) -> None:
    done = small_run(store, 400_000)
    there = objects_of(store)
    with closing(Ledger(home / "ledger.db")) as ledger:
        known = ledger.placements()
    assert there <= sum(each.objects if each.objects is not None else each.objects_max for each in known)
    assert "Traceback" not in done.stderr
    assert there  # else the test shows nothing
    assert done.returncode == 1, done.stderr
    (run,) = (home / "runs").iterdir()
    words = done.stderr.splitlines()
    assert any(f"archiver: {run / 'run.db'}: the results cannot be written: " in line for line in words)
    assert words[-1] == f"go on after the last finished phase: archiver resume {run.name}"
    database = RunDatabase.open(run)
    assert database.run().verdict != "pass"
    database.close()


def test_full_disk_is_not_reported_as_damaged_ledger(home: Path) -> None:
    done = archiver(1024, "run", "dr550", "--backend", "null", "--quick", "--quiet")
    assert done.returncode == 1
    assert done.stderr == (
        f"archiver: {home / 'ledger.db'}, the record of locked objects, cannot be used: disk I/O error: there is no "
        "room; make room on its disk, or raise the limit of its size\n"
    )


def test_output_to_full_device_gives_one_message() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "archiver", "scenarios", "list"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "archiver: the output: No space left on device: there is no room; make room on its disk, or raise the limit of "
        "its size\n"
    )
