"""Which resource limited a result: the client first, because then the server was not measured."""

from __future__ import annotations

import pytest

from archiver.bottleneck import limited_by
from results.model import ClientUsage, ServerUsage


def server(cpu: float | None, disk: float | None) -> ServerUsage:
    return ServerUsage(cpu, 50.0, 99.0, disk, 0, 0, 1.0)


@pytest.mark.parametrize(
    ("client_cpu", "lateness_ms", "workers", "server_usage", "limit"),
    [
        (10, 1, 1, None, None),
        (10, 1, 1, server(10, 10), None),  # bound by latency
        (84.9, 19.9, 1, server(89.9, 89.9), None),
        (85, 0, 1, None, "client"),
        (85, 0, 1, server(100, 100), "client"),
        (85, 0, 2, server(10, 10), None),  # of each worker's core
        (170, 0, 2, server(10, 10), "client"),
        (0, 20, 1, server(100, 100), "client"),  # the event loop was starved
        (10, 1, 1, server(90, 100), "server cpu"),
        (10, 1, 1, server(89, 90), "server disk"),
        (10, 1, 1, server(None, 90), "server disk"),
        (10, 1, 1, server(None, None), None),
    ],
)
def test_what_limited_a_result(
    client_cpu: float, lateness_ms: float, workers: int, server_usage: ServerUsage | None, limit: str | None
) -> None:
    assert limited_by(ClientUsage(client_cpu, 0.0, 10.0, lateness_ms), server_usage, workers) == limit


def test_a_client_that_waits_for_a_core_limits_as_one_that_has_it() -> None:
    assert limited_by(ClientUsage(50.0, 35.0, 10.0, 1.0), None, 1) == "client"
    assert limited_by(ClientUsage(50.0, 34.0, 10.0, 1.0), None, 1) is None
