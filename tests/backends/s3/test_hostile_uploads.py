"""Uploads in parts through a load balancer that answers in the platform's place, or with errors in successes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import archiver
from tests.support.runs import left_in
from tests.support.servers.hostile import Answer, Asked, PassOn, hostile

OBJECT_BYTES = (5 << 20) + 100  # two parts
OBJECTS = 9
_SCENARIO = f"""
name = "uploads"
title = "Uploads in parts"

[[phase]]
name = "mix"

[[phase.workload]]
name = "records"
operation = "archive"
data = "records"
sizes = {OBJECT_BYTES}
part = "5MiB"
clients = 1
objects = {OBJECTS}
"""
_TIME_OUT = Answer(504, b"<html><body><h1>504 Gateway Time-out</h1></body></html>", {"Content-Type": "text/html"})
_ERROR = Answer(200, b"<Error><Code>InternalError</Code><Message>We had a problem.</Message></Error>")
_PAGE = Answer(200, b"<html><body>Welcome</body></html>")

Otherwise = Callable[[Asked, PassOn], Answer]


def instead(answer: Answer) -> Otherwise:
    """Answer in the platform's place: it gets no request."""
    return lambda asked, pass_on: answer


def afterwards(answer: Answer) -> Otherwise:
    """Let the platform do what is asked, and send another answer than its own."""

    def otherwise(asked: Asked, pass_on: PassOn) -> Answer:
        pass_on(asked)
        return answer

    return otherwise


# The step, which request of it counted from 1 (the first is the probe's), and its answer.
_FAULTS: dict[tuple[str, int], Otherwise] = {
    ("create upload", 3): instead(_PAGE),
    ("part", 7): instead(_TIME_OUT),
    ("part", 9): instead(_ERROR),
    ("complete upload", 3): afterwards(_TIME_OUT),
    ("complete upload", 5): instead(_TIME_OUT),
    ("complete upload", 7): afterwards(_ERROR),
    ("complete upload", 9): afterwards(_PAGE),
}


def step_of(asked: Asked) -> str:
    if asked.method == "POST" and asked.key:
        return "create upload" if "uploads" in asked.query else "complete upload"
    return "part" if "partNumber" in asked.query else ""


class Balancer:
    """Plays the faults, and counts the requests of each step."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def chosen(self, asked: Asked) -> bool:
        step = step_of(asked)
        self.seen[step] += 1
        return (step, self.seen[step]) in _FAULTS

    def otherwise(self, asked: Asked, pass_on: PassOn) -> Answer:
        step = step_of(asked)
        return _FAULTS[step, self.seen[step]](asked, pass_on)


# A retry repairs the time-out of a part. After that of a completion the platform either does it at the retry, or had
# done it and knows the upload no more.
_REASONS = {
    0: {
        "create upload: no upload id": 1, "part: 504": 1, "part: 200 InternalError": 1, "complete upload: 504": 2,
    },
    1: {
        "create upload: no upload id": 1, "part: 200 InternalError": 1, "complete upload: 404 NoSuchUpload": 2,
        "complete upload: no ETag": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("retries", _REASONS)
def test_upload_without_a_true_answer_is_in_ledger_but_in_no_rate(tmp_path: Path, retries: int) -> None:
    scenario, balancer = tmp_path / "uploads.toml", Balancer()
    scenario.write_text(_SCENARIO)
    with hostile("answers chosen requests otherwise", chosen=balancer.chosen, otherwise=balancer.otherwise) as server:
        home = {"ARCHIVER_HOME": str(tmp_path), **server.keys}
        done = archiver(
            "run", str(scenario), "--retries", str(retries), "--endpoint", server.endpoint, "--json", **home
        )
        assert done.returncode == 1, done.stderr
        (result,) = json.loads(done.stdout)["results"]
        assert {error["reason"]: error["count"] for error in result["first_errors"] if error["count"]} == _REASONS[
            retries
        ]
        assert result["objects"] + result["errors"] == OBJECTS
        assert result["bytes"] == result["objects"] * OBJECT_BYTES
        (bucket,) = server.buckets.values()
        assert not bucket.uploads  # each failed upload was aborted
        stored = Counter(version.key for version in bucket.versions)
        assert set(stored.values()) == {1}
        assert 1 + result["objects"] < len(stored) <= sum(row["objects"] for row in left_in(tmp_path))
        cleaned = archiver("cleanup", "latest", "--bypass-governance", **home)
        assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
        assert server.buckets == {}
