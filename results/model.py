"""What was measured, as plain values: the vocabulary shared by the engine that fills a run's database and the
tables, figures and documents made from it.

One idea: a Result is one workload of one phase in one repetition, with everything needed to judge it beside the
number. Its fields are the published ``--json`` contract: fields may be added, never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Latency:
    """Of a stated population, in milliseconds, from a merged HDR histogram (never a mean of percentiles)."""

    count: int
    mean: float
    p50: float
    p70: float
    p90: float
    p99: float
    p99_9: float
    max: float


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """The server's resources during the measured time; None where nothing could be sampled."""

    cpu_percent: float | None  # of the store's processes; 100 = one core busy
    host_cpu_percent: float | None  # of all cores of the host, 0-100
    busiest_core_percent: float | None
    disk_busy_percent: float | None  # the device that holds the store's data
    disk_read_bytes: int | None
    disk_write_bytes: int | None
    network_megabytes_per_second: float | None  # both directions, all interfaces but loopback


@dataclass(frozen=True, slots=True)
class ClientUsage:
    """What the tester itself spent during the measured time."""

    cpu_percent: float  # 100 = one core busy, summed over workers
    busiest_worker_percent: float  # of the time the busiest worker had a core, or was ready to run but had none
    cpu_microseconds_per_object: float | None
    lateness_p99_ms: float  # how late the event loop's timers fired


@dataclass(frozen=True, slots=True)
class FirstError:
    """The first failure of its kind, and how many there were."""

    operation: str
    reason: str  # "403 AccessDenied", "read timeout", "damaged", ...
    count: int
    message: str
    request_id: str
    object_name: str


@dataclass(frozen=True, slots=True)
class Result:
    """One workload of one phase in one repetition."""

    phase: str
    workload: str
    operation: str  # archive, retrieve
    object_bytes: int
    objects_per_session: int
    clients: int
    repetition: int
    position: int  # order in which it was measured, from 1
    session_kind: str  # opened, kept
    session_open: str  # what opening asks: connect, head-bucket, lock-config, sign-on, none
    temperature: str | None  # cold, warm, unknown; None for archive
    checksum: str
    payload_signing: bool
    retention_mode: str  # GOVERNANCE, COMPLIANCE, CLASS, none
    legal_hold: bool
    verified: str  # all, sample, none
    sessions: int
    objects: int  # completed well inside the measured time
    bytes: int
    attempts: int
    errors: int  # of the whole phase, warm-up and drain included
    refusals: int  # requests of the measured time that the platform answered with an error, retried ones included
    seconds: float  # what the rates are divided by
    warm_up_objects: int
    drained_objects: int  # finished after the deadline: in neither numerator nor time
    store_bytes_before: int | None  # in the store's files at the start; None where they cannot be seen
    archived_bytes_before: int  # by this run, at the start
    objects_per_second: float
    megabytes_per_second: float
    mebibytes_per_second: float
    session_service_ms: Latency | None
    session_response_ms: Latency | None
    session_open_ms: Latency | None
    session_close_ms: Latency | None
    object_service_ms: Latency | None
    object_response_ms: Latency | None
    first_byte_ms: Latency | None
    server: ServerUsage | None
    client: ClientUsage
    limited_by: str | None
    settled: bool  # the stop rule's precision was reached before its limits
    unsteady: str | None  # why the rate was not steady while it was measured
    offered_per_second: float | None = None
    achieved_per_second: float | None = None
    objects_per_transaction: int | None = None  # committed together; None: the protocol has no transactions
    transaction_send_ms: Latency | None = None  # from its beginning to its vote
    transaction_commit_ms: Latency | None = None  # from its vote to the answer
    first_errors: tuple[FirstError, ...] = field(default=())
