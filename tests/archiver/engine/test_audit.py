"""Test audits on real stores: each injected fault is found and named, and nothing else is reported."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from moto.server import ThreadedMotoServer

from archiver.engine.audit import AuditOptions, AuditPopulation, AuditRecord, Kind, ObjectRange, audit_run, subject
from archiver.engine.workers.processes import WorkerProcesses
from archiver.ledger.ledger import Ledger, NumberRange, Placement
from archiver.platforms.servers import Server
from archiver.values.content import Content
from archiver.values.errors import PlatformError, UsageError
from backends.embedded import process as embedded
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from results.measures.statistics import bad_objects_max
from results.recorded.database import ObjectChange
from tests.support.servers import real

RUN, SEED = "20260101t000000-abcdef", 7
PHASE = "archive 1KiB x 10, 1 client"
EVERYTHING = AuditOptions(clients=2)


@dataclass
class Archive:
    """A bucket with objects as a run leaves them, and the ledger that records them."""

    endpoint: str
    access: tuple[str, str]
    ledger: Ledger
    bucket: str
    workers: WorkerProcesses
    retain_seconds: float = 3600.0
    now: float = field(default_factory=time.time)

    @property
    def s3(self) -> Any:
        return client_of(self.endpoint, *self.access)

    @property
    def until(self) -> float:
        return float(int(self.now + self.retain_seconds))

    def key(self, number: int) -> str:
        return f"{RUN}/{number:012d}"

    def name(self, number: int) -> str:
        return f"{self.bucket}/{self.key(number)}"

    def archive(
        self, first: int, count: int, size_bytes: int = 1024, *, mode: str = "GOVERNANCE", hold: bool = False,
        ends: bool = True, phase: str = PHASE,
    ) -> None:  # fmt: skip
        """Put objects under a lock. ``ends``: whether the phase ended."""
        content, client = Content(RUN, SEED, size_bytes), self.s3
        row = self.ledger.open_placement(self.placement(first, count, size_bytes, mode, hold, phase))
        for number in range(first, first + count):
            client.put_object(
                Bucket=self.bucket,
                Key=self.key(number),
                Body=content.whole(number, size_bytes),
                ObjectLockMode=mode,
                ObjectLockRetainUntilDate=datetime.fromtimestamp(self.until, UTC),
                **({"ObjectLockLegalHoldStatus": "ON"} if hold else {}),
            )
        if ends:
            self.ledger.close_placement(
                row, count, count * size_bytes, [NumberRange(size_bytes, first, first + count - 1)]
            )

    def placement(
        self, first: int, count: int, size_bytes: int, mode: str = "GOVERNANCE", hold: bool = False, phase: str = PHASE
    ) -> Placement:
        return Placement(
            run=RUN, phase=phase, backend="s3", platform=None, endpoint=self.endpoint, region="us-east-1",
            bucket=self.bucket, bucket_created=True, prefix=f"{RUN}/", retention_mode=mode,
            latest_retain_until=self.until + 2, legal_hold=hold, objects_max=count, bytes_max=count * size_bytes,
            content_seed=SEED, first_number=first, earliest_retain_until=self.until - 2,
        )  # fmt: skip

    def began(self, *, hold: bool = False) -> None:
        """Write the first row of a run."""
        row = self.ledger.open_placement(replace(self.placement(0, 0, 0, hold=hold), phase="prepare"))
        self.ledger.close_placement(row, 0, 0)

    def audit(self, options: AuditOptions = EVERYTHING, *, access: Credentials | None = None) -> AuditRecord:
        given = S3Options(
            endpoints=(self.endpoint,),
            credentials=access or Credentials(*self.access, None),
            region="us-east-1",
            session_open="connect",
            keep_sessions_open=True,
            connect_timeout_seconds=2.0,
        )
        return self.audit_through(S3Backend(given), options)

    def audit_through(self, backend: S3Backend, options: AuditOptions = EVERYTHING, run: str = RUN) -> AuditRecord:
        holding = subject(self.ledger, run)
        return audit_run(holding, self.ledger, backend, self.workers, options, lambda done, total: None)

    def delete(self, number: int) -> None:
        """Delete every version of an object, as a caller with every right can."""
        client, key = self.s3, self.key(number)
        for version in client.list_object_versions(Bucket=self.bucket, Prefix=key)["Versions"]:
            client.delete_object(
                Bucket=self.bucket, Key=key, VersionId=version["VersionId"], BypassGovernanceRetention=True
            )


@cache
def client_of(endpoint: str, access_key: str, secret_key: str) -> Any:
    return boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1",
        aws_access_key_id=access_key, aws_secret_access_key=secret_key,
    )  # fmt: skip


def found(record: AuditRecord) -> dict[str, Kind]:
    return {finding.name: finding.kind for finding in record.findings}


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerProcesses]:
    made = WorkerProcesses(1, ())
    yield made
    made.close()


@contextmanager
def archive_on(
    endpoint: str, access: tuple[str, str], folder: Path, workers: WorkerProcesses, bucket: str = "records"
) -> Iterator[Archive]:
    with closing(Ledger(folder / "ledger.db")) as ledger:
        made = Archive(endpoint, access, ledger, bucket, workers)
        made.s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
        made.began()
        yield made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.StoreProcess]:
    with embedded.start(tmp_path_factory.mktemp("audit") / "store") as running:
        yield running


@pytest.fixture
def archive(
    store: embedded.StoreProcess, workers: WorkerProcesses, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Archive]:
    bucket = f"b{abs(hash(request.node.name)):x}"
    with archive_on(store.endpoint, (store.access_key, store.secret_key), tmp_path, workers, bucket) as made:
        yield made


def test_audit_of_unchanged_objects_finds_nothing(archive: Archive) -> None:
    archive.archive(0, 30)
    archive.archive(100, 5, 70_000, hold=True, phase="archive 70kB x 5, 1 client, lock header-and-hold")
    record = archive.audit()
    assert record.is_good, record
    assert (record.objects, record.bytes) == (35, 30 * 1024 + 5 * 70_000)
    assert (record.population_objects, record.population_bytes) == (record.objects, record.bytes)
    assert (record.findings, record.passed_over, record.bounds, record.remarks) == ((), (), (), ())


def tampered_with(archive: Archive) -> dict[str, Kind]:
    """Change objects as a privileged caller can through the API, and return the expected findings."""
    archive.archive(0, 12)
    client, content = archive.s3, Content(RUN, SEED, 1024)
    archive.delete(2)
    client.delete_object(Bucket=archive.bucket, Key=archive.key(3))  # a delete marker
    client.put_object(Bucket=archive.bucket, Key=archive.key(5), Body=b"other bytes")
    client.put_object(Bucket=archive.bucket, Key=archive.key(7), Body=content.whole(7, 1024))  # same bytes, no lock
    archive.delete(9)
    client.put_object(Bucket=archive.bucket, Key=archive.key(9), Body=b"in its place")
    return {
        archive.name(2): Kind.MISSING,
        archive.name(3): Kind.HIDDEN,
        archive.name(5): Kind.HIDDEN,
        archive.name(7): Kind.HIDDEN,
        archive.name(9): Kind.DAMAGED,
    }


def check_tampered(archive: Archive) -> None:
    expected = tampered_with(archive)
    record = archive.audit()
    assert found(record) == expected
    assert not record.is_good
    words = {finding.name: finding.words for finding in record.findings}
    assert words[archive.name(2)] == "no version of it is left"
    assert words[archive.name(3)].startswith("hidden by a delete marker; the version that was archived, ")
    assert words[archive.name(5)].startswith("hidden by a newer version; the version that was archived, ")
    assert words[archive.name(5)].endswith("is intact, and locked as requested")
    assert words[archive.name(9)].endswith("has other bytes than were archived")
    assert record.objects == 12


def test_changes_by_privileged_caller_are_named(archive: Archive) -> None:
    check_tampered(archive)


def test_changes_on_moto_are_named(tmp_path: Path, workers: WorkerProcesses) -> None:
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with archive_on(f"http://{host}:{port}", ("moto", "moto"), tmp_path, workers) as archive:
            check_tampered(archive)
    finally:
        server.stop()


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.NAMES)
def test_changes_on_other_platforms_are_named(name: str, tmp_path: Path, workers: WorkerProcesses) -> None:
    with (
        real.real_server(name, tmp_path / "server") as server,
        archive_on(server.endpoint, (server.access.access_key, server.access.secret_key), tmp_path, workers) as archive,
    ):
        check_tampered(archive)


def test_changes_to_store_files_are_named(tmp_path: Path, workers: WorkerProcesses) -> None:
    data = tmp_path / "store"
    with (
        embedded.start(data) as store,
        archive_on(store.endpoint, (store.access_key, store.secret_key), tmp_path, workers) as archive,
    ):
        archive.archive(0, 20)
        archive.archive(20, 4, hold=True, phase=f"{PHASE}, lock header-and-hold")
        archive.archive(40, 4, 9 << 20)
        port = int(store.endpoint.rpartition(":")[2])
        store.stop()
        with closing(sqlite3.connect(data / "catalogue.db")) as catalogue, catalogue:
            behind = Behind(catalogue, archive)
            behind.change(1, "until_ms = until_ms - 1800000")
            behind.change(3, "until_ms = until_ms + 86400000")
            behind.change(5, "mode = 'COMPLIANCE'")
            behind.change(7, "mode = NULL, until_ms = NULL")
            behind.change(21, "legal_hold = 0")
            damage = {9: 500, 13: 7, 41: (8 << 20) + 5, 42: (8 << 20) + 5}  # object -> position of the damaged byte
            places = [(behind.place(number), position) for number, position in damage.items()]
            catalogue.execute("DELETE FROM versions WHERE key = ?", (archive.key(11),))
        for (segment, offset), position in places:
            flip_bit(data / "segments" / segment, offset + position)
        with embedded.start(data, port=port):
            record = archive.audit(AuditOptions(clients=1))
    assert found(record) == {
        archive.name(1): Kind.WEAKER,
        archive.name(3): Kind.LONGER,
        archive.name(5): Kind.LONGER,
        archive.name(7): Kind.UNLOCKED,
        archive.name(9): Kind.UNREAD,  # the store detects the damage and refuses the request
        archive.name(13): Kind.UNREAD,
        archive.name(41): Kind.UNREAD,
        archive.name(42): Kind.UNREAD,  # the store finds it midway and closes the connection
        archive.name(11): Kind.MISSING,
        archive.name(21): Kind.UNLOCKED,
    }
    words = {finding.name: finding.words for finding in record.findings}
    assert words[archive.name(9)].startswith("500 InternalError")
    assert archive.key(13) not in words[archive.name(9)]  # each message belongs to its own object
    assert archive.key(9) not in words[archive.name(13)]
    assert all(words[archive.name(number)].startswith("truncated") for number in (41, 42))


def flip_bit(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 1]))


@dataclass
class Behind:
    """The catalogue of a stopped store, to change behind the store's back."""

    catalogue: sqlite3.Connection
    archive: Archive

    def change(self, number: int, assignment: str) -> None:
        done = self.catalogue.execute(f"UPDATE versions SET {assignment} WHERE key = ?", (self.archive.key(number),))
        assert done.rowcount == 1

    def place(self, number: int) -> tuple[str, int]:
        """Return the segment file and the offset of an object's content."""
        segment, offset = self.catalogue.execute(
            "SELECT segment, offset FROM versions WHERE key = ?", (self.archive.key(number),)
        ).fetchone()
        return f"{segment:08d}.seg", offset


