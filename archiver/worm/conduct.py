"""Conducts one conformance run on one platform: its buckets, its entries in ledger and database, and its clean-up.

One idea: the run records every bucket in the ledger before it creates it, and removes at the end all that it may
remove. So nothing that the checks locked is left without a record.
"""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from archiver.engine.plan import new_run_id
from archiver.ledger.ledger import Ledger, Placement
from archiver.machine import description as machine
from archiver.machine import interruption
from archiver.platforms.hosted import HostedStore
from archiver.values.clock import now_seconds
from archiver.values.errors import ArchiverError, PlatformError
from archiver.values.platform import PlatformProfile
from archiver.values.retention import Retention, RetentionMode, check_clock
from archiver.worm import checks
from archiver.worm.case import COMPLIANCE_SECONDS, FARTHEST_SECONDS, LOCKING_FAR, WAIT_SECONDS_MAX
from archiver.worm.catalogue import catalogue
from archiver.worm.repeats import rounds
from archiver.worm.repeats.load import LoadReport, Order, order_for
from archiver.worm.repeats.restart import Restart
from archiver.worm.requests.exchange import RecordedExchange, S3Client
from archiver.worm.requests.limited import Limited
from archiver.worm.suite import CheckResult, Round, Suite
from archiver.worm.tsm.calls import ApiCall
from archiver.worm.tsm_conduct import conduct_tsm
from archiver.worm.verdict import Inconclusive
from backends.base import Location, RemovalReport, RunPlan
from backends.embedded.process import StoreProcess
from backends.s3 import S3Backend
from results.database import FILE_NAME, RunDatabase, RunRecord
from results.model import CheckRecord, RoundRecord

_ROUNDS = list(Round)
CLOCK_SECONDS = 2.0  # the server's clock may be ahead of our estimate by this much
LASTING_SECONDS = 3600.0  # credentials should last that long when a run begins: the checks do not refresh them
LOCKED_SECONDS_MAX = 25 * 3600.0  # a default retention has whole days: the checks use one day, under GOVERNANCE

LimitedClients = Callable[[S3Client], AbstractContextManager[Limited]]  # makes them from the client with all rights


@dataclass(frozen=True, slots=True)
class WormOptions:
    """The user's choices besides the platform."""

    ids: Sequence[str]
    compliance: bool  # checks may lock objects for seconds in COMPLIANCE mode
    out_dir: Path
    command_line: list[str]
    accepts_server_clock: bool = False  # use the platform's clock even if it is far from this machine's
    expected: Sequence[Mapping[str, str]] = ()  # failures that do not fail the run: check, reason, link


@dataclass(slots=True)
class _Buckets:
    """The buckets that one run creates."""

    run_id: str
    backend: S3Backend
    hosted: HostedStore | None
    ledger: Ledger
    made: list[Location] = field(default_factory=list)
    locked: set[str] = field(default_factory=set)  # the buckets with Object Lock
    rows: dict[str, int] = field(default_factory=dict)  # their rows in the ledger
    open_to_limited: Callable[[str], None] = lambda bucket: None  # called for each new bucket
    _making: threading.Lock = field(default_factory=threading.Lock)

    def make(self, client: S3Client, lock: bool, lock_seconds_max: float = LOCKED_SECONDS_MAX) -> str:
        """Create a bucket, with Object Lock or without. Raises Inconclusive if the platform refuses."""
        bucket = f"archiver-{self.run_id.lower()}-{secrets.token_hex(4)}"
        location = Location(client.endpoint, client.region, bucket, True, "")
        placement = Placement(
            run=self.run_id,
            phase=f"worm {bucket}",
            backend=self.backend.name,
            platform=self.hosted.platform if self.hosted is not None else None,
            endpoint=location.endpoint,
            region=location.region,
            bucket=bucket,
            bucket_created=True,
            prefix="",
            retention_mode="GOVERNANCE" if lock else "none",
            latest_retain_until=self.backend.server_now + lock_seconds_max if lock else None,
            legal_hold=lock,
            objects_max=20_000,
            bytes_max=1 << 30,
        )
        with self._making:
            self.rows[bucket] = self.ledger.open_placement(placement)
            self.made.append(location)
            self.locked |= {bucket} if lock else set()
        headers = [("x-amz-bucket-object-lock-enabled", "true")] if lock else []
        region = "" if client.region == "us-east-1" else f"<LocationConstraint>{client.region}</LocationConstraint>"
        body = f"<CreateBucketConfiguration>{region}</CreateBucketConfiguration>".encode() if region else b""
        answer = client.send("PUT", bucket, headers=headers, body=body)
        if not answer.ok:
            raise Inconclusive(f"a bucket could not be created: {answer}")
        self.open_to_limited(bucket)
        return bucket

    def remove(self) -> tuple[RemovalReport, ...]:
        """Remove all buckets that can be removed, and return a report for each one that remains.

        Waits once for COMPLIANCE locks to expire.
        """
        left = self._removed(self.made)
        if left:
            # A report has the dates of a few objects only, so other objects may be locked longer.
            latest = max(report.locked_until or 0.0 for _, report in left) - self.backend.server_now
            time.sleep(min(max(latest, COMPLIANCE_SECONDS), WAIT_SECONDS_MAX) + CLOCK_SECONDS)
            left = self._removed([location for location, _ in left])
        return tuple(report for _, report in left)

    def _removed(self, locations: Sequence[Location]) -> list[tuple[Location, RemovalReport]]:
        """Remove these buckets; return those that remain, with the reason."""
        left = []
        for location in locations:
            report = self._removal(location)
            if report.bucket_removed or report.bucket_missing:
                self.ledger.mark_removed(self.run_id, location.bucket)
            else:
                row = self.rows[location.bucket]
                self.ledger.observe([row], None, report.locked_until, on_hold=report.on_hold)
                left.append((location, report))
        return left

    def _removal(self, location: Location) -> RemovalReport:
        """Remove one bucket. A bucket created without Object Lock is tried without bypass first.

        The platform may reject a bypass header there, but a check may also have enabled Object Lock since.
        """
        report = RemovalReport()
        for force in (True,) if location.bucket in self.locked else (False, True):
            try:
                report = self.backend.remove(location, None, bypass_governance=force, release_holds=force)
            except PlatformError as failed:
                report.refusals.append(str(failed))
                continue
            if not report.objects_left:
                break
        return report


