"""S3Backend: one S3 platform, its bucket and its lock."""

from __future__ import annotations

import copy
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import ceil
from urllib.parse import urlsplit

from archiver.values.clock import now_seconds
from archiver.values.content import Content
from archiver.values.errors import PlatformError, SafetyRefused, UsageError
from archiver.values.platform import PlatformProfile
from archiver.values.record import Operation
from archiver.values.retention import Lock, Retention, RetentionMode, RetentionWish
from backends.base import (
    CHECKSUMS,
    SESSION_OPEN_KINDS,
    Capabilities,
    CloserLook,
    CredentialsTerm,
    ExpectedLock,
    Location,
    LockReading,
    RemovalReport,
    RunPlan,
)
from backends.proxies import refuse_proxy
from backends.s3.aws_settings import AwsSettings, aws_settings
from backends.s3.closer_look import ExpectedObject, look_closer
from backends.s3.control import Control, Credentials, CredentialSource
from backends.s3.credentials import FoundCredentials
from backends.s3.data_plane import S3DataPlane
from backends.s3.endpoints import expand, find_addresses, is_this_host, tls_context, tls_of
from backends.s3.keys import key_of, number_of
from backends.s3.reported_lock import unexpected_lock
from backends.s3.setting import S3Request, S3WorkerSetting

DAY_SECONDS = 86_400
SECOND_PLACE = "-second"  # suffix of its bucket's name or its prefix


def name_and_version(server: str) -> tuple[str, str | None]:
    """Split a Server header: ``nginx/1.25.3``, ``SeaweedFS 8000GB 4.48``, ``MinIO``."""
    found = re.fullmatch(r"(\D.*?)(?:[/ ]v?(\d.*))?", server.strip())
    return (found[1], found[2]) if found else (server.strip(), None)


@dataclass(frozen=True, slots=True)
class S3Options(S3Request):
    """All options for an S3 platform. Credentials given here (the embedded store's) come first."""

    endpoint_origin: str = "--endpoint"  # for messages: where the endpoints come from
    credentials: Credentials | None = None
    durability: str = "unknown"


@dataclass(frozen=True, slots=True)
class S3Access:
    """Endpoint, region for signatures, credential, TLS settings for https, and whether the host names buckets."""

    endpoint: str
    region: str
    credentials: Credentials
    tls: ssl.SSLContext | None
    virtual_hosted: bool


