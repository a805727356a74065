"""Parses HTTP/1.1 replies from bytes, without a socket: feed it data, and it says when a reply is complete.

One idea: heads and chunked bodies go through llhttp (httptools). A large body of known length does not, because
collecting or copying a mebibyte costs more than everything else. Such a body is passed on in place.

The parser leaves five rules to this module. A HEAD reply ends at its head; then a new parser is needed, or the next
reply would be taken for its body. A body may end with the connection; one shorter than announced is truncated. A head
has at most HEAD_BYTES_MAX. A body much longer than requested is an error, because a chunked one might never end. A 1xx
reply is not an answer.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Protocol

import httptools

from archiver.values.record import Status
from archiver.values.visible import one_line

HEAD_BYTES_MAX = 64 * 1024
ERROR_BODY_BYTES_MAX = 64 * 1024  # kept of an error body
BEYOND_BYTES_MAX = 1024 * 1024  # of a body, beyond the requested length

CLOSED = "the server closed the connection without a reply"
_BODYLESS = (204, 304)
_ENDLESS = (Status.PROTOCOL_ERROR, "the reply's body is far longer than the requested length")
_CODE = re.compile(rb"<Code>\s*([^<]{1,100}?)\s*</Code>")
_MESSAGE = re.compile(rb"<Message>\s*([^<]{1,500}?)\s*</Message>")


class BodyCheck(Protocol):
    """Checks a successful body as it arrives (archiver.values.content.ContentCheck, LengthCheck)."""

    size_bytes: int  # expected length of the body

    def feed(self, chunk: bytes | memoryview) -> None: ...

    def finish(self) -> bool: ...


class ReplyError(Exception):
    """The bytes are not a valid reply; the connection cannot be used any more."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


def instant_of_date_header(text: str) -> float | None:
    """Parse a Date header to epoch seconds. Returns None if it is empty or invalid."""
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # OverflowError: a zone of very many hours
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


