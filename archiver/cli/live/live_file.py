"""A run in progress as a file in its folder, for `archiver web`.

A separate thread writes the file once a second, so the run never waits for it. It takes 3 ms of CPU a second with four
workers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from archiver.cli.live.meter import Figures, Meter
from archiver.web.live_state import LiveFigures, LiveState, remove_live_state, write_live_state

WRITE_SECONDS = 1.0  # the same interval as workers' reports


@contextmanager
def live_file(meter: Meter, folders: Sequence[Path]) -> Iterator[None]:
    """Write the meter's state into these folders until the block ends, and then remove it."""
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(WRITE_SECONDS):
            write_live_state(folders, live_state(meter))

    thread = threading.Thread(target=write, name="live file", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        remove_live_state(folders)


def live_state(meter: Meter) -> LiveState:
    """Return the current state of the meter's run."""
    moment = meter.now()
    return LiveState(
        written_at=time.time(),
        phases=moment.phases,
        platforms=moment.platforms,
        seconds=moment.seconds,
        seconds_left=moment.seconds_left,
        errors=moment.errors,
        current=None if moment.current is None else _live_figures(moment.current),
        finished=tuple(map(_live_figures, moment.finished)),
        objects_by_second=tuple(moment.objects_by_second),
        log=tuple(moment.log),
    )


def _live_figures(figures: Figures) -> LiveFigures:
    return LiveFigures(
        label=figures.phase.label,
        position=figures.phase.position,
        platform=figures.platform,
        clients=figures.phase.clients,
        errors=figures.errors,
        objects_per_second=figures.objects_per_second,
        megabytes_per_second=figures.megabytes_per_second,
        p50_milliseconds=figures.p50_milliseconds,
        p99_milliseconds=figures.p99_milliseconds,
        server_cpu_percent=figures.server_cpu_percent,
        host_cpu_percent=figures.host_cpu_percent,
        disk_busy_percent=figures.disk_busy_percent,
    )