class S3Backend:
    """S3 with Object Lock on one platform, which may have several endpoints."""

    name = "s3"
    capabilities = Capabilities(
        retention_modes=("GOVERNANCE", "COMPLIANCE"),
        legal_hold=True,
        event_hold=True,
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
        self._endpoints = tuple(url for given in options.endpoints for url in expand(given, options.endpoint_origin))
        if not options.direct:
            for endpoint in self._endpoints:
                refuse_proxy(endpoint)
        settings = AwsSettings() if options.credentials else aws_settings(options.profile)
        self._credentials: CredentialSource = options.credentials or FoundCredentials(options.profile)
        self._region = options.region or settings.region or "us-east-1"
        self._ca_bundle = options.ca_bundle or settings.ca_bundle
        if self._ca_bundle is not None:
            tls_context(self._ca_bundle, options.insecure)  # refuses an unreadable bundle here, with its name
        self._control = Control(
            self._endpoints[0],
            self._region,
            self._credentials,
            verify=False if options.insecure else (self._ca_bundle or True),
            connect_timeout_seconds=options.connect_timeout_seconds,
            read_timeout_seconds=options.read_timeout_seconds,
            addressing=settings.addressing if options.addressing == "auto" else options.addressing,
        )
        self._clock_offset_seconds = 0.0
        self._addresses: dict[str, tuple[str, ...]] = {}  # addresses that accept connections, by endpoint
        self._retention = Retention()
        self._location: Location | None = None
        self._source: Location | None = None  # the run's first place, if this is its second

    def profile(self) -> PlatformProfile:
        """Return the platform's name and clock. Raises PlatformError if it cannot be reached."""
        bucket = self.options.bucket or "archiver"  # a name like those of runs' buckets
        virtual_hosted = self._control.is_virtual_hosted(bucket)
        if self.options.addressing == "virtual" and not virtual_hosted:
            raise UsageError(
                f"--addressing virtual: bucket {bucket} cannot be named in the host of {self._endpoints[0]}; that "
                "takes a host name, not an address, and a bucket without dots where there is TLS"
            )
        server, offset = self._control.server_header_and_clock()
        name, version = self._named(server)
        self._clock_offset_seconds = offset or 0.0
        found = find_addresses(
            self._endpoints, self.options.connect_timeout_seconds, bucket if virtual_hosted else None
        )
        self._addresses = {url: each.answering for url, each in found.items()}
        return PlatformProfile(
            name=name,
            backend=self.name,
            endpoints=self._endpoints,
            version=version,
            tls=self._endpoints[0].startswith("https"),
            shares_host=any(is_this_host(each.answering) for each in found.values()),
            durability=self.options.durability,
            server_clock_offset_seconds=offset,
            details={
                "region": self._region,
                "retries": self.options.retries,
                "on_close": self.options.on_close,
                "certificates_verified": not self.options.insecure,
                "addressing": "virtual" if virtual_hosted else "path",
                "addresses": self._addresses,
                "silent_addresses": {url: each.silent for url, each in found.items() if each.silent},
            },
            session_kind="kept" if self.options.keep_sessions_open else "opened",
            session_open=self.options.session_open,
            checksum=self.options.checksum,
            payload_signing=self.options.payload_signing,
            protocol="s3",
        )

    def _named(self, server: str) -> tuple[str, str | None]:
        """Return name and version of the platform, from the options or else from its Server header.

        A Server header with another name than the options' is that of a proxy and gives no version. Without any name,
        the platform is named by its host and port.
        """
        shown_name, shown_version = name_and_version(server)
        name = self.options.platform_name or shown_name or urlsplit(self._endpoints[0]).netloc
        version = shown_version if name.lower() == shown_name.lower() else None
        return name, self.options.platform_version or version

    def retention_for(self, wish: RetentionWish) -> Retention:
        """Return the wish: every object is locked as requested."""
        return wish.resolved(RetentionMode.GOVERNANCE)

    @property
    def access(self) -> S3Access:
        """Endpoint, credential and TLS settings, for code that sends its own requests."""
        endpoint = self._endpoints[0]
        tls = tls_of([endpoint], self._ca_bundle, self.options.insecure)
        virtual_hosted = self._control.is_virtual_hosted(self.options.bucket or "archiver")
        return S3Access(endpoint, self._region, self._credentials.current(), tls, virtual_hosted)

    def refresh_credentials(self, seconds: float) -> CredentialsTerm:
        """Renew credentials that end within ``seconds``. Raises PlatformError."""
        return self._credentials.refresh(seconds)

    @property
    def server_now(self) -> float:
        """The platform's clock in epoch seconds, from its Date header."""
        return now_seconds() + self._clock_offset_seconds

    def locate(self, plan: RunPlan) -> Location:
        """Return the run's bucket and prefix. Changes nothing.

        A second place is another bucket or, in a bucket that the user named, another prefix.
        """
        self._retention = plan.retention
        second = SECOND_PLACE if self._source is not None else ""
        bucket = self.options.bucket or f"archiver-{plan.run_id.lower()}{second}"
        created = self.options.bucket is None
        self._location = Location(self._endpoints[0], self._region, bucket, created, f"{plan.run_id}{second}/")
        return self._location

    def second_place(self) -> S3Backend:
        """Return a backend for a second place of the run on the same platform."""
        second = copy.copy(self)
        second._source, second._location = self._located(), None
        return second

    def prepare(self) -> None:
        """Create the bucket if the run has its own. Raises PlatformError."""
        location = self._located()
        if location.bucket_created:
            self._control.create_bucket(location.bucket)

    def attach(self, location: Location, retention: Retention) -> None:
        """Continue in an existing bucket. Raises PlatformError."""
        self._retention, self._location = retention, location
        if not self._control.lock_of_bucket(location.bucket).enabled and retention.locks:
            raise PlatformError(f"{location.endpoint}: bucket {location.bucket} has no Object Lock any more")

    def check_place(self, plan: RunPlan) -> None:
        """Read the bucket's Object Lock and its default rule. Raises SafetyRefused and PlatformError."""
        self.check_rule(self._located().bucket, plan)

    def check_rule(self, bucket: str, plan: RunPlan) -> None:
        """Refuse a bucket whose default rule would lock objects of ``plan`` that have no mode and date of their own.

        The run's own rule and a legal hold make no difference. Raises SafetyRefused, and PlatformError for a bucket
        without Object Lock if the plan locks.
        """
        endpoint = self._endpoints[0]
        lock = self._control.lock_of_bucket(bucket)
        takes_the_rule = plan.archives_unlocked or plan.retention.mode is RetentionMode.NONE
        if lock.default_retention not in (None, _rule(plan.rule)) and takes_the_rule:
            raise SafetyRefused(
                f"{endpoint}: bucket {bucket} locks every new object by its default retention "
                f"({lock.default_retention}), which no guard of this run limits; name a bucket without default "
                "retention, or let the run lock all its objects itself (--retention-mode GOVERNANCE)"
            )
        if not lock.enabled and plan.retention.locks:
            raise PlatformError(
                f"{endpoint}: bucket {bucket} has no Object Lock, so nothing in it would be protected; name a bucket "
                "created with Object Lock, leave --bucket out, or run with --retention-mode none"
            )

    def set_default_lock(self, retention: Retention | None) -> None:
        """Set the bucket's default rule, in days rounded up, and read it back."""
        bucket = self._located().bucket
        mode = retention.mode.value if retention is not None else None
        self._control.set_default_lock(bucket, mode, _days(retention))
        found = self._control.lock_of_bucket(bucket).default_retention
        wanted = _rule(retention)
        if found != wanted:
            raise PlatformError(
                f"{self._endpoints[0]}: bucket {bucket} was given the rule {wanted or 'to lock nothing by default'}, "
                f"but reports {found or 'none'}"
            )

    def read_lock(self, number: int, retention: Retention, earliest: float | None, latest: float | None) -> LockReading:
        """Read the lock of archived object ``number`` with a HEAD request. Raises PlatformError."""
        location = self._located()
        key = self._key(number)
        found = self._control.lock_of(location.bucket, key)
        forbids_hold = not retention.legal_hold
        expected = ExpectedLock(number, number, retention, earliest, latest, forbids_hold=forbids_hold)
        problem = unexpected_lock(found, expected)
        words = problem.words if problem is not None else None
        wanted = f"with mode {retention.mode.value}" if retention.locks else "without a lock"
        whole = f"{location.bucket}/{key} was archived {wanted}, but {words}" if words is not None else None
        held = found.on_hold or found.event_hold_days is not None
        return LockReading(found.mode, found.until, held, whole)

    def _located(self) -> Location:
        assert self._location is not None, "locate() comes first"
        return self._location

    def object_name(self, number: int) -> str:
        """Return bucket and key."""
        location = self._located()
        return f"{location.bucket}/{self._key(number)}"

    def look_closer(self, number: int, size_bytes: int, content: Content, lock: ExpectedLock) -> CloserLook:
        """Describe every version of an object. Raises PlatformError."""
        expected = ExpectedObject(self._located().bucket, self._key(number), number, size_bytes, content, lock)
        return look_closer(self._control, expected)

    def unseen_locks(self, number: int) -> str | None:
        """Return whether the credential lacks the right to see locks, tested with one object. Raises PlatformError."""
        missing = self._control.right_missing_to_see_locks(self._located().bucket, self._key(number))
        return f"this credential may not see locks ({missing})" if missing else None

    def present(self, first: int, last: int) -> Iterator[int]:
        """Yield the numbers from ``first`` to ``last`` that the bucket lists. Raises PlatformError."""
        location = self._located()
        before = self._key(first - 1) if first else ""
        for key, _ in self._control.versions(location.bucket, location.prefix, before, self._key(last)):
            number = number_of(location.prefix, key)
            if number is not None and first <= number <= last:
                yield number

    def _key(self, number: int) -> str:
        return key_of(self._located().prefix, number)

    def worker_setting(self) -> S3WorkerSetting:
        location, source = self._located(), self._source
        setting = self.setting_for(location.bucket, location.prefix, self._retention)
        if source is None:
            return setting
        return replace(setting, source_bucket=source.bucket, source_prefix=source.prefix)

    def setting_for(self, bucket: str, prefix: str, retention: Retention) -> S3WorkerSetting:
        """Return the data plane's setting for an existing bucket."""
        options, credentials = self.options, self._credentials.current()
        chosen = {each.name: getattr(options, each.name) for each in fields(S3Request)}
        return S3WorkerSetting(
            **chosen
            | {
                "endpoints": self._endpoints,
                "region": self._region,
                "access_key": credentials.access_key,
                "secret_key": credentials.secret_key,
                "session_token": credentials.session_token,
                "bucket": bucket,
                "prefix": prefix,
                "ca_bundle": self._ca_bundle,
                "retention": retention,
                "clock_offset_seconds": self._clock_offset_seconds,
                "virtual_hosted": self._control.is_virtual_hosted(bucket),
                "addresses": self._addresses,
            }
        )

    @classmethod
    def in_worker(cls, setting: S3WorkerSetting) -> S3DataPlane:
        return S3DataPlane(setting)

    def remove(
        self, location: Location, numbers: range | None, *, bypass_governance: bool, release_holds: bool
    ) -> RemovalReport:
        return self._control.remove(location, numbers, bypass_governance=bypass_governance, release_holds=release_holds)


def _days(rule: Retention | None) -> int:
    """Return the days of a default rule, rounded up."""
    return ceil((rule.retain_for_seconds or 0.0) / DAY_SECONDS) if rule is not None else 0


def _rule(rule: Retention | None) -> str | None:
    """Return a default rule in the words of Control.lock_of_bucket."""
    return f"{rule.mode.value}, {_days(rule)} days" if rule is not None else None
