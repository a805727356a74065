"""Runs on platforms that refuse, fall silent or throttle: the failures are named, and nothing else is blamed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import archiver
from tests.support.servers.hostile import hostile

ARCHIVE = (
    "bench", "--operation", "archive", "--size", "8KiB", "--objects-per-session", "1", "--clients", "2", "--retain-for",
    "1m",
)  # fmt: skip


def test_platform_that_stops_midway_ends_run_with_time_and_reason(tmp_path: Path) -> None:
    with hostile("stops answering", from_object=40) as server:
        home = {"ARCHIVER_HOME": str(tmp_path), **server.keys}
        options = ("--duration", "60s", "--criterion", "errors == 0", "--json", "--endpoint", server.endpoint)
        done = archiver(*ARCHIVE, *options, **home)
        assert len(server.log) < 200
    assert done.returncode == 1
    assert "the platform stopped answering at " in done.stderr
    assert "connection lost" in done.stderr
    document = json.loads(done.stdout)
    (result,) = document["results"]
    assert result["limited_by"] == "failures"
    assert result["utilisations"][0]["by"] == "connection lost"
    assert document["verdict"] == "fail"
    assert result["objects"] + result["warm_up_objects"] + result["drained_objects"] == 38  # another one was a probe
    name = server.endpoint.removeprefix("http://")
    assert any(f"operations failed on {name}" in each and "connection lost" in each for each in document["doubts"])
    assert not any("limited by the client" in each or "bytes_max" in each for each in document["doubts"])


def test_throttling_that_retries_absorbed_is_named(tmp_path: Path) -> None:
    with hostile("refuses every object once", refusal=(503, "SlowDown", "reduce your request rate")) as server:
        home = {"ARCHIVER_HOME": str(tmp_path), **server.keys}
        options = ("--duration", "1s", "--retries", "2", "--endpoint", server.endpoint)
        done = archiver(*ARCHIVE, *options, **home)
        assert done.returncode == 0, done.stderr
        stored = sum(len(bucket.versions) for bucket in server.buckets.values())
        shown = json.loads(archiver("report", "latest", "--format", "json", **home).stdout)
    (result,) = shown["results"]
    assert (result["errors"], result["limited_by"]) == (0, "failures")
    probes = 1
    assert result["retries"] == result["first_errors"][0]["retried"] == stored - probes
    assert "attempts failed on" in done.stdout
    assert "failures: 503" in done.stdout
    assert "add clients" not in done.stdout


def test_load_balancers_page_is_quoted_without_markup(tmp_path: Path) -> None:
    with hostile("answers uploads with a load balancer's page", from_object=20) as server:
        home = {"ARCHIVER_HOME": str(tmp_path), **server.keys}
        done = archiver(*ARCHIVE, "--duration", "1s", "--endpoint", server.endpoint, **home)
    assert done.returncode == 1
    assert "failures: 504" in done.stdout
    assert "Gateway Time-out" in done.stdout
    for text in (done.stdout, done.stderr):
        assert "<" not in text
        assert "color:red" not in text


# The third step needs more objects than the platform takes: 10, 20 and 40.
SEARCH = """
name = "messages"
title = "Messages of users"
[scale]
name = "users"
each = "user"
[search]
first = 1
last = 16
repeat = 2
[[criterion]]
that = "errors == 0"
[[phase]]
name = "messages"
[[phase.workload]]
name = "archive"
operation = "archive"
data = "messages"
sizes = "1KiB"
clients = 2
objects = "10 users"
"""


@pytest.mark.parametrize(
    ("mode", "setting", "reason"),
    [
        ("stops answering", {}, "connection lost"),
        ("refuses every object", {"refusal": (503, "ServiceUnavailable", "no node answers")}, "503 ServiceUnavailable"),
    ],
)
def test_search_on_platform_that_dies_names_its_failures(
    tmp_path: Path, mode: str, setting: dict[str, object], reason: str
) -> None:
    scenario = tmp_path / "messages.toml"
    scenario.write_text(SEARCH)
    with hostile(mode, from_object=50, **setting) as server:
        home = {"ARCHIVER_HOME": str(tmp_path / "home"), **server.keys}
        options = ("--retain-for", "1m", "--endpoint", server.endpoint)
        done = archiver("run", str(scenario), *options, **home)
        document = json.loads(archiver("report", "latest", "--format", "json", **home).stdout)
    assert done.returncode == 1
    ended = document["search"]["ended_because"]
    assert ended.startswith("users 4 failed: "), ended
    assert reason in ended
    assert reason in done.stderr
    *passed, failed = document["results"]
    assert [each["errors"] for each in passed] == [0, 0]
    assert failed["limited_by"] == "failures"
    assert failed["utilisations"][0]["by"] == reason
    (row,) = [line for line in done.stdout.splitlines() if f"failures: {reason}" in line]
    assert "add clients" not in row
    for words in ("limited by the client", "client machines"):
        assert words not in done.stdout + done.stderr
