"""Warnings about the reliability of a run's numbers.

Each warning is one function that yields sentences: the problem, its size, and a remedy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from archiver.values.sizes import format_bytes, format_duration, format_instant, format_size
from results.document.grades import PRECISE_SHARE
from results.measures.quality import CLIENT_SHARE_MAX
from results.measures.requests import request_differences
from results.measures.units import Unit, all_cells, parallel_cells
from results.recorded.database import ObjectsFrom, is_under_way
from results.recorded.model import FAILURES, Result, Utilisation
from results.recorded.run import RecordedRun

DRIFT_PERCENT = 10.0
CLOCK_SECONDS = 2.0
FALLS_BELOW = 0.9  # of the best rate with fewer clients
NO_GAIN_BELOW = 1.05
OVERLAP_MIN = 0.5  # of a cell's time within the time between the surrounding samples
WRITTEN_SHARE_MIN = 0.9  # of the bytes acknowledged, on the device at the end of their phases


def doubts(recorded: RecordedRun) -> list[str]:
    """Return every warning about a run, the most serious first."""
    return _warnings(recorded, _WARNINGS)


def platform_doubts(recorded: RecordedRun) -> list[str]:
    """Return the warnings that apply to the platform or the whole run, not to single cells."""
    return _warnings(recorded, _OF_THE_PLATFORM)


def _warnings(recorded: RecordedRun, chosen: Sequence[Callable[[RecordedRun], Iterable[str]]]) -> list[str]:
    return [sentence for warning in chosen for sentence in warning(recorded)]


def _word(recorded: RecordedRun) -> str:
    """Return the word for several results: cells, workloads, or measurements if these were repeated."""
    if recorded.run.repetitions > 1:
        return "measurements"
    return "workloads" if any(result.application for result in recorded.results) else "cells"


def _share(recorded: RecordedRun, some: Sequence[Result]) -> str:
    return f"{len(some)} of {len(recorded.measured)} {_word(recorded)}"


def resumed(recorded: RecordedRun) -> list[str]:
    """Return one sentence, without its full stop, for each time that an interrupted run continued."""
    return [f"resumed at {format_instant(each.at)} after phase {each.after_position}" for each in recorded.resumptions]


def ages(started_at: float, earlier: ObjectsFrom) -> dict[str, float]:
    """Return the ages of an earlier run's objects when this run began to read them."""
    return {
        "age_seconds_min": started_at - earlier.archived_to,
        "age_seconds_max": started_at - earlier.archived_from,
    }


def origin(started_at: float, earlier: ObjectsFrom) -> str:
    """Name the objects of an earlier run that this run read, and their age at its start."""
    youngest, oldest = (format_duration(seconds) for seconds in ages(started_at, earlier).values())
    before = f"{youngest} before" if youngest == oldest else f"{youngest} to {oldest} before"
    return f"{earlier.objects:,} of run {earlier.run}, archived {before}"


def _lock(recorded: RecordedRun) -> Iterator[str]:
    lock = recorded.run.lock_verified
    if lock not in (None, "verified"):
        yield f"the lock did not hold: {lock}"


def _unprotected(recorded: RecordedRun) -> Iterator[str]:
    if recorded.run.platform.details.get("retention_protected") is False:
        yield (
            "the server is not retention-protected: a client that may delete archives can delete them before their "
            "date, so this is not a WORM store"
        )


def _ended_early(recorded: RecordedRun) -> Iterator[str]:
    done, planned = recorded.phases_finished, recorded.run.phases_planned
    if done < planned and recorded.run.ended_at is None and is_under_way(recorded.path):
        yield f"the run is under way: {done} of {planned} phases finished"
    elif done < planned:
        yield f"the run ended early: {done} of {planned} phases finished"


def _resumed(recorded: RecordedRun) -> Iterator[str]:
    for went_on in resumed(recorded):
        yield f"{went_on}; cells before and after may differ by changes in between"


