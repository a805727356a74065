"""The TSM data plane of one worker: a thread for each of its clients, and the ids of the objects they will read.

Calls of the API block, so every client has its own thread. Threads are made before the measurement starts. The ids of
existing objects are also queried before, because an application has them in its index.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor

from archiver.values.errors import PlatformError
from backends.base import ExpectedLocks, PhaseSetting
from backends.tsm.audit import Audit
from backends.tsm.index import Index, learn
from backends.tsm.library.api import Library, SignOn, TsmError
from backends.tsm.lifecycle import Lifecycle
from backends.tsm.query import ObjectQuery
from backends.tsm.session import ClientResources, TsmSession
from backends.tsm.setting import OBJECTS_PER_GROUP, TsmWorkerSetting, high_level
from backends.tsm.transfer import Transfer


class TsmDataPlane:
    """The sessions of one worker."""

    def __init__(self, setting: TsmWorkerSetting) -> None:
        self._setting = setting
        self._library = Library(setting.library)
        self._library.set_up(setting.configuration)
        self._sign_on = SignOn(self._library, setting.node, setting.password, setting.options)
        self._index = _indexes.setdefault(_index_key(setting), {})
        self._stopping = threading.Event()
        self._clients: dict[int, ClientResources] = {}

    def set_phase(self, setting: PhaseSetting) -> None:
        """Query the ids of existing objects, and make the structures and threads of the clients."""
        self._learn(int(number) for numbers in setting.reads for number in numbers)
        expected = ExpectedLocks(setting.expected)
        for number in setting.clients:
            thread = ThreadPoolExecutor(1, thread_name_prefix=f"tsm-client-{number}")
            thread.submit(int).result()  # starts the thread before the first session opens
            transfer = Transfer(self._library, self._setting, setting.content, setting.verify)
            query = ObjectQuery(self._library, self._setting)
            self._clients[number] = ClientResources(
                library=self._library,
                setting=self._setting,
                sign_on=self._sign_on,
                transfer=transfer,
                lifecycle=Lifecycle(self._library, self._setting.objects_per_transaction),
                query=query,
                audit=Audit(query, transfer, self._setting.lock_rule, expected),
                index=self._index,
                stopping=self._stopping,
                thread=thread,
            )

    def session(self, client: int) -> TsmSession:
        """Return a new session of this client."""
        return TsmSession(self._clients[client])

    async def end_phase(self) -> None:
        """Stop every thread after its current object, and wait for it."""
        self._stopping.set()
        for client in self._clients.values():
            await client.run(client.close)
            client.thread.shutdown()
        self._clients.clear()

    def _learn(self, numbers: Iterable[int]) -> None:
        """Query the groups of the objects whose ids are not in the index."""
        groups = {number // OBJECTS_PER_GROUP: number for number in numbers if (number, 1) not in self._index}
        if not groups:
            return
        try:
            with self._sign_on.open() as session:
                space, prefix = self._setting.space, self._setting.prefix
                for number in groups.values():
                    learn(self._index, session.archives(space, high_level(prefix, number)), space, prefix)
        except TsmError as error:
            raise PlatformError(f"the ids of the archived objects cannot be queried: {error}") from error


def _index_key(setting: TsmWorkerSetting) -> Hashable:
    """Return the key of an index: the server, the node and the place of the objects."""
    return setting.configuration, setting.options, setting.node, setting.space, setting.prefix


# A worker process runs several phases, each with its own data plane; ids do not change between them.
_indexes: dict[Hashable, Index] = {}