class ReplyReader:
    """Reads one reply at a time. Call ``expect`` before each request, ``feed`` with received bytes."""

    __slots__ = (
        "_body_bytes_max",
        "_body_left",
        "_check",
        "_content_left",
        "_ends_with_connection",
        "_fed_before_head",
        "_head_done",
        "_is_head",
        "_parser",
        "_waiting",
        "error_body",
        "headers",
        "keep_alive",
        "status",
    )

    def __init__(self) -> None:
        self._waiting = False
        self._check: BodyCheck | None = None
        self._is_head = False
        self._parser = httptools.HttpResponseParser(self)
        self._reset()

    def _reset(self) -> None:
        self._body_bytes_max = BEYOND_BYTES_MAX  # bytes still accepted
        self._body_left = 0  # remaining bytes of a body that bypasses the parser
        self._content_left = -1  # remaining bytes of a body of known length
        self._ends_with_connection = False
        self._fed_before_head = 0
        self._head_done = False
        self.status = 0
        self.keep_alive = True
        self.headers: dict[bytes, bytes] = {}
        self.error_body = b""

    def release(self) -> None:
        """Break the reference cycle of reader and parser after the last reply.

        Otherwise the garbage collector has to find them about twenty times a second at 2,000 sessions a second, and the
        client does nothing else meanwhile.
        """
        del self._parser

    def expect(self, *, is_head: bool = False, check: BodyCheck | None = None) -> None:
        """Prepare for the reply to the next request. ``check`` gets the body of a success."""
        if self._head_done:
            self._reset()
        self._waiting = True
        self._is_head = is_head
        self._check = check
        self._body_bytes_max = BEYOND_BYTES_MAX + (check.size_bytes if check is not None else 0)

    def feed(self, data: bytes | memoryview) -> bool:
        """Take received bytes; return whether the reply is complete. Raises ReplyError; feed nothing after that."""
        if not self._waiting:
            raise ReplyError(Status.PROTOCOL_ERROR, "bytes arrived that belong to no request")
        if self._body_left:
            return self._feed_body(data)
        if not self._head_done:
            self._fed_before_head += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise ReplyError(Status.PROTOCOL_ERROR, "the server switched protocols, which was not requested") from None
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, ReplyError):
                raise error.__context__ from None
            raise ReplyError(Status.PROTOCOL_ERROR, f"not an HTTP reply: {error}") from None
        if not self._head_done:
            if self._fed_before_head > HEAD_BYTES_MAX:
                raise ReplyError(Status.PROTOCOL_ERROR, f"the reply's head is longer than {HEAD_BYTES_MAX} bytes")
            return False
        if self._is_head and not self._is_whole():
            # A HEAD reply has no body, but this parser would wait for Content-Length bytes.
            self._finish()
            self._parser = httptools.HttpResponseParser(self)
        if self._is_whole():
            return True
        if self._content_left > 0 and self._check is not None and self.status < 300:
            # The rest of the body bypasses the parser, which therefore cannot be used again.
            self._body_left = self._content_left
            self._parser = httptools.HttpResponseParser(self)
        return False

    def _feed_body(self, data: bytes | memoryview) -> bool:
        assert self._check is not None
        size = len(data)
        if size > self._body_left:
            raise ReplyError(Status.PROTOCOL_ERROR, "more bytes arrived than the reply announced")
        self._check.feed(data)
        self._body_left -= size
        if self._body_left:
            return False
        self._finish()
        return True

    def connection_ended(self) -> bool:
        """Note the end of the connection; return whether it completes the reply. Raises ReplyError for a cut reply."""
        if not self._waiting:
            return False
        if not self._head_done:
            if self._fed_before_head:
                raise ReplyError(Status.TRUNCATED, "the connection ended in the middle of the reply's head")
            raise ReplyError(Status.CONNECTION_LOST, CLOSED)
        if self._ends_with_connection:
            self.keep_alive = False
            self._finish()
            return True
        raise ReplyError(Status.TRUNCATED, "the connection ended in the middle of the reply's body")

    @property
    def request_id(self) -> str:
        """The platform's id of the request; empty if it sends none."""
        return self.headers.get(b"x-amz-request-id", b"").strip().decode("latin-1")

    def s3_error(self) -> tuple[str, str]:
        """Return code and message of an error reply; if it is not an S3 error, what the reply contains."""
        code = _CODE.search(self.error_body)
        message = _MESSAGE.search(self.error_body)
        if code is not None:
            return _text(code[1]), _text(message[1]) if message else ""
        location = self.headers.get(b"location")
        if location is not None:
            return (
                "Redirect",
                f"redirected to {one_line(location.decode('latin-1'))}; name that endpoint and its region",
            )
        text = _text(self.error_body[:200])
        return "", f"not an S3 error reply: {text}" if text else ""

    def _is_whole(self) -> bool:
        return not self._waiting

    def _finish(self) -> None:
        self._waiting = False

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if not self._waiting:
            raise ReplyError(Status.PROTOCOL_ERROR, "more bytes arrived than the reply announced")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        headers = self.headers
        self.status = status
        self._head_done = True
        self.keep_alive = self._parser.should_keep_alive() if not self._is_head else self._head_keeps_alive()
        if b"transfer-encoding" not in headers:
            length = headers.get(b"content-length")
            if length is not None:
                self._content_left = int(length)
                if self._content_left > self._body_bytes_max and not self._is_head and status not in _BODYLESS:
                    raise ReplyError(*_ENDLESS)
            else:
                self._ends_with_connection = True

    def _head_keeps_alive(self) -> bool:
        # The parser assumes that a HEAD reply without Content-Length ends with the connection.
        connection = self.headers.get(b"connection", b"").lower()
        if self._parser.get_http_version() == "1.1":
            return b"close" not in connection
        return b"keep-alive" in connection

    def on_body(self, chunk: bytes) -> None:
        if self._is_head:
            raise ReplyError(Status.PROTOCOL_ERROR, "more bytes arrived than the reply announced")
        if self._content_left > 0:
            self._content_left -= len(chunk)
        else:
            self._body_bytes_max -= len(chunk)
            if self._body_bytes_max < 0:
                raise ReplyError(*_ENDLESS)
        if self._check is not None and self.status < 300:
            self._check.feed(chunk)
        elif len(self.error_body) < ERROR_BODY_BYTES_MAX:
            self.error_body += chunk

    def on_chunk_header(self) -> None:
        if self._is_head:
            raise ReplyError(Status.PROTOCOL_ERROR, "more bytes arrived than the reply announced")

    def on_message_complete(self) -> None:
        if self._head_done:
            self._finish()
        else:  # a 1xx reply; its bytes still count, or a server could send such replies forever
            self.headers = {}


def _text(content: bytes) -> str:
    return one_line(content.decode("utf-8", "replace"))
