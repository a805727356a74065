"""Which resource limited a result: the client first, because then the server was not measured."""

from __future__ import annotations

import pytest

from archiver.bottleneck import limited_by
from results.model import ClientUsage, ServerUsage


def server(cpu: float | None, disk: float | None) -> ServerUsage:
    return ServerUsage(cpu, 50.0, 99.0, disk, 0, 0, 1.0)


@pytest.mark.parametrize(
    ("busiest_worker", "lateness_ms", "server_usage", "limit"),
    [
        (10, 1, None, None),
        (10, 1, server(10, 10), None),  # bound by latency
        (84.9, 19.9, server(89.9, 89.9), None),
        (85, 0, None, "client"),
        (85, 0, server(100, 100), "client"),
        (0, 20, server(100, 100), "client"),  # the event loop was starved
        (10, 1, server(90, 100), "server cpu"),
        (10, 1, server(89, 90), "server disk"),
        (10, 1, server(None, 90), "server disk"),
        (10, 1, server(None, None), None),
    ],
)
def test_what_limited_a_result(
    busiest_worker: float, lateness_ms: float, server_usage: ServerUsage | None, limit: str | None
) -> None:
    assert limited_by(ClientUsage(10.0, busiest_worker, 10.0, lateness_ms), server_usage) == limit


def test_one_busy_worker_limits_however_idle_the_others_are() -> None:
    assert limited_by(ClientUsage(110.0, 100.0, 10.0, 0.0), None) == "client"
