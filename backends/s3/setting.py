"""The setting of the S3 data plane: what travels from the coordinator to its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from archiver.values.retention import Retention


@dataclass(frozen=True, slots=True)
class S3WorkerSetting:
    """All that a worker needs to speak to the platform. Travels to workers only; never stored or printed."""

    endpoints: tuple[str, ...]
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(repr=False)
    bucket: str
    prefix: str
    ca_bundle: str | None
    insecure: bool
    retention: Retention
    checksum: str
    payload_signing: bool
    session_open: str
    keep_sessions_open: bool
    connect_timeout_seconds: float
    read_timeout_seconds: float
    clock_offset_seconds: float  # server minus client
    virtual_hosted: bool = False  # the bucket is named in the host, not in the path
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of endpoints; without: looked up
    retries: int = 0  # of a request answered with 429, 500, 502, 503 or 504
    on_close: str = "reconnect"  # where the server ended the connection between two requests; or stop
    source_bucket: str | None = None  # from which COPY copies; None: its own
    source_prefix: str | None = None
