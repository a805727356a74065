"""Test the live figures of a run: rates of the last seconds, merged percentiles, and their display."""

from __future__ import annotations

import io
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from rich.console import Console

from archiver.cli.live.live_table import LiveTable, plain_line, sparkline
from archiver.cli.live.meter import Meter
from archiver.cli.live.progress import line_pause_seconds
from archiver.measure.reports import IntervalReport
from archiver.values.record import ErrorKind
from results.recorded.model import ServerUsage
from scenarios.model import Scenario
from scenarios.reading.reader import read_scenario
from tests.archiver.cli.live.metered_run import Run


def shown(run: Run, width: int, **console: Any) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=30, **console).print(LiveTable(run.meter.now()))
    return out.getvalue().splitlines()


def test_rates_cover_the_last_seconds_of_all_workers() -> None:
    run = Run()
    run.begin(1)
    for _ in range(10):
        run.second((1000, 1), (1000, 1))
    for _ in range(10):
        run.second((100, 1), (50, 1))
    current = run.meter.now().current
    assert current is not None
    assert current.objects_per_second == pytest.approx(600)  # four intervals a second, without the fast beginning
    assert current.megabytes_per_second == pytest.approx(600 * 8192 / 1e6)
    assert run.meter.now().totals["embedded", "archive"].objects == 10 * 8000 + 10 * 600


def test_rate_does_not_depend_on_which_worker_reported_last() -> None:
    run = Run()
    run.begin(1)
    rates = set()
    for half_second in range(30):
        run.now_ns += 500_000_000
        run.report(100 if half_second % 2 else 300, 1)  # two workers; each reports every second
        current = run.meter.now().current
        assert current is not None
        rates.add(current.objects_per_second)
    assert rates == {None, 1600}


def test_percentiles_are_computed_from_merged_objects_of_all_workers() -> None:
    run = Run()
    run.begin(1)
    for _ in range(8):
        run.second((99, 1), (1, 1000))  # 1% of the objects take a second, all in one worker
    current = run.meter.now().current
    assert current is not None
    assert current.p50_milliseconds == pytest.approx(1, rel=0.001)
    assert current.p99_milliseconds == pytest.approx(1, rel=0.001)
    for _ in range(8):
        run.second((97, 1), (3, 1000))
    current = run.meter.now().current
    assert current is not None
    assert current.p99_milliseconds == pytest.approx(1000, rel=0.001)


def test_stall_shows_zero_rate_while_it_lasts() -> None:
    run = Run()
    run.begin(1)
    for _ in range(8):
        run.second((100, 1))
    for _ in range(8):
        run.second((0, 0))
    moment = run.meter.now()
    assert moment.current is not None
    assert moment.current.objects_per_second == 0
    assert moment.current.p99_milliseconds is None
    assert moment.objects_by_second[-3:] == [0, 0, 0]
    assert max(moment.objects_by_second) == 400


def test_no_rates_are_shown_before_one_second_of_a_phase() -> None:
    run = Run()
    assert run.meter.now().current is None
    run.begin(1)
    assert plain_line(run.meter.now()) is None
    run.second((100, 1))
    current = run.meter.now().current
    assert current is not None
    assert current.objects_per_second is None
    assert current.p99_milliseconds is None
    assert plain_line(run.meter.now()) is None


def test_time_left_is_estimated_from_duration_of_past_phases() -> None:
    run = Run()
    count = len(run.scenario.phases)
    run.begin(1)
    run.second((10, 1))
    assert run.meter.now().seconds_left is None
    for _ in range(3):
        run.second((10, 1))
    run.begin(2)
    assert run.meter.now().seconds_left == pytest.approx(4 * (count - 1))
    run.second((10, 1))
    assert run.meter.now().seconds_left == pytest.approx(4 * (count - 1) - 1)
    for _ in range(4 * count):
        run.second((10, 1))
    assert run.meter.now().seconds_left == 0  # never below 0


def test_resumed_run_counts_phases_of_the_whole_run() -> None:
    run = Run()
    rest = run.scenario.phases[4:]
    meter = Meter(Scenario("n", "t", rest, "paper", 1, 1, ""), 1, clock_ns=lambda: run.now_ns)
    meter.phase_started(rest[0], "embedded", lambda seconds: None)
    assert meter.now().phases == len(run.scenario.phases)
    assert meter.now().seconds_left is None


def test_log_line_shows_phase_rates_and_errors_of_the_run() -> None:
    run = Run()
    run.begin(1)
    for _ in range(8):
        run.second((1250, 3))
    assert plain_line(run.meter.now()) == (
        "phase 1/40 archive 8KiB x 1, 1 client: 5,000 objects/s, 41.0 MB/s, p99 3.0 ms, 0 errors, server cpu 71%"
    ).replace("/40", f"/{len(run.scenario.phases)}")
    run.second((1250, 3), errors=1)
    assert "4 errors" in (plain_line(run.meter.now()) or "")
    run.begin(2)
    for _ in range(8):
        run.second((1250, 3))
    assert "4 errors" in (plain_line(run.meter.now()) or "")  # errors of the whole run, not of the phase


