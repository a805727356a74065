"""Test clones and migrations on real stores: remaining objects, kept locks, and findings."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
import uvloop

from archiver.engine.work.replay.infrastructure import InfrastructureRun, refusal, set_preparation
from archiver.engine.work.replay.instances import infrastructure_result
from archiver.engine.work.replay.preparing import Preparation
from archiver.engine.worker.assignment import Assignment, InfrastructureAssignment
from archiver.engine.worker.client import Client
from archiver.engine.worker.stopping import NO_END_NS
from archiver.measure.folding import fold, take
from archiver.measure.reports import InfrastructureReport, TallyKey
from archiver.values.content import Content
from archiver.values.retention import DateMaker, Retention, RetentionWish
from backends.base import Location, PhaseSetting, RunPlan
from backends.embedded import process
from backends.null import NullBackend
from backends.s3.backend import S3Backend, S3Options
from backends.s3.control import Credentials
from backends.s3.wire.endpoint_requests import EndpointRequests, RequestKind
from backends.tsm.backend import TsmBackend
from scenarios.model import Phase, Workload
from scenarios.notation.sizes import SizesTable
from scenarios.notation.units import Seconds, SizeBytes
from scenarios.work.infrastructure import Infrastructure, InfrastructureTable, infrastructure
from tests.support.servers import real

SEED = 7
SIZES = SizesTable(histogram={"1KiB": 2, "3KiB": 1, "100KiB": 1})
CLONE, MIGRATION = "clone and deploy", "storage migration"


def made(
    kind: Any, *, capacity: int = 300_000, instances: int = 2, seconds: float = 60.0, **table: Any
) -> Infrastructure:
    return infrastructure(
        InfrastructureTable(
            kind=kind, capacity=SizeBytes(capacity), sizes=SIZES, minimum_per_hour=6.0, instances_max=instances, **table
        ),
        "test", 1.0, seconds,
    )  # fmt: skip


@dataclass
class Worker:
    """The interface of a worker that its clients use."""

    assignment: Assignment
    plane: Any = None
    is_finishing: bool = False
    clients: list[Client] = field(default_factory=list)
    tallies: dict[TallyKey, Any] = field(default_factory=dict)
    changed: list[Any] = field(default_factory=list)
    errors: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start_ns = time.monotonic_ns()

    def add_client(self, client: Client) -> None:
        self.clients.append(client)

    def fold(self, *clients: Client) -> None:
        rows = take([each.record for each in clients], [(0, NO_END_NS)] * len(clients))
        if rows is not None:
            self.changed += fold(rows, clients[0].folding, self.tallies)

    def not_tried(self, numbers: Any) -> None:
        raise AssertionError("only an audit of its own says that")

    def carried_out(self, what: InfrastructureRun | Preparation) -> None:
        async def work() -> None:
            await what.run()

        uvloop.run(work())
        for client in self.clients:
            self.fold(client)
            self.errors += client.record.errors.values()
        assert [client.gave_up for client in self.clients if client.gave_up] == []


class Run:
    """A run on one platform, with its two buckets and prepared objects."""

    def __init__(self, endpoint: str, credentials: Credentials, client: Any, name: str = "s3") -> None:
        self.client = client
        self.run_id = f"run-{time.time_ns()}"
        self.backend = S3Backend(S3Options((endpoint,), credentials=credentials))
        self.backend.profile()
        self.retention = self.backend.retention_for(RetentionWish())
        plan = RunPlan(self.run_id, self.retention, archives_unlocked=True)
        self.location = self.backend.locate(plan)
        self.backend.prepare()
        self.second = self.backend.second_place()
        self.elsewhere = self.second.locate(plan)
        self.second.prepare()
        self.next = 1000

    def numbers(self, count: int) -> int:
        self.next += count
        return self.next - count

    def assignment(self, what: Infrastructure) -> Assignment:
        workload = Workload(what.kind, what, 1, application=what.kind, lock=what.lock)
        maker = DateMaker(self.retention, self.backend.server_now + 4000)
        return Assignment(
            self.run_id, SEED, "s3", self.backend.worker_setting(), Phase("beside", 1, 1, (workload,)), (),
            {None: maker}, "all",
        )  # fmt: skip

    def prepare(self, what: Infrastructure) -> dict[Any, int]:
        prepared = {part: self.numbers(len(what.places(part))) for part in what.parts}
        for part, first in prepared.items():
            preparing = what.preparing(part)
            assignment = self.assignment(preparing)
            worker = Worker(assignment)
            worker.plane = self.backend.in_worker(assignment.backend_setting)
            content = Content(self.run_id, SEED, what.object_sizes[-1])
            worker.plane.set_phase(PhaseSetting(content, assignment.dates, "all", what.object_sizes))
            mine = InfrastructureAssignment(0, 0, 3, prepared, (0, len(what.places(part))))
            worker.carried_out(set_preparation(worker, assignment, mine))
            assert worker.errors == []
            archived = [(each.first, each.last) for each in worker.changed]
            assert sum(last - at + 1 for at, last in archived) == len(what.places(part))
            assert min(at for at, _ in archived) == first
        return prepared

    def carry_out(
        self, what: Infrastructure, prepared: dict[Any, int], meddle: Callable[[Worker], None] | None = None
    ) -> tuple[InfrastructureReport, Worker]:
        assignment = self.assignment(what)
        mine = InfrastructureAssignment(
            0, 0, what.clients, prepared, own_first=self.numbers(what.own_numbers),
            second_first=self.numbers(what.second_numbers),
            second_setting=self.second.worker_setting(), earliest=self.backend.server_now + 290,
        )  # fmt: skip
        worker = Worker(assignment)
        running = InfrastructureRun(worker, assignment, mine)
        if meddle is not None:
            meddle(worker)
        worker.carried_out(running)
        return running.outcome(), worker

    def versions(self, location: Location) -> dict[int, list[str]]:
        """Return version ids by object number, and check that there is no delete marker."""
        found: dict[int, list[str]] = {}
        for page in self.client.get_paginator("list_object_versions").paginate(Bucket=location.bucket):
            assert not page.get("DeleteMarkers")
            for row in page.get("Versions", []):
                ids = found.setdefault(int(row["Key"][-12:]), [])
                ids += [] if row["VersionId"] in ids else [row["VersionId"]]
        return found

    def lock_of(self, location: Location, number: int) -> tuple[str | None, float, bool]:
        head = self.client.head_object(Bucket=location.bucket, Key=f"{location.prefix}{number:012d}")
        until = head.get("ObjectLockRetainUntilDate")
        held = head.get("ObjectLockLegalHoldStatus") == "ON"
        return head.get("ObjectLockMode"), until.timestamp() if until else 0.0, held

    def clean_up(self) -> None:
        for location in (self.location, self.elsewhere):
            report = self.backend.remove(location, None, bypass_governance=True, release_holds=True)
            assert (report.objects_left, report.bucket_removed) == (0, True)


@contextmanager
def run_on(endpoint: str, credentials: Credentials, client: Any) -> Iterator[Run]:
    run = Run(endpoint, credentials, client)
    yield run
    run.clean_up()


def client_for(endpoint: str, access_key: str, secret_key: str) -> Any:
    return boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
    )  # fmt: skip


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with process.start(tmp_path_factory.mktemp("store")) as store:
        yield store


PLATFORMS = [pytest.param(name, marks=pytest.mark.platforms) for name in real.NAMES]


@pytest.fixture(scope="module")
def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield (endpoint, access key, secret key)."""
    if request.param == "embedded":
        store = request.getfixturevalue("embedded")
        yield store.endpoint, store.access_key, store.secret_key
        return
    with real.real_server(request.param, tmp_path_factory.mktemp(request.param)) as server:
        yield server.endpoint, server.access.access_key, server.access.secret_key


