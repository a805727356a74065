"""S3 requests and their answers, recorded as the evidence of a check.

One idea: nothing is hidden and nothing is repaired. The client sends a request once, with exactly the headers and the
query of the check, and records it with its answer. Only secrets are removed, also where an answer repeats them.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import re
import socket
import ssl
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import escape

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials

from archiver.worm.verdict import Inconclusive, NotOffered
from backends.s3.control import Credentials

Headers = Sequence[tuple[str, str]]

TIMEOUT_SECONDS = 20.0  # without a byte in either direction
EXCHANGE_SECONDS_MAX = 60.0  # of a whole exchange, also if its bytes come slowly
ANSWER_BYTES_MAX = 64 << 20  # checks request a few MiB at most
KEPT_BYTES = 8192  # of each body; its hash and length are of the whole
REDACTED = "(left out)"
_SECRET_HEADERS = {"authorization", "x-amz-security-token"}
_SECRET_QUERY = ("X-Amz-Signature=", "X-Amz-Security-Token=", "X-Amz-Credential=")
# Elements of an error about a signature: they may contain the signature or signed headers.
_ELEMENTS = re.compile(
    rb"<(SignatureProvided|StringToSign|StringToSignBytes|CanonicalRequest|CanonicalRequestBytes|Token-\d+)>.*?</\1>",
    re.S,
)
_SIGNED = re.compile(r"SignedHeaders=([^, ]+)")
_SIGNATURE = re.compile(r"[0-9a-f]{64}")
_PIECE_BYTES = 1 << 16
_REFUSED = (400, 403, 404, 405, 409, 411, 412)


@dataclass(frozen=True, slots=True)
class Answer:
    """The platform's answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    exchange: RecordedExchange | None = field(default=None, repr=False, compare=False)  # its evidence

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Whether the platform refused. An error of the server or of the network is not a refusal."""
        return self.status in _REFUSED

    @property
    def code(self) -> str:
        """The error code in the body; empty if there is none (HEAD has no body)."""
        return self.text_of("Code")

    @property
    def version_id(self) -> str | None:
        return self.headers.get("x-amz-version-id")

    def text_of(self, element: str) -> str:
        """Return the text of the first element of that name in any namespace; empty if there is none."""
        found = self.elements(element)
        return found[0].text or "" if found else ""

    def elements(self, name: str) -> list[ET.Element]:
        """Return every element of that name in the body; none if the body is not XML."""
        try:
            root = ET.fromstring(self.body)
        except ET.ParseError:
            return []
        return [each for each in root.iter() if each.tag.rpartition("}")[2] == name]

    def __str__(self) -> str:
        return f"{self.status} {self.code}".strip()


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One request and its answer, without secrets.

    Bodies longer than KEPT_BYTES are cut; lengths and hashes are those of the whole bodies.
    """

    at: float  # epoch seconds of our clock
    seconds: float
    method: str
    target: str  # path and query
    request_headers: tuple[tuple[str, str], ...]
    request_body: bytes
    request_bytes: int
    request_sha256: str
    status: int | None  # None: no answer came
    response_headers: tuple[tuple[str, str], ...]
    response_body: bytes
    response_bytes: int
    response_sha256: str
    failure: str  # why no answer came
    sender: str = ""  # which rights its credential lacks; empty: none
    signature: str = ""  # where the signature was: header, url, form; empty: not signed
    signed_headers: tuple[tuple[str, str], ...] = ()  # that the signature of a URL covers, whether sent or not
    unsigned_headers: tuple[
        str, ...
    ] = ()  # names that start with x-amz- and that a signature in a header does not cover

    @property
    def document(self) -> dict[str, Any]:
        """Return it as plain JSON values: bodies as text if they are UTF-8, else in base64."""
        document = asdict(self)
        for name in ("request_body", "response_body"):
            body: bytes = document.pop(name)
            try:
                document[name] = body.decode()
            except UnicodeDecodeError:
                document[name + "_base64"] = base64.b64encode(body).decode()
        return document


SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


class PayloadNamed(S3SigV4Auth):  # type: ignore[misc]
    """Signs with a name in place of the hash of the body, such as SIGNED_CHUNKS."""

    def __init__(self, payload: str, *given: Any) -> None:
        super().__init__(*given)
        self._payload = payload

    def payload(self, request: AWSRequest) -> str:
        return self._payload