@dataclass(frozen=True, slots=True)
class WormOutcome:
    """The result of a conformance run; the evidence is in the database."""

    run_id: str
    database: Path
    profile: PlatformProfile
    buckets_left: tuple[RemovalReport, ...]  # one for each bucket that remains
    spaces_left: int  # TSM file spaces that remain


def conduct(
    backend: S3Backend,
    hosted: HostedStore | None,
    options: WormOptions,
    limited: LimitedClients,
    store: StoreProcess | None,
    restart: Restart | None,
    ledger: Ledger,
    on_check: Callable[[CheckResult], None],
) -> WormOutcome:
    """Run the checks alone, then those of ``rounds`` under load and after a restart.

    TSM checks run if ``store`` is the embedded store, which has a TSM server too. ``restart`` is None if the server may
    not be killed.

    Raises PlatformError if the platform cannot be reached or does not create a bucket with Object Lock.
    """
    checks.load()
    profile = backend.profile()
    check_clock(profile.server_clock_offset_seconds, now_seconds(), accepted=options.accepts_server_clock)
    backend.refresh_credentials(LASTING_SECONDS)
    access = backend.access
    run_id = new_run_id()
    database = RunDatabase.create(
        options.out_dir / run_id / FILE_NAME,
        _record(run_id, backend, profile, options, is_started_here=hosted is not None),
    )
    ledger.begin_run(run_id, database.path)
    client = S3Client(
        access.endpoint, access.region, access.credentials, [], tls=access.tls, virtual_hosted=access.virtual_hosted
    )
    buckets = _Buckets(run_id, backend, hosted, ledger)
    results: list[CheckResult] = []  # of all rounds, each added when its check ends
    rounds_done: list[RoundRecord] = []
    spaces_left = 0
    verdict = "fail"

    def ended(result: CheckResult) -> None:
        results.append(result)
        on_check(result)

    with ExitStack() as servers:  # restarted ones run until the clean-up is over
        try:
            with limited(client) as fewer_rights:
                buckets.open_to_limited = fewer_rights.open_bucket
                try:
                    bucket = buckets.make(client, True, locked_seconds_max(options.ids))
                except Inconclusive as refused:
                    raise PlatformError(f"{access.endpoint}: no bucket with Object Lock: {refused}") from refused
                # A default that the platform sets on new buckets would lock objects that the checks leave unlocked.
                nothing = Retention(RetentionMode.NONE, None, None)
                backend.check_rule(bucket, RunPlan(run_id, nothing, archives_unlocked=True))
                suite = Suite(
                    client,
                    bucket,
                    options.compliance or hosted is not None,
                    fewer_rights.clients,
                    buckets.make,
                    profile.server_clock_offset_seconds or 0.0,
                )
                began, clock = time.time(), time.monotonic()
                alone = suite.run([i for i in options.ids if not is_tsm(i) and i != rounds.RESTART], ended)
                if store is not None:
                    spaces_left = conduct_tsm(store, run_id, [i for i in options.ids if is_tsm(i)], ledger, ended)
                seconds = time.monotonic() - clock
                rounds_done.append(RoundRecord(Round.ALONE, began, seconds, "the checks, in parallel"))
                later = _Later(suite, buckets, options.ids, alone, ended)
                for take_round in (later.under_load, partial(later.after_restart, restart, servers)):
                    record = take_round()
                    rounds_done += [record] if record is not None else []
            expected = {each["check"] for each in options.expected}
            verdict = "fail" if any(each.is_violation and each.id not in expected for each in results) else "pass"
        except KeyboardInterrupt:
            verdict = "interrupted"
            raise
        finally:
            with interruption.deferred():  # otherwise results would be lost, and buckets would stay
                # Checks end in other threads, but only this thread may use the database.
                for result in sorted(results, key=lambda each: (_ROUNDS.index(each.round), options.ids.index(each.id))):
                    database.add_check(_check_record(result), [_exchange_document(each) for each in result.exchanges])
                for record in rounds_done:
                    database.add_round(record)
                left = buckets.remove()
                database.finish(time.time(), verdict)
                database.close()
                with suppress(ArchiverError):
                    ledger.end_run(run_id)
    return WormOutcome(run_id, database.path, profile, left, spaces_left)