def test_object_removed_after_lock_end_is_reported_as_expired(archive: Archive) -> None:
    archive.archive(0, 4)
    archive.delete(1)
    with sqlite3.connect(archive.ledger._path) as ledger:
        ledger.execute("UPDATE placement SET earliest_retain_until = 1, latest_retain_until = 2 WHERE objects > 0")
    ledger.close()
    record = archive.audit()
    gone = {finding.name for finding in record.findings if finding.kind is Kind.EXPIRED}
    assert gone == {archive.name(1)}
    with sqlite3.connect(archive.ledger._path) as ledger:
        ledger.execute("UPDATE placement SET latest_retain_until = 9999999999 WHERE objects > 0")
    ledger.close()
    assert found(archive.audit()) == {archive.name(1): Kind.MAY_HAVE_EXPIRED}


def test_objects_deleted_by_the_run_count_as_expired(archive: Archive) -> None:
    archive.archive(0, 4)
    archive.delete(1)
    archive.delete(2)
    record = archive.audit(replace(EVERYTHING, changes=[ObjectChange("delete", 1024, 1, 1)]))
    assert found(record) == {archive.name(1): Kind.EXPIRED, archive.name(2): Kind.MISSING}


def changed_by_the_run(archive: Archive) -> list[ObjectChange]:
    """Change objects as a mixed workload and another owner would, and return the run's record of its changes."""
    archive.archive(0, 14)
    client, content = archive.s3, Content(RUN, SEED, 4096)
    until = datetime.fromtimestamp(archive.until, UTC)
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}

    def put(number: int, body: bytes, **more: Any) -> None:
        client.put_object(Bucket=archive.bucket, Key=archive.key(number), Body=body, **more)

    put(1, content.whole(1, 1024, 2), **lock)
    put(2, content.whole(2, 1024, 2), **lock)
    put(2, content.whole(2, 4096, 3), **lock)  # a version of another size
    put(3, content.whole(3, 1024, 2), **lock)
    first_of_3 = client.list_object_versions(Bucket=archive.bucket, Prefix=archive.key(3))["Versions"][-1]["VersionId"]
    client.delete_object(
        Bucket=archive.bucket, Key=archive.key(3), VersionId=first_of_3, BypassGovernanceRetention=True
    )
    put(4, content.whole(5, 1024, 2), **lock)  # content of another object
    damaged = bytearray(content.whole(6, 1024, 2))
    damaged[500] ^= 1
    put(6, bytes(damaged), **lock)
    for number in (7, 8, 9, 10):
        if number == 9:
            put(9, content.whole(9, 1024, 2), **lock)  # replaced, then hidden by a marker
        if number == 10:
            put(10, b"other bytes")
        client.delete_object(Bucket=archive.bucket, Key=archive.key(number))
    archive.delete(11)
    put(11, content.whole(0, 1024), **lock)  # a copy by the run
    archive.delete(12)
    put(12, content.whole(0, 1024), **lock)  # a copy by another owner
    archive.delete(13)
    put(13, content.whole(0, 1024))  # a copy by the run without a lock
    return [
        ObjectChange("new-version", 1024, 1, 6),
        ObjectChange("delete-marker", 1024, 7, 7),
        ObjectChange("delete-marker", 1024, 9, 11),
        ObjectChange("copy", 1024, 11, 11),
        ObjectChange("copy", 1024, 13, 13),
    ]