@pytest.fixture
def run(platform: tuple[str, str, str]) -> Iterator[Run]:
    endpoint, access_key, secret_key = platform
    with run_on(endpoint, Credentials(access_key, secret_key, None), client_for(*platform)) as made_run:
        yield made_run


on_all = pytest.mark.parametrize("platform", ["embedded", *PLATFORMS], indirect=True, scope="module")
on_embedded = pytest.mark.parametrize("platform", ["embedded"], indirect=True, scope="module")


def parts_of(worker: Worker) -> dict[str, tuple[int, int]]:
    """Return (objects, errors) by operation."""
    found: dict[str, tuple[int, int]] = {}
    for tally in worker.tallies.values():
        for name, part in tally.parts.items():
            objects, errors = found.get(name, (0, 0))
            found[name] = objects + part.objects, errors + part.errors
    return found


# ---- clone and deploy


@on_all
def test_clone_is_copied_read_upgraded_and_completely_removed(run: Run) -> None:
    what = made(CLONE, upgrade_share=0.25)
    prepared = run.prepare(what)
    before = run.versions(run.location)
    assert len(before) == what.objects == 12
    report, worker = run.carry_out(what, prepared)
    assert worker.errors == []
    assert (report.completed, report.failed, report.findings) == (2, 0, ())
    assert run.versions(run.location) == before
    assert all(run.lock_of(run.location, number)[0] == "GOVERNANCE" for number in before)
    copies, upgrades = 2 * what.objects, 2 * 3
    assert parts_of(worker) == {
        "copy": (copies, 0),
        "retrieve": (copies + upgrades, 0),
        "new-version": (upgrades, 0),
        "delete": (copies + upgrades, 0),
    }
    assert len(report.instance_seconds) == 2
    assert 0 < sum(report.instance_seconds) <= report.seconds
    result = infrastructure_result(what, report)
    assert result.mean_seconds == pytest.approx(sum(report.instance_seconds) / 2)
    assert (result.objects, result.bytes) == (12, what.set_bytes)


