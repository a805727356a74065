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
class DiskUsage:
    """One disk of the server during the measured time. Busy time alone proves nothing: a disk that takes many requests
    at once (NVMe, RAID, virtual) is busy all the time long before it is full."""

    device: str
    role: str  # object, catalogue ...; "" where nobody said
    busy_percent: float | None  # of the time at least one request was under way
    read_bytes: float
    write_bytes: float
    queue: float | None  # requests waiting or being served, on average
    await_ms: float | None  # mean time of a request, waiting included
    share_of_speed: float | None  # of the bytes per second that it was said to sustain, 0-1


@dataclass(frozen=True, slots=True)
class LinkUsage:
    """One network interface of the server, or of the client's host; MB are 10^6 bytes."""

    interface: str
    receive_megabytes_per_second: float
    send_megabytes_per_second: float
    speed_megabytes_per_second: float | None  # rated, each direction; None: not known


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """The server's resources during the measured time; None where nothing could be sampled."""

    cpu_percent: float | None  # of the store's processes; 100 = one core busy
    host_cpu_percent: float | None  # of all cores of the host, 0-100
    busiest_core_percent: float | None  # among the cores that the workers leave to the server
    disk_busy_percent: float | None  # the busiest of the devices that hold the store's data
    disk_read_bytes: int | None  # by these devices
    disk_write_bytes: int | None
    network_megabytes_per_second: float | None  # both directions; over loopback only where the client is here, too
    cpu_limit_percent: float | None = None  # what its processes may use at once: cores by affinity or quota, x 100
    busiest_thread_percent: float | None = None  # of the time it had a core, or was ready to run but had none
    iowait_percent: float | None = None  # of all cores
    steal_percent: float | None = None
    throttled_percent: float | None = None  # of the time its processes were kept waiting by their quota
    resident_bytes: float | None = None  # the most seen
    cpu_milliseconds_per_object: float | None = None  # of its processes; of the host where the client is elsewhere
    write_amplification: float | None = None  # device bytes written per byte archived
    cache_share: float | None = None  # of the bytes retrieved: what no device had to read
    network_bytes_per_byte: float | None = None  # on the wire per byte archived or retrieved
    store_written_bytes: dict[str, float] = field(default_factory=dict)  # by part, as the store counts them
    store_syncs: dict[str, float] = field(default_factory=dict)
    disks: tuple[DiskUsage, ...] = ()
    links: tuple[LinkUsage, ...] = ()
    overlap: float = 1.0  # share of the measured time in the time between the samples around it


@dataclass(frozen=True, slots=True)
class Utilisation:
    """How much of what one resource can bear was asked of it."""

    resource: str  # client, server cpu, object disk vda, network eth0
    by: str  # the measure: busiest thread, its processes of 2 cores, share of its speed, busy time ...
    share: float  # 0-1 (a little more where the measure errs)
    decisive: bool  # False: a measure that alone proves no saturation


@dataclass(frozen=True, slots=True)
class ClientUsage:
    """What the tester itself spent during the measured time."""

    cpu_percent: float  # 100 = one core busy, summed over workers
    busiest_worker_percent: float  # of the time the busiest worker had a core, or was ready to run but had none
    cpu_microseconds_per_object: float | None
    lateness_p99_ms: float  # how late the event loop's timers fired
    sessions_without_port: int = 0  # of the whole phase: they did not open, because this machine had no port left
    links: tuple[LinkUsage, ...] = ()  # of the client's host; empty where the server shares it or it was not watched
    memory_available_bytes: float | None = None  # of the client's host, the least seen; None: it was not watched
    swap_in_megabytes_per_second: float | None = None  # of the client's host
    swap_out_megabytes_per_second: float | None = None  # of the client's host


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
class PartResult:
    """One kind of object operation of a workload that does several; in the workload's measured time."""

    name: str  # the operation's, or what the scenario calls the objects beside the workload's own: log
    operation: str
    objects: int
    bytes: int
    attempts: int
    errors: int
    missed_deadlines: int
    objects_per_second: float
    megabytes_per_second: float
    object_service_ms: Latency | None
    object_response_ms: Latency | None
    first_byte_ms: Latency | None
    attempt_ms: Latency | None = None  # as in the result
    reconnect_ms: Latency | None = None  # as in the result


