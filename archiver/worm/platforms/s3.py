"""An S3 platform under test: its buckets, clients with fewer rights, and background load."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from archiver.ledger.ledger import Placement
from archiver.values.clock import now_seconds
from archiver.values.errors import PlatformError
from archiver.values.platform import PlatformProfile
from archiver.values.retention import Retention, RetentionMode, check_clock
from archiver.worm.case import FARTHEST_SECONDS, LOCKING_FAR, WAIT_SECONDS_MAX, starter
from archiver.worm.catalogue import is_tsm
from archiver.worm.platforms.under_test import UnderTest
from archiver.worm.repeats.load import BackgroundLoad, order_for
from archiver.worm.repeats.restart import Restart
from archiver.worm.requests.exchange import S3Client
from archiver.worm.requests.limited import Limited
from archiver.worm.suite import Suite
from archiver.worm.verdict import Inconclusive
from backends.base import Location, RemovalReport, RunPlan
from backends.s3 import S3Backend

CLOCK_SECONDS = 2.0  # the server's clock may be ahead of our estimate by this much
LASTING_SECONDS = 3600.0  # credentials should last that long when a run begins: the checks do not refresh them
LOCKED_SECONDS_MAX = 25 * 3600.0  # a default retention has whole days: the checks use one day, under GOVERNANCE

LimitedClients = Callable[[S3Client], AbstractContextManager[Limited]]  # makes them from the client with all rights


@dataclass(slots=True)
class S3UnderTest(UnderTest):
    """A platform that the checks reach over S3."""

    protocol = "s3"
    is_generated_for = True

    backend: S3Backend
    limited: LimitedClients
    restart: Restart | None  # None: the server may not be killed
    may_use_compliance: bool
    locks_far: bool = False  # whether more than the chosen checks lock for decades in the shared bucket
    _open_to_limited: Callable[[str], None] = field(default=lambda bucket: None, init=False)  # for each new bucket

    def covers(self, identifier: str) -> bool:
        return not is_tsm(identifier)

    @contextmanager
    def opened(self, ids: Sequence[str]) -> Iterator[Suite]:
        access = self.backend.access
        client = S3Client(
            access.endpoint, access.region, access.credentials, [], tls=access.tls, virtual_hosted=access.virtual_hosted
        )
        try:
            with self.limited(client) as fewer_rights:
                self._open_to_limited = fewer_rights.open_bucket
                try:
                    bucket = self.make_bucket(client, True, locked_seconds_max(ids, far=self.locks_far))
                except Inconclusive as refused:
                    raise PlatformError(f"{access.endpoint}: no bucket with Object Lock: {refused}") from refused
                # A default that the platform sets on new buckets would lock objects that the checks leave unlocked.
                nothing = Retention(RetentionMode.NONE, None, None)
                self.backend.check_rule(bucket, RunPlan(self.run.id, nothing, archives_unlocked=True))
                offset = self.run.profile.server_clock_offset_seconds or 0.0
                start = starter(
                    client, bucket, self.may_use_compliance, fewer_rights.clients, self.make_bucket, offset,
                    fewer_rights.are_trusted,
                )  # fmt: skip
                yield Suite(
                    start,
                    load=lambda: BackgroundLoad(order_for(self.backend, self.make_bucket(client, True), self.run.id)),
                    restart=self.restart,
                )
        finally:
            self.remove()

    def make_bucket(self, client: S3Client, lock: bool, lock_seconds_max: float = LOCKED_SECONDS_MAX) -> str:
        """Create a bucket, with Object Lock or without. Raises Inconclusive if the platform refuses."""
        bucket = f"archiver-{self.run.id.lower()}-{secrets.token_hex(4)}"
        self.enter(
            bucket,
            endpoint=client.endpoint,
            region=client.region,
            retention_mode="GOVERNANCE" if lock else "none",
            latest_retain_until=self.backend.server_now + lock_seconds_max if lock else None,
            legal_hold=lock,
            objects_max=20_000,
            bytes_max=1 << 30,
        )
        headers = [("x-amz-bucket-object-lock-enabled", "true")] if lock else []
        region = "" if client.region == "us-east-1" else f"<LocationConstraint>{client.region}</LocationConstraint>"
        body = f"<CreateBucketConfiguration>{region}</CreateBucketConfiguration>".encode() if region else b""
        answer = client.send("PUT", bucket, headers=headers, body=body)
        if not answer.ok:
            raise Inconclusive(f"a bucket could not be created: {answer}")
        self._open_to_limited(bucket)
        return bucket

    def removal_of(self, placement: Placement) -> RemovalReport:
        """Try to remove one bucket. A bucket created without Object Lock is tried without bypass first.

        The platform may reject a bypass header there, but a check may also have enabled Object Lock since.
        """
        location = Location(placement.endpoint, placement.region, placement.bucket, True, "")
        report = RemovalReport()
        for force in (True,) if placement.legal_hold else (False, True):
            try:
                report = self.backend.remove(location, None, bypass_governance=force, release_holds=force)
            except PlatformError as failed:
                report.refusals.append(str(failed))
                continue
            if not report.objects_left:
                break
        return report

    def seconds_until_unlocked(self) -> float:
        now = self.backend.server_now
        dates = (each.locked_until for each in self.left.values() if not each.on_hold)
        seconds = [max(0.0, until - now) + CLOCK_SECONDS for until in dates if until is not None]
        return max((each for each in seconds if each <= WAIT_SECONDS_MAX), default=0.0)


def reached(backend: S3Backend, *, accepts_server_clock: bool) -> PlatformProfile:
    """Return the profile of a platform whose clock and credentials serve for a run.

    Raises PlatformError if it cannot be reached, and SafetyRefused if its clock is far off and the user does not accept
    that.
    """
    profile = backend.profile()
    check_clock(profile.server_clock_offset_seconds, now_seconds(), accepted=accepts_server_clock)
    backend.refresh_credentials(LASTING_SECONDS)
    return profile


def locked_seconds_max(ids: Sequence[str], *, far: bool = False) -> float:
    """Return how long the shared bucket can stay locked if the process dies during a check.

    ``far``: it can stay locked for decades whatever the checks are.
    """
    far = far or any(each in LOCKING_FAR for each in ids)
    return FARTHEST_SECONDS + LOCKED_SECONDS_MAX if far else LOCKED_SECONDS_MAX
