"""Test that the request of a command has every option and is read back equal from a run's database."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import pytest

from archiver.cli.runs.bench import bench
from archiver.cli.runs.replay import replay
from archiver.cli.runs.request import bench_request, replay_request, run_request, scenario_request
from archiver.cli.runs.run import run
from archiver.engine.request import RunRequest
from archiver.values.errors import UsageError
from archiver.values.retention import RetentionMode

EVERYTHING = (
    "dr550", "--quick", "--set", "object_sizes=8KiB", "--set", "clients=1", "--order", "paper", "--seed", "7",
    "--criterion", "errors == 0",
    "--repeat", "3", "--backend", "minio", "--endpoint", "http://one", "--endpoint", "http://two", "--bucket", "theirs",
    "--ca-bundle", "ca.pem", "--connect-timeout", "1500ms", "--retries", "2", "--retention-mode", "COMPLIANCE",
    "--retain-until", "2030-01-01T00:00Z", "--legal-hold", "--max-locked-bytes", "1GB", "--accept-locked-until",
    "2030-01-02T00:00Z", "--tsm-password-file", "password", "--watch", "minio", "--metrics-token-file", "token",
    "--disk-role", "/dev/vda=object", "--disk-speed", "vda=450MB", "--link-speed", "10Gbit", "--workers", "4",
    "--poll", "busy", "--dask", "local:2", "--if-worker-lost", "go-on", "--out", "out", "--op-log", "log",
    "--metrics-port", "9100",
)  # fmt: skip


class LookedUp(dict[str, Any]):
    """Parameters that record the names that were looked up."""

    def __init__(self, command: click.Command, *arguments: str) -> None:
        super().__init__(command.make_context("archiver", list(arguments)).params)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


def asked(*arguments: str) -> RunRequest:
    given = run.make_context("archiver run", list(arguments)).params
    return run_request(given, scenario=scenario_request(given))


NO_UTF_8 = os.fsdecode(b"log-\xff")


@pytest.mark.parametrize("arguments", [("dr550",), EVERYTHING, ("dr550", "--op-log", NO_UTF_8)])
def test_request_is_read_back_equal_from_its_document(arguments: tuple[str, ...]) -> None:
    request = asked(*arguments)
    assert RunRequest.from_json(request.to_json()) == request


def test_request_has_parsed_values() -> None:
    request = asked(*EVERYTHING)
    assert request.retention.mode is RetentionMode.COMPLIANCE
    assert request.retention.retain_until == 1_893_456_000.0
    assert request.s3.connect_timeout_seconds == 1.5
    assert request.devices.disk_speeds == {"vda": 450e6}
    assert request.out_dir == Path("out")


def test_every_option_of_run_is_in_its_request() -> None:
    given = LookedUp(run, "dr550")
    run_request(given, scenario=scenario_request(given))
    assert given.names == set(given)


def test_every_option_of_bench_is_in_its_request() -> None:
    given = LookedUp(bench, "--rate", "50/s")
    request = run_request(given, scenario=bench_request(given))
    assert given.names == {*given, "objects_from", "budget_seconds"} - {"show_scenario"}
    assert RunRequest.from_json(request.to_json()) == request


def test_every_option_of_replay_is_in_its_request() -> None:
    given = LookedUp(replay, "day.parquet", "--speed", "2")
    request = run_request(given, replay=replay_request(given))
    assert given.names == {*given, "objects_from", "budget_seconds"}
    assert RunRequest.from_json(request.to_json()) == request


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"scenario": null}'])
def test_invalid_request_document_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting value|Expected|missing"):
        RunRequest.from_json(text)


@pytest.mark.parametrize(("part", "name"), [("s3", "retries"), ("tsm", "password_file")])
def test_value_of_wrong_type_is_refused_with_its_path(part: str, name: str) -> None:
    document = json.loads(asked("dr550").to_json())
    document[part][name] = {}
    with pytest.raises(ValueError, match=rf"Expected `.+`, got `.+` - at `\$\.{part}\.{name}`"):
        RunRequest.from_json(json.dumps(document))


def test_disk_role_without_value_is_refused() -> None:
    with pytest.raises(UsageError, match="--disk-role vda: write DEVICE=VALUE"):
        asked("dr550", "--disk-role", "vda")
