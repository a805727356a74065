"""Server resource usage: counters once a second and at every phase's edges, on the run's clock.

One idea: only cumulative counters are stored. What was used between any two instants is a difference, interpolated
between the samples around them, so phases need not be aligned with the sampling.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psutil

from archiver.machine import block_device
from results.database import SampleRow
from results.model import ServerUsage

PERIOD_SECONDS = 1.0


class ResourceSampler:
    """Samples this host, and the store's processes where they run on it."""

    def __init__(self, store_pid: int | None, data_dir: Path | None, *, watch_host: bool) -> None:
        """``watch_host`` is false where the platform runs elsewhere: this host's usage is then not the server's."""
        self._watch_host = watch_host
        self._store = psutil.Process(store_pid) if store_pid is not None else None
        self._device = block_device(data_dir) if data_dir is not None else None
        self._samples: list[SampleRow] = []
        self._stored = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resource-sampler", daemon=True)

    def start(self) -> None:
        self.take()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def take(self) -> None:
        """Take one sample now."""
        cores = psutil.cpu_times(percpu=True)
        busy = [sum(core) - core.idle - core.iowait - core.steal - core.guest - core.guest_nice for core in cores]
        disks = psutil.disk_io_counters(perdisk=True) or {}
        networks = psutil.net_io_counters(pernic=True)
        sample = SampleRow(
            at=time.time(),
            monotonic_ns=time.monotonic_ns(),
            store_cpu_seconds=self._store_cpu_seconds(),
            host_cpu_seconds=sum(busy),
            core_cpu_seconds=busy,
            disk={name: (d.read_bytes, d.write_bytes, getattr(d, "busy_time", 0)) for name, d in disks.items()},
            network={name: (n.bytes_recv, n.bytes_sent) for name, n in networks.items() if name != "lo"},
        )
        with self._lock:
            self._samples.append(sample)

    def take_unstored(self) -> list[SampleRow]:
        """Samples not handed out before, for the database."""
        with self._lock:
            fresh = self._samples[self._stored :]
            self._stored = len(self._samples)
            return fresh

    def usage(self, from_ns: int, to_ns: int) -> ServerUsage | None:
        """What was used between two instants; None where the samples do not reach."""
        first, last = self._at(from_ns), self._at(to_ns)
        seconds = (to_ns - from_ns) / 1e9
        if not self._watch_host or first is None or last is None or seconds <= 0:
            return None
        store = None
        if first.store_cpu_seconds is not None and last.store_cpu_seconds is not None:
            store = (last.store_cpu_seconds - first.store_cpu_seconds) / seconds * 100
        cores = [(b - a) / seconds * 100 for a, b in zip(first.core_cpu_seconds, last.core_cpu_seconds, strict=True)]
        read = written = busy = None
        if self._device in first.disk and self._device in last.disk:
            before, after = first.disk[self._device], last.disk[self._device]
            read, written = after[0] - before[0], after[1] - before[1]
            busy = min(100.0, (after[2] - before[2]) / 1000 / seconds * 100)
        moved = sum(sum(last.network[n]) - sum(first.network[n]) for n in last.network if n in first.network)
        return ServerUsage(
            cpu_percent=store,
            host_cpu_percent=min(100.0, (last.host_cpu_seconds - first.host_cpu_seconds) / seconds * 100 / len(cores)),
            busiest_core_percent=min(100.0, max(cores)),
            disk_busy_percent=busy,
            disk_read_bytes=read,
            disk_write_bytes=written,
            network_megabytes_per_second=moved / 1e6 / seconds,
        )

    def device_read_bytes(self, from_ns: int, to_ns: int) -> int | None:
        """Bytes that the device under the store's data read between two instants."""
        usage = self.usage(from_ns, to_ns)
        return usage.disk_read_bytes if usage is not None else None

    def _store_cpu_seconds(self) -> float | None:
        if self._store is None:
            return None
        try:
            times = self._store.cpu_times()
        except psutil.Error:  # the store has ended; the run will say so itself
            return None
        return float(times.user + times.system)

    def _at(self, at_ns: int) -> SampleRow | None:
        """The counters at an instant, interpolated between the two samples around it."""
        with self._lock:
            samples = self._samples
            after = next((i for i in range(len(samples) - 1, -1, -1) if samples[i].monotonic_ns <= at_ns), None)
            if after is None:
                return None
            a = samples[after]
            b = samples[min(after + 1, len(samples) - 1)]
        if b is a:
            # Beyond the last sample: near enough, or the sampler has died and nothing is known.
            return a if at_ns - a.monotonic_ns < 3 * PERIOD_SECONDS * 1e9 else None
        share = (at_ns - a.monotonic_ns) / (b.monotonic_ns - a.monotonic_ns)

        def between(x: float, y: float) -> float:
            return x + (y - x) * share

        def whole(x: int, y: int) -> int:
            return int(between(x, y))

        store = None
        if a.store_cpu_seconds is not None and b.store_cpu_seconds is not None:
            store = between(a.store_cpu_seconds, b.store_cpu_seconds)
        return SampleRow(
            at=between(a.at, b.at),
            monotonic_ns=at_ns,
            store_cpu_seconds=store,
            host_cpu_seconds=between(a.host_cpu_seconds, b.host_cpu_seconds),
            core_cpu_seconds=[between(x, y) for x, y in zip(a.core_cpu_seconds, b.core_cpu_seconds, strict=True)],
            disk={
                name: (
                    whole(x[0], b.disk[name][0]),
                    whole(x[1], b.disk[name][1]),
                    whole(x[2], b.disk[name][2]),
                )
                for name, x in a.disk.items()
                if name in b.disk
            },
            network={
                name: (whole(x[0], b.network[name][0]), whole(x[1], b.network[name][1]))
                for name, x in a.network.items()
                if name in b.network
            },
        )

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            self.take()
