"""Test that rates beyond this client's capacity are reported before a run, and other scenarios cost nothing."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from archiver.engine import offered_rates
from archiver.engine.offered_rates import OfferedRates
from archiver.values.errors import UsageError
from scenarios.model import Phase, Workload
from scenarios.notation.distribution import Sizes
from scenarios.reading.reader import read_scenario
from scenarios.work.mix import CHANGES, Arrivals, Mix, Transaction
from tests.support.commands import archiver

READ = Mix((Transaction(("retrieve",), 1.0),), "pages", Sizes.constant(8192), planned_seconds=10.0)


def loop(name: str, per_second: float, clients: int = 8, **changes: Any) -> Workload:
    arrivals = changes.pop("arrivals", Arrivals("poisson", per_second))
    return Workload(name, replace(READ, arrivals=arrivals, **changes), clients)


def phase_of(*workloads: Workload) -> Phase:
    return Phase("night", 1, 1, workloads)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Workload]:
    """Record the measured workloads. A worker can carry out 100 sessions/s of any kind."""
    asked: list[Workload] = []

    def hundred(workload: Workload) -> float:
        asked.append(workload)
        return 100.0

    monkeypatch.setattr(offered_rates, "_sessions_per_second", hundred)
    return asked


MILLION = """
name = "million"
title = "Too much"
[[phase]]
name = "night"
[[phase.workload]]
name = "flood"
operation = "archive"
data = "mail"
sizes = "8KiB"
clients = 8
seconds = "1s"
arrivals = { kind = "constant", per_second = 1000000 }
"""


def test_a_million_a_second_is_refused_before_anything_is_touched(tmp_path: Path, home: Path) -> None:
    (tmp_path / "million.toml").write_text(MILLION)
    done = archiver("run", str(tmp_path / "million.toml"), "--max-locked-bytes", "20GB")
    assert done.returncode == 2
    assert "night: workload 'flood' (1,000,000 sessions/s of " in done.stderr
    assert done.stderr.rstrip().endswith(
        "lower arrivals.per_second, or give the client more workers (--workers) or a machine with more cores"
    )
    assert "Traceback" not in done.stderr
    assert not (home / "runs").exists()


def test_only_a_rate_near_the_limit_gives_a_warning(measured: list[Workload]) -> None:
    assert OfferedRates().warnings([phase_of(loop("web", 70))], workers=1) == []
    assert OfferedRates().warnings([phase_of(loop("web", 71))], workers=1) == [
        "night: workload 'web' (71 sessions/s of 100) requests 71% of the sessions that 1 worker of this client can "
        "carry out even if the sessions do nothing: sessions may begin late"
    ]
    with pytest.raises(UsageError, match=r"'web' \(101 sessions/s of 100\) requests 1.01 times"):
        OfferedRates().warnings([phase_of(loop("web", 101))], workers=1)


def test_concurrent_open_loops_are_counted_together(measured: list[Workload]) -> None:
    web, mail = loop("web", 60), loop("mail", 60)
    with pytest.raises(UsageError, match=r"'web' \(60 .* and workload 'mail' \(60 .* request 1.2 times"):
        OfferedRates().warnings([phase_of(web, mail)], workers=1)
    later = loop("mail", 60, starts_seconds=10.0)
    after = loop("mail", 60, waits_for="web")
    never_known = loop("mail", 60, waits_for="copy")
    copy = Workload("copy", replace(READ, keys="each-once", planned_seconds=None), clients=8)
    for phase in (phase_of(web, later), phase_of(web, after), phase_of(web, copy, never_known)):
        assert OfferedRates().warnings([phase], workers=1) == []
    assert OfferedRates().warnings([phase_of(web), phase_of(mail)], workers=1) == []


def test_rate_limit_counts_only_workers_with_clients(measured: list[Workload]) -> None:
    assert OfferedRates().warnings([phase_of(loop("web", 250))], workers=4) == []
    with pytest.raises(UsageError, match="of 200"):
        OfferedRates().warnings([phase_of(loop("web", 250, clients=2))], workers=4)


@pytest.mark.parametrize(
    ("arrivals", "rate"),
    [
        (Arrivals("ramp", 10, to_per_second=200), 200),
        (Arrivals("ramp", 200, to_per_second=10), 200),
        (Arrivals("bursts", 20, burst_sessions=900, every_seconds=5.0), 200),
    ],
)
def test_peak_rate_of_arrivals_is_compared_with_the_limit(
    measured: list[Workload], arrivals: Arrivals, rate: int
) -> None:
    with pytest.raises(UsageError, match=f"{rate} sessions/s of 100"):
        OfferedRates().warnings([phase_of(loop("web", 0, arrivals=arrivals))], workers=1)


def test_every_kind_of_session_is_measured_once(measured: list[Workload]) -> None:
    tiles = [phase_of(*(replace(loop(f"tile {i} web", 5, data=f"tile {i} web"), copy=i) for i in (1, 2, 3)))] * 2
    other = loop("large", 5, sizes=Sizes.constant(1 << 20))
    rates = OfferedRates()
    rates.warnings([*tiles, phase_of(other)], workers=1)
    rates.warnings(tiles, workers=1)
    assert len(measured) == 2


def test_scenario_without_open_loop_measures_no_rate(measured: list[Workload]) -> None:
    assert OfferedRates().warnings(read_scenario("dr550").phases, workers=1) == []
    closed = Workload("pages", READ, clients=8)
    assert OfferedRates().warnings([phase_of(closed)], workers=1) == []
    assert measured == []


@pytest.mark.parametrize(
    "operation", ["archive", "retrieve", "range-retrieve", "query", "head", "refused-delete", "copy", *sorted(CHANGES)]
)
def test_every_operation_has_a_finite_rate_except_releases(operation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered_rates, "SECONDS", 0.1)
    workload = loop("web", 1, transactions=(Transaction((operation,), 1.0),), range_bytes=4096)
    if operation in ("release", "event-release"):
        assert offered_rates._sessions_per_second(offered_rates._kind(workload)) == inf
    else:  # a busy machine may give the process no time in some of the measurements
        rates = (offered_rates._sessions_per_second(offered_rates._kind(workload)) for _ in range(20))
        assert next(rate for rate in rates if rate < inf) > 0


def test_a_measurement_without_a_session_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered_rates, "SECONDS", 0.0)
    assert offered_rates._sessions_per_second(offered_rates._kind(loop("web", 1))) == inf
