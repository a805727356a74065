"""What a conformance run cannot remove: the run names it, the ledger counts it, and no time is waited in vain."""

from __future__ import annotations

from pathlib import Path

from archiver.values.sizes import format_instant
from tests.support.commands import archiver
from tests.support.runs import left_in
from tests.support.servers.hostile import Answer, Asked, PassOn, error, hostile


def _is_clean_up(asked: Asked) -> bool:
    return "delete" in asked.query


def test_clean_up_that_fails_without_locks_is_not_repeated(home: Path) -> None:
    def refuse(asked: Asked, pass_on: PassOn) -> Answer:
        return error(503, "SlowDown", "no deletions now")

    with hostile("answers chosen requests otherwise", chosen=_is_clean_up, otherwise=refuse) as server:
        done = archiver("worm", "--check", "DEL-02", "--endpoint", server.endpoint, **server.keys)
        tried = [asked.bucket for asked in server.log if _is_clean_up(asked)]
    assert done.returncode == 0, done.stderr
    assert tried
    assert len(tried) == len(set(tried))  # each bucket once
    assert "no deletions now" in done.stdout
    for row in left_in(home):  # nothing was counted
        assert row["objects"] is None
        assert f"{row['bucket']}: what is in it is unknown, so the ledger keeps its upper bound" in done.stdout


def test_ledger_has_the_true_count_and_date_of_what_remains(home: Path) -> None:
    def is_bypass(asked: Asked) -> bool:
        return "x-amz-bypass-governance-retention" in asked.headers

    def ignore(asked: Asked, pass_on: PassOn) -> Answer:
        del asked.headers["x-amz-bypass-governance-retention"]
        return pass_on(asked)

    with hostile("answers chosen requests otherwise", chosen=is_bypass, otherwise=ignore) as server:
        done = archiver("worm", "--check", "DEL-02", "--check", "LH-01", "--endpoint", server.endpoint, **server.keys)
        stored = {name: bucket.versions for name, bucket in server.buckets.items()}
    rows = left_in(home)
    assert {row["bucket"] for row in rows} == set(stored)
    for row in rows:
        versions = stored[row["bucket"]]
        latest = max(each.locked_until for each in versions if each.locked_until is not None)
        assert (row["objects"], row["bytes"]) == (len(versions), sum(len(each.body) for each in versions))
        assert row["latest_retain_until"] == latest.timestamp()
        assert not row["legal_hold"]
        until = format_instant(latest.timestamp())
        assert f"{row['bucket']}: {len(versions)} objects, locked until {until}: " in done.stdout
        assert min(each.key for each in versions) in done.stdout
