"""Runs the TSM checks on the TSM server of the embedded store, with management classes that retain for seconds.

One idea: only our own store can have classes of seconds. On other servers a class retains for days, and the objects
that the checks archive would stay that long.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import time

from archiver.ledger.ledger import Ledger, Placement
from archiver.machine import interruption
from archiver.values.errors import PlatformError
from archiver.worm.suite import CheckResult
from archiver.worm.tsm.calls import TsmClient
from archiver.worm.tsm.case import ArchiveClass, TsmCase
from archiver.worm.tsm_suite import plain_stanza, run_tsm
from archiver.worm.verdict import Inconclusive
from backends.embedded.core.rules import policy
from backends.embedded.process import StoreProcess
from backends.tsm.library.api import Library, default_library_path
from backends.tsm.library.configuration import private_configuration

# Management classes that the embedded store must have for these checks.
CLASSES = ("BRIEF:retver=4s", "CASE:retver=3s,retinit=event,retmin=2s", "LATER:retver=20s,retinit=event")
OTHER_NODE = "OTHER"
LOCKED_SECONDS_MAX = 3600.0


@dataclass(slots=True)
class _Spaces:
    """The file spaces that one run creates."""

    run_id: str
    client: TsmClient
    endpoint: str
    ledger: Ledger
    made: list[str] = field(default_factory=list)
    _making: threading.Lock = field(default_factory=threading.Lock)

    def make(self) -> str:
        """Register a file space. Raises Inconclusive if the server refuses."""
        space = f"/worm-{self.run_id}-{secrets.token_hex(4)}"
        with self._making:
            self.ledger.open_placement(
                Placement(
                    run=self.run_id,
                    phase=f"worm {space}",
                    backend="tsm",
                    platform="embedded",
                    endpoint=self.endpoint,
                    region="",
                    bucket=space,
                    bucket_created=True,
                    prefix="",
                    retention_mode="CLASS",
                    latest_retain_until=time() + LOCKED_SECONDS_MAX,
                    legal_hold=False,
                    objects_max=1000,
                    bytes_max=1 << 24,
                )
            )
            self.made.append(space)
        signed_on, session = self.client.sign_on([])
        registered = session.register_space(space) if signed_on.ok else signed_on
        session.terminate()
        if not registered.ok:
            raise Inconclusive(f"the file space {space} could not be registered: {registered}")
        return space

    def remove(self) -> int:
        """Delete every file space without locked objects; return how many remain."""
        left = 0
        for space in self.made:
            _, session = self.client.sign_on([])
            session.delete_space(space)
            if session.has_space(space):
                left += 1
            else:
                self.ledger.mark_removed(self.run_id, space)
            session.terminate()
        return left


def conduct_tsm(
    store: StoreProcess, run_id: str, ids: Sequence[str], ledger: Ledger, on_result: Callable[[CheckResult], None]
) -> int:
    """Run the checks; return the number of file spaces that remain until their objects expire.

    File spaces are removed after an interruption, too. Raises PlatformError if the server registers none.
    """
    if not ids:
        return 0
    with private_configuration(store.tsm_host, store.tsm_port) as configuration:
        plain = plain_stanza(configuration)
        library = Library(str(default_library_path()))
        library.set_up(configuration)
        client = TsmClient(library, store.node, store.node_password)
        spaces = _Spaces(run_id, client, f"tsm://{store.node}@{store.tsm_host}:{store.tsm_port}", ledger)
        classes = [
            ArchiveClass(each.name, each.retver_seconds, each.retinit == "event", each.retmin_seconds)
            for each in policy.load(store.data_dir).values()
            if each.retver_seconds is not None
        ]
        other = TsmClient(library, OTHER_NODE, store.nodes[OTHER_NODE].password)

        def case(identifier: str) -> TsmCase:
            return TsmCase(identifier, client, shared, classes, spaces.make, other, plain)

        try:
            shared = spaces.make()
            run_tsm(ids, case, on_result)
        except Inconclusive as refused:
            raise PlatformError(f"{spaces.endpoint}: {refused}") from refused
        finally:
            with interruption.deferred():
                left = spaces.remove()
        return left
