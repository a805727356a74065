"""The S3 control plane, through boto3: buckets, lock configuration, listing, removal.

One idea: calls made once per run use the client library that every S3 user trusts; calls made per object do not (see
data_plane.py). This module translates foreign errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import botocore.exceptions

from archiver.values.clock import now_seconds
from archiver.values.errors import PlatformError, PlatformGone, UsageError
from archiver.values.visible import one_line
from backends.base import CredentialsTerm, Location, RemovalReport
from backends.s3.answers import code_of, pages
from backends.s3.endpoints import check_name
from backends.s3.removal import Removal
from backends.s3.reported_lock import ReportedLock, epoch_seconds, event_hold_days
from backends.s3.wire.replies import instant_of_date_header

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # OpenSSL's names for bytes that are not TLS
_CHUNK_BYTES = 1 << 20
# What the document of a success has, by operation; None: a success has no body. botocore reads any other document as an
# empty answer, so a proxy's page would be a listing without objects, or the deletion of all of them. What the other
# operations did is read back.
_DOCUMENT_OF: Mapping[str, re.Pattern[bytes] | None] = {
    "ListBuckets": re.compile(rb"<ListAllMyBucketsResult\b"),
    "ListObjectVersions": re.compile(rb"<ListVersionsResult\b"),
    "ListMultipartUploads": re.compile(rb"<ListMultipartUploadsResult\b"),
    "DeleteObjects": re.compile(rb"<DeleteResult\b"),
    "GetObjectLockConfiguration": re.compile(rb"<ObjectLockConfiguration\b"),
    "GetObjectRetention": re.compile(rb"<\w*Retention\b"),
    "GetObjectLegalHold": re.compile(rb"<LegalHold\b"),
    "PutObjectRetention": None,
    "PutObjectLegalHold": None,
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials found as every AWS tool does: environment, profile, instance role."""

    access_key: str
    secret_key: str
    session_token: str | None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key})"

    def current(self) -> Credentials:
        """Return itself: these credentials are not renewed."""
        return self

    def refresh(self, seconds: float) -> CredentialsTerm:
        """Return that there are no newer credentials."""
        return CredentialsTerm()


class CredentialSource(Protocol):
    """A source of the credentials to use now: fixed ones, or renewed ones."""

    def current(self) -> Credentials:
        """Return the credentials. Raises PlatformError if a necessary renewal failed."""

    def refresh(self, seconds: float) -> CredentialsTerm:
        """Renew credentials that end within ``seconds``, if possible. Raises PlatformError."""


class BucketLock(NamedTuple):
    """Object Lock of a bucket, and its default retention for objects without one."""

    enabled: bool
    default_retention: str | None  # "GOVERNANCE, 30 days"


class KeyVersion(NamedTuple):
    """One version of a key, or a delete marker."""

    id: str
    is_marker: bool
    is_latest: bool
    size_bytes: int


