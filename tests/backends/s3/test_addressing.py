"""Buckets named in the host (virtual-hosted): on both planes, in signatures, and in the raw requests of checks."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

from archiver.values.errors import PlatformError, UsageError
from archiver.values.retention import Retention, RetentionMode
from archiver.worm.requests.exchange import S3Client
from backends.base import RunPlan
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Control, Credentials
from results.recorded.database import FILE_NAME, RunDatabase, RunRecord
from results.recorded.run import read_run
from results.report.configuration import facts
from tests.backends.s3.s3_sessions import archives, data_plane, record_of_sessions, retrieves
from tests.backends.s3.scripted_answers import LOCK_CONFIGURATION
from tests.support.servers.scripted import Request, ScriptedServer, serve

Scripted = Callable[..., ScriptedServer]
NAME = "store.example"
KEYS = Credentials("AKIDEXAMPLE", "very-secret", None)
NO_LOCK = Retention(RetentionMode.NONE, None)


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve every name under NAME to this host, as for a platform with virtual-hosted buckets."""
    resolved = socket.getaddrinfo

    def answer(host: Any, *arguments: Any, **named: Any) -> Any:
        return resolved("127.0.0.1" if str(host).endswith(NAME) else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answer)


@pytest.fixture
def server(scripted: Scripted) -> ScriptedServer:
    """Answer every request with 200, and requests for the list of buckets with a body."""

    def answer(request: Request) -> bytes:
        body = b"<ListAllMyBucketsResult><Owner><ID>me</ID></Owner></ListAllMyBucketsResult>"
        body = body if request.target.startswith("/?") and request.headers["host"].startswith(NAME) else b""
        if "?object-lock" in request.target:
            return LOCK_CONFIGURATION
        return b"HTTP/1.1 200 OK\r\nServer: Odd\r\nETag: e\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    return scripted(then=[serve(answer)])


def url_of(server: ScriptedServer, name: str = NAME) -> str:
    return f"http://{name}:{urlsplit(server.url).port}"


def is_signed_as_botocore_signs(request: Request) -> bool:
    """Compare the signature of a received request with botocore's for its host, target and signed headers."""
    sent = request.headers["authorization"]
    names = sent.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    signed = {name: value for name, value in request.headers.items() if name in names}
    asked = AWSRequest(request.method, f"http://{request.headers['host']}{request.target}", headers=signed)
    asked.context["timestamp"] = request.headers["x-amz-date"]
    auth = S3SigV4Auth(BotocoreCredentials(KEYS.access_key, KEYS.secret_key), "s3", "us-east-1")
    signature = auth.signature(auth.string_to_sign(asked, auth.canonical_request(asked)), asked)
    return sent.endswith(f"Signature={signature}")


def backend_to(server: ScriptedServer, **options: Any) -> S3Backend:
    return S3Backend(S3Options((url_of(server),), credentials=KEYS, **options))


def test_control_plane_names_the_bucket_in_the_host(server: ScriptedServer) -> None:
    for addressing, host, target in (
        ("virtual", f"bucket-1.{NAME}", "/?object-lock"),
        ("path", NAME, "/bucket-1?object-lock"),
        ("auto", NAME, "/bucket-1?object-lock"),
    ):
        control = Control(
            url_of(server), "us-east-1", KEYS, verify=True, connect_timeout_seconds=60, read_timeout_seconds=60,
            addressing=addressing,
        )  # fmt: skip
        control.lock_of_bucket("bucket-1")
        assert server.requests[-1].headers["host"] == f"{host}:{urlsplit(server.url).port}"
        assert server.requests[-1].target == target
        assert control.is_virtual_hosted("bucket-1") == (addressing == "virtual")


@pytest.mark.parametrize("session_open", ["head-bucket", "lock-config"])
def test_data_plane_names_the_bucket_in_the_host_and_signs_it(server: ScriptedServer, session_open: str) -> None:
    backend = backend_to(server, addressing="virtual", session_open=session_open)
    profile = backend.profile()
    assert profile.details["addressing"] == "virtual"
    backend.locate(RunPlan("RUN-1", NO_LOCK))
    setting = backend.worker_setting()
    assert setting.virtual_hosted
    plane = data_plane(
        *setting.endpoints, bucket=setting.bucket, prefix="run/", virtual_hosted=True, session_open=session_open,
        addresses=setting.addresses,
    )  # fmt: skip
    before = len(server.requests)
    record_of_sessions(plane, archives(1), retrieves(2))
    sent = server.requests[before:]
    assert {each.headers["host"] for each in sent} == {f"archiver-run-1.{NAME}:{urlsplit(server.url).port}"}
    opening = "/?object-lock=" if session_open == "lock-config" else "/"
    assert [each.target for each in sent] == [opening, "/run/000000000001", opening, "/run/000000000002"]
    assert all(is_signed_as_botocore_signs(each) for each in sent)


