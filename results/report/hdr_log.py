"""The latencies of a run as an HdrHistogram log, for the plotters and analysers that read this format.

Each line is the histogram of one quantity of one workload in one phase, in nanoseconds. Its tag names them:
``archive 8KiB x 100; object_service``. Times are seconds since the epoch.
"""

from __future__ import annotations

import io

import numpy as np
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

from archiver.values.errors import ResultsError
from results.measures.stored_times import QUANTITIES
from results.measures.units import NO_RESULTS
from results.recorded.run import RecordedRun

HIGHEST_NS = 24 * 3600 * 10**9  # as the run recorded them
SIGNIFICANT_DIGITS = 3
_MILLISECOND_NS = 1e6  # the log states maxima in milliseconds


def hdr_log(recorded: RecordedRun) -> str:
    """Return the log of every phase that finished, in order. Raises ResultsError if there is none."""
    phases = {phase.position: phase for phase in recorded.phase_times}
    if not phases:
        raise ResultsError(NO_RESULTS)
    stored = [(each, quantity) for quantity in QUANTITIES for each in recorded.cell_histograms(quantity)]
    text = io.StringIO()
    log = HistogramLogWriter(text)
    log.output_log_format_version()
    log.output_comment(f"[Run: {recorded.run.id}]")
    log.output_comment(f"[StartTime: {min(phase.started_at for phase in phases.values()):.3f} (seconds since epoch)]")
    log.output_legend()
    for each, quantity in sorted(stored, key=lambda one: (one[0].position, one[0].workload, QUANTITIES.index(one[1]))):
        phase = phases[each.position]
        workload = f" {each.workload}" if each.workload and each.workload not in phase.label else ""
        text.write(f"Tag={phase.label.replace(',', ';')}{workload}; {quantity},")
        from_seconds = phase.started_at
        log.output_interval_histogram(
            hdr_histogram(each.indices, each.counts), from_seconds, from_seconds + phase.seconds, _MILLISECOND_NS
        )
    return text.getvalue()


def hdr_histogram(indices: bytes, counts: bytes) -> HdrHistogram:
    """Return stored counts, little-endian int64, as the library's histogram."""
    histogram = HdrHistogram(1, HIGHEST_NS, SIGNIFICANT_DIGITS)
    for index, count in zip(np.frombuffer(indices, "<i8").tolist(), np.frombuffer(counts, "<i8").tolist(), strict=True):
        histogram.record_value(histogram.get_value_from_index(index), count)
    return histogram
