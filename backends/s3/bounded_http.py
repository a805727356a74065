"""Sends the control plane's requests, and reads no answer without end.

One idea: botocore collects every answer in memory, however long it is and however long it takes. An answer of the
control plane is one document, such as a page of a listing. So a handler of botocore sends the request in its place, and
reads at most ANSWER_BYTES_MAX within a time. Streams of content are left to botocore: their readers take pieces.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.httpsession import URLLib3Session

ANSWER_BYTES_MAX = 32 << 20  # a page of 1,000 versions has less than 2 MiB
READ_TIMEOUTS_MAX = 10  # for a whole answer, as in the data plane
_PIECE_BYTES = 64 << 10


class BoundedHttp:
    """Sends requests over connections of its own. ``send`` is the handler of the event before-send."""

    def __init__(self, *, verify: bool | str, connect_timeout_seconds: float, read_timeout_seconds: float) -> None:
        self._session: Any = URLLib3Session(
            verify=verify, proxies={}, timeout=(connect_timeout_seconds, read_timeout_seconds)
        )
        self._seconds_max = READ_TIMEOUTS_MAX * read_timeout_seconds

    def send(self, request: AWSPreparedRequest, **_: object) -> AWSResponse | None:
        """Return the answer; None for a stream, which botocore sends. Raises botocore's HTTPClientError."""
        if request.stream_output:
            return None
        request.stream_output = True
        deadline = time.monotonic() + self._seconds_max
        answer = self._session.send(request)
        try:
            body = b"".join(_pieces(answer.raw, deadline))
        except Exception as error:
            answer.raw.close()
            raise botocore.exceptions.HTTPClientError(error=error) from error
        return AWSResponse(answer.url, answer.status_code, answer.headers, _Read(body))


def _pieces(raw: Any, deadline: float) -> Iterator[bytes]:
    left = ANSWER_BYTES_MAX
    read = getattr(raw, "read1", raw.read)  # urllib3 before 2.2 has only the latter, which waits for a whole piece
    while piece := read(_PIECE_BYTES):
        left -= len(piece)
        if left < 0:
            raise ValueError(f"the answer is longer than {ANSWER_BYTES_MAX >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError("the answer has begun, but does not end")
        yield piece


class _Read:
    """A body that was read, as botocore reads it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self._body
