"""A platform's description of itself.

One idea: a number means nothing without the platform that it was measured on, so every run records this value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PlatformProfile:
    """Facts that the platform reported, for the record of a run."""

    name: str  # embedded, minio, null; other platforms: as the user names it, or as its Server header does
    backend: str
    endpoints: tuple[str, ...]
    version: str | None
    tls: bool | None  # None: unknown
    shares_host: bool  # an endpoint has an address of this machine
    durability: str  # what an acknowledgement guarantees, or unknown
    server_clock_offset_seconds: float | None  # server minus client
    details: dict[str, Any] = field(default_factory=dict)
    session_kind: str = "opened"  # opened: a connection for every session; kept: one per client
    session_open: str = "none"  # the request that opens a session
    checksum: str = "none"  # checksum sent with an object, so that the platform can verify it
    payload_signing: bool = False
    objects_per_transaction_max: int | None = None  # None: there are no transactions
    protocol: str = "none"  # s3, tsm: runs of one protocol have the same options

    @property
    def title(self) -> str:
        """Return the name, followed by the version if it is known."""
        return f"{self.name} {self.version or ''}".strip()
