"""S3Backend: one S3 platform, its bucket and its lock."""

from __future__ import annotations

import copy
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from archiver.clock import now_seconds
from archiver.content import Content
from archiver.errors import PlatformError, SafetyRefused, UsageError
from archiver.record import Operation
from archiver.retention import Lock, Retention, RetentionMode, RetentionWish
from backends.base import (
    CHECKSUMS,
    SESSION_OPEN_KINDS,
    Capabilities,
    CloserLook,
    ExpectedLock,
    Location,
    PlatformProfile,
    RemovalReport,
    RunPlan,
)
from backends.s3.closer_look import AskedObject, look_closer
from backends.s3.control import Control, Credentials, find_credentials
from backends.s3.data_plane import S3DataPlane
from backends.s3.endpoints import expand, is_this_host, tls_context
from backends.s3.reported_lock import lock_problem
from backends.s3.setting import WorkerSetting

DAY_SECONDS = 86_400
SECOND_PLACE = "-second"  # at the end of its bucket's name, and of its prefix


@dataclass(frozen=True, slots=True)
class S3Options:
    """What a user chooses of an S3 platform. Credentials given here (the embedded store's) beat the environment's."""

    endpoints: tuple[str, ...]
    bucket: str | None = None
    region: str | None = None
    profile: str | None = None
    credentials: Credentials | None = None
    ca_bundle: str | None = None
    insecure: bool = False
    checksum: str = "crc32c"
    payload_signing: bool = False
    session_open: str = "head-bucket"
    keep_sessions_open: bool = False
    connect_timeout_seconds: float = 5.0
    read_timeout_seconds: float = 30.0
    retries: int = 0
    on_close: str = "reconnect"  # where the server ends the connection within a session; or stop
    platform_name: str | None = None  # known where Archiver started the platform itself
    durability: str = "unknown"


@dataclass(frozen=True, slots=True)
class S3Access:
    """An endpoint, the region to sign for, the credential, and the TLS settings of an https endpoint."""

    endpoint: str
    region: str
    credentials: Credentials
    tls: ssl.SSLContext | None


