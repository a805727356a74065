"""The control plane: checks of locks, explanations of refusals, credentials, and endpoints that are not S3."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
from botocore.auth import AUTH_TYPE_MAPS
from botocore.utils import parse_timestamp

from archiver.values.errors import PlatformError, UsageError
from archiver.values.record import Status
from archiver.values.retention import Retention, RetentionMode
from backends.s3 import control
from backends.s3.aws_settings import aws_settings
from backends.s3.control import Control, Credentials
from backends.s3.credentials import FoundCredentials
from backends.s3.reported_lock import ReportedLock, lock_problem
from tests.support.servers.scripted import Request, ScriptedServer, close, read, reset, send, serve

Scripted = Callable[..., ScriptedServer]
NOW = 1_900_000_000.0
GOVERNANCE = Retention(RetentionMode.GOVERNANCE, 300.0)
COMPLIANCE = Retention(RetentionMode.COMPLIANCE, 300.0)
NONE = Retention(RetentionMode.NONE, None)
HELD = Retention(RetentionMode.NONE, None, legal_hold=True)
EVENT_HELD = Retention(RetentionMode.GOVERNANCE, 300.0, event_hold_days=3)
GOVERNANCE_HELD = Retention(RetentionMode.GOVERNANCE, 300.0, legal_hold=True)


@pytest.mark.parametrize(
    ("asked", "mode", "until", "on_hold", "problem"),
    [
        (GOVERNANCE, "GOVERNANCE", NOW + 300, False, None),
        (COMPLIANCE, "COMPLIANCE", NOW + 300, False, None),
        (GOVERNANCE, "GOVERNANCE", NOW + 400, False, None),  # the latest requested date
        (GOVERNANCE, "GOVERNANCE", NOW + 1, False, None),
        (GOVERNANCE, "GOVERNANCE", NOW + 300, True, None),  # a hold of another party is no problem
        (GOVERNANCE, None, None, False, "the platform reports no mode, not GOVERNANCE"),
        (GOVERNANCE, "COMPLIANCE", NOW + 300, False, "its mode is COMPLIANCE, not GOVERNANCE"),
        (COMPLIANCE, "GOVERNANCE", NOW + 300, False, "its mode is GOVERNANCE, not COMPLIANCE"),
        (GOVERNANCE, "GOVERNANCE", None, False, "its retain-until date is missing, so nothing protects it"),
        (
            GOVERNANCE,
            "GOVERNANCE",
            NOW - 60,
            False,
            "locked only until 2030-03-17T17:45:40Z, not until 2030-03-17T17:46:40Z",
        ),
        (GOVERNANCE, "GOVERNANCE", NOW + 86400, False, "later than the requested 2030-03-17T17:53:20Z"),
        (NONE, None, None, False, None),
        (HELD, None, None, True, None),
        (HELD, None, None, False, "the requested legal hold is missing"),
        (GOVERNANCE_HELD, "GOVERNANCE", NOW + 300, True, None),
        (GOVERNANCE_HELD, "GOVERNANCE", NOW + 300, False, "the requested legal hold is missing"),
        (GOVERNANCE_HELD, None, None, True, "the platform reports no mode, not GOVERNANCE"),
    ],
)
def test_lock_problem_describes_the_difference_from_the_requested_lock(
    asked: Retention, mode: str | None, until: float | None, on_hold: bool, problem: str | None
) -> None:
    found = lock_problem(ReportedLock(mode, until, on_hold), asked, NOW, NOW + 400)
    assert found is None if problem is None else found is not None and problem in found.words


@pytest.mark.parametrize(
    ("asked", "found", "status"),
    [
        (EVENT_HELD, ReportedLock("GOVERNANCE", NOW + 86400, False, 3), None),  # the date moves: no upper bound
        (EVENT_HELD, ReportedLock("GOVERNANCE", NOW + 300, False), Status.UNLOCKED),
        (EVENT_HELD, ReportedLock("GOVERNANCE", NOW - 60, False, 3), Status.WEAKER),
        (EVENT_HELD, ReportedLock("GOVERNANCE", NOW + 300, False, 2), Status.WEAKER),
        (EVENT_HELD, ReportedLock("GOVERNANCE", NOW + 300, False, 4), Status.LONGER),
        (EVENT_HELD, ReportedLock(None, None, False, 3), Status.UNLOCKED),
        (GOVERNANCE, ReportedLock("GOVERNANCE", NOW + 300, False, 1), Status.LONGER),
    ],
)
def test_event_hold_problem_has_the_expected_status(
    asked: Retention, found: ReportedLock, status: Status | None
) -> None:
    problem = lock_problem(found, asked, NOW, NOW + 400)
    assert (None if problem is None else problem.status) == status


@pytest.mark.parametrize(
    ("headers", "days"),
    [
        ({}, None),
        ({"": "OFF"}, None),
        ({"": "ON", "-duration-days": "30"}, 30),
        ({"": "ON", "-duration-years": "7"}, 7 * 365),
        ({"": "ON"}, 0),
        ({"": "ON", "-duration-days": "9" * 5000}, 999_999_999),
        ({"": "ON", "-duration-days": "1234567890"}, 999_999_999),
        ({"": "ON", "-duration-days": "000000000030"}, 30),
        ({"": "ON", "-duration-days": "0"}, 0),
    ],
)
def test_the_period_of_an_event_hold_is_read_from_headers(headers: dict[str, str], days: int | None) -> None:
    named = {f"x-amz-object-lock-event-hold{end}".encode(): text.encode() for end, text in headers.items()}
    assert ReportedLock.of_headers(named).event_hold_days == days


@pytest.fixture
def zone_12_hours_ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "AHEAD-12")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("date", "until"),
    [
        ("2030-03-17T17:46:40Z", NOW),
        ("2030-03-17T17:46:40", NOW),  # without a zone
        ("2030-03-17T18:46:40+01:00", NOW),
        ("9999-12-31T23:59:59-23:59", None),  # it has no year in UTC, so no message could show it
        ("0001-01-01T00:00:00+23:59", None),
        ("soon", None),
    ],
)
def test_retain_until_date_is_utc(zone_12_hours_ahead: None, date: str, until: float | None) -> None:
    assert ReportedLock.of_headers({b"x-amz-object-lock-retain-until-date": date.encode()}).until == until
    if date != "soon":  # boto3 raises for it
        assert control._lock_in({"ObjectLockRetainUntilDate": parse_timestamp(date)}).until == until


def test_lock_date_without_an_upper_bound_is_accepted() -> None:
    assert lock_problem(ReportedLock("GOVERNANCE", NOW + 1e8, False), GOVERNANCE, NOW, None) is None


def client_error(code: str, message: str, request_id: str | None = "R-1") -> botocore.exceptions.ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"RequestId": request_id, "HTTPStatusCode": 403},
    }
    return botocore.exceptions.ClientError(response, "ListBuckets")


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        ("InvalidAccessKeyId", "No such key.", "check AWS_ACCESS_KEY_ID or --profile"),
        ("SignatureDoesNotMatch", "Bad signature.", "check AWS_SECRET_ACCESS_KEY or --profile"),
        ("ExpiredToken", "The token has expired.", "get new ones, or use a profile that can be refreshed"),
        ("RequestTimeTooSkewed", "Too skewed.", "clock differs too much from the server's; set it right"),
        ("NoSuchBucket", "No such bucket.", "check --bucket, or leave it out"),
        ("AccessDenied", "Access Denied", "docs/measuring-your-own-platform.md has the rights it needs"),
        ("PermanentRedirect", "Use the endpoint.", "in another region; name it with --region"),
        ("AuthorizationHeaderMalformed", "Expecting eu-west-1.", "in another region; name it with --region"),
        ("BucketAlreadyExists", "Taken.", "run again"),
        ("404", "Not Found", "is this the S3 endpoint, and not a console or a proxy?"),
        ("502", "", "is this the S3 endpoint, and not a console or a proxy?"),
        ("", "", "is this the S3 endpoint, and not a console or a proxy?"),
    ],
)
def test_a_refusal_is_explained_with_code_message_request_and_remedy(code: str, message: str, remedy: str) -> None:
    text = control._explain("http://store:9000", "list buckets", client_error(code, message))
    assert text.startswith("http://store:9000: list buckets was refused: ")
    assert " ".join(f"was refused: {code} {message} (request R-1); ".split()) in text
    assert text.endswith(remedy) or remedy in text.split("(request R-1); ")[1]


def test_unknown_refusal_is_quoted_verbatim() -> None:
    text = control._explain("http://store", "create bucket b", client_error("Odd", "Very odd.", None))
    assert text == "http://store: create bucket b was refused: Odd Very odd. (request -)"


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without AWS settings."""
    for name in (
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
        "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_MAX_ATTEMPTS",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("BOTO_CONFIG", str(tmp_path / "boto"))
    return tmp_path


def test_missing_credentials_are_a_usage_error_with_the_remedy(no_aws: Path) -> None:
    with pytest.raises(UsageError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile"):
        FoundCredentials(None)


@pytest.mark.parametrize("profile", ["absent", None])
def test_half_or_unknown_credentials_are_a_usage_error(
    no_aws: Path, monkeypatch: pytest.MonkeyPatch, profile: str | None
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")  # without its secret
    with pytest.raises(UsageError, match=r"no S3 credentials: .*; check --profile or AWS_PROFILE"):
        FoundCredentials(profile)


def test_credentials_come_from_the_environment_or_a_profile(no_aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (no_aws / "credentials").write_text("[lab]\naws_access_key_id = K2\naws_secret_access_key = S2\n")
    assert FoundCredentials("lab").current() == Credentials("K2", "S2", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "K1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S1")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "T1")
    assert FoundCredentials(None).current() == Credentials("K1", "S1", "T1")
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert aws_settings(None).region == "ap-south-1"


def control_of(url: str) -> Control:
    credentials = Credentials("AKIDEXAMPLE", "very-secret", "the-token")
    return Control(url, "us-east-1", credentials, verify=True, connect_timeout_seconds=60, read_timeout_seconds=60)


def html(status: bytes, page: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Type: text/html", b"Content-Length: %d" % len(page), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + page


CONSOLE = b"<!DOCTYPE html><html><meta charset=utf8><body><br>Sign in</body></html>"
XHTML = b"<html><body><p>Sign in</p></body></html>"  # well-formed, so that it parses as XML
CALLS: dict[str, Callable[[Control], object]] = {
    "list buckets": lambda platform: platform.server_header_and_clock(),
    "create bucket": lambda platform: platform.create_bucket("bucket-1"),
    "read the lock configuration": lambda platform: platform.lock_of_bucket("bucket-1"),
    "read the lock of": lambda platform: platform.lock_of("bucket-1", "run/1"),
}


@pytest.mark.parametrize("page", [CONSOLE, XHTML, b"", b"Not here"], ids=["html", "xhtml", "empty", "text"])
@pytest.mark.parametrize("status", [b"404 Not Found", b"403 Forbidden", b"500 Oops", b"302 Found", b"307 Moved"])
def test_an_endpoint_that_is_no_s3_is_one_clear_platform_error(
    no_aws: Path, scripted: Scripted, status: bytes, page: bytes
) -> None:
    def answer(request: Request) -> bytes:
        location = [b"Location: " + server.url.encode() + b"/login"] if status.startswith(b"3") else []
        data = html(status, page, *location)
        return data if request.method != "HEAD" else data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    server = scripted(then=[serve(answer)])
    platform = control_of(server.url)
    for doing, call in CALLS.items():
        with pytest.raises(PlatformError, match="is this the S3 endpoint, and not a console or a proxy") as caught:
            call(platform)
        assert str(caught.value).startswith(f"{server.url}: {doing}")
        assert caught.value.exit_status == 3
        assert "\n" not in str(caught.value)
        assert "very-secret" not in str(caught.value)
    assert len(server.requests) == len(CALLS)


@pytest.mark.parametrize("page", [CONSOLE, XHTML, b"", b"Welcome"], ids=["html", "xhtml", "empty", "text"])
def test_a_page_with_status_200_is_no_list_of_buckets(no_aws: Path, scripted: Scripted, page: bytes) -> None:
    server = scripted(then=[serve(lambda _: html(b"200 OK", page))])
    with pytest.raises(PlatformError, match="is this the S3 endpoint, and not a console or a proxy"):
        control_of(server.url).server_header_and_clock()


@pytest.mark.parametrize("buckets", [b"<Buckets/>", b"<Buckets><Bucket><Name>b</Name></Bucket></Buckets>", b""])
def test_bucket_list_answer_gives_server_name_and_clock(no_aws: Path, scripted: Scripted, buckets: bytes) -> None:
    page = b'<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%b%b</ListAllMyBucketsResult>'
    data = html(
        b"200 OK", page % (b"<Owner><ID>me</ID></Owner>", buckets), b"Server: MinIO",
        b"Date: Sun, 17 Mar 2030 17:46:40 GMT",
    )  # fmt: skip
    server = scripted(then=[serve(lambda _: data)])
    name, offset = control_of(server.url).server_header_and_clock()
    assert name == "MinIO"
    assert offset is not None
    assert "x-amz-date" in server.requests[0].headers


@pytest.mark.parametrize("date", [b"yesterday", b"Sun, 17 Mar 2030 17:46:40 +99999999999999999999"])
def test_an_invalid_date_of_the_platform_gives_no_clock(no_aws: Path, scripted: Scripted, date: bytes) -> None:
    page = (
        b'<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Buckets/></ListAllMyBucketsResult>'
    )
    server = scripted(then=[serve(lambda _: html(b"200 OK", page, b"Date: " + date))])
    assert control_of(server.url).server_header_and_clock()[1] is None


@pytest.mark.parametrize("code", [b"AccessDenied", b"NotImplemented"])
def test_denied_bucket_listing_still_gives_the_server_name(no_aws: Path, scripted: Scripted, code: bytes) -> None:
    body = b"<Error><Code>%b</Code><Message>no</Message></Error>" % code
    server = scripted(then=[serve(lambda _: html(b"403 Forbidden", body, b"Server: AmazonS3"))])
    assert control_of(server.url).server_header_and_clock() == ("AmazonS3", None)


@pytest.mark.parametrize("script", [[read, close], [read, reset], [read, send(b"\x00garbage\r\n\r\n"), close]])
def test_broken_connection_or_answer_is_a_platform_error(no_aws: Path, scripted: Scripted, script: list[Any]) -> None:
    server = scripted(script)
    with pytest.raises(PlatformError, match=f"{server.url}: ") as caught:
        control_of(server.url).server_header_and_clock()
    assert "very-secret" not in str(caught.value)


def test_closed_connection_is_not_taken_for_a_console(no_aws: Path, scripted: Scripted) -> None:
    server = scripted([read, close])
    with pytest.raises(PlatformError, match=r"list buckets got no answer: .*; does the platform still run\?"):
        control_of(server.url).server_header_and_clock()


def test_refused_control_request_is_not_retried(no_aws: Path, scripted: Scripted) -> None:
    body = b"<Error><Code>SlowDown</Code><Message>no</Message></Error>"
    server = scripted(then=[serve(lambda _: html(b"503 Slow Down", body, b"Retry-After: 1"))])
    with pytest.raises(PlatformError, match="SlowDown"):
        control_of(server.url).server_header_and_clock()
    assert len(server.requests) == 1


def test_requests_are_signed_in_python() -> None:
    """A signal's exception in a callback from C is lost, and the request would wait forever for its signature."""
    Control(
        "http://127.0.0.1:1",
        "us-east-1",
        Credentials("K", "S", None),
        verify=True,
        connect_timeout_seconds=1,
        read_timeout_seconds=1,
    )
    for name in ("v4", "v4-query", "s3v4", "s3v4-query"):
        assert "crt" not in AUTH_TYPE_MAPS[name].__module__