class Control:
    """A boto3 client of one endpoint, with errors that say what to do."""

    def __init__(
        self,
        endpoint: str,
        region: str,
        credentials: CredentialSource,
        *,
        verify: bool | str,
        connect_timeout_seconds: float,
        read_timeout_seconds: float,
        addressing: str = "path",
    ) -> None:
        """``addressing``: path, virtual or auto, as in botocore."""
        import boto3  # loading takes 0.2 s, and most workers never need it
        from botocore.config import Config

        from backends.s3.botocore_session import session_of
        from backends.s3.bounded_http import BoundedHttp

        self.endpoint = endpoint
        answer_seconds = max(read_timeout_seconds, 30.0)  # listings and batch deletions take longer than objects
        config = Config(
            s3={"addressing_style": addressing},
            signature_version="s3v4",
            proxies={},  # none, as in the data plane
            retries={"total_max_attempts": _max_attempts()},
            connect_timeout=connect_timeout_seconds,
            read_timeout=answer_seconds,
        )
        try:
            self._client: Any = boto3.session.Session(botocore_session=session_of(credentials.current)).client(
                "s3", endpoint_url=endpoint, region_name=region, verify=verify, config=config
            )
        except ValueError as error:  # boto3 rejects some host names, such as one with an underscore
            raise UsageError(f"--endpoint {endpoint}: {error}") from error
        http = BoundedHttp(
            verify=verify, connect_timeout_seconds=connect_timeout_seconds, read_timeout_seconds=answer_seconds
        )
        self._client.meta.events.register("before-send.s3", http.send)
        self._client.meta.events.register("before-call.s3", _stay_at_the_endpoint)
        for operation in _DOCUMENT_OF:
            self._client.meta.events.register(f"after-call.s3.{operation}", _refuse_other_documents)
        self._region = region

    def is_virtual_hosted(self, bucket: str) -> bool:
        """Return whether requests name this bucket in the host instead of the path, as botocore decides."""
        with self._translated(f"address bucket {bucket}"):
            url = self._client.generate_presigned_url("head_bucket", Params={"Bucket": bucket})
        return bool(urlsplit(url).hostname != urlsplit(self.endpoint).hostname)

    def server_header_and_clock(self) -> tuple[str, float | None]:
        """Return the Server header, and the server's clock minus ours in seconds (None without a valid Date).

        This is the first request to a platform, so it finds a wrong key or endpoint.
        """
        with self._translated("list buckets"):
            before = now_seconds()
            try:
                headers = self._client.list_buckets(MaxBuckets=1)["ResponseMetadata"]["HTTPHeaders"]
            except botocore.exceptions.ClientError as error:
                # A credential may lack s3:ListAllMyBuckets; the refusal has the headers too.
                if code_of(error) not in ("AccessDenied", "NotImplemented", "InvalidArgument"):
                    raise
                headers = error.response["ResponseMetadata"]["HTTPHeaders"]
            middle = (before + now_seconds()) / 2
        date = instant_of_date_header(headers.get("date", ""))
        # Date has whole seconds: on average it is half a second old.
        return headers.get("server", ""), None if date is None else date + 0.5 - middle

    def create_bucket(self, bucket: str) -> None:
        """Create the run's own bucket with Object Lock, and so with versioning."""
        location = {} if self._region == "us-east-1" else {"LocationConstraint": self._region}
        with self._translated(f"create bucket {bucket}"):
            self._client.create_bucket(
                Bucket=bucket,
                ObjectLockEnabledForBucket=True,
                **({"CreateBucketConfiguration": location} if location else {}),
            )

    def lock_of_bucket(self, bucket: str) -> BucketLock:
        """Read a bucket's lock configuration back. Raises PlatformError if the bucket does not exist."""
        with self._translated(f"read the lock configuration of bucket {bucket}"):
            try:
                reply = self._client.get_object_lock_configuration(Bucket=bucket)
            except botocore.exceptions.ClientError as error:
                if code_of(error) in (
                    "ObjectLockConfigurationNotFoundError",
                    "InvalidRequest",
                    "NotImplemented",
                ):
                    return BucketLock(False, None)
                raise
        configuration = reply.get("ObjectLockConfiguration", {})
        default = configuration.get("Rule", {}).get("DefaultRetention", {})
        rule = [default.get("Mode", "no mode")]
        rule += [_length(default)] if "Days" in default or "Years" in default else []
        rule += [f"event hold of {_length(default['DefaultEventHold'])}"] if "DefaultEventHold" in default else []
        return BucketLock(configuration.get("ObjectLockEnabled") == "Enabled", ", ".join(rule) if default else None)

    def lock_of(self, bucket: str, key: str) -> ReportedLock:
        """Return the lock that the platform reports for an object."""
        with self._translated(f"read the lock of {bucket}/{key}"):
            return _lock_in(self._client.head_object(Bucket=bucket, Key=key))

    def lock_of_version(self, bucket: str, key: str, version: str) -> ReportedLock:
        """Return the lock that the platform reports for one version; by lock requests if HEAD shows none."""
        which = {"Bucket": bucket, "Key": key, "VersionId": version}
        with self._translated(f"read the lock of {bucket}/{key} (version {version})"):
            lock = _lock_in(self._client.head_object(**which))
            if lock.mode is None:
                with suppress(botocore.exceptions.ClientError):  # it has none, or the credential may not see it
                    found = self._client.get_object_retention(**which).get("Retention", {})
                    until = found.get("RetainUntilDate")
                    lock = lock._replace(mode=found.get("Mode"), until=epoch_seconds(until) if until else None)
            if not lock.on_hold:
                with suppress(botocore.exceptions.ClientError):
                    hold = self._client.get_object_legal_hold(**which).get("LegalHold", {})
                    lock = lock._replace(on_hold=hold.get("Status") == "ON")
        return lock

    def set_default_lock(self, bucket: str, mode: str | None, days: int) -> None:
        """Set the bucket's default lock rule; a mode of None removes it."""
        rule = {"Rule": {"DefaultRetention": {"Mode": mode, "Days": days}}} if mode is not None else {}
        with self._translated(f"set the lock configuration of bucket {bucket}"):
            self._client.put_object_lock_configuration(
                Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", **rule}
            )

    def versions(self, bucket: str, prefix: str, after: str, last: str) -> Iterator[tuple[str, str]]:
        """Yield (key, version id) of the newest version of every key from after ``after`` to ``last``."""
        with self._translated(f"list the versions of {bucket}/{prefix}"):
            for page in pages(self._client, "list_object_versions", bucket=bucket, prefix=prefix, after=after):
                for row in page.get("Versions", []):
                    if row["Key"] > last:
                        return
                    if row["IsLatest"]:
                        yield row["Key"], row["VersionId"]

    def versions_of(self, bucket: str, key: str) -> list[KeyVersion]:
        """Return every version and delete marker of one key, the newest version first."""
        found: dict[str, KeyVersion] = {}
        with self._translated(f"list the versions of {bucket}/{key}"):
            for page in pages(self._client, "list_object_versions", bucket=bucket, prefix=key):
                for kind in ("Versions", "DeleteMarkers"):
                    for row in page.get(kind, []):
                        if row["Key"] == key:
                            found[row["VersionId"]] = KeyVersion(
                                row["VersionId"], kind == "DeleteMarkers", bool(row["IsLatest"]), row.get("Size", 0)
                            )
        return list(found.values())

    def content_of(self, bucket: str, key: str, version: str, first: int = 0) -> Iterator[bytes]:
        """Yield the bytes of one version from ``first`` on, in pieces."""
        part = {"Range": f"bytes={first}-"} if first else {}
        with self._translated(f"retrieve {bucket}/{key} (version {version})"):
            answer = self._client.get_object(Bucket=bucket, Key=key, VersionId=version, **part)
            yield from answer["Body"].iter_chunks(_CHUNK_BYTES)

    def right_missing_to_see_locks(self, bucket: str, key: str) -> str | None:
        """Return the right that this credential lacks to see an object's lock; None: it may, or this is unknown."""
        for right, ask in (
            ("s3:GetObjectRetention", self._client.get_object_retention),
            ("s3:GetObjectLegalHold", self._client.get_object_legal_hold),
        ):
            with self._translated(f"read the lock of {bucket}/{key}"):
                try:
                    ask(Bucket=bucket, Key=key)
                except botocore.exceptions.ClientError as error:
                    if code_of(error) == "AccessDenied":
                        return right
        return None

    def remove(
        self, location: Location, numbers: range | None, *, bypass_governance: bool, release_holds: bool
    ) -> RemovalReport:
        """Remove everything that the run made and no lock protects, then the run's own bucket. Raises PlatformError.

        This includes every version, every delete marker and every unfinished upload of these object numbers.
        """
        with self._translated(f"remove {location.bucket}/{location.prefix}"):
            removal = Removal(
                self._client, location, numbers, bypass_governance=bypass_governance, release_holds=release_holds
            )
            return removal.carry_out()

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except botocore.exceptions.SSLError as error:
            if any(words in str(error) for words in _NO_TLS):
                raise PlatformError(
                    f"{self.endpoint}: the server does not speak TLS on this port: {error}; write http:// in "
                    "--endpoint, or the port of its HTTPS"
                ) from error
            raise PlatformError(
                f"{self.endpoint}: TLS failed: {error}; check the host name, give the authority's certificate with "
                "--ca-bundle, or, knowing the risk, --insecure"
            ) from error
        except (
            botocore.exceptions.ConnectTimeoutError,
            botocore.exceptions.EndpointConnectionError,
        ) as error:
            check_name(self.endpoint)
            raise PlatformGone(f"{self.endpoint}: could not be reached: {error}; check --endpoint") from error
        except (botocore.exceptions.ConnectionClosedError, botocore.exceptions.ReadTimeoutError) as error:
            raise PlatformError(
                f"{self.endpoint}: {doing} got no answer: {error}; does the platform still run?"
            ) from error
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