def test_each_platform_shows_its_own_errors_and_retries() -> None:
    run = Run(platforms=2)
    run.begin(1, "minio")
    for _ in range(8):
        run.second((1250, 3), errors=1)
    run.meter.reported(IntervalReport({}, [], [ErrorKind("archive", "503 SlowDown", 0, "", "", "", retried=7)]))
    assert "32 errors, 7 retried on minio" in (plain_line(run.meter.now()) or "")
    run.begin(1, "versitygw")
    for _ in range(8):
        run.second((1250, 3))
    assert ", 0 errors, " in (plain_line(run.meter.now()) or "")
    assert run.meter.now().errors == 32


def test_log_line_names_platform_if_several_and_host_cpu_without_process() -> None:
    host_only = ServerUsage(
        cpu_percent=None, host_cpu_percent=40.0, busiest_core_percent=None, disk_busy_percent=None,
        disk_read_bytes=None, disk_write_bytes=None, network_megabytes_per_second=None,
    )  # fmt: skip
    run = Run(platforms=2, server=host_only)
    run.begin(1, "minio")
    for _ in range(8):
        run.second((10, 1))
    line = plain_line(run.meter.now())
    assert line is not None
    assert " on minio, archive 8KiB x 1" in line
    assert line.endswith("host cpu 40%")
    assert "archive 8KiB x 1, minio" in "\n".join(shown(run, 100))


def test_run_of_a_day_writes_fewer_than_400_log_lines() -> None:
    gone, lines = 0.0, 0
    while gone < 24 * 3600:
        pause = line_pause_seconds(gone)
        assert pause >= 5
        gone, lines = gone + pause, lines + 1
    assert lines < 400


@pytest.mark.parametrize("width", [10, 20, 33, 40, 50, 60, 66, 72, 78, 80, 100, 160])
@pytest.mark.parametrize("platforms", [1, 3])
def test_live_table_fits_every_terminal_width(width: int, platforms: int) -> None:
    run = Run(platforms)
    random = Random(1)
    for position in (1, 2, 3):
        run.begin(position, "versitygw")
        for _ in range(40):
            run.second((random.randrange(1, 5000), 12), errors=3)
    lines = shown(run, width)
    assert max(map(len, lines)) <= width
    assert len(lines) <= 8
    current = run.meter.now().current
    assert current is not None
    assert f" {current.objects_per_second:,.0f}" in lines[4]  # a number is never truncated
    if width >= 60:
        assert "objects/s, up to" in lines[-1]


def test_table_at_80_columns_shows_all_columns() -> None:
    run = Run()
    run.begin(1)
    for _ in range(8):
        run.second((1250, 3))
    lines = shown(run, 80)
    assert lines[0] == f"phase 1/{len(run.scenario.phases)} archive 8KiB x 1, 1 client"
    assert lines[1] == "0:08 gone"
    assert lines[2].split() == ["objects", "p50", "p99", "server", "disk"]
    assert lines[3].split() == ["phase", "clients", "/s", "MB/s", "(ms)", "(ms)", "errors", "cpu", "busy"]
    assert lines[4].split() == ["archive", "8KiB", "x", "1", "1", "5,000", "41.0", "3.0", "3.0", "0", "71%", "88%"]
    assert "errors so far" not in lines[1]
    assert shown(run, 44)[4].split() == ["archive", "8KiB", "x", "1", "5,000", "41.0", "3.0"]  # without other columns
    assert shown(run, 30)[4].split() == ["archive", "8KiB", "x", "1", "5,000"]
    run.second((1250, 3), errors=1)
    assert "4 errors so far" in shown(run, 80)[1]
    run.begin(2)
    run.second((1250, 3))
    left = 9 * (len(run.scenario.phases) - 1) - 1
    assert shown(run, 80)[1] == f"4 errors so far, 0:10 gone, about {left // 60}:{left % 60:02} left"


def test_table_shows_no_size_of_objects_that_another_workload_archives() -> None:
    run = Run()
    night = read_scenario("mail", quick=True).phases[2]
    discovery = replace(night, workloads=night.workloads[1:2])
    run.meter.phase_started(discovery, "embedded", lambda seconds: None)
    run.second((1250, 3))
    assert shown(run, 120)[4].startswith("retrieve x 30 ")


def test_sparkline_scales_from_zero_to_maximum() -> None:
    assert sparkline([0, 50, 100]) == "▁▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""