def _objects_of_another_run(recorded: RecordedRun) -> Iterator[str]:
    run = recorded.run
    if run.objects_from is not None:
        yield (
            f"the run retrieved objects of another run ({origin(run.started_at, run.objects_from)}); compare it with "
            "retrieves of objects of the same age"
        )


def _incomplete(recorded: RecordedRun) -> Iterator[str]:
    lost = [result for result in recorded.results if result.incomplete]
    if lost:
        yield (
            f"{len(lost)} of {len(recorded.results)} {_word(recorded)} are incomplete ({_cell(lost[0])} first: "
            f"{lost[0].incomplete}): they did not run the requested load, so their rates are invalid; run them again"
        )


def _failed(recorded: RecordedRun) -> Iterator[str]:
    failed = [result for result in recorded.results if result.errors]
    if failed:
        yield (
            f"{sum(result.errors for result in failed):,} operations failed on {recorded.run.platform.name} in "
            f"{len(failed)} of {len(recorded.results)} {_word(recorded)}{_first_failure(failed)}; no rate includes "
            "them (see the errors table)"
        )


def _retried(recorded: RecordedRun) -> Iterator[str]:
    retried = [result for result in recorded.results if result.retries]
    if retried:
        yield (
            f"{sum(result.retries for result in retried):,} attempts failed on {recorded.run.platform.name} and were "
            f"sent again, in {len(retried)} of {len(recorded.results)} {_word(recorded)}{_first_failure(retried)}: "
            "their waiting time is in these rates; find out why the platform refuses them"
        )


def _first_failure(results: Sequence[Result]) -> str:
    """Quote the first failure of these results."""
    first = next((error for result in results for error in result.first_errors), None)
    return f" (the first: {first.operation}: {first.quoted})" if first is not None else ""


def _limited_by_failures(recorded: RecordedRun) -> Iterator[str]:
    failing = [result for result in recorded.measured if result.limited_by == FAILURES]
    if failing:
        first = failing[0].failures
        why = f": {first.share:.0%} of its attempts or time, mostly {first.by}" if first is not None else ""
        yield (
            f"{_share(recorded, failing)} were limited by failures ({_cell(failing[0])} first{why}): they do not show "
            f"what {recorded.run.platform.name} can do; find out why operations fail, and run again"
        )


def _limited_by_client(recorded: RecordedRun) -> Iterator[str]:
    client = [result for result in recorded.measured if result.limited_by == "client"]
    if client:
        yield (
            f"{_share(recorded, client)} were limited by the client ({_cell(client[0])} first{_why(client[0])}): they "
            f"do not show the platform's limit; {_remedy(client)}"
        )


def _client_share(recorded: RecordedRun) -> Iterator[str]:
    """Warn if the client's share of an object's time is so large that it hides the gain of a faster platform."""
    valid = [result for result in recorded.measured if result.limited_by != FAILURES]
    shares = [(result.client.object_time_share or 0.0, result) for result in valid]
    slow = [result for share, result in shares if share > CLIENT_SHARE_MAX]
    if slow:
        share, worst = max(shares, key=lambda each: each[0])
        yield (
            f"in {_share(recorded, slow)} the client takes more than {CLIENT_SHARE_MAX:.0%} of an object's time "
            f"({_cell(worst)} most: {share:.0%}, so its rate would be at most "
            f"{worst.gain_without_client or 0:.2f} times as high without the client's time): ratios to faster "
            "platforms are too small; compare platforms at equal shares"
        )


def _limited_by_host(recorded: RecordedRun) -> Iterator[str]:
    host = [result for result in recorded.measured if result.limited_by == "host cpu"]
    if host:
        yield (
            f"{_share(recorded, host)} had every core of this machine busy ({_cell(host[0])} first), with "
            "client, server and other programs: their rates are not comparable; find the load, or run the client on "
            "another machine"
        )


