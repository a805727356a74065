"""A simulated run with scripted operations, to test live figures."""

from __future__ import annotations

import numpy as np

from archiver.cli.live.meter import Meter
from archiver.measure.histogram import Histogram, part_of
from archiver.measure.reports import INTERVAL_NS, IntervalReport, Tally, TallyKey
from results.recorded.model import ServerUsage
from scenarios.model import Phase, Scenario
from scenarios.reading.reader import read_scenario

MS = 1_000_000


CPU = ServerUsage(
    cpu_percent=71.4, host_cpu_percent=40.0, busiest_core_percent=None, disk_busy_percent=88.0,
    disk_read_bytes=None, disk_write_bytes=None, network_megabytes_per_second=None,
)  # fmt: skip


class Run:
    """A run whose events are scripted by a test, with a clock that only the script moves."""

    def __init__(self, platforms: int = 1, server: ServerUsage | None = CPU) -> None:
        self.scenario: Scenario = read_scenario("dr550", quick=True, order="paper")
        self.now_ns = 5_000 * 1_000_000_000
        self.meter = Meter(self.scenario, platforms, clock_ns=lambda: self.now_ns)
        self._server = server
        self._start_ns = 0

    def begin(self, position: int, platform: str = "embedded") -> Phase:
        phase = self.scenario.phases[position - 1]
        self._start_ns = self.now_ns
        self.meter.phase_started(phase, platform, lambda seconds: self._server)
        return phase

    def second(self, *workers: tuple[int, int], errors: int = 0) -> None:
        """Advance the clock by one second and let each worker report.

        Each worker is (objects per interval, milliseconds per object).
        """
        self.now_ns += 1_000_000_000
        for objects, milliseconds in workers:
            self.report(objects, milliseconds, errors)

    def report(self, objects: int, milliseconds: int, errors: int = 0) -> None:
        """Report the last second's four intervals of one worker."""
        until = (self.now_ns - self._start_ns) // INTERVAL_NS
        tallies = {}
        for interval in range(max(0, until - 4), until):
            service = Histogram()
            service.add(part_of(np.full(objects, milliseconds * MS, dtype=np.int64)))
            tallies[TallyKey(interval, 0, "measured")] = Tally(
                objects=objects, bytes=objects * 8192, errors=errors, histograms={"object_service": service}
            )
        self.meter.reported(IntervalReport(tallies if objects else {}, [], []))
