"""The machine's clock is set during a run, or is wrong before audit and cleanup; a run's processes are suspended."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import botocore.auth
import botocore.endpoint
import pytest

from archiver.cli import main
from archiver.measure import client_usage
from archiver.values import clock
from backends.embedded import process
from backends.embedded.process import StoreProcess
from tests.support.commands import StartedCommand, archiver, begin
from tests.support.runs import ask, begun, keys_of, left_in, s3
from tests.support.waiting import wait_until

RETAIN_SECONDS = 600
BENCH = (
    "bench", "--operation", "archive", "--size", "8KiB", "--objects-per-session", "2", "--clients", "1,2",
    "--duration", "1s", "--max-locked-bytes", "20MB", "--retain-for", f"{RETAIN_SECONDS}s",
)  # fmt: skip
JUMPS = {"an hour forward": 3600, "an hour back": -3600, "400 days forward": 400 * 86400}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with process.start(tmp_path_factory.mktemp("clocks") / "store") as running:
        yield running


def set_clock(shift: Path) -> None:
    """Shift the wall clock of this process by the seconds in a file, if it exists; CLOCK_BOOTTIME stays."""
    real = time.time

    def shifted() -> float:
        return real() + (float(shift.read_text()) if shift.exists() else 0.0)

    def now(remove_tzinfo: bool = True) -> datetime:
        moment = datetime.fromtimestamp(shifted(), UTC)
        return moment.replace(tzinfo=None) if remove_tzinfo else moment

    time.time = shifted
    botocore.auth.get_current_datetime = botocore.endpoint.get_current_datetime = now
    clock.follow(clock.began_seconds() + shifted() - real())


def command(*arguments: str) -> NoReturn:
    begin("archiver", *arguments)
    set_clock(Path(os.environ["CLOCK_SHIFT"]))
    main(prog_name="archiver")
    raise AssertionError("a command ends by its exit status")


def started(shift: Path, *arguments: str, **environment: str) -> StartedCommand:
    return StartedCommand(arguments, {**environment, "CLOCK_SHIFT": str(shift)}, program=command)


def ended(running: StartedCommand) -> tuple[int | None, str, str]:
    try:
        out, errors = running.communicate()
        return running.returncode, out, errors
    finally:
        running.kill()
        running.close()


@pytest.mark.parametrize("jump_seconds", JUMPS.values(), ids=JUMPS)
def test_run_goes_on_when_the_clock_is_set_and_nothing_is_removed_by_it(
    home: Path, tmp_path: Path, store: StoreProcess, jump_seconds: int
) -> None:
    shift, keys = tmp_path / "shift", keys_of(store)
    began = time.time()
    run = started(shift, *BENCH, "--endpoint", store.endpoint, "--json", **keys)
    wait_until(lambda: begun(home / "runs"), "phase")
    shift.write_text(str(jump_seconds))
    status, out, errors = ended(run)
    assert status == 0, errors
    document = json.loads(out)
    assert [each["errors"] for each in document["results"]] == [0, 0]
    assert all(each["objects_per_second"] > 0 for each in document["results"])
    (path,) = home.glob("runs/*/run.db")
    ((started_at, ended_at),) = ask(path, "SELECT started_at, ended_at FROM run")
    assert began <= started_at <= ended_at <= time.time()
    latest = max(row["latest_retain_until"] or 0 for row in left_in(home))
    assert latest <= time.time() + RETAIN_SECONDS + 60
    assert max(locks_in(store, document["location"]["bucket"])) <= latest
    held = keys_in(store, document["location"]["bucket"])
    for arguments in (("cleanup", "latest", "--bypass-governance"), ("cleanup", "--all-expired"), ("audit", "latest")):
        status, out, errors = ended(started(shift, *arguments, **keys))
        if "--all-expired" in arguments and jump_seconds < 0:
            assert (status, out[:27]) == (0, "nothing can be removed now;")
        else:
            assert status == 3
            assert "RequestTimeTooSkewed" in errors
            assert "this machine's clock differs too much from the server's" in errors
    assert keys_in(store, document["location"]["bucket"]) == held
    shift.unlink()
    status, out, errors = ended(started(shift, "cleanup", "latest", "--bypass-governance", **keys))
    assert status == 0, errors
    assert left_in(home) == []


def impatient(*arguments: str) -> NoReturn:
    """Carry out a command for which a short suspension is a long one."""
    begin("archiver", *arguments)
    client_usage.STANDSTILL_SECONDS = 0.3
    main(prog_name="archiver")
    raise AssertionError("a command ends by its exit status")


def test_suspended_run_is_incomplete_and_locks_nothing_longer(home: Path, store: StoreProcess) -> None:
    keys = keys_of(store)
    run = StartedCommand([*BENCH, "--endpoint", store.endpoint, "--json"], keys, program=impatient)
    client = s3(store)

    def is_archiving() -> bool:
        names = [row["bucket"] for row in left_in(home) if row["objects_max"]]
        return bool(names) and len(client.list_object_versions(Bucket=names[0], MaxKeys=9).get("Versions", ())) == 9

    wait_until(is_archiving, "archived objects")
    os.killpg(run.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    wait_until(lambda: time.monotonic() > stopped + 0.6, "end of the suspension")
    os.killpg(run.pid, signal.SIGCONT)
    status, out, errors = ended(run)
    document = json.loads(out)
    assert status == 1, errors
    assert document["verdict"] == "fail"
    (found,) = {each["incomplete"] for each in document["results"]} - {None}
    assert found.endswith("the client's processes or its machine were suspended")
    assert found in errors
    locks = locks_in(store, document["location"]["bucket"])
    (row,) = (row for row in left_in(home) if row["phase"] == "archive 8KiB x 2, 1 client")
    assert row["objects"] is not None  # every worker counted what it left
    assert max(locks) <= max(row["latest_retain_until"] or 0.0 for row in left_in(home))
    assert archiver("cleanup", "latest", "--bypass-governance", **keys).returncode == 0


def keys_in(store: StoreProcess, bucket: str) -> list[str]:
    pages = s3(store).get_paginator("list_object_versions").paginate(Bucket=bucket)
    return [row["Key"] for page in pages for row in page["Versions"]]


def locks_in(store: StoreProcess, bucket: str) -> list[float]:
    """Return the retain-until dates of the bucket's objects, in epoch seconds."""
    client, keys = s3(store), keys_in(store, bucket)
    return [client.head_object(Bucket=bucket, Key=key)["ObjectLockRetainUntilDate"].timestamp() for key in keys]
