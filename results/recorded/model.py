"""Values that a run measures.

The engine fills a run's database with these values. The tables, figures and documents read them. A Result is one
workload of one phase in one repetition, with everything needed to judge its numbers. Its fields are the published
``--json`` contract: fields may be added, never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from archiver.values.errors import ResultsError
from archiver.values.metrics import Condition, read_condition
from archiver.values.record import NO_LOCAL_PORT_REASON, quoted


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of a stated population, in milliseconds, from a merged HDR histogram (never a mean of percentiles)."""

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
    """One disk of the server during the measured time.

    Busy time alone does not prove saturation. A disk that serves many requests at once (NVMe, RAID, virtual) is busy
    all the time long before its limit.
    """

    device: str
    role: str  # object, catalogue ...; "" if not configured
    busy_percent: float | None  # share of the time with at least one request in progress
    read_bytes: float
    write_bytes: float
    queue: float | None  # mean number of requests waiting or in service
    await_ms: float | None  # mean time of a request, waiting included
    share_of_speed: float | None  # share of the configured sustained bytes per second, 0-1


@dataclass(frozen=True, slots=True)
class LinkUsage:
    """One network interface of the server, or of the client's host; MB are 10^6 bytes."""

    interface: str
    receive_megabytes_per_second: float
    send_megabytes_per_second: float
    speed_megabytes_per_second: float | None  # rated, each direction; None: unknown


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """The server's resources during the measured time; None where no source reported samples."""

    cpu_percent: float | None  # CPU of the store's processes; 100 = one core busy
    host_cpu_percent: float | None  # all cores of the host, 0-100
    busiest_core_percent: float | None  # of the cores that the workers do not use
    disk_busy_percent: float | None  # the busiest device with the store's data
    disk_read_bytes: int | None  # bytes read by these devices
    disk_write_bytes: int | None
    network_megabytes_per_second: float | None  # both directions; loopback only if the client runs on the same host
    cpu_limit_percent: float | None = None  # CPU limit of its processes: cores by affinity or quota, x 100
    busiest_thread_percent: float | None = None  # share of the time on a core, or ready to run without one
    iowait_percent: float | None = None  # mean over all cores
    steal_percent: float | None = None
    throttled_percent: float | None = None  # share of the time that the CPU quota stopped its processes
    resident_bytes: int | None = None  # maximum observed
    cpu_milliseconds_per_object: float | None = None  # CPU of its processes; of the host if the client runs elsewhere
    write_amplification: float | None = None  # device bytes written per byte archived
    cache_share: float | None = None  # share of the retrieved bytes that no device had to read
    network_bytes_per_byte: float | None = None  # bytes of all traffic per byte archived or retrieved
    store_written_bytes: dict[str, float] = field(default_factory=dict)  # bytes by part, as the store counts them
    store_syncs: dict[str, float] = field(default_factory=dict)
    disks: tuple[DiskUsage, ...] = ()
    links: tuple[LinkUsage, ...] = ()
    host_cores: int | None = None
    overlap: float = 1.0  # share of the measured time within the time between the surrounding samples


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Utilisation of one resource: the used share of its capacity."""

    resource: str  # client, server cpu, object disk vda, network eth0; failures: no resource, attempts that failed
    by: str  # the measure: busiest thread, its processes of 2 cores, busy time ...; of failures, the reason
    share: float  # 0-1 (slightly more because of measurement error); of failures, of attempts or time
    decisive: bool  # False: this measure alone proves no saturation


@dataclass(frozen=True, slots=True)
class ClientUsage:
    """The client's own resource use during the measured time."""

    cpu_percent: float  # 100 = one core busy, summed over workers
    busiest_worker_percent: float  # share of the time that the busiest worker was on a core, or ready without one
    cpu_microseconds_per_object: float | None
    lateness_p99_ms: float  # scheduling delay: how late the event loop's timers fired
    late_share: float | None = None  # share of these timers that fired 20 ms late or later; None: too few timers
    object_time_share: float | None = None  # share of an object's time that is the client's own; None: no closed loop
    sessions_without_port: int = 0  # sessions of the whole phase that did not open: no local port was free
    links: tuple[LinkUsage, ...] = ()  # of the client's host; empty if the server shares it or no source sampled it
    memory_available_bytes: int | None = None  # minimum on the client's host; None: not sampled
    swap_in_megabytes_per_second: float | None = None  # swap-in on the client's host
    swap_out_megabytes_per_second: float | None = None  # swap-out on the client's host


