"""The S3 control plane, through boto3: buckets, lock configuration, listing, removal.

One idea: what happens once per run goes through the client library that every S3 user trusts; what happens once per
object does not (see data_plane.py). Foreign errors are translated here, at one border.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import boto3
import botocore.exceptions
from botocore.config import Config

from archiver.errors import PlatformError, UsageError
from archiver.retention import Retention, RetentionMode
from archiver.sizes import format_instant
from backends.base import Location, RemovalReport

_HOLD_OFF = {"Status": "OFF"}
_LEFT_ASKED_PER_PAGE = 10


@dataclass(frozen=True, slots=True)
class Credentials:
    """Resolved as every AWS tool does: environment, profile, instance role."""

    access_key: str
    secret_key: str
    session_token: str | None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key})"


class BucketLock(NamedTuple):
    """A bucket's own lock: what it puts on objects that ask for none."""

    enabled: bool
    default_retention: str | None  # "GOVERNANCE, 30 days"


class Control:
    """A boto3 client of one endpoint, with errors that say what to do."""

    def __init__(
        self,
        endpoint: str,
        region: str,
        credentials: Credentials,
        *,
        verify: bool | str,
        connect_timeout_seconds: float,
        read_timeout_seconds: float,
    ) -> None:
        self.endpoint = endpoint
        config = Config(
            s3={"addressing_style": "path"},
            signature_version="s3v4",
            retries={"total_max_attempts": _max_attempts()},
            connect_timeout=connect_timeout_seconds,
            read_timeout=max(read_timeout_seconds, 30.0),
        )
        try:
            self._client: Any = boto3.session.Session().client(
                "s3",
                endpoint_url=endpoint,
                region_name=region,
                aws_access_key_id=credentials.access_key,
                aws_secret_access_key=credentials.secret_key,
                aws_session_token=credentials.session_token,
                verify=verify,
                config=config,
            )
        except ValueError as error:  # a host name that boto3 does not take, such as one with an underscore
            raise UsageError(f"--endpoint {endpoint}: {error}") from error
        self._client.meta.events.register("before-call.s3", _stay_at_the_endpoint)
        self._region = region

    def server_header_and_clock(self) -> tuple[str, float | None]:
        """The Server header, and the server's clock minus ours in seconds (None where it sends no Date).

        This is the first thing asked of a platform, so it is where a wrong key or endpoint is found.
        """
        with self._translated("list buckets"):
            before = time.time()
            try:
                reply = self._client.list_buckets(MaxBuckets=1)
                if "Buckets" not in reply and "Owner" not in reply:
                    raise ValueError("what came back lists no buckets")
                headers = reply["ResponseMetadata"]["HTTPHeaders"]
            except botocore.exceptions.ClientError as error:
                # A credential may lack s3:ListAllMyBuckets; its answer still has the headers.
                if _code(error) not in ("AccessDenied", "NotImplemented", "InvalidArgument"):
                    raise
                headers = error.response["ResponseMetadata"]["HTTPHeaders"]
            middle = (before + time.time()) / 2
        date = headers.get("date")
        # Date has whole seconds: on average it is half a second old.
        offset = parsedate_to_datetime(date).timestamp() + 0.5 - middle if date else None
        return headers.get("server", ""), offset

    def create_bucket(self, bucket: str) -> None:
        """A bucket of the run's own, with Object Lock (and so with versioning)."""
        location = {} if self._region == "us-east-1" else {"LocationConstraint": self._region}
        with self._translated(f"create bucket {bucket}"):
            self._client.create_bucket(
                Bucket=bucket,
                ObjectLockEnabledForBucket=True,
                **({"CreateBucketConfiguration": location} if location else {}),
            )

    def lock_of_bucket(self, bucket: str) -> BucketLock:
        """Read back, not believed. Raises PlatformError for a bucket that is not there."""
        with self._translated(f"read the lock configuration of bucket {bucket}"):
            try:
                reply = self._client.get_object_lock_configuration(Bucket=bucket)
            except botocore.exceptions.ClientError as error:
                if _code(error) in (
                    "ObjectLockConfigurationNotFoundError",
                    "InvalidRequest",
                    "NotImplemented",
                ):
                    return BucketLock(False, None)
                raise
        configuration = reply.get("ObjectLockConfiguration", {})
        default = configuration.get("Rule", {}).get("DefaultRetention", {})
        length = f"{default['Years']} years" if "Years" in default else f"{default.get('Days')} days"
        return BucketLock(
            configuration.get("ObjectLockEnabled") == "Enabled", f"{default['Mode']}, {length}" if default else None
        )

    def lock_of(self, bucket: str, key: str) -> tuple[str | None, float | None, bool]:
        """Mode, retain-until (epoch seconds) and legal hold that the platform reports for an object."""
        with self._translated(f"read the lock of {bucket}/{key}"):
            reply = self._client.head_object(Bucket=bucket, Key=key)
        until = reply.get("ObjectLockRetainUntilDate")
        return (
            reply.get("ObjectLockMode"),
            until.timestamp() if until else None,
            reply.get("ObjectLockLegalHoldStatus") == "ON",
        )

    def remove(self, location: Location, *, bypass_governance: bool, release_holds: bool) -> RemovalReport:
        """Remove every version and marker under the run's prefix that is not locked, then the run's own bucket."""
        report = RemovalReport()
        with self._translated(f"remove {location.bucket}/{location.prefix}"):
            try:
                removed_before = -1
                # A listing may pass over what moves up when its neighbours go, so it is asked for until nothing went.
                while report.objects_removed > removed_before:
                    removed_before, report.objects_left = report.objects_removed, 0
                    for page in self._versions(location):
                        self._remove_page(location.bucket, page, report, bypass_governance, release_holds)
                if location.bucket_created and not report.objects_left:
                    self._delete_bucket(location.bucket, report)
            except botocore.exceptions.ClientError as error:
                if _code(error) != "NoSuchBucket":
                    raise
                report.bucket_missing = True
        return report

    def _delete_bucket(self, bucket: str, report: RemovalReport) -> None:
        """Delete the run's own bucket, unless somebody else has put something into it."""
        try:
            self._client.delete_bucket(Bucket=bucket)
            report.bucket_removed = True
        except botocore.exceptions.ClientError as error:
            if _code(error) != "BucketNotEmpty":
                raise
            report.refusals.append(f"BucketNotEmpty: bucket {bucket} stays")

    def _versions(self, location: Location) -> Iterator[list[dict[str, Any]]]:
        pages = self._client.get_paginator("list_object_versions").paginate(
            Bucket=location.bucket, Prefix=location.prefix
        )
        before: set[tuple[str, str]] = set()
        for page in pages:
            rows = {
                (row["Key"], row["VersionId"]): row
                for kind in ("Versions", "DeleteMarkers")
                for row in page.get(kind, [])
            }
            # versitygw begins a page with the last version of the one before.
            new = [row for pair, row in rows.items() if pair not in before]
            before = set(rows)
            if new:
                yield new

    def _remove_page(
        self,
        bucket: str,
        rows: list[dict[str, Any]],
        report: RemovalReport,
        bypass_governance: bool,
        release_holds: bool,
    ) -> None:
        sizes = {(row["Key"], row["VersionId"]): row.get("Size", 0) for row in rows}
        left = self._delete(bucket, list(sizes), bypass_governance)
        if release_holds and left:
            for key, version in left:
                self._client.put_object_legal_hold(Bucket=bucket, Key=key, VersionId=version, LegalHold=_HOLD_OFF)
            left = self._delete(bucket, list(left), bypass_governance)
        report.objects_left += len(left)
        report.objects_removed += len(sizes) - len(left)
        report.bytes_removed += sum(size for pair, size in sizes.items() if pair not in left)
        report.refusals.extend(sorted(set(left.values()) - set(report.refusals)))
        # Why they stay is asked of a few only: a run may leave a hundred thousand.
        for key, version in list(left)[:_LEFT_ASKED_PER_PAGE]:
            head = self._client.head_object(Bucket=bucket, Key=key, VersionId=version)
            report.on_hold = report.on_hold or head.get("ObjectLockLegalHoldStatus") == "ON"
            until: datetime | None = head.get("ObjectLockRetainUntilDate")
            if until is not None:
                report.locked_until = max(report.locked_until or 0.0, until.timestamp())

    def _delete(self, bucket: str, pairs: list[tuple[str, str]], bypass: bool) -> dict[tuple[str, str], str]:
        """Delete versions in one batch; what was refused, and why."""
        reply = self._client.delete_objects(
            Bucket=bucket,
            Delete={"Objects": [{"Key": key, "VersionId": version} for key, version in pairs], "Quiet": True},
            **({"BypassGovernanceRetention": True} if bypass else {}),
        )
        return {
            (error["Key"], error["VersionId"]): f"{error['Code']}: {error.get('Message', '')}"
            for error in reply.get("Errors", [])
        }

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except botocore.exceptions.SSLError as error:
            raise PlatformError(
                f"{self.endpoint}: TLS failed: {error}; check the host name, give the authority's certificate with "
                "--ca-bundle, or, knowing the risk, --insecure"
            ) from error
        except (
            botocore.exceptions.ConnectTimeoutError,
            botocore.exceptions.EndpointConnectionError,
        ) as error:
            raise PlatformError(f"{self.endpoint}: could not be reached: {error}; check --endpoint") from error
        except botocore.exceptions.ClientError as error:
            raise PlatformError(_explain(self.endpoint, doing, error)) from error
        except (botocore.exceptions.BotoCoreError, ValueError) as error:
            raise PlatformError(
                f"{self.endpoint}: {doing} got no S3 answer: {error}; is this the S3 endpoint, and not a console "
                "or a proxy?"
            ) from error


