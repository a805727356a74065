"""HTTP/1.1 replies from bytes, apart from any socket: feed it what arrived, it says when a reply is whole.

One idea: heads and chunked bodies go through llhttp (httptools); the large body of a known length does not, because
collecting or copying a mebibyte costs more than everything else done with it. Such a body is handed on in place.

Five rules that the parser leaves to us: a HEAD reply ends at its head (and needs a new parser, or the next reply would
be swallowed as its body); a body that ends with the connection is ended here, and a shorter one than announced is
truncated; a head has at most HEAD_BYTES_MAX; a body that goes on far beyond what was asked for is
given up, or a chunked one might never end; a 1xx reply is no answer.
"""

from __future__ import annotations

import re
from typing import Protocol

import httptools

from archiver.values.record import Status

HEAD_BYTES_MAX = 64 * 1024
ERROR_BODY_BYTES_MAX = 64 * 1024  # of a body that are kept
BEYOND_BYTES_MAX = 1024 * 1024  # of a body, beyond what was asked for

CLOSED = "the server closed the connection without a reply"
_BODYLESS = (204, 304)
_ENDLESS = (Status.PROTOCOL_ERROR, "the reply's body is far longer than what was asked for")
_CODE = re.compile(rb"<Code>\s*([^<]{1,100}?)\s*</Code>")
_MESSAGE = re.compile(rb"<Message>\s*([^<]{1,500}?)\s*</Message>")


class BodyCheck(Protocol):
    """What looks at a successful body as it arrives (archiver.values.content.ContentCheck, LengthCheck)."""

    size_bytes: int  # of the body that is looked for

    def feed(self, chunk: bytes | memoryview) -> None: ...

    def finish(self) -> bool: ...


class ReplyError(Exception):
    """The bytes are no reply we can trust; the connection cannot be used any further."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class ReplyReader:
    """Reads one reply at a time. Call ``expect`` before each request, ``feed`` with what arrives."""

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
        self._body_bytes_max = BEYOND_BYTES_MAX  # that are still read
        self._body_left = 0  # of a body that bypasses the parser
        self._content_left = -1  # of a body of known length
        self._ends_with_connection = False
        self._fed_before_head = 0
        self._head_done = False
        self.status = 0
        self.keep_alive = True
        self.headers: dict[bytes, bytes] = {}
        self.error_body = b""

    def release(self) -> None:
        """Nothing will be fed any more. Reader and parser refer to each other; without this the garbage collector would
        have to find them, some twenty times a second at 2,000 sessions a second, and nothing else goes on meanwhile."""
        del self._parser

    def expect(self, *, is_head: bool = False, check: BodyCheck | None = None) -> None:
        """A request is about to be sent: one reply is due. ``check`` sees the body if it is a success."""
        if self._head_done:
            self._reset()
        self._waiting = True
        self._is_head = is_head
        self._check = check
        self._body_bytes_max = BEYOND_BYTES_MAX + (check.size_bytes if check is not None else 0)

    def feed(self, data: bytes | memoryview) -> bool:
        """Take received bytes; True when the reply is whole. Raises ReplyError, after which nothing can be fed."""
        if not self._waiting:
            raise ReplyError(Status.PROTOCOL_ERROR, "bytes arrived that belong to no request")
        if self._body_left:
            return self._feed_body(data)
        if not self._head_done:
            self._fed_before_head += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise ReplyError(Status.PROTOCOL_ERROR, "the server switched protocols, which nobody asked for") from None
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, ReplyError):
                raise error.__context__ from None
            raise ReplyError(Status.PROTOCOL_ERROR, f"not an HTTP reply: {error}") from None
        if not self._head_done:
            if self._fed_before_head > HEAD_BYTES_MAX:
                raise ReplyError(Status.PROTOCOL_ERROR, f"the reply's head is longer than {HEAD_BYTES_MAX} bytes")
            return False
        if self._is_head and not self._is_whole():
            # A HEAD reply has no body whatever its Content-Length says; this parser would wait for one.
            self._finish()
            self._parser = httptools.HttpResponseParser(self)
        if self._is_whole():
            return True
        if self._content_left > 0 and self._check is not None and self.status < 300:
            # The rest of the body bypasses the parser, which therefore can never be used again.
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
        """The server closed. True when that is how this reply ends; raises ReplyError when it cut one short."""
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
        """The platform's id of the request; empty where it sends none."""
        return self.headers.get(b"x-amz-request-id", b"").strip().decode("latin-1")

    def s3_error(self) -> tuple[str, str]:
        """Code and message of an error reply; what was there instead, where it is no S3 error."""
        code = _CODE.search(self.error_body)
        message = _MESSAGE.search(self.error_body)
        if code is not None:
            return code[1].decode("utf-8", "replace"), message[1].decode("utf-8", "replace") if message else ""
        location = self.headers.get(b"location")
        if location is not None:
            return "Redirect", f"redirected to {location.decode('latin-1')}; name that endpoint and its region"
        text = " ".join(self.error_body[:200].decode("utf-8", "replace").split())
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
        # The parser takes a HEAD reply without Content-Length for one that ends with the connection.
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
        else:  # a 1xx reply; its bytes stay counted, or a server could send such replies without end
            self.headers = {}