@dataclass(frozen=True, slots=True)
class FirstError:
    """The first failure of its kind, and the number of such failures.

    A kind of which every attempt was sent again has the count 0.
    """

    operation: str
    reason: str  # "403 AccessDenied", "read timeout", "damaged", ...
    count: int
    message: str
    request_id: str
    object_name: str
    retried: int = 0  # failed attempts of its kind that were sent again (--retries); not in ``count``

    @property
    def quoted(self) -> str:
        """The reason with the message, in short."""
        return quoted(self.reason, self.message)


@dataclass(frozen=True, slots=True)
class PartResult:
    """One kind of object operation of a workload that does several, in the workload's measured time."""

    name: str  # name of the operation, or the scenario's name for additional objects: log
    operation: str
    objects: int
    bytes: int
    attempts: int
    errors: int
    missed_deadlines: int
    objects_per_second: float
    megabytes_per_second: float
    object_service_ms: Latency | None
    object_ms: Latency | None
    first_byte_ms: Latency | None
    attempt_ms: Latency | None = None  # as in the result
    reconnect_ms: Latency | None = None  # as in the result


@dataclass(frozen=True, slots=True)
class Offered:
    """Offered load of an open loop: the sessions that were due in the measured time, and their outcome."""

    sessions: int
    sessions_per_second: float
    started: int
    waited: int  # sessions that found every client busy when they were due
    dropped: int  # sessions that found the backlog full and never began
    backlog_max: int  # maximum number waiting at one moment
    lateness_ms: Latency | None  # scheduling delay of the client, for sessions that found a free client


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The rate of the same client, with the same sizes and clients, against a platform that does no work."""

    platform: str  # name of that platform: null S3 responder, null sessions
    objects_per_second: float
    share: float  # share of the ceiling that the tested platform reached


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replayed trace: the operations that were due, and how closely client and platform followed their times."""

    trace: str  # name of the file or of the model
    origin: str  # description of the trace's source
    sha256: str  # digest of the trace's file
    anonymised: bool
    speed: float
    streams: int
    operations: int  # operations due
    begun: int  # operations begun
    waited: int  # operations begun late: they waited for an earlier operation of their stream, or for a dependency
    left_out: tuple[tuple[str, int], ...]  # reasons, and the number of the trace's operations excluded for each
    capacity_bytes: int  # bytes stored before the replay
    capacity_scale: float  # share of the application's full capacity
    trace_seconds: float  # from the beginning to the last operation's due time
    replay_seconds: float  # from the beginning to the last operation's end
    allowed_seconds: float  # limit for ``replay_seconds``
    lateness_ms: Latency | None  # scheduling delay of the client: from when an operation could begin until it began
    tolerance_ms: float  # limit for the 99th percentile of ``lateness_ms``
    void: str  # why this replay proves nothing; empty: valid

    @property
    def margin_seconds(self) -> float:
        """Time between the replay's end and its limit; negative if the replay exceeded the limit."""
        return self.allowed_seconds - self.replay_seconds