def check_changed(archive: Archive) -> None:
    changes = changed_by_the_run(archive)
    expected = {
        archive.name(3): Kind.DAMAGED,
        archive.name(4): Kind.HIDDEN,
        archive.name(6): Kind.HIDDEN,
        archive.name(8): Kind.HIDDEN,
        archive.name(10): Kind.HIDDEN,
        archive.name(12): Kind.DAMAGED,
        archive.name(13): Kind.DAMAGED,
    }
    record = archive.audit(replace(EVERYTHING, changes=changes))
    assert found(record) == expected
    words = {finding.name: finding.words for finding in record.findings}
    assert words[archive.name(3)].endswith("is a later content of it, number 2")
    assert words[archive.name(4)].startswith("hidden by a newer version; the version that was archived, ")
    assert words[archive.name(8)].endswith("the run has no record that it set the marker")
    assert words[archive.name(10)].endswith("is intact, and locked as requested")  # the bytes in between are foreign
    assert words[archive.name(12)].endswith("is a copy of object 0 of the same run")
    assert sorted(record.remarks) == [
        "1 copied by the run from other objects of its own: whole and locked",
        "2 hidden by the run behind delete markers: the archived objects still exist, whole and locked",
        "2 replaced by the run with later content: the first version still exists, whole and locked",
    ]
    assert record.objects == 14
    # Without the run's record, later content of the run is still recognised. Markers and copies are not.
    unrecorded = archive.audit()
    marked = {archive.name(number): Kind.HIDDEN for number in (7, 9)}
    assert found(unrecorded) == expected | marked | {archive.name(11): Kind.DAMAGED}
    assert [remark[:10] for remark in unrecorded.remarks] == ["2 replaced"]