def _max_attempts() -> int:
    text = os.environ.get("AWS_MAX_ATTEMPTS", "1")
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"AWS_MAX_ATTEMPTS={text}: write a whole number from 1 on, or unset it")
    return int(text)


def find_credentials(profile: str | None) -> tuple[Credentials, str]:
    """Credentials and region by the AWS conventions. Raises UsageError when there are none."""
    try:
        session = boto3.session.Session(profile_name=profile)
        found = session.get_credentials()
    except botocore.exceptions.BotoCoreError as error:
        raise UsageError(f"no S3 credentials: {error}; check --profile or AWS_PROFILE") from error
    if found is None:
        raise UsageError(
            "no S3 credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile with --profile"
        )
    frozen = found.get_frozen_credentials()
    region = session.region_name or os.environ.get("AWS_REGION") or "us-east-1"
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token), region


def lock_problem(
    lock: tuple[str | None, float | None, bool], retention: Retention, earliest: float | None, latest: float | None
) -> str | None:
    """What is wrong with the lock that a platform reports for an object archived with ``retention``; None: nothing.

    Its date is to lie between ``earliest`` and ``latest`` (epoch seconds).
    """
    mode, until, on_hold = lock
    if retention.legal_hold and not on_hold:
        return "the legal hold asked for is not there, or this credential may not see it (s3:GetObjectLegalHold)"
    if retention.mode is RetentionMode.NONE:
        return None
    if mode != retention.mode.value:
        if mode is None:
            return (
                f"the platform reports no mode, not {retention.mode.value}; either it dropped the lock, or this "
                "credential may not see it (s3:GetObjectRetention)"
            )
        return f"its mode is {mode}, not {retention.mode.value}"
    if until is None:
        return "its retain-until date is missing, so nothing protects it"
    if earliest is not None and until < earliest:
        return f"it is locked until {format_instant(until)} only, not until {format_instant(earliest)} as asked for"
    if latest is not None and until > latest:
        return f"it is locked until {format_instant(until)}, later than the {format_instant(latest)} asked for"
    return None