class S3Backend:
    """Speaks S3 with Object Lock to one platform (possibly through several endpoints)."""

    name = "s3"
    capabilities = Capabilities(
        retention_modes=("GOVERNANCE", "COMPLIANCE"),
        legal_hold=True,
        stores_content=True,
        operations=tuple(operation for operation in Operation if operation >= Operation.ARCHIVE),
        locks=tuple(Lock),
    )

    def __init__(self, options: S3Options) -> None:
        if options.checksum not in CHECKSUMS:
            raise UsageError(f"--checksum {options.checksum}: choose one of {', '.join(CHECKSUMS)}")
        if options.session_open not in SESSION_OPEN_KINDS:
            raise UsageError(f"--session-open {options.session_open}: choose one of {', '.join(SESSION_OPEN_KINDS)}")
        self.options = options
        self._endpoints = tuple(url for given in options.endpoints for url in expand(given))
        found, region = (options.credentials, None) if options.credentials else find_credentials(options.profile)
        assert found is not None
        self._credentials = found
        self._region = options.region or region or "us-east-1"
        self._ca_bundle = options.ca_bundle or os.environ.get("AWS_CA_BUNDLE")
        tls_context(self._ca_bundle, options.insecure)  # a bundle that cannot be read is refused here, by name
        self._control = Control(
            self._endpoints[0],
            self._region,
            found,
            verify=False if options.insecure else (self._ca_bundle or True),
            connect_timeout_seconds=options.connect_timeout_seconds,
            read_timeout_seconds=options.read_timeout_seconds,
        )
        self._clock_offset_seconds = 0.0
        self._retention = Retention()
        self._archives_unlocked = False
        self._location: Location | None = None
        self._source: Location | None = None  # the run's first place, where this is its second

    def profile(self) -> PlatformProfile:
        """Ask the platform for its name and clock. Raises PlatformError where it cannot be reached."""
        server, offset = self._control.server_header_and_clock()
        self._clock_offset_seconds = offset or 0.0
        return PlatformProfile(
            name=self.options.platform_name or server or "unknown",
            backend=self.name,
            endpoints=self._endpoints,
            version=server or None,
            tls=self._endpoints[0].startswith("https"),
            shares_host=any(is_this_host(url) for url in self._endpoints),
            durability=self.options.durability,
            server_clock_offset_seconds=offset,
            details={
                "region": self._region,
                "retries": self.options.retries,
                "on_close": self.options.on_close,
                "certificates_verified": not self.options.insecure,
            },
            session_kind="kept" if self.options.keep_sessions_open else "opened",
            session_open=self.options.session_open,
            checksum=self.options.checksum,
            payload_signing=self.options.payload_signing,
            protocol="s3",
        )

    def retention_for(self, wish: RetentionWish) -> Retention:
        """The wish: every object is locked as asked for."""
        return wish.resolved(RetentionMode.GOVERNANCE)

    @property
    def access(self) -> S3Access:
        """How this platform is reached, for who speaks to it in words of his own."""
        endpoint = self._endpoints[0]
        tls = tls_context(self._ca_bundle, self.options.insecure) if endpoint.startswith("https") else None
        return S3Access(endpoint, self._region, self._credentials, tls)

    @property
    def server_now(self) -> float:
        """The platform's clock, in epoch seconds, as far as its Date header tells."""
        return now_seconds() + self._clock_offset_seconds

    def locate(self, plan: RunPlan) -> Location:
        """The run's bucket and prefix; touches nothing. A second place is another bucket, or, in a bucket that the
        user named, another prefix."""
        self._retention, self._archives_unlocked = plan.retention, plan.archives_unlocked
        second = SECOND_PLACE if self._source is not None else ""
        bucket = self.options.bucket or f"archiver-{plan.run_id.lower()}{second}"
        created = self.options.bucket is None
        self._location = Location(self._endpoints[0], self._region, bucket, created, f"{plan.run_id}{second}/")
        return self._location

    def beside(self) -> S3Backend:
        """The same platform, for a second place of the run."""
        second = copy.copy(self)
        second._source, second._location = self._located(), None
        return second

    def prepare(self) -> None:
        """Make (or check) the bucket and verify that its lock is on, where the run locks. Raises PlatformError."""
        location = self._located()
        if location.bucket_created:
            self._control.create_bucket(location.bucket)
        lock = self._control.lock_of_bucket(location.bucket)
        if lock.default_retention is not None and (self._archives_unlocked or not self._retention.locks):
            raise SafetyRefused(
                f"{location.endpoint}: bucket {location.bucket} locks whatever is put there by itself "
                f"({lock.default_retention}), which no guard of this run limits; name a bucket without default "
                "retention, or let the run lock all its objects itself"
            )
        if not lock.enabled and self._retention.locks:
            raise PlatformError(
                f"{location.endpoint}: bucket {location.bucket} has no Object Lock, so nothing in it would be "
                "protected; name a bucket made with Object Lock, leave --bucket out, or run with --retention-mode none"
            )

    def attach(self, location: Location, retention: Retention) -> None:
        """Go on in a bucket that is there. Raises PlatformError."""
        self._retention, self._location = retention, location
        if not self._control.lock_of_bucket(location.bucket).enabled and retention.locks:
            raise PlatformError(f"{location.endpoint}: bucket {location.bucket} has no Object Lock any more")

    def set_default_lock(self, retention: Retention | None) -> None:
        """The bucket's own rule, in days, rounded up; read back."""
        bucket = self._located().bucket
        days = ceil((retention.retain_for_seconds or 0.0) / DAY_SECONDS) if retention is not None else 0
        mode = retention.mode.value if retention is not None else None
        self._control.set_default_lock(bucket, mode, days)
        found = self._control.lock_of_bucket(bucket).default_retention
        wanted = f"{mode}, {days} days" if mode is not None else None
        if found != wanted:
            raise PlatformError(
                f"{self._endpoints[0]}: bucket {bucket} was given the rule {wanted or 'to lock nothing by itself'}, "
                f"but reports {found or 'none'}"
            )

    def lock_problem(
        self, number: int, retention: Retention, earliest: float | None, latest: float | None
    ) -> str | None:
        """What is wrong with the lock of archived object ``number``, as the platform reports it; None: nothing."""
        location = self._located()
        key = f"{location.prefix}{number:012d}"
        problem = lock_problem(self._control.lock_of(location.bucket, key), retention, earliest, latest)
        asked = f"with mode {retention.mode.value}" if retention.locks else "without a lock"
        return f"{location.bucket}/{key} was archived {asked}, but {problem.words}" if problem else None

    def _located(self) -> Location:
        assert self._location is not None, "locate() comes first"
        return self._location

    def object_name(self, number: int) -> str:
        """Bucket and key."""
        location = self._located()
        return f"{location.bucket}/{self._key(number)}"

    def look_closer(self, number: int, size_bytes: int, content: Content, lock: ExpectedLock) -> CloserLook:
        """Every version of an object. Raises PlatformError."""
        asked = AskedObject(self._located().bucket, self._key(number), number, size_bytes, content, lock)
        return look_closer(self._control, asked)

    def unseen_locks(self, number: int) -> str | None:
        """Whether the credential lacks the right to see locks, asked of one object. Raises PlatformError."""
        missing = self._control.right_missing_to_see_locks(self._located().bucket, self._key(number))
        return f"this credential may not see locks ({missing})" if missing else None

    def present(self, first: int, last: int) -> Iterator[int]:
        """The objects ``first`` to ``last`` that the bucket lists. Raises PlatformError."""
        location = self._located()
        before = self._key(first - 1) if first else ""
        for key, _ in self._control.versions(location.bucket, location.prefix, before, self._key(last)):
            name = key.removeprefix(location.prefix)
            if name.isascii() and name.isdigit():
                yield int(name)

    def _key(self, number: int) -> str:
        return f"{self._located().prefix}{number:012d}"

    def worker_setting(self) -> WorkerSetting:
        location, source = self._located(), self._source
        setting = self.setting_for(location.bucket, location.prefix, self._retention)
        if source is None:
            return setting
        return replace(setting, source_bucket=source.bucket, source_prefix=source.prefix)

    def setting_for(self, bucket: str, prefix: str, retention: Retention) -> WorkerSetting:
        """The data plane's setting for a bucket that is known to be there."""
        options = self.options
        return WorkerSetting(
            endpoints=self._endpoints,
            region=self._region,
            access_key=self._credentials.access_key,
            secret_key=self._credentials.secret_key,
            session_token=self._credentials.session_token,
            bucket=bucket,
            prefix=prefix,
            ca_bundle=self._ca_bundle,
            insecure=options.insecure,
            retention=retention,
            checksum=options.checksum,
            payload_signing=options.payload_signing,
            session_open=options.session_open,
            keep_sessions_open=options.keep_sessions_open,
            connect_timeout_seconds=options.connect_timeout_seconds,
            read_timeout_seconds=options.read_timeout_seconds,
            retries=options.retries,
            on_close=options.on_close,
            clock_offset_seconds=self._clock_offset_seconds,
        )

    @classmethod
    def in_worker(cls, setting: WorkerSetting) -> S3DataPlane:
        return S3DataPlane(setting)

    def remove(self, location: Location, *, bypass_governance: bool, release_holds: bool) -> RemovalReport:
        return self._control.remove(location, bypass_governance=bypass_governance, release_holds=release_holds)
