"""A synthetic run whose server was watched: phases and samples to fill its database with."""

from __future__ import annotations

from typing import Any

from archiver.values.platform import PlatformProfile
from results.recorded.database import IntervalRow, PhaseRecord, PhaseTimes
from results.recorded.model import Result
from results.recorded.resources import SampleRow

PLATFORM = PlatformProfile(
    name="minio", backend="s3", endpoints=(), version=None, tls=None, shares_host=False, durability="unknown",
    server_clock_offset_seconds=None, protocol="s3",
)  # fmt: skip
RECORD: dict[str, Any] = {
    "id": "run-1", "started_at": 1.0, "command_line": [], "scenario": "dr550", "scenario_title": "DR550",
    "scenario_json": "{}", "sweep_order": "shuffled", "order_seed": 0, "repetitions": 1, "phases_planned": 2,
    "backend": "s3", "platform": PLATFORM,
    "settings": {
        "session_kind": "opened", "session_open": "head-bucket", "disk_roles": {"vda": "object"},
        "retention_mode": "GOVERNANCE", "retain_until": None, "retain_for_seconds": 300.0, "legal_hold": False,
        "watched": ["local"], "checksum": "crc32c", "verify": "all", "poll": "wait",
    },
    "host": {
        "processor": "a processor", "cores": 2, "memory_bytes": 2**34, "kernel": "6.1", "python": "3",
        "host": "here",
    },
    "workers": 1, "worker_cores": [], "shared_host": False, "location": {}, "content_seed": 1,
    "content_kind": "k", "interval_ns": 250_000_000,
}  # fmt: skip
SECOND = 10**9
BOOT = 500 * SECOND  # an arbitrary offset of the run's monotonic clock


def phase_record(position: int, result: Result, start: float, end: float, **more: Any) -> PhaseRecord:
    """Return a measured phase of one result between two seconds, with all objects in one interval and no retries."""
    label = f"{result.operation} {result.object_bytes} x {result.objects_per_session}"
    start_ns, end_ns = BOOT + round(start * SECOND), BOOT + round(end * SECOND)
    values: dict[str, Any] = {
        "times": PhaseTimes(
            position, label, 1000 + start, end - start, start_ns, end_ns, start_ns, end_ns, prepared_ns=start_ns
        ),
        "name": result.phase,
        "repetition": result.repetition,
        "drift_check": False,
        "results": [result],
        "intervals": [
            IntervalRow(
                0, result.workload, "measured", result.sessions, result.objects, result.bytes, result.objects, 0
            )
        ],
        "histograms": [],
        "archived": [],
        "errors": [],
    }
    return PhaseRecord(**{**values, **more})


def sample(source: str, second: float, **quantities: Any) -> SampleRow:
    """Return a sample of a source, ``second`` s after BOOT. A quantity is a number, or numbers by item."""
    reading = {name: value if isinstance(value, dict) else {"": value} for name, value in quantities.items()}
    return SampleRow(source, 1000 + second, BOOT + round(second * SECOND), reading)


def two_phases(archive: Result, retrieve: Result) -> list[PhaseRecord]:
    """Return two phases: from second 1 to 4, and from second 5 to 9."""
    return [phase_record(1, archive, 1, 4), phase_record(2, retrieve, 5, 9)]


def ten_seconds(archived: int = 1000, retrieved: int = 1000) -> list[SampleRow]:
    """Return samples from second 0 to 10 of a host, of the process of a store, and of the counters of a store.

    Archiving from 1 to 4 uses 80% of a core and 50% of the time of a disk. Retrieving from 5 to 9 uses 40% of a core
    and no disk.
    """
    samples = []
    for second in range(11):
        archiving, retrieving = max(0, min(second, 4) - 1), max(0, min(second, 9) - 5)
        cpu = 0.8 * archiving + 0.4 * retrieving
        samples += [
            sample(
                "local",
                second,
                cpu_user_seconds={"0": cpu, "1": 0.1 * second},
                cpu_system_seconds={"0": 0.0, "1": 0.1 * second},
                disk_busy_seconds={"vda": 0.5 * archiving, "vdb": 0.02 * second},
                disk_request_seconds={"vda": 1.5 * archiving, "vdb": 0.02 * second},
                network_send_bytes={"lo": 0, "eth0": 8e6 * retrieving},
                network_receive_bytes={"lo": 0, "eth0": 4e6 * archiving},
                network_speed_bytes_per_second={"eth0": 10e6},
            ),
            sample(
                "pid:7",
                second,
                process_cpu_seconds=cpu,
                process_cpu_limit_cores=1,
                thread_cpu_seconds={"7/7": 0.75 * cpu, "7/8": 0.25 * cpu},
                thread_wait_seconds={"7/7": 0.05 * second, "7/8": 0.01 * second},
            ),
            sample(
                "minio",
                second,
                requests={"PutObject": archived * archiving / 3, "GetObject": retrieved * retrieving / 4},
            ),
        ]
    return samples
