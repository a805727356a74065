"""A platform as it describes itself.

One idea: a number means nothing without the platform that it was measured on, so every run records this value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PlatformProfile:
    """What the platform said of itself, recorded with the results."""

    name: str  # embedded, minio, null, or the Server header of an unknown platform
    backend: str
    endpoints: tuple[str, ...]
    version: str | None
    tls: bool | None  # None: nobody tells
    shares_host: bool  # an endpoint is an address of this machine
    durability: str  # what an acknowledgement means, or unknown
    server_clock_offset_seconds: float | None  # server minus client
    details: dict[str, Any] = field(default_factory=dict)
    session_kind: str = "opened"  # opened: every session anew; kept: once per client
    session_open: str = "none"  # what opening a session asks of the platform
    checksum: str = "none"  # sent with an object, so that the platform can check it
    payload_signing: bool = False
    objects_per_transaction_max: int | None = None  # that are committed together; None: there are no transactions
    protocol: str = "none"  # s3, tsm: runs of one protocol can be asked for the same things