@dataclass(frozen=True, slots=True)
class InfrastructureResult:
    """One kind of infrastructure operation, repeated on whole sets of objects while applications ran."""

    kind: str  # clone and deploy, storage migration
    completed: int  # complete operations within ``seconds``
    failed: int
    seconds: float  # time in which operations could begin
    minimum_per_hour: float  # rate that the rules require
    mean_seconds: float | None  # mean duration of one operation
    objects: int  # objects of one instance
    bytes: int
    findings: tuple[str, ...]  # lost content or protection, each problem once

    @property
    def per_hour(self) -> float:
        return self.completed / self.seconds * 3600 if self.seconds else 0.0

    @property
    def ratio(self) -> float:
        """Completed operations divided by required operations."""
        return self.per_hour / self.minimum_per_hour if self.minimum_per_hour else 1.0


# Resolution of the time line, of the measured window of several clients, and of what ``rate_half_width`` comes from.
INTERVAL_SECONDS = 0.25
TOO_SHORT = "too short to judge"  # a value of ``Result.steadiness``
FAILURES = "failures"  # a value of ``Result.limited_by``, and the resource of its utilisation


@dataclass(frozen=True, slots=True)
class Result:
    """One workload of one phase in one repetition."""

    phase: str
    workload: str
    operation: str  # archive, retrieve, query, extend, hold, release, refused-delete, delete ...; mixed: see parts
    object_bytes: int  # mean, rounded
    objects_per_session: int
    clients: int
    repetition: int
    position: int  # order of measurement, from 1
    session_kind: str  # opened, kept
    session_open: str  # request that opens a session: connect, head-bucket, lock-config, sign-on, none
    temperature: str | None  # cache state: cold, warm, unknown; None for archive
    checksum: str
    payload_signing: bool
    retention_mode: str  # GOVERNANCE, COMPLIANCE, CLASS, none
    legal_hold: bool
    verified: str  # all, sample, none
    sessions: int
    objects: int  # objects completed within the measured time
    bytes: int
    attempts: int
    errors: int  # errors of the whole phase, warm-up and drain included
    refusals: int  # error responses in the measured time, including requests that were retried
    seconds: float  # divisor of the rates
    warm_up_objects: int
    drained_objects: int  # objects finished after the deadline: in neither numerator nor time
    store_bytes_before: int | None  # on the disk, of the store's files and folders, at the start; None: not visible
    archived_bytes_before: int  # bytes archived by this run before the phase
    objects_per_second: float
    megabytes_per_second: float
    mebibytes_per_second: float
    session_service_ms: Latency | None
    session_ms: Latency | None
    session_open_ms: Latency | None
    session_close_ms: Latency | None
    object_service_ms: Latency | None
    object_ms: Latency | None
    first_byte_ms: Latency | None
    server: ServerUsage | None
    client: ClientUsage
    limited_by: (
        str | None
    )  # failures, client, server cpu, server disk, network, host cpu, shared cpu; None: nothing near saturation
    settled: bool  # the stop rule reached its precision before its limits
    unsteady: str | None  # why the rate was not in steady state
    offered_per_second: float | None = None  # sessions/s of an open loop
    achieved_per_second: float | None = None  # sessions/s of a mix; objects/s of any other work
    objects_per_transaction: int | None = None  # objects committed together; None: the protocol has no transactions
    transaction_send_ms: Latency | None = None  # from the transaction's beginning to its vote
    transaction_commit_ms: Latency | None = None  # from the vote to the response
    utilisations: tuple[Utilisation, ...] = ()  # highest utilisation first; failures come before all resources
    confidence: str | None = None  # confidence in limited_by: high, or medium or low and why; None: no server samples
    first_errors: tuple[FirstError, ...] = field(default=())
    variant: str = ""  # difference from others of the same sizes: lock header-and-hold, crc64nvme, for 3s
    lock: str | None = None  # way of locking, if a scenario compares several; None: the run's way
    lock_ms: Latency | None = None  # time of the separate lock request
    # Fields of workloads that run at the same time:
    application: str = ""  # its name without the copy: e-mail; empty: the only workload of its phase
    copy: int | None = None  # number of the copy: the tile
    scale: float | None = None  # value of the scenario's scale in this phase: tiles, users, cameras
    begins_seconds: float | None = None  # start of its measured time, relative to the phase
    sizes: str = ""  # size distribution of the archived objects, in words
    keys: str = ""  # selection of existing objects: uniform, zipf, sequential, each-once
    parts: tuple[PartResult, ...] = ()  # results by operation; the fields above count all objects
    offered: Offered | None = None  # open loop only
    session_start_ms: Latency | None = None  # queueing delay from due to begun; open loop only
    deadline_seconds: float | None = None
    missed_deadlines: int = 0  # objects that finished after their deadline
    steps_left_out: int = 0  # steps that found no suitable object
    is_load: bool = False  # the phase only made data for later phases
    ended_early: bool = False  # it used its archive limit before its time was over
    ceiling: Ceiling | None = None  # the same work against a platform that does nothing
    replayed: Replayed | None = None  # set if it replayed a trace
    infrastructure: InfrastructureResult | None = None  # set if it worked on whole sets of objects
    incomplete: str | None = None  # why its phase was incomplete: lost or suspended workers
    attempt_ms: Latency | None = None  # service time without retries, of objects sent again; None: no such objects
    reconnect_ms: Latency | None = None  # time to reconnect, of objects whose connection the server had closed
    connections_per_session: float | None = None  # 1: the server closed none; None: no session ended in the time
    session_half_width: float | None = None  # 95% half-width of the mean session time, relative; None: not known
    requests_per_connection: float | None = None  # requests before the server closed a connection; None: it closed none
    steadiness: str = ""  # steady, unsteady, too short to judge; "": other work ran concurrently, so no rule applies
    rate_half_width: float | None = None  # 95% half-width of objects/s by 250 ms intervals, relative; None: not known
    retries: int = 0  # failed attempts of the whole phase that were sent again (--retries); not in ``errors``

    @property
    def gain_without_client(self) -> float | None:
        """Upper bound of the rate if the client's own work took no time, relative to the measured rate.

        In a closed loop the client's time and the platform's time of an object add up. If the client takes a share s of
        it, the rate is at most 1 / (1 - s) times as high. None if that is not known.
        """
        share = self.client.object_time_share
        return 1 / (1 - share) if share is not None and share < 1 else None

    @property
    def failures(self) -> Utilisation | None:
        """Share of the attempts or of the time that failed, with the main reason; None if failures limited nothing."""
        return next((each for each in self.utilisations if each.resource == FAILURES), None)

    @property
    def limit(self) -> str | None:
        """``limited_by``; of failures with the most frequent reason: ``failures: 503 SlowDown``."""
        return self.limited_by if self.failures is None else f"{FAILURES}: {self.failures.by}"

    @property
    def platform_errors(self) -> int:
        """Errors without the client's own, which found no local port free."""
        return self.errors - sum(each.count for each in self.first_errors if each.reason == NO_LOCAL_PORT_REASON)

    @property
    def void(self) -> str:
        """Why this result proves nothing about the platform; empty if it is valid."""
        if self.client.sessions_without_port:
            return "the client had no local port free for some of its sessions"
        return self.replayed.void if self.replayed is not None else ""

    @property
    def lost(self) -> tuple[str, ...]:
        """Content or protection that infrastructure operations lost, each problem once."""
        return self.infrastructure.findings if self.infrastructure is not None else ()


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """One pass criterion of the scenario, with its measured value in one phase."""

    name: str  # text in the scenario: object_ms.mean <= 20
    workload: str  # name of its workload; empty: the run
    position: int  # position of the phase
    limit: float
    measured: float | None  # None: no value was measured, so the criterion fails
    passed: bool
    scale: float | None = None
    aborted: bool = False  # the criterion ended the phase

    @property
    def condition(self) -> Condition:
        """Return the condition that was judged. Raises ResultsError if a damaged database has none."""
        try:
            return read_condition(self.name.partition(" (")[0], "it is no condition")
        except ValueError as error:
            raise ResultsError(f"criterion {self.name!r}: {error}; the database is damaged") from None

    @property
    def part(self) -> str:
        """Return the operation that it limits; empty: the whole workload."""
        return self.name.partition(" (")[2].removesuffix(")")


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One trial of a search: whether every criterion was met at this scale."""

    scale: int
    positions: tuple[int, ...]  # positions of its phases
    passed: bool
    void: str = ""  # why the trial says nothing about the platform: it neither passed nor failed; empty: valid


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The largest scale that met all criteria, and the confidence in it."""

    name: str  # name of the scale: tiles
    steps: tuple[SearchStep, ...]
    largest: int | None  # scale that passed every trial; None: even the smallest failed
    failed_at: int | None  # the next scale tried, which failed; None: none failed up to the search's end
    held: int  # number of trials at ``largest``, all passed
    confidence: str  # in words, with the bounds
    ended_because: str  # the edge was found, the search's end passed, --max-locked-bytes ...