class _Later:
    """The rounds after the first one."""

    def __init__(
        self,
        suite: Suite,
        buckets: _Buckets,
        ids: Sequence[str],
        alone: Sequence[CheckResult],
        on_check: Callable[[CheckResult], None],
    ) -> None:
        self._suite = suite
        self._buckets = buckets
        self._again = rounds.to_repeat(alone)
        self._ids = ids
        self._on_check = on_check
        self._loaded: tuple[Order, LoadReport] | None = None

    def under_load(self) -> RoundRecord | None:
        ids = [*self._again, *(each for each in self._ids if each == rounds.READ_BACK)]
        if not ids:
            return None
        try:
            bucket = self._buckets.make(self._suite.client, True)
        except Inconclusive as refused:
            return RoundRecord(Round.UNDER_LOAD, time.time(), 0.0, f"not tried: {refused}")
        order = order_for(self._buckets.backend, bucket, self._buckets.run_id)
        record, report = rounds.under_load(self._suite, ids, order, self._on_check)
        self._loaded = order, report
        return record

    def after_restart(self, restart: Restart | None, servers: ExitStack) -> RoundRecord | None:
        ids = [*(each for each in self._ids if each == rounds.RESTART), *self._again]
        if not ids:
            return None
        if restart is None:
            return rounds.not_restarted(ids, self._on_check)
        return rounds.after_restart(self._suite, ids, self._loaded, restart, servers, self._on_check)


def locked_seconds_max(ids: Sequence[str]) -> float:
    """Return how long the shared bucket can stay locked if the process dies during a check."""
    far = any(each in LOCKING_FAR for each in ids)
    return FARTHEST_SECONDS + LOCKED_SECONDS_MAX if far else LOCKED_SECONDS_MAX


def _record(
    run_id: str, backend: S3Backend, profile: PlatformProfile, options: WormOptions, *, is_started_here: bool
) -> RunRecord:
    return RunRecord(
        id=run_id,
        started_at=time.time(),
        command_line=options.command_line,
        scenario="worm",
        scenario_title="WORM conformance",
        scenario_json="{}",
        sweep_order="paper",
        order_seed=0,
        repetitions=1,
        phases_planned=0,
        backend=backend.name,
        platform=profile,
        settings={
            "compliance": options.compliance,
            "catalogue": _catalogue(),
            "expected": list(options.expected),
            "platform_started": is_started_here,
        },
        host=machine.describe(),
        workers=0,
        worker_cores=[],
        shared_host=profile.shares_host,
        location={"endpoint": backend.access.endpoint},
        content_seed=0,
        content_kind="none",
        interval_ns=0,
    )


def _catalogue() -> dict[str, Any]:
    """Return the number of checks and the rules of the catalogue, for reports of runs that try only some checks."""
    entries = catalogue().values()
    return {"checks": len(entries), "rules": sorted({rule for entry in entries for rule in entry.rules})}


def _check_record(result: CheckResult) -> CheckRecord:
    entry = result.entry
    return CheckRecord(
        id=entry.id,
        family=entry.family,
        tries=entry.tries,
        must=entry.must,
        answer=entry.answer,
        rules=entry.rules,
        severity=result.severity,
        verdict=result.verdict.value,
        reason=result.reason,
        started_at=result.started_at,
        seconds=result.seconds,
        round=result.round,
        source=entry.source,
        findings=result.findings,
    )


def is_tsm(identifier: str) -> bool:
    """Return whether this is a check of the TSM protocol."""
    return identifier.startswith("TSM-")


def _exchange_document(exchange: RecordedExchange | ApiCall) -> dict[str, Any]:
    """Return an exchange for JSON: bodies as text if they are UTF-8, else in base64."""
    document = asdict(exchange)
    if isinstance(exchange, ApiCall):
        return document
    for name in ("request_body", "response_body"):
        body: bytes = document.pop(name)
        try:
            document[name] = body.decode()
        except UnicodeDecodeError:
            document[name + "_base64"] = base64.b64encode(body).decode()
    return document