def _stay_at_the_endpoint(context: dict[str, Any], **_: object) -> None:
    # boto3 answers a redirect by requesting the bucket's region, and handles a redirect of that request in the same
    # way. If a web console redirects, this never ends. The data plane does not follow redirects either.
    context.get("s3_redirect", {})["redirected"] = True


def _refuse_other_documents(http_response: Any, model: Any, **_: object) -> None:
    """Raise ValueError for a success that does not have the document of its operation."""
    if http_response.status_code >= 300:
        return
    document, body = _DOCUMENT_OF[model.name], http_response.content
    if body.strip() if document is None else document.search(body) is None:
        text = " ".join(body[:200].decode("utf-8", "replace").split()) or "without a body"
        raise ValueError(f"the answer to {model.name} has status {http_response.status_code}, but is: {text}")


def _length(period: dict[str, int]) -> str:
    return f"{period['Years']} years" if "Years" in period else f"{period.get('Days')} days"


def _lock_in(reply: dict[str, Any]) -> ReportedLock:
    """Return the lock in an answer to HEAD."""
    until = reply.get("ObjectLockRetainUntilDate")
    return ReportedLock(
        reply.get("ObjectLockMode"),
        epoch_seconds(until) if until else None,
        reply.get("ObjectLockLegalHoldStatus") == "ON",
        event_hold_days(
            reply.get("ObjectLockEventHold", ""),
            str(reply.get("ObjectLockEventHoldDurationDays", "")),
            str(reply.get("ObjectLockEventHoldDurationYears", "")),
        ),
    )


