"""One conformance run on one platform: its buckets, its record in ledger and database, and its clean-up.

One idea: a suite that locks things must leave less behind than any run: every bucket is in the ledger before it is
made, and at the end everything is removed that may be.
"""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from archiver import machine
from archiver.errors import PlatformError
from archiver.ledger import Ledger, Placement
from archiver.run import HostedStore, new_run_id
from archiver.worm import checks
from archiver.worm.case import COMPLIANCE_SECONDS
from archiver.worm.exchange import Exchange, S3Door
from archiver.worm.limited import Limited
from archiver.worm.suite import CheckResult, Suite
from archiver.worm.tsm_calls import Call
from archiver.worm.tsm_conduct import conduct_tsm
from archiver.worm.verdict import Inconclusive
from backends.base import Location, PlatformProfile
from backends.embedded.process import StoreProcess
from backends.s3 import S3Backend
from results.database import FILE_NAME, RunDatabase, RunRecord
from results.model import CheckRecord

CLOCK_SECONDS = 2.0  # by which the server's clock may be known too early
LOCKED_SECONDS_MAX = 25 * 3600.0  # a default retention has whole days: one, under GOVERNANCE

LimitedDoors = Callable[[S3Door], AbstractContextManager[Limited]]  # from the door that has all rights


@dataclass(frozen=True, slots=True)
class WormOptions:
    """What the user chose, besides the platform."""

    ids: Sequence[str]
    compliance: bool  # may lock for seconds in COMPLIANCE mode
    out_dir: Path
    command_line: list[str]


@dataclass(slots=True)
class _Buckets:
    """The buckets of one run."""

    run_id: str
    backend: S3Backend
    hosted: HostedStore | None
    ledger: Ledger
    made: list[Location] = field(default_factory=list)
    open_to_limited: Callable[[str], None] = lambda bucket: None  # called for each new bucket
    _making: threading.Lock = field(default_factory=threading.Lock)

    def make(self, door: S3Door, lock: bool) -> str:
        """A new bucket, with Object Lock or without. Raises Inconclusive where it is not made."""
        bucket = f"archiver-{self.run_id.lower()}-{secrets.token_hex(4)}"
        location = Location(door.endpoint, door.region, bucket, True, "")
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
            latest_retain_until=time.time() + LOCKED_SECONDS_MAX if lock else None,
            legal_hold=lock,
            objects_max=20_000,
            bytes_max=1 << 30,
        )
        with self._making:
            self.made.append(location)
            self.ledger.open_placement(placement)
        headers = [("x-amz-bucket-object-lock-enabled", "true")] if lock else []
        region = "" if door.region == "us-east-1" else f"<LocationConstraint>{door.region}</LocationConstraint>"
        body = f"<CreateBucketConfiguration>{region}</CreateBucketConfiguration>".encode() if region else b""
        answer = door.send("PUT", bucket, headers=headers, body=body)
        if not answer.ok:
            raise Inconclusive(f"a bucket could not be made: {answer}")
        self.open_to_limited(bucket)
        return bucket

    def remove(self) -> int:
        """Remove all that may be removed; how many buckets remain. COMPLIANCE locks are waited for once."""
        left = [location for location in self.made if not self._remove(location)]
        if left:
            time.sleep(COMPLIANCE_SECONDS + CLOCK_SECONDS)
            left = [location for location in left if not self._remove(location)]
        return len(left)

    def _remove(self, location: Location) -> bool:
        try:
            report = self.backend.remove(location, bypass_governance=True, release_holds=True)
        except PlatformError:
            return False
        if gone := report.bucket_removed or report.bucket_missing:
            self.ledger.mark_removed(self.run_id, location.bucket)
        return gone


@dataclass(frozen=True, slots=True)
class WormOutcome:
    """How a conformance run ended; everything seen is in the database."""

    run_id: str
    database: Path
    profile: PlatformProfile
    buckets_left: int
    spaces_left: int  # of the TSM door


def conduct(
    backend: S3Backend,
    hosted: HostedStore | None,
    options: WormOptions,
    limited: LimitedDoors,
    store: StoreProcess | None,
    ledger: Ledger,
    on_check: Callable[[CheckResult], None],
) -> WormOutcome:
    """Run the checks; those of TSM where ``store`` is the embedded one, which has that door, too.

    Raises PlatformError where the platform cannot be reached or makes no bucket with Object Lock.
    """
    checks.load()
    profile = backend.profile()
    access = backend.access
    run_id = new_run_id()
    database = RunDatabase.create(options.out_dir / run_id / FILE_NAME, _record(run_id, backend, profile, options))
    door = S3Door(access.endpoint, access.region, access.credentials, [], tls=access.tls)
    buckets = _Buckets(run_id, backend, hosted, ledger)
    results: list[CheckResult] = []
    spaces_left = 0
    verdict = "fail"

    def ended(result: CheckResult) -> None:
        results.append(result)
        on_check(result)

    try:
        with limited(door) as fewer_rights:
            buckets.open_to_limited = fewer_rights.open_bucket
            try:
                bucket = buckets.make(door, True)
            except Inconclusive as refused:
                raise PlatformError(f"{access.endpoint}: no bucket with Object Lock: {refused}") from refused
            suite = Suite(
                door,
                bucket,
                options.compliance or hosted is not None,
                fewer_rights.doors,
                buckets.make,
                profile.server_clock_offset_seconds or 0.0,
            )
            results = suite.run([each for each in options.ids if not is_tsm(each)], ended)
        if store is not None:
            of_tsm, spaces_left = conduct_tsm(store, run_id, [i for i in options.ids if is_tsm(i)], ledger, on_check)
            results += of_tsm
        verdict = "fail" if any(result.is_violation for result in results) else "pass"
    except KeyboardInterrupt:
        verdict = "interrupted"
        raise
    finally:
        # Checks end in other threads; the database is this one's.
        for result in results:
            database.add_check(_check_record(result), [_exchange_document(each) for each in result.exchanges])
        left = buckets.remove()
        database.finish(time.time(), verdict)
        database.close()
    return WormOutcome(run_id, database.path, profile, left, spaces_left)


def _record(run_id: str, backend: S3Backend, profile: PlatformProfile, options: WormOptions) -> RunRecord:
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
        platform=asdict(profile),
        settings={"compliance": options.compliance},
        host=machine.describe(),
        workers=0,
        worker_cores=[],
        shared_host=profile.shares_host,
        location={"endpoint": backend.access.endpoint},
        content_seed=0,
        content_kind="none",
        interval_ns=0,
    )


def _check_record(result: CheckResult) -> CheckRecord:
    entry = result.entry
    return CheckRecord(
        id=entry.id,
        family=entry.family,
        tries=entry.tries,
        must=entry.must,
        answer=entry.answer,
        rules=entry.rules,
        severity=entry.severity,
        verdict=result.verdict.value,
        reason=result.reason,
        started_at=result.started_at,
        seconds=result.seconds,
    )


def is_tsm(identifier: str) -> bool:
    """Whether a check is of the TSM protocol."""
    return identifier.startswith("TSM-")


def _exchange_document(exchange: Exchange | Call) -> dict[str, Any]:
    """Bodies as text where they are text, else in base64."""
    document = asdict(exchange)
    if isinstance(exchange, Call):
        return document
    for name in ("request_body", "response_body"):
        body: bytes = document.pop(name)
        try:
            document[name] = body.decode()
        except UnicodeDecodeError:
            document[name + "_base64"] = base64.b64encode(body).decode()
    return document
