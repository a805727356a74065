"""Server resource usage: the samples of each source, and the usage between any two instants.

The database stores the values as the sources report them, mostly counters that only grow. Usage in a phase is the sum
of the increments, with the pieces at the edges in proportion. Phases therefore need not be aligned with the sampling,
and a restart of the server loses nothing. Every figure can be computed again from the database.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LOCAL = "local"  # source for this host, if the server runs on it
CLIENT = "client"  # source for the client's host, if the server runs elsewhere

Reading = Mapping[str, Mapping[str, float]]  # quantity -> item (core, device, interface ...; "" for a whole) -> value

# The growth of a counter in the few milliseconds between two samples is mostly rounding.
STEP_SECONDS_MIN = 0.5
SILENCE_SECONDS_MAX = 3.0  # maximum gap between two samples of a source; the timing of usage in a longer gap is unknown


class Quantity(NamedTuple):
    """The meaning of a name in a Reading. The name contains the unit."""

    item: str  # kind of its items: core, device, interface ...; "" if there is only a total
    counter: bool  # True: only grows, from an unknown start; False: a gauge
    begins_at_zero: bool = False  # a new item started counting from zero


QUANTITIES: Mapping[str, Quantity] = {
    # The host. Busy time excludes idle, iowait and steal.
    "cpu_user_seconds": Quantity("core", True),
    "cpu_system_seconds": Quantity("core", True),
    "cpu_iowait_seconds": Quantity("core", True),
    "cpu_steal_seconds": Quantity("core", True),
    "cpu_idle_seconds": Quantity("core", True),
    "memory_used_bytes": Quantity("", False),
    "memory_total_bytes": Quantity("", False),
    "swap_in_bytes": Quantity("", True),
    "swap_out_bytes": Quantity("", True),
    "disk_busy_seconds": Quantity("device", True),
    "disk_read_bytes": Quantity("device", True),
    "disk_write_bytes": Quantity("device", True),
    "disk_reads": Quantity("device", True),
    "disk_writes": Quantity("device", True),
    "disk_request_seconds": Quantity("device", True),  # sum over all requests: its rate is the mean queue length
    "network_receive_bytes": Quantity("interface", True),
    "network_send_bytes": Quantity("interface", True),
    "network_speed_bytes_per_second": Quantity("interface", False),
    # The server's processes.
    "process_cpu_seconds": Quantity("", True),
    "process_cpu_limit_cores": Quantity("", False),  # usable cores: by affinity and by cgroup quota
    "process_throttled_seconds": Quantity("", True),  # stopped by the cgroup's quota
    "thread_cpu_seconds": Quantity("thread", True, True),
    "thread_wait_seconds": Quantity("thread", True, True),  # ready to run, but without a core
    "process_resident_bytes": Quantity("", False),
    "process_read_bytes": Quantity("", True),
    "process_write_bytes": Quantity("", True),
    "process_open_files": Quantity("", False),
    "process_context_switches": Quantity("", True),
    # Counters of the store itself. Requests have the platform's name for the operation.
    "requests": Quantity("operation", True, True),
    "request_errors": Quantity("operation", True, True),
    "first_byte_requests": Quantity("operation and seconds at most", True, True),  # "PutObject 0.05", cumulative
    "store_written_bytes": Quantity("part", True),  # catalogue, segments
    "store_syncs": Quantity("part", True),
}


@dataclass(frozen=True, slots=True)
class SampleRow:
    """Values that one source reported at one instant."""

    source: str  # local, pid:123, minio, prometheus:http://...
    at: float  # epoch seconds
    monotonic_ns: int  # the run's clock
    reading: Reading


class SourceProblem(NamedTuple):
    """The first reason why a source could not be read."""

    source: str
    at: float  # epoch seconds
    problem: str


class Spread(NamedTuple):
    """Distribution of one item over a time: of its rate per second for a counter, of its value for a gauge."""

    mean: float
    p95: float
    max: float


class Step(NamedTuple):
    """Values that apply from one instant to another."""

    from_ns: int
    to_ns: int
    values: dict[str, float]


class Timeline:
    """The samples of one source, in order."""

    def __init__(self, samples: Iterable[SampleRow] = ()) -> None:
        self._samples: list[SampleRow] = sorted(samples, key=lambda sample: sample.monotonic_ns)
        self._at = [sample.monotonic_ns for sample in self._samples]

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: SampleRow) -> None:
        """Add the next sample."""
        self._samples.append(sample)
        self._at.append(sample.monotonic_ns)

    @property
    def begin_ns(self) -> int:
        """The instant of the first sample."""
        return self._at[0]

    @property
    def end_ns(self) -> int:
        """The instant of the last sample."""
        return self._at[-1]

    def reaches(self, from_ns: int, to_ns: int) -> bool:
        """Return whether there are samples at both ends of this time, regardless of gaps between them."""
        return bool(self._samples) and self._at[0] <= from_ns < to_ns <= self._at[-1]

    def covers(self, from_ns: int, to_ns: int) -> bool:
        """Return whether the samples cover this time without a gap. The timing of usage within a gap is unknown."""
        return self.reaches(from_ns, to_ns) and all(
            b.monotonic_ns - a.monotonic_ns <= SILENCE_SECONDS_MAX * 1e9 for a, b in self._pairs(from_ns, to_ns)
        )

    def overlap(self, from_ns: int, to_ns: int) -> float:
        """Return this time as a share of the time between the surrounding samples, 0-1.

        It is 1 if both ends were sampled.

        Usage outside this share can be separated by proportion only.
        """
        if not self.covers(from_ns, to_ns):
            return 0.0
        first, last = self._around(from_ns, to_ns)
        return (to_ns - from_ns) / (max(last, to_ns) - first)

    def used(self, quantity: str, from_ns: int, to_ns: int) -> dict[str, float]:
        """Return the growth of each item of a counter, or nothing if the samples do not cover the time."""
        return self._grown(quantity, from_ns, to_ns) if self.covers(from_ns, to_ns) else {}

    def _grown(self, quantity: str, from_ns: int, to_ns: int) -> dict[str, float]:
        grown: dict[str, float] = {}
        for a, b in self._pairs(from_ns, to_ns):
            share = (min(b.monotonic_ns, to_ns) - max(a.monotonic_ns, from_ns)) / (b.monotonic_ns - a.monotonic_ns)
            for item, increment in _increments(quantity, a, b).items():
                grown[item] = grown.get(item, 0.0) + share * increment
        return grown

    def counted(self, quantity: str, from_ns: int, to_ns: int) -> dict[str, float]:
        """Return the growth of each item from the last sample before to the first one after.

        The values are whole numbers if no operation was in progress at either end. A gap between samples loses nothing
        of a counter.
        """
        if not self.reaches(from_ns, to_ns):
            return {}
        return self._grown(quantity, *self._around(from_ns, to_ns))

    def spread(self, quantity: str, from_ns: int, to_ns: int) -> dict[str, Spread]:
        """Return mean, 95th percentile and maximum per item over the samples; empty as for ``used``."""
        if not self.covers(from_ns, to_ns):
            return {}
        seconds = (to_ns - from_ns) / 1e9
        if QUANTITIES[quantity].counter:
            means = {item: grown / seconds for item, grown in self.used(quantity, from_ns, to_ns).items()}
        else:
            means = {}
        seen: dict[str, list[float]] = {}
        for step in self.series(quantity, from_ns, to_ns):
            for item, value in step.values.items():
                seen.setdefault(item, []).append(value)
        return {
            item: Spread(means.get(item, sum(values) / len(values)), percentile_95(values), max(values))
            for item, values in seen.items()
        }

    def series(self, quantity: str, from_ns: int, to_ns: int) -> list[Step]:
        """Return values per item from sample to sample: rates per second of a counter, values of a gauge."""
        if QUANTITIES[quantity].counter:
            return self._steps(quantity, from_ns, to_ns)
        here = slice(max(0, bisect_right(self._at, from_ns) - 1), bisect_right(self._at, to_ns))
        return [
            Step(max(at, from_ns), max(at, from_ns), dict(sample.reading.get(quantity, {})))
            for at, sample in zip(self._at[here], self._samples[here], strict=True)
        ]

    def _steps(self, quantity: str, from_ns: int, to_ns: int) -> list[Step]:
        """Merge samples that are close together (a phase's edge near a whole second) into one step."""
        pieces: list[tuple[int, int, dict[str, float]]] = []
        for a, b in self._pairs(from_ns, to_ns):
            increments = _increments(quantity, a, b)
            last = pieces[-1] if pieces else None
            if last is None or last[1] - last[0] >= STEP_SECONDS_MIN * 1e9:
                pieces.append((a.monotonic_ns, b.monotonic_ns, increments))
            else:
                pieces[-1] = _joined(last, b.monotonic_ns, increments)
        if len(pieces) > 1 and pieces[-1][1] - pieces[-1][0] < STEP_SECONDS_MIN * 1e9:
            _, ended_ns, increments = pieces.pop()
            pieces[-1] = _joined(pieces[-1], ended_ns, increments)
        return [_step(begun_ns, ended_ns, grown, from_ns, to_ns) for begun_ns, ended_ns, grown in pieces]

    def last(self, quantity: str, at_ns: int) -> dict[str, float]:
        """Return a quantity from the newest sample that has it and is not after the instant."""
        for sample in reversed(self._samples[: bisect_right(self._at, at_ns)]):
            if quantity in sample.reading:
                return dict(sample.reading[quantity])
        return {}

    def _around(self, from_ns: int, to_ns: int) -> tuple[int, int]:
        """Return the instants of the last sample before and of the first one after."""
        before = max(0, bisect_right(self._at, from_ns) - 1)
        after = min(bisect_left(self._at, to_ns), len(self._at) - 1)
        return self._at[before], self._at[after]

    def _pairs(self, from_ns: int, to_ns: int) -> Iterator[tuple[SampleRow, SampleRow]]:
        """Yield pairs of neighbouring samples whose interval overlaps this time."""
        first, last = max(0, bisect_right(self._at, from_ns) - 1), bisect_left(self._at, to_ns)
        for a, b in zip(self._samples[first:last], self._samples[first + 1 : last + 1], strict=False):
            if b.monotonic_ns > a.monotonic_ns:
                yield a, b


def _joined(
    piece: tuple[int, int, dict[str, float]], ended_ns: int, increments: Mapping[str, float]
) -> tuple[int, int, dict[str, float]]:
    begun_ns, _, grown = piece
    items = dict.fromkeys([*grown, *increments])
    return begun_ns, ended_ns, {item: grown.get(item, 0.0) + increments.get(item, 0.0) for item in items}


def _step(begun_ns: int, ended_ns: int, grown: Mapping[str, float], from_ns: int, to_ns: int) -> Step:
    rates = {item: increment / (ended_ns - begun_ns) * 1e9 for item, increment in grown.items()}
    return Step(max(begun_ns, from_ns), min(ended_ns, to_ns), rates)


def percentile_95(values: Sequence[float]) -> float:
    """Return the smallest value that at least 95% do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, -(-len(ranked) * 95 // 100) - 1)]


def _increments(quantity: str, a: SampleRow, b: SampleRow) -> dict[str, float]:
    """Return the growth of each item from a to b. A counter that fell has restarted."""
    before, after = a.reading.get(quantity), b.reading.get(quantity)
    if after is None or (before is None and not QUANTITIES[quantity].begins_at_zero):
        return {}
    before = before or {}
    begins_at_zero = QUANTITIES[quantity].begins_at_zero
    return {
        item: value - before[item] if value >= before.get(item, value) else value
        for item, value in after.items()
        if item in before
    } | ({item: value for item, value in after.items() if item not in before} if begins_at_zero else {})
