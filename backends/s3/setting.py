"""What the user chooses for an S3 platform, and the setting of the data plane that the coordinator sends to workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from archiver.values.retention import Retention


@dataclass(frozen=True, slots=True)
class S3Request:
    """The user's choices for an S3 platform. A run's database stores them; options of commands have these names."""

    endpoints: tuple[str, ...]
    bucket: str | None = None
    region: str | None = None
    profile: str | None = None
    ca_bundle: str | None = None
    insecure: bool = False
    addressing: str = "auto"  # path, virtual, auto: by the AWS settings, else by botocore
    direct: bool = False  # ignore proxies of the environment instead of refusing to run
    connect_timeout_seconds: float = 5.0
    read_timeout_seconds: float = 30.0
    checksum: str = "crc32c"
    payload_signing: bool = False
    session_open: str = "head-bucket"
    keep_sessions_open: bool = False
    retries: int = 0
    on_close: str = "reconnect"  # if the server ends the connection within a session; or stop
    platform_name: str | None = None  # known if Archiver started the platform, or if the user states it
    platform_version: str | None = None  # also if Archiver built its program at a pinned version


@dataclass(frozen=True, slots=True, kw_only=True)
class S3WorkerSetting(S3Request):
    """All that a worker needs to use the platform. It is sent to workers only, and never stored or printed."""

    bucket: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(repr=False)
    prefix: str
    retention: Retention
    clock_offset_seconds: float  # server minus client
    virtual_hosted: bool = False  # the host names the bucket, not the path
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by endpoint; looked up if missing
    source_bucket: str | None = None  # source of COPY; None: its own bucket
    source_prefix: str | None = None
