"""A store with its TSM server in a thread of the test's process. The test sets time, disk and limits."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import uvloop

from backends.embedded.core.rules import policy
from backends.embedded.core.store import Store
from backends.embedded.tsm.nodes import Nodes
from backends.embedded.tsm.server import TsmServer
from backends.embedded.tsm.session import ServerSession
from tests.backends.embedded.core_calls import Disk
from tests.backends.embedded.tsm_client import Client
from tests.support.waiting import SECONDS_MAX

START_SECONDS = 2_000_000_000

Answer = TypeVar("Answer")


class Clock:
    """The host's wall clock and its elapsed time, as one value."""

    def __init__(self) -> None:
        self.seconds: float = START_SECONDS

    @property
    def now_ms(self) -> int:
        return int(self.seconds * 1000)


class RunningTsmServer:
    """Leaving the `with` block closes the server and fails if its loop had unhandled errors."""

    def __init__(
        self, folder: Path, *, clock: Clock | None = None, nodes: Sequence[str] = ("OTHER",),
        classes: Sequence[str] = (), **limits: float,
    ) -> None:  # fmt: skip
        self.clock = clock or Clock()
        self.disk = Disk()
        self.said: list[str] = []
        self.faults: list[dict[str, Any]] = []
        self._folder = folder
        self._node_names = nodes
        self._classes = classes
        self._limits: dict[str, Any] = limits
        self.store: Store
        self.server: TsmServer
        self.nodes: Nodes

    def __enter__(self) -> RunningTsmServer:
        self.store = Store.open(
            self._folder,
            wall_seconds=lambda: self.clock.seconds,
            elapsed_seconds=lambda: self.clock.seconds,
            free_bytes=lambda: self.disk.free,
            say=self.said.append,
            management_classes=[policy.parse_request(each) for each in self._classes],
        )
        self.nodes = Nodes(self._folder, self._node_names)
        self._loop = uvloop.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: self.faults.append(context))
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._listener = self.call(self._listen())
        self.host, self.port = self._listener.sockets[0].getsockname()
        return self

    async def _listen(self) -> asyncio.Server:
        self.server = TsmServer(self.store, self.nodes, self.said.append, **self._limits)
        return await asyncio.get_running_loop().create_server(self.server.session, "127.0.0.1", 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call(self._close())
        gc.collect()  # Collected tasks report errors that no code has seen.
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.store.close()
        if kind is None:
            assert self.faults == []

    async def _close(self) -> None:
        self._listener.close()
        await self.server.close()
        await self.sessions_are(0)

    def call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run work in the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS_MAX)

    def do(self, work: Callable[[], Answer]) -> Answer:
        async def done() -> Answer:
            return work()

        return self.call(done())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop run until the condition is true."""
        async with asyncio.timeout(SECONDS_MAX):
            while not condition():  # noqa: ASYNC110 - no event reports the end of a session
                await asyncio.sleep(0)

    async def sessions_are(self, count: int) -> None:
        await self.until(lambda: len(self.server._sessions) == count and not self.server._work)

    def settled(self, sessions: int) -> None:
        """Wait until exactly this many sessions are left and the others are cleaned up."""
        self.call(self.sessions_are(sessions))

    @property
    def session(self) -> ServerSession:
        """The only session."""
        (only,) = self.server._sessions
        return only

    def password(self, node: str = "ARCHIVER") -> str:
        found = self.nodes.get(node.encode())
        assert found is not None
        assert found.password is not None
        return found.password

    def connect(self) -> Client:
        return Client(self.host, self.port)

    def sign_on(self, node: str = "ARCHIVER", owner: bytes = b"") -> Client:
        client = self.connect()
        client.sign_on(node.encode(), self.password(node), owner)
        return client

    def segments(self) -> list[Path]:
        return sorted((self._folder / "segments").iterdir())