def test_objects_replaced_or_hidden_by_the_run_are_no_finding(archive: Archive) -> None:
    check_changed(archive)


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.NAMES)
def test_objects_replaced_or_hidden_on_other_platforms_are_no_finding(
    name: str, tmp_path: Path, workers: WorkerProcesses
) -> None:
    with (
        real.real_server(name, tmp_path / "server") as server,
        archive_on(server.endpoint, (server.access.access_key, server.access.secret_key), tmp_path, workers) as archive,
    ):
        check_changed(archive)


def test_changes_by_the_run_are_all_checked_despite_limit(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archiver.engine.audit.CLOSER_LOOKS_MAX", 1)
    archive.archive(0, 6)
    content = Content(RUN, SEED, 1024)
    for number in range(5):
        body = content.whole(number, 1024, 2) if number > 1 else b"other bytes"
        archive.s3.put_object(Bucket=archive.bucket, Key=archive.key(number), Body=body)
    record = archive.audit(replace(EVERYTHING, changes=[ObjectChange("new-version", 1024, 2, 4)]))
    assert found(record) == {archive.name(0): Kind.HIDDEN, archive.name(1): Kind.DAMAGED}  # only one is read again
    assert [remark[:10] for remark in record.remarks] == ["3 replaced"]


def test_first_of_29_versions_is_found(archive: Archive) -> None:
    archive.archive(0, 1)
    content = Content(RUN, SEED, 1024)
    for version in range(2, 30):
        archive.s3.put_object(Bucket=archive.bucket, Key=archive.key(0), Body=content.whole(0, 1024, version))
    assert archive.audit().is_good


def test_legal_holds_placed_after_archiving_are_not_compared(archive: Archive) -> None:
    archive.archive(0, 4)
    archive.s3.put_object_legal_hold(Bucket=archive.bucket, Key=archive.key(1), LegalHold={"Status": "ON"})
    archive.ledger.strengthen(RUN, legal_hold=True)
    record = archive.audit()
    assert record.is_good
    assert record.remarks == (
        "legal holds were not compared: the run placed or released some, and the ledger does not say on which objects",
    )


def test_unfinished_phase_is_audited_by_the_platform_listing(archive: Archive) -> None:
    archive.archive(0, 3)
    archive.archive(10, 6, ends=False, phase="archive 1KiB x 6, 1 client")
    archive.delete(12)
    archive.s3.put_object(Bucket=archive.bucket, Key=archive.key(99), Body=b"beyond the bound of the phase")
    record = archive.audit()
    assert record.is_good, record  # an object that was never acknowledged cannot be missing
    assert record.objects == 3 + 5
    archive.s3.put_object(Bucket=archive.bucket, Key=archive.key(13), Body=b"half")
    (finding,) = archive.audit().findings
    assert (finding.name, finding.acknowledged) == (archive.name(13), False)


def test_objects_without_numbers_or_answer_are_reported_as_skipped(archive: Archive) -> None:
    archive.archive(0, 3)
    unsure = archive.ledger.open_placement(replace(archive.placement(50, 4, 1024), phase="unsure"))
    archive.ledger.close_placement(unsure, 2, 2048)
    mixed = replace(archive.placement(60, 4, 1024), phase="archive 1KiB x 2, 1 client + archive 2KiB x 2, 1 client")
    archive.ledger.open_placement(mixed)
    old = archive.ledger.open_placement(replace(archive.placement(70, 9, 1024), phase="old", content_seed=None))
    archive.ledger.close_placement(old, 9, 9 * 1024)
    record = archive.audit()
    assert record.objects == 3
    assert [(each.phase, each.objects_max) for each in record.passed_over] == [
        ("unsure", 2), (mixed.phase, 4), ("old", 9),
    ]  # fmt: skip


def test_sample_states_upper_bound_of_bad_objects(archive: Archive) -> None:
    archive.archive(0, 30)
    archive.archive(100, 20, 300)
    record = archive.audit(AuditOptions(clients=4, sample=25))
    assert (record.objects, record.population_objects) == (25, 50)
    assert record.sample_seed is not None
    assert [(bound.confidence_percent, bound.bad_objects_max) for bound in record.bounds] == [(95, 4), (99, 6)]
    for number in range(30):
        archive.delete(number)
    bad = archive.audit(AuditOptions(clients=4, sample=25))
    assert 5 <= len(bad.findings) <= 25  # at least 5, if all 20 remaining objects were drawn
    assert bad.bounds[0].bad_objects_max == bad_objects_max(50, 25, len(bad.findings), 0.95)


def test_sample_larger_than_population_reads_every_object(archive: Archive) -> None:
    archive.archive(0, 5)
    record = archive.audit(AuditOptions(clients=4, sample=50))
    assert (record.objects, record.sample_seed, record.bounds) == (5, None, ())


def ranges(*parts: tuple[int, int, int]) -> list[ObjectRange]:
    placement: Any = None
    return [ObjectRange(size, first, last, placement) for size, first, last in parts]


def test_sample_draws_every_object_with_equal_probability() -> None:
    population = AuditPopulation(ranges((8, 0, 3), (64, 100, 105), (8, 50, 51)))
    assert population.objects == 12
    counts: dict[int, int] = {}
    for seed in range(2000):
        drawn = population.draw(3, seed).tolist()
        assert len(set(drawn)) == 3
        for number in drawn:
            counts[number] = counts.get(number, 0) + 1
    assert set(counts) == {*range(4), 50, 51, *range(100, 106)}
    assert all(400 < count < 600 for count in counts.values())  # expected 500, standard deviation 19
    sizes = {size: sorted(part.tolist()) for size, part in population.of_sizes(population.draw(12, 1))}
    assert sizes == {8: [0, 1, 2, 3, 50, 51], 64: list(range(100, 106))}


def test_sample_is_drawn_from_ranges_of_ten_million_objects() -> None:
    population = AuditPopulation(ranges(*((1024, 100_000 * i, 100_000 * i + 99_999) for i in range(100))))
    numbers = population.draw(1000, 5)
    assert len(np.unique(numbers)) == 1000
    assert population.range_of(int(numbers[0])).first == int(numbers[0]) // 100_000 * 100_000


def test_platform_lost_during_audit_does_not_make_objects_missing(tmp_path: Path, workers: WorkerProcesses) -> None:
    with (
        embedded.start(tmp_path / "store") as store,
        archive_on(store.endpoint, (store.access_key, store.secret_key), tmp_path, workers) as archive,
    ):
        archive.archive(0, 20)
        backend = Leaving(store, archive)
        record = archive.audit_through(backend)
        assert record.broken_off is not None
        assert "connect failed" in record.broken_off
        assert record.findings == ()
        assert record.objects == 0
        with pytest.raises(PlatformError, match="could not be reached"):
            archive.audit()


class Leaving(S3Backend):
    """Kill the store when the audit is about to read."""

    def __init__(self, store: embedded.StoreProcess, archive: Archive) -> None:
        super().__init__(
            S3Options(
                endpoints=(archive.endpoint,),
                credentials=Credentials(*archive.access, None),
                region="us-east-1",
                keep_sessions_open=True,
            )
        )
        self._store = store

    def worker_setting(self) -> Any:
        if self._store.is_running():
            self._store.kill()
        return super().worker_setting()


def test_audit_of_missing_bucket_is_refused(archive: Archive) -> None:
    archive.archive(0, 1)
    elsewhere = replace(archive.placement(0, 1, 1024), bucket="another-bucket", run="other")
    archive.ledger.close_placement(archive.ledger.open_placement(elsewhere), 1, 1024, [NumberRange(1024, 0, 0)])
    backend = S3Backend(S3Options((archive.endpoint,), credentials=Credentials(*archive.access, None)))
    with pytest.raises(PlatformError, match=r"other cannot be audited: .*NoSuchBucket"):
        archive.audit_through(backend, run="other")


def test_runs_without_auditable_objects_are_refused(archive: Archive) -> None:
    with pytest.raises(UsageError, match="has no such run"):
        subject(archive.ledger, "nosuch")
    with pytest.raises(UsageError, match="lacks the numbers that"):
        subject(archive.ledger, RUN)  # the run archived nothing yet
    archive.archive(0, 1)
    archive.ledger.mark_removed(RUN, archive.bucket)
    with pytest.raises(UsageError, match="removed already"):
        subject(archive.ledger, RUN)


NO_LOCK_RIGHTS = (
    "GetObject", "ListBucket", "ListBucketVersions", "GetObjectVersion", "GetBucketObjectLockConfiguration",
    "ListAllMyBuckets",
)  # fmt: skip


def with_rights(server: Server, rights: Sequence[str]) -> Credentials:
    """Return a temporary credential that has only these rights."""
    statement = {"Effect": "Allow", "Action": [f"s3:{right}" for right in rights], "Resource": ["arn:aws:s3:::*"]}
    given = real.client_of(server, "sts").assume_role(
        RoleArn="arn:xxx:xxx:xxx:xxxx", RoleSessionName="audit",
        Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
    )["Credentials"]  # fmt: skip
    return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


@pytest.mark.platforms
def test_credential_without_lock_rights_is_not_reported_as_missing_locks(
    tmp_path: Path, workers: WorkerProcesses
) -> None:
    with (
        real.real_server("minio", tmp_path / "server") as server,
        archive_on(server.endpoint, (server.access.access_key, server.access.secret_key), tmp_path, workers) as archive,
    ):
        archive.archive(0, 5)
        archive.delete(3)
        record = archive.audit(access=with_rights(server, NO_LOCK_RIGHTS))
    assert found(record) == {archive.name(3): Kind.MISSING}
    assert not record.locks_compared
    assert not record.is_good
    assert record.remarks[0].startswith("no lock was compared: this credential may not see locks (s3:GetObjectRe")