@on_embedded
def test_clone_with_wrong_content_is_reported_and_removed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    what = made(CLONE, instances=1)
    prepared = run.prepare(what)
    before = run.versions(run.location)
    honest = EndpointRequests.copy

    def another(self: EndpointRequests, kind: RequestKind, number: int, source: int) -> bytes:
        return honest(self, kind, number, source + 1 if source == prepared["locked"] else source)

    monkeypatch.setattr(EndpointRequests, "copy", another)
    report, _ = run.carry_out(what, prepared)
    assert (report.completed, report.failed) == (0, 1)
    (finding,) = report.findings
    assert finding.startswith("a clone: the bytes are not those that were archived (1 object, for example ")
    assert run.versions(run.location) == before


@on_embedded
def test_clone_that_cannot_be_removed_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    what = made(CLONE, instances=1)
    prepared = run.prepare(what)
    monkeypatch.setattr(EndpointRequests, "_lock_headers", lambda *_: {"x-amz-object-lock-legal-hold": "ON"})
    report, _ = run.carry_out(what, prepared)
    assert (report.completed, report.failed) == (0, 1)
    assert len(report.findings) == 1
    assert re.fullmatch(r"removing a clone: .* \(14 objects, for example .*\)", report.findings[0])
    assert len(run.versions(run.location)) == 2 * what.objects


# ---- storage migration


