"""A store with one chosen weakness, in its own process: it waits, it computes, or its link is slow.

One idea: the test knows what limits the store, so it can check what Archiver finds. The store accepts any PUT, keeps
nothing, and answers every request with 200 and an empty body.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CATCH_UP_SECONDS = 0.1  # unused time of the link that may be made up for, since this process may have had no core
_REPLY = b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-request-id: 0\r\nETag: "0"\r\n\r\n'


@dataclass(slots=True)
class Weakness:
    """What limits the store. 0: no limit of this kind."""

    wait_seconds: float  # idle time before each answer
    compute_seconds: float  # CPU time of its only thread before each answer
    bytes_per_second: float  # received, over all connections
    link_free_at: float = 0.0


class _Connection(asyncio.Protocol):
    def __init__(self, weakness: Weakness) -> None:
        self._weakness = weakness
        self._received = b""
        self._body_left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._be_slow(len(data))
        while data:
            if self._body_left:
                taken = min(self._body_left, len(data))
                self._body_left -= taken
                data = data[taken:]
                if not self._body_left:
                    self._answer()
                continue
            self._received += data
            head, end, data = self._received.partition(b"\r\n\r\n")
            if not end:
                return
            self._received = b""
            length = _LENGTH.search(b"\r\n" + head)
            self._body_left = int(length[1]) if length else 0
            if not self._body_left:
                self._answer()

    def _be_slow(self, count: int) -> None:
        weakness = self._weakness
        if not weakness.bytes_per_second:
            return
        now = time.monotonic()
        free_at = max(now - CATCH_UP_SECONDS, weakness.link_free_at) + count / weakness.bytes_per_second
        weakness.link_free_at = free_at
        self._transport.pause_reading()
        asyncio.get_running_loop().call_later(max(0.0, free_at - now), self._resume)

    def _resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _answer(self) -> None:
        if self._weakness.compute_seconds:
            until = time.thread_time() + self._weakness.compute_seconds
            while time.thread_time() < until:
                pass
        if self._weakness.wait_seconds:
            asyncio.get_running_loop().call_later(self._weakness.wait_seconds, self._transport.write, _REPLY)
        else:
            self._transport.write(_REPLY)


async def _serve(weakness: Weakness) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(weakness), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def stand_in_store(
    *, wait_seconds: float = 0.0, compute_seconds: float = 0.0, bytes_per_second: float = 0.0
) -> Iterator[tuple[str, int]]:
    """Run a store for the block; yield its endpoint and its process id."""
    weakness = (wait_seconds, compute_seconds, bytes_per_second)
    process = subprocess.Popen(
        [sys.executable, __file__, *map(str, weakness)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("wait_seconds", "compute_seconds", "bytes_per_second"):
        parser.add_argument(name, type=float)
    asyncio.run(_serve(Weakness(**vars(parser.parse_args()))))