def test_aws_profile_sets_the_addressing_unless_the_option_does(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = "[profile lab]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = very-secret\n"
    (tmp_path / "config").write_text(f"{config}s3 =\n  addressing_style = virtual\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for addressing, expected in (("auto", "virtual"), ("path", "path")):
        backend = S3Backend(S3Options((url_of(server),), profile="lab", addressing=addressing))
        assert backend.profile().details["addressing"] == expected
    (tmp_path / "config").write_text(f"{config}s3 =\n  addressing_style = odd\n")
    with pytest.raises(UsageError, match="addressing_style = odd of profile lab: choose one of auto, path, virtual"):
        S3Backend(S3Options((url_of(server),), profile="lab"))


def test_bucket_unsuitable_for_the_host_is_refused_before_any_request(server: ScriptedServer) -> None:
    given = S3Options((server.url,), credentials=KEYS, addressing="virtual")
    with pytest.raises(UsageError, match="--addressing virtual: bucket archiver cannot be named in the host"):
        S3Backend(given).profile()
    assert server.requests == []


def test_unknown_host_name_of_a_bucket_is_a_platform_error(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = socket.getaddrinfo

    def answer(host: Any, *arguments: Any, **named: Any) -> Any:
        if host == f"archiver.{NAME}":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolved(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    with pytest.raises(
        PlatformError, match=rf"the host name archiver\.{NAME} of a bucket is unknown .*--addressing path"
    ):
        backend_to(server, addressing="virtual").profile()


def test_raw_requests_of_checks_name_the_bucket_in_the_host(server: ScriptedServer) -> None:
    client = S3Client(url_of(server), "us-east-1", KEYS, [], virtual_hosted=True)
    host = f"bucket-1.{NAME}:{urlsplit(server.url).port}"
    client.send("PUT", "bucket-1")
    client.recording(client.record).send("GET", "bucket-1", "a key", query=[("versionId", "1")])
    presigned = client.presigned("GET", "bucket-1", "key", query=[("versionId", "1")])
    client.send_as_is("GET", presigned)
    client.send_as_is("GET", "/")
    assert [each.headers["host"] for each in server.requests] == [host, host, host, host.removeprefix("bucket-1.")]
    targets = [each.target for each in server.requests]
    assert targets[:2] == ["/", "/a%20key?versionId=1"]
    assert targets[2].startswith("/key?versionId=1&X-Amz-")
    assert targets[3] == "/"
    assert all(is_signed_as_botocore_signs(each) for each in server.requests[:2])
    recorded = client.record[1]
    assert (recorded.target, recorded.request_headers[0]) == ("/a%20key?versionId=1", ("Host", host))


def test_report_shows_that_buckets_are_named_in_the_host(server: ScriptedServer, tmp_path: Path) -> None:
    profile = backend_to(server, addressing="virtual").profile()
    settings = {
        "poll": "wait",
        "retention_mode": "none", "legal_hold": False, "session_kind": "opened", "session_open": "connect",
        "checksum": "crc32c", "verify": "all", "watched": [],
    }  # fmt: skip
    host = {"processor": "p", "cores": 1, "memory_bytes": 1, "kernel": "k", "python": "3"}
    record = RunRecord(
        id="run-1", started_at=1.0, command_line=[], scenario="s", scenario_title="S", scenario_json="{}",
        sweep_order="shuffled", order_seed=0, repetitions=1, phases_planned=0, backend="s3", platform=profile,
        settings=settings, host=host, workers=1, worker_cores=[], shared_host=False, location={}, content_seed=1,
        content_kind="k", interval_ns=1,
    )  # fmt: skip
    with closing(RunDatabase.create(tmp_path / "run" / FILE_NAME, record)) as database:
        assert (
            facts(read_run(database.path))["platform"] == f"Odd through s3, {url_of(server)}, buckets named in the host"
        )