def _used_up(recorded: RecordedRun) -> Iterator[str]:
    early = [
        each for each in recorded.measured if each.ended_early and each.application and each.limited_by != FAILURES
    ]
    if early:
        yield (
            f"{_share(recorded, early)} reached their limit of archived data before their time was over "
            f"({_cell(early[0])} first): they did not run the requested load; raise their bytes_max"
        )


def _imprecise(recorded: RecordedRun) -> Iterator[str]:
    """Warn about rates that are not known within grade B, with what would make the worst known better."""
    cells = [cell for cell in all_cells(recorded.measured).values() if cell.objects_per_second]
    imprecise = [cell for cell in cells if cell.is_imprecise and not cell.is_meaningless]
    if not imprecise:
        return
    worst = max(imprecise, key=lambda cell: math.inf if cell.within is None else cell.within)
    known = "no interval" if worst.within is None else f"±{worst.within:,.0%}"
    moved = next((f"; {result.unsteady}" for result in worst.results if result.unsteady), "")
    yield (
        f"{len(imprecise)} of {len(cells)} rates are not known within {PRECISE_SHARE:.0%} ({_cell(worst.first)} with "
        f"{worst.key.clients} client{'s' if worst.key.clients > 1 else ''} worst, {known}{moved}); "
        f"{_for_precision(recorded, worst)}"
    )


def _for_precision(recorded: RecordedRun, cell: Unit) -> str:
    """Return what to change so that a cell's rate is known better."""
    if len(cell.samples) > 1:
        return f"repeat more often (--repeat {2 * len(cell.samples)})"
    if recorded.run.scenario == "bench":
        return "measure longer (--duration), or --repeat 5"
    if cell.key.clients == 1:
        return "raise stop.seconds_max and stop.bytes_max, or --repeat 5"
    return f"raise {'stop.client_bytes_max' if cell.ended_early else 'stop.seconds_min'}, or --repeat 5"


def _not_cold(recorded: RecordedRun) -> Iterator[str]:
    retrieves = [result for result in recorded.measured if result.operation == "retrieve"]
    warm = [result for result in retrieves if result.temperature != "cold"]
    if warm:
        words = sorted({str(result.temperature) for result in warm})
        yield (
            f"not known to be cold ({' and '.join(words)}): {len(warm)} of {len(retrieves)} retrieve "
            f"{_word(recorded)}; the data may have come from the server's memory"
        )


def _from_memory(recorded: RecordedRun) -> Iterator[str]:
    """Warn if acknowledged bytes had not reached the device when their phases ended.

    The check is by object size, because small objects cause several times their size in writes.
    """
    sums: dict[int, tuple[int, int]] = {}
    for r in recorded.measured:
        if r.operation != "archive" or r.server is None or r.server.overlap < OVERLAP_MIN:
            continue  # samples cannot attribute device writes to a cell this short
        if r.server.disk_write_bytes is not None:
            archived, written = sums.get(r.object_bytes, (0, 0))
            # A short cell may have written all bytes counted between the surrounding samples, not only its share of the
            # time.
            written_max = round(r.server.disk_write_bytes / r.server.overlap)
            sums[r.object_bytes] = (archived + r.bytes, written + written_max)
    short = {size: pair for size, pair in sums.items() if pair[1] < WRITTEN_SHARE_MIN * pair[0]}
    if short:
        acknowledged, written = (sum(pair[place] for pair in short.values()) for place in (0, 1))
        yield (
            f"acknowledged from memory: of {format_bytes(acknowledged)} archived in objects of "
            f"{', '.join(map(format_size, sorted(short)))}, the device had written {format_bytes(written)} at most "
            "when their phases ended; a power failure would lose the rest, and the rates are not comparable with those "
            "of a platform that syncs"
        )


def _silent_sources(recorded: RecordedRun) -> Iterator[str]:
    for each in recorded.source_problems:
        yield (f"{each.problem} (first at {format_instant(each.at)}); its samples are missing while it did not answer")