@on_all
def test_migration_keeps_locks_and_holds_and_removes_unlocked_sources(run: Run) -> None:
    what = made(MIGRATION, instances=2)
    prepared = run.prepare(what)
    before = run.versions(run.location)
    held, locked, unlocked = (what.places(part) for part in ("held", "locked", "unlocked"))
    assert (len(held), len(locked), len(unlocked)) == (4, 4, 4)
    report, worker = run.carry_out(what, prepared)
    assert worker.errors == []
    assert (report.completed, report.failed, report.findings) == (2, 0, ())
    assert run.versions(run.location) == before  # locked sources remain, and unlocked sources are removed
    assert report.kept == len(before) == 8
    there = sorted(run.versions(run.elsewhere))
    assert len(there) == report.copied_second == 2 * what.objects
    assert report.copied_second_bytes == 2 * what.set_bytes
    content = Content(run.run_id, SEED, what.object_sizes[-1])
    sources = [*(prepared["held"] + i for i in held), *(prepared["locked"] + i for i in range(len(locked)))]
    for index, number in enumerate(there):
        place = index % what.objects
        mode, until, is_held = run.lock_of(run.elsewhere, number)
        assert is_held == (place in held)
        assert mode == (None if place in unlocked else "GOVERNANCE")
        if place in unlocked:
            continue
        source = sources[place]
        key = f"{run.elsewhere.prefix}{number:012d}"
        body = run.client.get_object(Bucket=run.elsewhere.bucket, Key=key)["Body"].read()
        assert body == content.whole(source, what.size_of(place))
        assert until >= run.lock_of(run.location, source)[1]
    assert parts_of(worker)["audit"] == (24, 0)
    assert parts_of(worker)["delete"] == (8, 0)


def without(*names: str) -> Callable[..., Any]:
    honest = EndpointRequests._lock_headers
    return lambda self, lock: {name: value for name, value in honest(self, lock).items() if name not in names}


@on_embedded
@pytest.mark.parametrize(
    ("dropped", "found"),
    [
        ("x-amz-object-lock-legal-hold", ["copies that are to be locked and held: the requested legal hold"]),
        (
            "everything",
            [
                "copies that are to be locked and held: the requested legal hold",
                "copies that are to be locked: the platform reports no mode, not GOVERNANCE",
            ],
        ),
    ],
)
def test_lock_or_hold_lost_in_migration_is_reported_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, dropped: str, found: list[str]
) -> None:
    what = made(MIGRATION, instances=2)
    prepared = run.prepare(what)
    before = run.versions(run.location)
    if dropped == "everything":
        monkeypatch.setattr(EndpointRequests, "_lock_headers", lambda *_: {})
        monkeypatch.setattr(RequestKind, "is_dated", False)
    else:
        monkeypatch.setattr(EndpointRequests, "_lock_headers", without(dropped))
    report, _ = run.carry_out(what, prepared)
    assert (report.completed, report.failed) == (0, 2)
    assert len(report.findings) == len(found)
    for finding, words in zip(report.findings, found, strict=True):
        assert finding.startswith(words)
        assert f"(8 objects, for example {run.elsewhere.bucket}/" in finding
    assert run.versions(run.location) == before


@on_embedded
def test_copy_with_earlier_lock_end_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    what = made(MIGRATION, instances=1)
    prepared = run.prepare(what)
    maker = DateMaker.retain_until
    monkeypatch.setattr(DateMaker, "retain_until", lambda self, now: maker(self, now) - 60)
    report, _ = run.carry_out(what, prepared)
    assert (report.completed, report.failed, len(report.findings)) == (0, 1, 2)
    assert all("it is locked only until" in finding for finding in report.findings)


@on_embedded
def test_sources_of_wrong_copies_are_not_removed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    what = made(MIGRATION, instances=1)
    prepared = run.prepare(what)
    before = run.versions(run.location)
    honest, golden, unlocked = EndpointRequests.copy, prepared["held"], run.next  # the numbers of its unlocked sources

    def another(self: EndpointRequests, kind: RequestKind, number: int, source: int) -> bytes:
        return honest(self, kind, number, golden if source >= unlocked else source)

    monkeypatch.setattr(EndpointRequests, "copy", another)
    report, _ = run.carry_out(what, prepared)
    assert (report.completed, report.failed, len(report.findings)) == (0, 1, 1)
    assert "copies that are not to be locked: the bytes" in report.findings[0]
    assert len(run.versions(run.location)) > len(before)


