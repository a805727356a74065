"""The TSM server of the embedded store under test, with management classes that retain for seconds.

One idea: only our own store can have classes of seconds. On other servers a class retains for days, and the objects
that the checks archive would stay that long.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time

from archiver.ledger.ledger import Placement
from archiver.values.errors import PlatformError
from archiver.worm.catalogue import is_tsm
from archiver.worm.platforms.under_test import UnderTest
from archiver.worm.suite import Suite
from archiver.worm.tsm.calls import TsmClient
from archiver.worm.tsm.case import ArchiveClass, TsmCase
from archiver.worm.verdict import CheckEnded, Inconclusive
from backends.base import RemovalReport
from backends.embedded.core.rules import policy
from backends.embedded.process import StoreProcess
from backends.tsm.library.api import Library, default_library_path
from backends.tsm.library.configuration import private_configuration

# Management classes that the embedded store must have for these checks.
CLASSES = ("BRIEF:retver=4s", "CASE:retver=3s,retinit=event,retmin=2s", "LATER:retver=20s,retinit=event")
OTHER_NODE = "OTHER"
CHECKS_AT_ONCE = 6  # each has up to four sessions; many servers allow 25
LOCKED_SECONDS_MAX = 3600.0
_PLAIN = "PLAIN"


@dataclass(slots=True)
class TsmUnderTest(UnderTest):
    """The TSM server of an embedded store that Archiver started."""

    protocol = "tsm"

    store: StoreProcess
    _client: TsmClient | None = field(default=None, init=False)

    @property
    def endpoint(self) -> str:
        return f"tsm://{self.store.node}@{self.store.tsm_host}:{self.store.tsm_port}"

    def covers(self, identifier: str) -> bool:
        return is_tsm(identifier)

    @contextmanager
    def opened(self, ids: Sequence[str]) -> Iterator[Suite]:
        store = self.store
        with private_configuration(store.tsm_host, store.tsm_port) as configuration:
            plain = plain_stanza(configuration)
            library = Library(str(default_library_path()))
            library.set_up(configuration)
            self._client = client = TsmClient(library, store.node, store.node_password)
            other = TsmClient(library, OTHER_NODE, store.nodes[OTHER_NODE].password)
            classes = [
                ArchiveClass(each.name, each.retver_seconds, each.retinit == "event", each.retmin_seconds)
                for each in policy.load(store.data_dir).values()
                if each.retver_seconds is not None
            ]
            try:
                try:
                    shared = self.make_space()
                except Inconclusive as refused:
                    raise PlatformError(f"{self.endpoint}: {refused}") from refused
                yield Suite(
                    lambda identifier: TsmCase(
                        identifier, client.recording([]), shared, classes, self.make_space, other, plain
                    ),
                    CHECKS_AT_ONCE,
                )
            finally:
                self.remove()

    def make_space(self) -> str:
        """Register a file space. Raises Inconclusive if the server refuses."""
        assert self._client is not None
        space = f"/worm-{self.run.id}-{secrets.token_hex(4)}"
        self.enter(
            space,
            endpoint=self.endpoint,
            region="",
            retention_mode="CLASS",
            latest_retain_until=time() + LOCKED_SECONDS_MAX,
            legal_hold=False,
            objects_max=1000,
            bytes_max=1 << 24,
        )
        signed_on, session = self._client.sign_on()
        registered = session.register_space(space) if signed_on.ok else signed_on
        session.terminate()
        if not registered.ok:
            raise Inconclusive(f"the file space {space} could not be registered: {registered}")
        return space

    def removal_of(self, placement: Placement) -> RemovalReport:
        """Try to delete one file space; it stays as long as an object in it is locked."""
        assert self._client is not None
        try:
            _, session = self._client.sign_on()
            session.delete_space(placement.bucket)
            report = RemovalReport(bucket_removed=not session.has_space(placement.bucket))
            session.terminate()
        except CheckEnded as ended:
            report = RemovalReport(refusals=[str(ended)])
        return report


def plain_stanza(configuration: Path) -> str:
    """Add the same server without retention protection to private option files.

    Return the session options that select it.
    """
    path = configuration / "dsm.sys"
    lines = path.read_text().splitlines()[1:]
    plain = [line for line in lines if "ENABLEARCHIVERETENTIONPROTECTION" not in line]
    with path.open("a") as file:
        file.write("\n".join((f"SErvername {_PLAIN}", *plain, "")))
    return f"-SErvername={_PLAIN}"
