"""Which resource limited a result, by rule.

One idea: a result that the client limited says so before anything is said of the server, because then the server was
not measured. The thresholds are the whole rule.
"""

from __future__ import annotations

from results.model import ClientUsage, ServerUsage

CLIENT_BUSY_PERCENT = 85.0  # of the busiest worker's time: on a core, or ready to run but without one
CLIENT_LATENESS_MS = 20.0  # 99th percentile: the event loop was starved
SERVER_CPU_PERCENT = 90.0  # of one core: the embedded store has one event loop
DISK_BUSY_PERCENT = 90.0


def limited_by(client: ClientUsage, server: ServerUsage | None) -> str | None:
    """``client``, ``server cpu``, ``server disk``; None where nothing is near saturation: bound by latency."""
    if client.busiest_worker_percent >= CLIENT_BUSY_PERCENT or client.lateness_p99_ms >= CLIENT_LATENESS_MS:
        return "client"
    if server is None:
        return None
    if (server.cpu_percent or 0.0) >= SERVER_CPU_PERCENT:
        return "server cpu"
    if (server.disk_busy_percent or 0.0) >= DISK_BUSY_PERCENT:
        return "server disk"
    return None
