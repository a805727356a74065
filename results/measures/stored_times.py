"""Times over repetitions: percentiles of their merged histograms, never medians of percentiles.

Percentiles over repetitions are those of all objects, as in one long measurement. The maximum belongs to the same
population.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from results.recorded.database import WorkloadHistogram
from results.recorded.model import Latency, Result
from results.recorded.run import RecordedRun

if TYPE_CHECKING:
    from results.measures.responses import Responses

QUANTITIES = (  # whose percentiles tables show
    "object_service", "attempt", "reconnect", "session_service", "session_open", "session_close", "first_byte", "lock",
    "transaction_send", "transaction_commit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredTimes:
    """The histograms of a run with repetitions, by quantity, position of the phase and workload."""

    histograms: Mapping[tuple[str, int, str], WorkloadHistogram] = field(default_factory=dict)

    def over(self, quantity: str, results: Sequence[Result]) -> Latency | None:
        """Return the times of a quantity (object_service, session_open) over several results.

        One result has its own; those of several follow from their merged histograms. Returns None if no result has any,
        or if a histogram is missing.
        """
        from results.measures.responses import merged, responses_of  # loads numpy, which one repetition does not need

        timed = [(result, times) for result in results if (times := getattr(result, f"{quantity}_ms")) is not None]
        if len(timed) < 2:
            return timed[0][1] if timed else None
        stored = [(self.histograms.get((quantity, result.position, result.workload)), times) for result, times in timed]
        parts = [responses_of(each.indices, each.counts, times.max) for each, times in stored if each is not None]
        if len(parts) < len(timed):
            return None
        return _latency(merged(parts), [times for _, times in timed])


NO_TIMES = StoredTimes()


def stored_times(recorded: RecordedRun) -> StoredTimes:
    """Return the histograms of a run with repetitions or with a search, whose steps may repeat a cell.

    Any other run needs none, because every result has its own percentiles.
    """
    if recorded.run.repetitions < 2 and recorded.search is None:
        return NO_TIMES
    return StoredTimes(
        {
            (quantity, each.position, each.workload): each
            for quantity in QUANTITIES
            for each in recorded.cell_histograms(quantity)
        }
    )


def _latency(whole: Responses, parts: Sequence[Latency]) -> Latency:
    """Return the times of several repetitions together. Each has at least one."""
    p50, p70, p90, p99, p99_9 = (whole.percentile(percent) or 0.0 for percent in (50, 70, 90, 99, 99.9))
    count = whole.count
    return Latency(
        count=count,
        mean=sum(each.mean * each.count for each in parts) / count,
        p50=p50,
        p70=p70,
        p90=p90,
        p99=p99,
        p99_9=p99_9,
        max=max(each.max for each in parts),
    )