@dataclass(frozen=True, slots=True)
class Offered:
    """Sessions that were due in an open loop's measured time, and what became of them."""

    sessions: int
    sessions_per_second: float
    started: int
    waited: int  # of them: found every client busy when they were due
    dropped: int  # found the backlog full, and were never begun
    backlog_max: int  # most that waited at one moment
    lateness_ms: Latency | None  # of the client: how late it began those that found a client free


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What this client reached at the same sizes with the same clients, against a platform that does nothing."""

    platform: str  # what that was: null S3 responder, null sessions
    objects_per_second: float
    share: float  # of it, that the platform under test reached


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trace that was replayed: what was due, and how far client and platform kept to it."""

    trace: str  # name of the file, or of the model
    origin: str  # where the trace came from, in words
    sha256: str  # of the trace's file
    anonymised: bool
    speed: float
    streams: int
    operations: int  # due
    begun: int  # of them
    waited: int  # of these: for what came before them in their stream, or for what they build on
    left_out: tuple[tuple[str, int], ...]  # why, and how many operations of the trace were not due at all
    capacity_bytes: int  # that lay there before it began
    capacity_scale: float  # of what the application has in full
    trace_seconds: float  # from its beginning to the last operation's due time
    replay_seconds: float  # from its beginning to the last operation's end
    allowed_seconds: float  # for that
    lateness_ms: Latency | None  # of the client: from when an operation could be begun until it was
    tolerance_ms: float  # that 99% of these may have
    void: str  # why nothing follows from this replay; empty: something does

    @property
    def margin_seconds(self) -> float:
        """By how much it ended before it had to; negative: after."""
        return self.allowed_seconds - self.replay_seconds


@dataclass(frozen=True, slots=True)
class InfrastructureResult:
    """What went on beside applications: one kind of operation on whole sets of objects, again and again."""

    kind: str  # clone and deploy, storage migration
    completed: int  # in ``seconds``, whole ones
    failed: int
    seconds: float  # in which they were begun
    minimum_per_hour: float  # that the rules ask for
    mean_seconds: float | None  # that one took
    objects: int  # of one instance
    bytes: int
    findings: tuple[str, ...]  # content or protection that was lost, each said once

    @property
    def per_hour(self) -> float:
        return self.completed / self.seconds * 3600 if self.seconds else 0.0

    @property
    def ratio(self) -> float:
        """Of how many there were to how many there must be."""
        return self.per_hour / self.minimum_per_hour if self.minimum_per_hour else 1.0


