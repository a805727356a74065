"""The setting of the S3 data plane, which the coordinator sends to its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from archiver.values.retention import Retention


@dataclass(frozen=True, slots=True)
class S3WorkerSetting:
    """All that a worker needs to use the platform. It is sent to workers only, and never stored or printed."""

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
    virtual_hosted: bool = False  # the host names the bucket, not the path
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by endpoint; looked up if missing
    retries: int = 0  # for a request answered with 429, 500, 502, 503 or 504
    on_close: str = "reconnect"  # if the server ended the connection between two requests; or stop
    source_bucket: str | None = None  # source of COPY; None: its own bucket
    source_prefix: str | None = None