def _silent_addresses(recorded: RecordedRun) -> Iterator[str]:
    """Warn about addresses of an endpoint's name that accepted no connection at the run's start."""
    details = recorded.run.platform.details
    for url, silent in details.get("silent_addresses", {}).items():
        yield (
            f"{', '.join(silent)} of {url} accepted no connection when the run began, so all clients used "
            f"{', '.join(details['addresses'][url])}: part of the platform was not measured; find out why, and run "
            "again"
        )


def _unseen_disks(recorded: RecordedRun) -> Iterator[str]:
    """Warn about disks with a configured role or speed that no source reported."""
    settings = recorded.run.settings
    named = {*settings.get("disk_roles", {}), *settings.get("disk_speeds", {})}
    timelines = recorded.timelines.values() if named else ()
    seen = {disk for each in timelines if len(each) for disk in each.last("disk_busy_seconds", each.end_ns)}
    for disk in sorted(named - seen):
        yield (
            f"no source showed disk {disk}, at least at the end ({', '.join(sorted(seen)) or 'none'} "
            f"{'were' if len(seen) > 1 else 'was'} seen); its figures are missing: check --disk-role and --disk-speed"
        )


def _ended_connections(recorded: RecordedRun) -> Iterator[str]:
    """Warn if the platform, or a proxy in front of it, closed connections within sessions.

    The warning states after how many requests.
    """
    ended = [result for result in recorded.measured if result.requests_per_connection is not None]
    if not ended:
        return
    requests = [result.requests_per_connection or 0.0 for result in ended]
    counts = " to ".join(dict.fromkeys(f"{count:,.4g}" for count in (min(requests), max(requests))))
    every = "request" if counts == "1" else f"{counts} requests"
    first = ended[0]
    details = [f"{_cell(first)} first"]
    if first.connections_per_session is not None:
        details.append(f"{first.connections_per_session:,.4g} connections per session")
    if first.reconnect_ms is not None:
        details.append(f"{first.reconnect_ms.mean:,.3g} ms for another one")
    yield (
        f"the platform closed the connection after every {every}: the times of objects include reconnecting, in "
        f"{_share(recorded, ended)} ({', '.join(details)}); configure the server, and a load balancer before it, to "
        "keep connections open, or compare only with platforms that close them as often"
    )


def _more_clients_less(recorded: RecordedRun) -> Iterator[str]:
    """Warn if more clients reduced the rate, or did not raise it although no resource was near saturation."""
    cells = parallel_cells(recorded.measured)
    for key, cell in cells.items():
        fewer = [cells[other] for other in cells if other[:3] == key[:3] and other.clients < key.clients]
        best = max(fewer, key=lambda other: other.objects_per_second, default=None)
        if best is None or cell.errors or best.errors:
            continue
        gain = cell.objects_per_second / (best.objects_per_second or math.inf)
        rates = (
            f"{_cell(cell.first)}: {best.objects_per_second:,.0f} objects/s with {best.key.clients} "
            f"client{'s' if best.key.clients > 1 else ''}, {cell.objects_per_second:,.0f} with {key.clients}"
        )
        if gain < FALLS_BELOW:
            yield f"throughput falls as clients are added ({rates}): contention on the platform"
        elif gain < NO_GAIN_BELOW and all(result.server and not result.limited_by for result in cell.results):
            yield (
                f"more clients do not raise the rate, and no watched resource is near saturation ({rates}): the "
                "platform waits for something else, such as a lock, a single writer, or a resource that is not watched"
            )


def _smaller_transactions(recorded: RecordedRun) -> Iterator[str]:
    """Warn if the server accepted fewer objects per transaction than the cell's label states."""
    smaller = []
    for r in recorded.measured:
        committed = r.transaction_commit_ms
        if r.objects_per_transaction is None or committed is None or r.errors:
            continue
        per_session = math.ceil(r.objects_per_session / r.objects_per_transaction)
        # Transactions at the window's edges belong to sessions that are not counted.
        if committed.count > per_session * (r.sessions + 2 * r.clients):
            smaller.append((r, r.objects / committed.count))
    if smaller:
        first, mean = smaller[0]
        share = _share(recorded, [result for result, _ in smaller])
        yield (
            f"{share} were committed in smaller transactions than requested ({_cell(first)} first: {mean:.0f} objects "
            f"each, not {first.objects_per_transaction}), because the server accepted no more; compare them with "
            f"{_word(recorded)} of that many"
        )