@dataclass(frozen=True, slots=True)
class Result:
    """One workload of one phase in one repetition."""

    phase: str
    workload: str
    operation: str  # archive, retrieve, query, extend, hold, release, refused-delete, delete ...; mixed: see parts
    object_bytes: int  # the mean, rounded, where they differ
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
    limited_by: str | None  # client, server cpu, server disk, network, host cpu; None: nothing was near saturation
    settled: bool  # the stop rule's precision was reached before its limits
    unsteady: str | None  # why the rate was not steady while it was measured
    offered_per_second: float | None = None
    achieved_per_second: float | None = None
    objects_per_transaction: int | None = None  # committed together; None: the protocol has no transactions
    transaction_send_ms: Latency | None = None  # from its beginning to its vote
    transaction_commit_ms: Latency | None = None  # from its vote to the answer
    utilisations: tuple[Utilisation, ...] = ()  # nearest to saturation first
    confidence: str | None = None  # in limited_by: high, or medium or low and why; None where no server was seen
    first_errors: tuple[FirstError, ...] = field(default=())
    variant: str = ""  # what sets it apart from others of the same sizes: lock header-and-hold, crc64nvme, for 3s
    lock: str | None = None  # how objects came by their lock, where a scenario compares that; None: as the run says
    lock_ms: Latency | None = None  # of the request that locked an object by itself
    # Of workloads that run together:
    application: str = ""  # its name without the copy: e-mail; empty: the phase had no others
    copy: int | None = None  # which of several like it: the tile
    scale: float | None = None  # what the scenario's scale was in this phase: tiles, users, cameras
    begins_seconds: float | None = None  # when its measured time began, after the phase
    sizes: str = ""  # how the sizes of what it archived were distributed, in words
    keys: str = ""  # how objects were chosen that were there: uniform, zipf, sequential, each-once
    parts: tuple[PartResult, ...] = ()  # by operation; all objects are counted above
    offered: Offered | None = None  # open loop only
    session_start_ms: Latency | None = None  # from due to begun; open loop only
    deadline_seconds: float | None = None
    missed_deadlines: int = 0  # objects done later than that
    steps_left_out: int = 0  # for want of an object for which they would have made sense
    is_load: bool = False  # its phase only made the data that later ones need
    ended_early: bool = False  # it used up what it may archive before its time was over
    ceiling: Ceiling | None = None  # the same work against a platform that does nothing
    replayed: Replayed | None = None  # it replayed a trace
    infrastructure: InfrastructureResult | None = None  # it worked on whole sets of objects
    incomplete: str | None = None  # why its phase was not carried out as it was meant to be: workers that were lost
    attempt_ms: Latency | None = None  # service time without retries, of the objects that had any; None: none had
    reconnect_ms: Latency | None = None  # connecting again, of the objects before which the server ended a connection
    connections_per_session: float | None = None  # 1: the server ended none; None: no session ended in the time
    requests_per_connection: float | None = None  # of those that the server ended; None: it ended none

    @property
    def void(self) -> str:
        """Why nothing about the platform follows from this result; empty: something does."""
        if self.client.sessions_without_port:
            return "the client had no local port free for some of its sessions"
        return self.replayed.void if self.replayed is not None else ""

    @property
    def lost(self) -> tuple[str, ...]:
        """Content or protection that infrastructure operations lost, each said once."""
        return self.infrastructure.findings if self.infrastructure is not None else ()


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """One pass criterion of the scenario, and what was measured against it in one phase."""

    name: str  # as the scenario writes it: object_ms.mean <= 20
    workload: str  # of which; empty: the run
    position: int  # of the phase
    limit: float
    measured: float | None  # None: nothing was measured that could meet it
    passed: bool
    scale: float | None = None
    aborted: bool = False  # the phase was ended for it


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One trial of a search: every criterion held at this scale, or not."""

    scale: int
    positions: tuple[int, ...]  # of its phases
    passed: bool


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The largest scale that held, and how sure that is."""

    name: str  # of the scale: tiles
    steps: tuple[SearchStep, ...]
    largest: int | None  # that held in every trial; None: even the smallest failed
    failed_at: int | None  # the next scale that was tried, and failed; None: none did up to the search's end
    held: int  # trials at ``largest``, all of which passed
    confidence: str  # in words, with the bounds
    ended_because: str  # the edge was found, the search's end held, --max-locked-bytes ...


FIRST_ROUND = "alone"


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One check of the catalogue on one platform, in one round."""

    id: str
    family: str
    tries: str
    must: str
    answer: str  # the original's: Amazon's, or IBM's
    rules: tuple[str, ...]
    severity: str
    verdict: str
    reason: str
    started_at: float
    seconds: float
    round: str  # what the platform was doing: alone, under load, after restart

    @property
    def name(self) -> str:
        """The id, and the round where it is not the first."""
        return self.id if self.round == FIRST_ROUND else f"{self.id} {self.round}"

    @property
    def is_violation(self) -> bool:
        """A record can be lost or altered, or a lock weakened or missing."""
        return self.verdict == "FAIL" and self.severity in ("S1", "S2")


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round of checks, and what the platform had to do or to bear meanwhile."""

    round: str
    started_at: float  # epoch seconds
    seconds: float
    note: str  # in words; why where it was not tried
    load_seconds: float = 0.0  # for which clients archived and retrieved
    objects_archived: int = 0
    archived_per_second: float = 0.0  # while objects were archived, which may have been for a part of the time
    objects_retrieved: int = 0
    retrieved_per_second: float = 0.0
    errors: int = 0