def _stay_at_the_endpoint(context: dict[str, Any], **_: object) -> None:
    # boto3 answers a redirect by asking which region the bucket is in, and a redirect of that question likewise:
    # without end where what redirects is a console. The data plane follows no redirect either.
    context.get("s3_redirect", {})["redirected"] = True


def _code(error: botocore.exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


_REMEDY: dict[str, str] = {
    "InvalidAccessKeyId": "the access key is unknown there; check AWS_ACCESS_KEY_ID or --profile",
    "SignatureDoesNotMatch": "the secret key is wrong; check AWS_SECRET_ACCESS_KEY or --profile",
    "RequestTimeTooSkewed": "this machine's clock differs too much from the server's; set it right",
    "NoSuchBucket": "the bucket does not exist; check --bucket, or leave it out for a bucket of the run's own",
    "AccessDenied": "the credential may not do this; docs/measuring-your-own-platform.md has the rights it needs",
    "PermanentRedirect": "the bucket is in another region; name it with --region, and its endpoint with --endpoint",
    "AuthorizationHeaderMalformed": "the platform is in another region; name it with --region",
    "BucketAlreadyExists": "another owner has a bucket of that name; run again",
}


def _explain(endpoint: str, doing: str, error: botocore.exceptions.ClientError) -> str:
    answer = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    code = _code(error)
    remedy = _REMEDY.get(code, "")
    if not code.strip() or code.isdigit():  # botocore found no S3 error in the body and put the HTTP status here
        remedy = "that is no S3 answer; is this the S3 endpoint, and not a console or a proxy?"
    request = metadata.get("RequestId") or "-"
    text = f"{endpoint}: {doing} was refused: {code} {answer.get('Message', '')} (request {request})"
    return f"{text}; {remedy}" if remedy else text