# ---- ends


@on_embedded
def test_running_instance_is_finished_and_no_further_one_begins(run: Run) -> None:
    what = made(CLONE, instances=50)
    prepared = run.prepare(what)
    before = run.versions(run.location)
    hurried = replace(what, seconds=1e-9)
    report, _ = run.carry_out(hurried, prepared)
    assert (report.completed, report.failed) == (0, 0)

    def finish_soon(worker: Worker) -> None:
        begin = worker.add_client

        def count(client: Client) -> None:
            begin(client)
            asyncio.get_running_loop().call_later(0.05, lambda: setattr(worker, "is_finishing", True))

        worker.add_client = count  # type: ignore[method-assign]

    report, _ = run.carry_out(what, prepared, finish_soon)
    assert 1 <= report.completed < 50
    assert report.failed == 0
    assert run.versions(run.location) == before


@on_embedded
def test_instances_start_on_schedule_and_rate_counts_the_whole_phase(run: Run) -> None:
    what = made(CLONE, capacity=10_000, instances=2, every=Seconds(0.75), seconds=1.5)
    outcome, _ = run.carry_out(what, run.prepare(what))
    assert (outcome.completed, outcome.failed) == (2, 0)
    assert outcome.seconds >= 1.5
    beside = infrastructure_result(what, outcome)
    assert beside.per_hour <= 2 / 1.5 * 3600


def test_infrastructure_gives_up_when_no_server_answers(tmp_path: Path) -> None:
    with process.start(tmp_path / "store") as store:
        credentials = Credentials(store.access_key, store.secret_key, None)
        run = Run(store.endpoint, credentials, client_for(store.endpoint, store.access_key, store.secret_key))
        what = made(CLONE, instances=50)
        assignment = run.assignment(what)
    worker = Worker(assignment)
    running = InfrastructureRun(worker, assignment, InfrastructureAssignment(0, 0, 2, {"locked": 1}, own_first=500))
    worker.carried_out(running)
    report = running.outcome()
    assert (report.completed, report.failed) == (0, 3)
    assert report.gave_up == "clone and deploy: 3 instances in a row completed no object"


# ---- support by backends


def test_backend_without_copies_or_locks_is_refused_with_remedy() -> None:
    clone, migration = made(CLONE), made(MIGRATION)

    class WithoutCopies(NullBackend):
        name = TsmBackend.name
        capabilities = TsmBackend.capabilities

    for what in (clone, migration):
        refused = refusal(what, WithoutCopies(), locks=True)
        assert refused is not None
        assert re.search("the tsm backend does not offer; leave .* out", refused)
        assert refusal(what, NullBackend(), locks=True) is None
    assert refusal(clone, NullBackend(), locks=False) is None
    assert "locks nothing" in (refusal(migration, NullBackend(), locks=Retention().legal_hold) or "")


@on_embedded
def test_second_place_in_a_user_named_bucket_is_another_prefix(run: Run) -> None:
    options = replace(run.backend.options, bucket=run.location.bucket)
    backend = S3Backend(options)
    plan = RunPlan("other-run", run.retention, archives_unlocked=True)
    first = backend.locate(plan)
    second = backend.second_place()
    there = second.locate(plan)
    assert (there.bucket, there.bucket_created) == (first.bucket, False) == (run.location.bucket, False)
    assert (first.prefix, there.prefix) == ("other-run/", "other-run-second/")
    second.prepare()
    setting = second.worker_setting()
    assert (setting.bucket, setting.prefix) == (there.bucket, there.prefix)
    assert (setting.source_bucket, setting.source_prefix) == (first.bucket, first.prefix)
    assert backend.worker_setting().source_bucket is None
    assert run.elsewhere.bucket == f"archiver-{run.run_id}-second"