FIRST_ROUND = "alone"
RESTARTED_ROUND = "after restart"  # the round after the server was killed
VIOLATIONS = ("S1", "S2")  # severities: a record can be lost or altered, or its lock is weak or missing


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One thing that a check found, and the part of its evidence that shows it."""

    words: str
    exchanges: int  # how many exchanges the check had made: the last of them show it
    attempt: tuple[int, ...] = ()  # positions, from 1, of those whose answers it is about; empty: of the last change
    is_complete: bool = True  # the evidence has every request that the check had sent


@dataclass(frozen=True, slots=True)
class Harm:
    """What a violation means for the users of a platform. results/worm/harm.py has the words."""

    lost: str
    who: str  # can cause it
    in_race: bool  # only by requests at the same time
    clients: str  # that send such a request
    workaround: str  # empty: none is known
    severity: str  # of the check's usual finding


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One check of the catalogue on one platform, in one round."""

    id: str
    family: str
    tries: str
    must: str
    answer: str  # expected
    rules: tuple[str, ...]
    severity: str  # of the finding if the check failed; else of the worst finding that the check can make
    verdict: str
    reason: str
    started_at: float
    seconds: float
    round: str  # state of the platform: alone, under load, after restart
    source: str = ""  # what Amazon S3 or IBM answers or does, with the sources; empty: only expected
    findings: tuple[CheckFinding, ...] = ()  # of a FAIL or DEVIATION, the most serious first
    harm: Harm | None = None  # of a violation

    @property
    def name(self) -> str:
        """The id, followed by the round unless it is the first."""
        return self.id if self.round == FIRST_ROUND else f"{self.id} {self.round}"

    @property
    def graded_verdict(self) -> str:
        """The verdict, with the severity of a failure: platforms may fail a check in different ways."""
        return f"{self.verdict} {self.severity}" if self.verdict == "FAIL" else self.verdict

    @property
    def is_generated(self) -> bool:
        """Whether this is the result of generated sequences, and not of a check of the catalogue."""
        return self.id.startswith("GEN-")

    @property
    def is_finding(self) -> bool:
        """Whether the platform did something else than it must."""
        return self.verdict in ("FAIL", "DEVIATION")

    @property
    def is_violation(self) -> bool:
        """Whether a record can be lost or altered, or a lock is weak or missing."""
        return self.verdict == "FAIL" and self.severity in VIOLATIONS


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round of checks, and the platform's load or disturbance during it."""

    round: str
    started_at: float  # epoch seconds
    seconds: float
    note: str  # description; the reason if the round was not tried
    load_seconds: float = 0.0  # time in which clients archived and retrieved
    objects_archived: int = 0
    archived_per_second: float = 0.0  # rate while clients archived, possibly for a part of the time
    objects_retrieved: int = 0
    retrieved_per_second: float = 0.0
    errors: int = 0