def _clock(recorded: RecordedRun) -> Iterator[str]:
    offset = recorded.run.platform.server_clock_offset_seconds
    if offset is not None and abs(offset) > CLOCK_SECONDS:
        yield f"the server's clock differs by {offset:+.1f} s; retention dates follow the server's"


def _drifted(recorded: RecordedRun) -> Iterator[str]:
    for drift in drifts(recorded):
        if abs(drift.percent) > DRIFT_PERCENT:
            yield (
                f"{drift}: the platform, its fill level or the machine changed during the run; differences of that "
                "size between cells prove nothing"
            )


_WARNINGS: tuple[Callable[[RecordedRun], Iterable[str]], ...] = (
    _lock,
    _unprotected,
    _ended_early,
    _resumed,
    _objects_of_another_run,
    _incomplete,
    _failed,
    _retried,
    _limited_by_failures,
    _limited_by_client,
    _client_share,
    _limited_by_host,
    _ended_connections,
    _used_up,
    _imprecise,
    _not_cold,
    _from_memory,
    _more_clients_less,
    request_differences,
    _unseen_disks,
    _silent_sources,
    _silent_addresses,
    _smaller_transactions,
    _clock,
    _drifted,
)
_OF_THE_PLATFORM = (_lock, _unprotected, _objects_of_another_run, _ended_connections, _from_memory, _silent_addresses)


@dataclass(frozen=True, slots=True)
class Drift:
    """The first cell of a sweep, measured again at the end."""

    phase: str
    cell: str
    percent: float  # change of its objects/s

    def __str__(self) -> str:
        return f"{self.phase}: the first cell ({self.cell}) ran {self.percent:+.0f}% when measured again last"


def drifts(recorded: RecordedRun) -> list[Drift]:
    """Return the change of each sweep's first cell between its first and its last measurement."""
    firsts: dict[tuple[str, int, int, int, int], Result] = {}
    for result in recorded.results:
        firsts.setdefault(_identity(result), result)
    found = []
    for again in recorded.drift_checks:
        first = firsts.get(_identity(again))
        if first is not None and first.objects_per_second:
            percent = (again.objects_per_second / first.objects_per_second - 1) * 100
            found.append(Drift(again.phase, _cell(first), percent))
    return found


def _identity(result: Result) -> tuple[str, int, int, int, int]:
    return (result.phase, result.object_bytes, result.objects_per_session, result.clients, result.repetition)


def _why(result: Result) -> str:
    """Name the client resource that limited a client-limited result, if known."""
    return "".join(f": {each.by}" for each in _of_client(result))


def _remedy(limited: Sequence[Result]) -> str:
    """Suggest a remedy for results that the client limited."""
    if any(result.client.sessions_without_port for result in limited):
        return (
            "set net.ipv4.tcp_tw_reuse=1, widen net.ipv4.ip_local_port_range, name more addresses of the platform "
            "(--endpoint), or use --keep-sessions-open"
        )
    if any(each.by.startswith("its ") and "timers" not in each.by for each in _of_client(limited[0])):
        return "give the client's machine a faster link or more memory, or run clients on several (--dask)"
    return "run the client on another machine or with more --workers"


def _of_client(result: Result) -> list[Utilisation]:
    """Return the known utilisations of the client."""
    return [each for each in result.utilisations if each.resource == "client"]


def _cell(result: Result) -> str:
    if result.application:
        return result.workload
    return f"{result.operation} {format_size(result.object_bytes)} x {result.objects_per_session}"