class S3Client:
    """Sends requests to one platform with one credential and appends every exchange to ``record``."""

    def __init__(
        self,
        endpoint: str,
        region: str,
        credentials: Credentials | None,
        record: list[RecordedExchange],
        *,
        tls: ssl.SSLContext | None = None,
        virtual_hosted: bool = False,
    ) -> None:
        """Without ``credentials`` the client is anonymous and signs nothing.

        With ``virtual_hosted`` requests name the bucket in the host; targets have it in their path in either case.
        """
        self.endpoint = endpoint
        self.region = region
        self.credentials = credentials
        self.record = record
        self.sender = ""  # which rights it lacks, in words
        self._tls = tls
        self._virtual_hosted = virtual_hosted

    def recording(self, record: list[RecordedExchange]) -> S3Client:
        """Return the same client with another record."""
        return S3Client(
            self.endpoint, self.region, self.credentials, record, tls=self._tls, virtual_hosted=self._virtual_hosted
        )

    def url(self, target: str) -> str:
        """Return the URL of a request for this target, as the signature covers it."""
        host, sent = self._addressed(target)
        return f"{self.endpoint.partition('://')[0]}://{host}{sent}"

    def _addressed(self, target: str) -> tuple[str, str]:
        """Return host and target as the request has them."""
        host = self.endpoint.partition("://")[2]
        path, mark, query = target.partition("?")
        bucket, _, key = path[1:].partition("/")
        if not self._virtual_hosted or not bucket:
            return host, target
        return f"{bucket}.{host}", f"/{key}{mark}{query}"

    def send(
        self,
        method: str,
        bucket: str,
        key: str | None = None,
        *,
        query: Sequence[tuple[str, str | None]] = (),
        headers: Headers = (),
        body: bytes = b"",
        sign: bool = True,
        unsure: bool = False,
    ) -> Answer:
        """Send one request. A header may be given twice.

        Raises NotOffered for 501. Raises Inconclusive for other 5xx, for 429 and if no answer comes; with ``unsure`` it
        returns 5xx and 429 as answers.
        """
        target = target_of(bucket, key, query)
        signing = self.signing_headers(method, target, headers, body) if sign and self.credentials is not None else ()
        return self.send_as_is(method, target, [*headers, *signing], body, unsure=unsure)

    def presigned(
        self,
        method: str,
        bucket: str,
        key: str,
        *,
        query: Sequence[tuple[str, str | None]] = (),
        headers: Headers = (),
        expires_seconds: int = 300,
    ) -> str:
        """Return path and query of a presigned URL whose signature covers these headers."""
        assert self.credentials is not None
        target = target_of(bucket, key, query)
        request = AWSRequest(method, self.url(target), headers=dict(headers))
        S3SigV4QueryAuth(self.signing_credentials, "s3", self.region, expires=expires_seconds).add_auth(request)
        return target.partition("?")[0] + "?" + str(request.url).partition("?")[2]

    def send_presigned(
        self,
        method: str,
        bucket: str,
        key: str,
        *,
        query: Sequence[tuple[str, str | None]] = (),
        signed: Headers = (),
        headers: Headers = (),
        body: bytes = b"",
        added: str = "",
    ) -> Answer:
        """Send a request by a presigned URL. Its signature covers ``signed``; ``headers`` are sent.

        ``added`` is text after the end of the URL.
        """
        target = self.presigned(method, bucket, key, query=query, headers=signed) + added
        return self.send_as_is(method, target, headers, body, signed=signed)

    def send_as_is(
        self,
        method: str,
        target: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        unsure: bool = False,
        secrets: Sequence[str] = (),
        signed: Headers = (),
    ) -> Answer:
        """Send path and query with these headers, a Host and a Content-Length, and nothing else.

        ``secrets`` are words of a form that the record leaves out: its signature and credential. ``signed`` are the
        headers that the signature of a presigned URL covers.
        """
        began, clock = time.time(), time.monotonic()
        answer, failure = None, ""
        try:
            answer = self._exchange(method, target, headers, body)
        except (OSError, http.client.HTTPException) as error:
            failure = f"{type(error).__name__}: {error}".strip(": ")
        hidden = self._hidden(target, headers, secrets)

        def shown(text: str) -> str:
            return _without(text.encode("utf-8", "surrogateescape"), hidden).decode("utf-8", "surrogateescape")

        host, sent = self._addressed(target)
        sent_headers = [("Host", host), *headers] if self._virtual_hosted else headers
        reply = answer.body if answer is not None else b""
        exchange = RecordedExchange(
            at=began,
            seconds=time.monotonic() - clock,
            method=method,
            target=shown(without_secrets(sent)),
            request_headers=tuple(
                (name, REDACTED if name.lower() in _SECRET_HEADERS else shown(value)) for name, value in sent_headers
            ),
            request_body=_without(body, hidden)[:KEPT_BYTES],
            request_bytes=len(body),
            request_sha256=hashlib.sha256(body).hexdigest(),
            status=answer.status if answer is not None else None,
            response_headers=tuple((k, shown(v)) for k, v in answer.headers.items()) if answer is not None else (),
            response_body=_without(_ELEMENTS.sub(rb"<\1>" + REDACTED.encode() + rb"</\1>", reply), hidden)[:KEPT_BYTES],
            response_bytes=len(reply),
            response_sha256=hashlib.sha256(reply).hexdigest(),
            failure=shown(failure),
            sender=self.sender,
            signature=_place_of_signature(target, headers, has_form=bool(secrets)),
            signed_headers=tuple((name, shown(value)) for name, value in signed),
            unsigned_headers=_unsigned(headers),
        )
        self.record.append(exchange)
        request_line = f"{method} {target.partition('?')[0]}"
        if answer is None:
            raise Inconclusive(f"{request_line}: no answer: {failure}")
        if answer.status == 501:
            raise NotOffered(f"{request_line}: {answer}")
        if not unsure and (answer.status >= 500 or answer.status == 429):
            raise Inconclusive(f"{request_line}: {answer}")
        return replace(answer, exchange=exchange)

    def _exchange(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        host, sent = self._addressed(target)
        parts = urlsplit(f"{self.endpoint.partition('://')[0]}://{host}")
        assert parts.hostname is not None
        connection = (
            http.client.HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS, context=self._tls)
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
        )
        try:
            connection.connect()
            connection.sock = cast(socket.socket, _Timed(connection.sock, time.monotonic() + EXCHANGE_SECONDS_MAX))
            connection.putrequest(method, sent, skip_accept_encoding=True)
            names = {name.lower() for name, _ in headers}
            for name, value in headers:
                connection.putheader(name, value.encode())
            if "content-length" not in names and (body or method in ("PUT", "POST")):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            with connection.getresponse() as reply:
                return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, _whole(reply))
        finally:
            connection.close()

    def _hidden(self, target: str, headers: Headers, secrets: Sequence[str]) -> list[bytes]:
        """Return these and other secrets of this request in every form in which the record could contain them."""
        shown = " ".join(value for name, value in headers if name.lower() == "authorization")
        query = " ".join(word for word in target.split("&") if "X-Amz-Signature=" in word)
        words = [*secrets, *_SIGNATURE.findall(f"{shown} {query}")]
        if self.credentials is not None:
            words += [word for word in (self.credentials.secret_key, self.credentials.session_token) if word]
        return [form.encode() for word in words for form in {word, quote(word, safe=""), quote(word), escape(word)}]

    def signing_headers(
        self, method: str, target: str, headers: Headers, body: bytes, auth: Callable[..., S3SigV4Auth] = S3SigV4Auth
    ) -> list[tuple[str, str]]:
        """Return the headers that sign a request, made by this kind of signer."""
        request = AWSRequest(method, self.url(target), data=body)
        for name, value in headers:
            request.headers.add_header(name, value)
        before = {name.lower() for name, _ in request.headers.items()}
        auth(self.signing_credentials, "s3", self.region).add_auth(request)
        return [(name, value) for name, value in request.headers.items() if name.lower() not in before]

    @property
    def signing_credentials(self) -> BotoCredentials:
        """The credentials as botocore's signers take them. The client must have some."""
        assert self.credentials is not None
        return BotoCredentials(self.credentials.access_key, self.credentials.secret_key, self.credentials.session_token)


