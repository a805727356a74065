"""Test exchanges: none outlasts its deadline, and none records a secret or a signature."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from urllib.parse import quote, urlsplit

import pytest

from archiver.worm.case import Case
from archiver.worm.checks.ingest import post_form
from archiver.worm.requests import exchange
from archiver.worm.requests.exchange import REDACTED, RecordedExchange, S3Client
from archiver.worm.verdict import Inconclusive
from backends.s3.control import Credentials
from tests.support.servers.scripted import Conversation, Request, ScriptedServer, Step, close, read, send, serve

SECRET, TOKEN = "planted/secret+key=", "planted+session/token&more=="
CREDENTIALS = Credentials("KEYID", SECRET, TOKEN)


def client_of(server: ScriptedServer) -> S3Client:
    return S3Client(server.url, "us-east-1", CREDENTIALS, [])


@pytest.fixture
def ended() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def running(*steps: Step, then: Sequence[Step] = ()) -> ScriptedServer:
    server = ScriptedServer([steps], then)
    server.start()
    return server


def drip(data: bytes, ended: threading.Event) -> Step:
    """Send data repeatedly until the test ends."""

    def step(conversation: Conversation) -> None:
        while not ended.wait(0.01):
            conversation.sock.sendall(data)

    return step


def assert_set(event: threading.Event) -> None:
    assert event.wait(20)


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\nx-a: ", b"a"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["status", "header", "body", "chunks", "endless continue"],
)
def test_slow_answer_is_cut_off_at_its_deadline(
    begin: bytes, more: bytes, ended: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "EXCHANGE_SECONDS_MAX", 0.3)
    server = running(read, send(begin), drip(more, ended))
    client = client_of(server)
    with pytest.raises(Inconclusive, match=r"GET /bucket/key: no answer: TimeoutError: .* 0\.3 s"):
        client.send("GET", "bucket", "key")
    ended.set()
    server.stop()
    (seen,) = client.record
    assert (seen.status, seen.response_body) == (None, b"")
    assert "0.3 s" in seen.failure


def test_blocked_upload_is_cut_off_at_its_deadline(ended: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "EXCHANGE_SECONDS_MAX", 0.3)
    server = running(lambda _: assert_set(ended))
    with pytest.raises(Inconclusive, match="no answer: TimeoutError"):
        client_of(server).send("PUT", "bucket", "key", body=bytes(32 << 20))
    ended.set()
    server.stop()


def test_answer_in_several_pieces_is_read_completely() -> None:
    body = bytes(range(256)) * 1000
    server = running(read, send(b"HTTP/1.1 200 OK\r\nContent-Length: 256000\r\n\r\n"), send(body))
    assert client_of(server).send("GET", "bucket", "key").body == body
    server.stop()


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 256000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 256000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
    ],
    ids=["an old protocol", "closes", "ends with the connection"],
)
def test_answer_is_complete_if_the_server_closes_the_connection_after_it(head: bytes) -> None:
    body = bytes(range(256)) * 1000
    server = running(read, send(head), send(body), close)
    assert client_of(server).send("GET", "bucket", "key").body == body
    server.stop()


@pytest.mark.parametrize("head", [b"Content-Length: 10", b"Transfer-Encoding: chunked"])
def test_truncated_answer_is_inconclusive(head: bytes) -> None:
    server = running(read, send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n5\r\nhe"), close)
    with pytest.raises(Inconclusive, match="no answer: IncompleteRead"):
        client_of(server).send("GET", "bucket", "key")
    server.stop()


def test_answer_with_huge_content_length_is_inconclusive(
    ended: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "ANSWER_BYTES_MAX", 200_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: " + str(1 << 60).encode() + b"\r\n\r\n"
    server = running(read, send(head), drip(bytes(1 << 16), ended))
    with pytest.raises(Inconclusive, match="no answer: HTTPException: the answer has more than 200000 bytes"):
        client_of(server).send("GET", "bucket", "key")
    ended.set()
    server.stop()


def test_expired_deadline_stops_the_next_step() -> None:
    here, there = socket.socketpair()
    with here, there, pytest.raises(TimeoutError, match="had not ended"):
        exchange._Timed(here, 0.0).sendall(b"x")


# Recorded evidence


def telling(request: Request) -> bytes:
    """Answer with the whole request, as some servers do when they refuse a signature."""
    told = (request.head + b"\n\n" + request.body).replace(b"&", b"&amp;").replace(b"<", b"&lt;")
    body = (
        b"<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>KEYID</AWSAccessKeyId><StringToSign>"
        + told + b"</StringToSign><SignatureProvided>" + told + b"</SignatureProvided><CanonicalRequest>" + told
        + b"</CanonicalRequest><CanonicalRequestBytes>" + told.hex(" ").encode() + b"</CanonicalRequestBytes>"
        + b"<Token-0>" + TOKEN.encode() + b"</Token-0><Message>" + told + SECRET.encode() + b"</Message></Error>"
    )  # fmt: skip
    head = f"HTTP/1.1 403 Forbidden\r\nx-told: {request.target}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.fixture
def recording_client() -> Iterator[S3Client]:
    server = running(serve(telling), then=[serve(telling)])
    yield client_of(server)
    server.stop()


def kept(seen: RecordedExchange) -> str:
    """Return all of the exchange as text, as in the evidence."""
    document = asdict(seen)
    return " ".join(each.decode("latin-1") if isinstance(each, bytes) else str(each) for each in document.values())


def proofs(client: S3Client, *signatures: str) -> list[str]:
    """Return the secrets in every form that a server may repeat."""
    return [SECRET, TOKEN, quote(SECRET, safe=""), quote(TOKEN, safe=""), TOKEN.replace("&", "&amp;"), *signatures]


def must_hide(client: S3Client, *signatures: str) -> None:
    (seen,) = client.record
    for proof in proofs(client, *signatures):
        assert proof not in kept(seen)
        assert proof.encode().hex(" ") not in kept(seen)
    assert b"<Code>SignatureDoesNotMatch</Code>" in seen.response_body
    assert REDACTED in kept(seen)


def test_evidence_of_signed_request_has_no_secret_or_signature(recording_client: S3Client) -> None:
    headers = recording_client.signing_headers("PUT", "/bucket/key", (("x-amz-meta-a", "b"),), b"body")
    signature = re.search("Signature=([0-9a-f]{64})", dict(headers)["Authorization"])
    assert signature
    answer = recording_client.send_as_is("PUT", "/bucket/key", headers, b"body", unsure=True)
    assert signature[1].encode() in answer.body
    must_hide(recording_client, signature[1])


def test_evidence_of_presigned_url_has_no_secret_or_signature(recording_client: S3Client) -> None:
    target = recording_client.presigned("GET", "bucket", "key")
    signature = re.search("X-Amz-Signature=([0-9a-f]{64})", urlsplit(target).query)
    assert signature
    recording_client.send_as_is("GET", target)
    must_hide(recording_client, signature[1])


def test_evidence_of_form_has_no_secret_or_signature(recording_client: S3Client) -> None:
    case = Case("ING-12", recording_client, "bucket", False, {}, lambda *_: "", 0.0)
    answer, _ = post_form(case, {})
    signature = re.search(b'name="x-amz-signature"\r\n\r\n([0-9a-f]{64})', answer.body)
    assert signature
    policy = re.search(b'name="policy"\r\n\r\n([^\r]+)', answer.body)
    assert policy
    must_hide(recording_client, signature[1].decode(), policy[1].decode())


def test_evidence_of_form_keeps_its_other_fields(recording_client: S3Client) -> None:
    case = Case("ING-12", recording_client, "bucket", False, {}, lambda *_: "", 0.0)
    post_form(case, dict(case.lock().headers))
    (seen,) = recording_client.record
    fields = dict(re.findall('name="([^"]+)"\r\n\r\n([^\r]*)', seen.request_body.decode()))
    assert fields["x-amz-object-lock-mode"] == "GOVERNANCE"
    assert {name for name, value in fields.items() if REDACTED in value} == {
        "policy", "x-amz-credential", "x-amz-security-token", "x-amz-signature",
    }  # fmt: skip


def test_secrets_are_removed_from_an_answer_before_it_is_truncated(recording_client: S3Client) -> None:
    recording_client.send("PUT", "bucket", "key", headers=(("x-amz-meta-a", "a" * exchange.KEPT_BYTES),), body=b"x")
    (seen,) = recording_client.record
    assert seen.response_bytes > exchange.KEPT_BYTES >= len(seen.response_body)
    assert TOKEN not in kept(seen)


def test_exchange_names_the_rights_of_its_sender(recording_client: S3Client) -> None:
    case = Case("X-01", recording_client, "bucket", False, {"bypass": recording_client}, lambda *_: "", 0.0)
    for client in (case.client, case.without_right("bypass"), case.anonymous()):
        client.send("GET", "bucket", "key")
    assert [each.sender for each in recording_client.record] == [
        "",
        "without the right to bypass (s3:BypassGovernanceRetention)",
        "without a credential",
    ]