_REMEDY: dict[str, str] = {
    "InvalidAccessKeyId": "the platform does not know the access key; check AWS_ACCESS_KEY_ID or --profile",
    "SignatureDoesNotMatch": "the secret key is wrong; check AWS_SECRET_ACCESS_KEY or --profile",
    "ExpiredToken": "the temporary credentials have ended; get new ones, or use a profile that can be refreshed",
    "RequestTimeTooSkewed": "this machine's clock differs too much from the server's; set it right",
    "NoSuchBucket": "the bucket does not exist; check --bucket, or leave it out for a bucket of the run's own",
    "AccessDenied": "the credential may not do this; docs/measuring-your-own-platform.md has the rights it needs",
    "PermanentRedirect": "the bucket is in another region; name it with --region, and its endpoint with --endpoint",
    "AuthorizationHeaderMalformed": "the platform is in another region; name it with --region",
    "BucketAlreadyExists": "another owner has a bucket of that name; run again",
}


# An answer to HEAD has no body, so the status is all that it says.
_MEANING_OF_HEAD: dict[str, str] = {
    "403": "the credential may not read this, or this machine's clock is wrong",
    "404": "it is not there",
}


def _explain(endpoint: str, doing: str, error: botocore.exceptions.ClientError) -> str:
    answer = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    code = code_of(error)
    remedy = _REMEDY.get(code, "")
    if not code.strip() or code.isdigit():  # botocore found no S3 error in the body and used the HTTP status
        meaning = _MEANING_OF_HEAD.get(code) if error.operation_name.startswith("Head") else None
        remedy = f"{meaning}, or this" if meaning is not None else "this"
        remedy += " is not an S3 answer; is this the S3 endpoint, and not a console or a proxy?"
    request = metadata.get("RequestId") or "-"
    text = one_line(f"{endpoint}: {doing} was refused: {code} {answer.get('Message', '')} (request {request})")
    return f"{text}; {remedy}" if remedy else text