def _whole(reply: http.client.HTTPResponse) -> bytes:
    """Read the body. Raises HTTPException if it is cut or longer than ANSWER_BYTES_MAX."""
    pieces: list[bytes] = []
    while piece := reply.read(_PIECE_BYTES):
        pieces.append(piece)
        if len(pieces) * _PIECE_BYTES > ANSWER_BYTES_MAX:
            raise http.client.HTTPException(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
    if reply.length:  # bytes are missing
        raise http.client.IncompleteRead(b"".join(pieces), reply.length)
    return b"".join(pieces)


def target_of(bucket: str, key: str | None, query: Sequence[tuple[str, str | None]]) -> str:
    """Return path and query: ``/bucket/key?retention&versionId=x``. A value of None is a name without a value."""
    words = [quote(k, safe="-_.~") + ("=" + quote(v, safe="-_.~") if v is not None else "") for k, v in query]
    path = f"/{bucket}" if key is None else f"/{bucket}/{quote(key, safe='/~')}"
    return f"{path}?{'&'.join(words)}" if words else path


def without_secrets(target: str) -> str:
    """Return path and query without the signature and credential of a presigned URL."""
    path, mark, query = target.partition("?")
    words = [
        word.partition("=")[0] + "=" + REDACTED if word.startswith(_SECRET_QUERY) else word for word in query.split("&")
    ]
    return path + mark + "&".join(words)


def _place_of_signature(target: str, headers: Headers, *, has_form: bool) -> str:
    if has_form:
        return "form"
    if "X-Amz-Signature=" in target:
        return "url"
    return "header" if any(name.lower() == "authorization" for name, _ in headers) else ""


def _unsigned(headers: Headers) -> tuple[str, ...]:
    """Return the names of x-amz-* headers that the signature in a header does not cover; none if there is none."""
    covered = [_SIGNED.findall(value) for name, value in headers if name.lower() == "authorization"]
    signed = {name for found in covered for names in found for name in names.split(";")}
    return tuple(n for n, _ in headers if signed and n.lower().startswith("x-amz-") and n.lower() not in signed)


def _without(data: bytes, hidden: Sequence[bytes]) -> bytes:
    for word in hidden:
        data = data.replace(word, REDACTED.encode())
    return data


class _Timed:
    """A connected socket with one deadline for all its uses, so that a slow answer cannot exceed it."""

    def __init__(self, sock: socket.socket, ends: float) -> None:
        self._sock = sock
        self._ends = ends  # monotonic seconds
        self._files = 0  # open files that read from it
        self._closed = False

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            piece = rest[:_PIECE_BYTES]
            rest = rest[self.in_time(lambda sock, piece=piece: sock.send(piece)) :]  # type: ignore[misc]

    def makefile(self, mode: str) -> io.BufferedReader:
        self._files += 1
        return io.BufferedReader(_Arriving(self))

    def in_time(self, step: Callable[[socket.socket], int]) -> int:
        """Run one step on the socket. Raises TimeoutError after the deadline."""
        left = self._ends - time.monotonic()
        try:
            if left <= 0:  # without waiting
                raise TimeoutError
            self._sock.settimeout(min(left, TIMEOUT_SECONDS))
            return step(self._sock)
        except TimeoutError:
            if left < TIMEOUT_SECONDS:
                raise TimeoutError(f"the exchange had not ended after {EXCHANGE_SECONDS_MAX:g} s") from None
            raise TimeoutError(f"no byte was sent or received for {TIMEOUT_SECONDS:g} s") from None

    def close(self) -> None:
        """Close the socket once its last file is closed.

        http.client closes the socket before it reads an answer that ends with the connection.
        """
        self._closed = True
        if not self._files:
            self._sock.close()

    def file_closed(self) -> None:
        """Note that one of its files was closed."""
        self._files -= 1
        if self._closed:
            self.close()


class _Arriving(io.RawIOBase):
    """A raw stream of the bytes that a timed socket receives."""

    def __init__(self, timed: _Timed) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self._timed.in_time(lambda sock: sock.recv_into(buffer))

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._timed.file_closed()
