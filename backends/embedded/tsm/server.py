"""The TSM server: sessions of the TSM client API, through this project's library, on the same store as S3.

docs/reference/tsm-protocol.md defines the protocol byte by byte. One idea: the server owns what sessions share, such as
their number and their time limits. `session` handles the messages.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from ..core.rules import policy
from ..core.store import Store
from .frames import Welcome
from .incoming import OBJECTS_MAX
from .nodes import Node, Nodes
from .session import ServerSession

SESSIONS_MAX = 2000
IDLE_SECONDS_MAX = 900.0
SILENT_SECONDS_MAX = 60.0  # during sign-on, a transaction or a stream
_LOOK_EVERY_SECONDS = 5.0
_BYTES_PER_TRANSACTION = 25_600 << 10  # a hint for clients; the server does not use it
_VERSION = (8, 2, 1, 0)  # of the TSM API


class TsmServer:
    """Creates a session for each connection: `loop.create_server(server.session, ...)`."""

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        say: Callable[[str], None],
        *,
        sessions_max: int = SESSIONS_MAX,
        objects_max: int = OBJECTS_MAX,
        password_seconds_max: float | None = None,
        idle_seconds_max: float = IDLE_SECONDS_MAX,
        silent_seconds_max: float = SILENT_SECONDS_MAX,
    ) -> None:
        self.store = store
        self.nodes = nodes
        self.say = say
        self.buffers = store.buffers
        self.requests: Counter[tuple[str, int]] = Counter()  # answers by operation and reason code
        self.objects_max = objects_max  # in one transaction
        self._sessions_max = sessions_max
        self._password_seconds_max = password_seconds_max  # None: passwords do not expire
        self._idle_seconds_max = idle_seconds_max
        self._silent_seconds_max = silent_seconds_max
        self._sessions: set[ServerSession] = set()
        self._work: set[asyncio.Task[None]] = set()
        self._opened_ms = store.clock.now_ms()
        names = [each.name for each in store.management_classes.values()]
        self._default_class = names.index(policy.DEFAULT_CLASS)

    def session(self) -> ServerSession:
        return ServerSession(self)

    def joined(self, session: ServerSession) -> bool:
        self._sessions.add(session)
        return len(self._sessions) <= self._sessions_max

    def left(self, session: ServerSession) -> None:
        self._sessions.discard(session)

    def spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def is_expired(self, node: Node) -> bool:
        """Return whether the node must change its password before it may do anything else."""
        limit = self._password_seconds_max
        return limit is not None and self.store.clock.now_ms() >= node.password_set_ms + limit * 1000

    def welcome(self, proof: bytes, *, is_expired: bool) -> Welcome:
        return Welcome(
            proof=proof,
            now_ms=self.store.clock.now_ms(),
            local_offset_seconds=time.localtime().tm_gmtoff,
            version=_VERSION,
            objects_per_transaction_max=self.objects_max,
            bytes_per_transaction_max=_BYTES_PER_TRANSACTION,
            is_protected=True,
            is_expired=is_expired,
            backup_grace_days=30,
            archive_grace_days=365,
            server_name=b"ARCHIVER",
            server_type=b"Archiver embedded store",
            domain=b"STANDARD",
            policy_set=b"STANDARD",
            activated_ms=self._opened_ms,
            default_class=self._default_class,
            classes=list(self.store.management_classes.values()),
        )

    async def watch(self) -> None:
        """Drop sessions that are silent for too long. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
            self.drop_silent()

    def drop_silent(self) -> None:
        now = asyncio.get_running_loop().time()
        for session in list(self._sessions):
            limit = self._silent_seconds_max if session.is_inside_something else self._idle_seconds_max
            if not session.is_waiting_for_the_store and now - session.heard_at >= limit:
                session.drop()

    async def close(self) -> None:
        """Let current votes finish, then drop every session."""
        for session in list(self._sessions):
            session.finish()
        while self._work:
            await asyncio.gather(*self._work, return_exceptions=True)
        for session in list(self._sessions):
            session.drop()
