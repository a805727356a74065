"""Synthetic results."""

from __future__ import annotations

from typing import Any

from results.recorded.model import ClientUsage, DiskUsage, Latency, Result, ServerUsage, Utilisation


def made_result(
    operation: str = "archive",
    object_bytes: int = 8192,
    objects_per_session: int = 25,
    objects_per_second: float = 500.0,
    **overrides: Any,
) -> Result:
    """Return a result. All its fields can be overridden."""
    sessions = 40 * overrides.get("clients", 1)
    objects = sessions * objects_per_session
    seconds = objects / objects_per_second if objects_per_second else 3.0
    object_ms = 1000 / objects_per_second if objects_per_second else 1.0
    values: dict[str, Any] = {
        "phase": operation,
        "workload": operation,
        "operation": operation,
        "object_bytes": object_bytes,
        "objects_per_session": objects_per_session,
        "clients": 1,
        "repetition": 1,
        "position": 1,
        "session_kind": "opened",
        "session_open": "head-bucket",
        "temperature": "cold" if operation == "retrieve" else None,
        "checksum": "crc32c",
        "payload_signing": False,
        "retention_mode": "GOVERNANCE",
        "legal_hold": False,
        "verified": "all",
        "sessions": sessions,
        "objects": objects,
        "bytes": objects * object_bytes,
        "attempts": objects,
        "errors": 0,
        "refusals": 0,
        "seconds": seconds,
        "warm_up_objects": objects_per_session,
        "drained_objects": 0,
        "store_bytes_before": 0,
        "archived_bytes_before": 0,
        "objects_per_second": objects_per_second,
        "megabytes_per_second": objects_per_second * object_bytes / 1e6,
        "mebibytes_per_second": objects_per_second * object_bytes / 2**20,
        "session_service_ms": _latency(sessions, object_ms * objects_per_session),
        "session_ms": _latency(sessions, object_ms * objects_per_session),
        "session_open_ms": _latency(sessions, 2.0),
        "session_close_ms": _latency(sessions, 0.1),
        "object_service_ms": _latency(objects, object_ms),
        "object_ms": _latency(objects, object_ms),
        "first_byte_ms": _latency(objects, object_ms * 0.8),
        "server": ServerUsage(
            cpu_percent=88.0,
            host_cpu_percent=31.0,
            busiest_core_percent=92.0,
            disk_busy_percent=40.0,
            disk_read_bytes=0,
            disk_write_bytes=objects * object_bytes,
            network_megabytes_per_second=0.02,
            cpu_limit_percent=100.0,
            busiest_thread_percent=91.0,
            cpu_milliseconds_per_object=0.88 * object_ms,
            write_amplification=1.0 if operation == "archive" else None,
            disks=(DiskUsage("vda", "object", 40.0, 0.0, objects * object_bytes, 0.5, 1.0, None),),
        ),
        "client": ClientUsage(12.0, 1.0, 39.5, 0.2),
        "limited_by": "server cpu",
        "settled": True,
        "session_half_width": 0.04,
        "unsteady": None,
        "utilisations": (
            Utilisation("server cpu", "busiest thread", 0.91, True),
            Utilisation("object disk vda", "busy time, queue 0.5", 0.40, False),
            Utilisation("client", "busiest worker", 0.25, True),
        ),
        "confidence": "high",
    }
    return Result(**{**values, **overrides})


def _latency(count: int, typical_ms: float) -> Latency:
    return Latency(
        count,
        mean=typical_ms * 1.1,
        p50=typical_ms,
        p70=typical_ms * 1.2,
        p90=typical_ms * 1.6,
        p99=typical_ms * 3,
        p99_9=typical_ms * 6,
        max=typical_ms * 9,
    )
