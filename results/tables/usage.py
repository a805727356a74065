"""Tables of resources: usage of server and client, what limited them, and the server's own counters.

A row is an operation, an object size and a number of clients, over all objects per session and repetitions. A column
reads the results of a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from archiver.values.sizes import format_size
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec
from results.measures.metrics import bytes_of, mean_over, objects_of, seconds_of, server_mean
from results.measures.requests import SHARE_IN_TIME, RequestCount
from results.measures.units import Unit, all_cells
from results.measures.watched import Watched
from results.recorded.model import FAILURES, Result, ServerUsage, Utilisation
from results.recorded.resources import CLIENT, QUANTITIES, Spread, Timeline
from results.reference.published import NAME, dr550

SERVER_RESOURCES = "server-resources"  # name of the long table

_BUSY_ONLY = "busy time does not prove saturation: a device that serves requests in parallel is busy before it is full"
_OTHERS_SHOWN = 3  # resources shown after the one with the highest utilisation
_BEARS_MAX = 100  # times the load; larger factors of little-used resources would mislead


@dataclass(frozen=True)
class _UsageGroup:
    """The results of one row."""

    operation: str
    object_bytes: int
    clients: int
    results: tuple[Result, ...]

    @cached_property
    def used(self) -> list[Utilisation]:
        """Return for each resource the mean over the seconds, by the measure that judged most cells; highest first."""
        found: dict[str, list[tuple[float, Utilisation]]] = {}
        for result in self.results:
            for each in result.utilisations:
                if each.resource == FAILURES:
                    continue
                found.setdefault(each.resource, []).append((result.seconds, each))
        means = []
        for resource, each_cell in found.items():
            # A disk's queue is shown with its measure. It is a value of every cell.
            measures = Counter((each.by.partition(", queue")[0], each.decisive) for _, each in each_cell)
            by, decisive = measures.most_common(1)[0][0]
            total = sum(seconds for seconds, _ in each_cell)
            share = sum(seconds * each.share for seconds, each in each_cell) / total if total else 0.0
            means.append(Utilisation(resource, by, share, decisive))
        return sorted(means, key=lambda each: -each.share)

    def mean(self, of: Callable[[ServerUsage], float | None], weight: Callable[[Result], float]) -> float | None:
        """Return the mean of a server value over the results whose server was sampled."""
        return server_mean(self.results, of, weight)

    def megabytes(self, of: Callable[[ServerUsage], float | None]) -> float | None:
        """Return the sum over the results, in 10^6 bytes."""
        amounts = [of(result.server) for result in self.results if result.server is not None]
        known = [amount for amount in amounts if amount is not None]
        return sum(known) / 1e6 if known else None

    def total(self, of: Callable[[ServerUsage], float | None], over: Callable[[Result], int]) -> float | None:
        """Return a counter over all results, per object or byte of theirs.

        Only archiving counts, because retrieving writes nothing.
        """
        archived = [(each, of(each.server)) for each in self.results if each.operation == "archive" and each.server]
        counted = [(value, over(result)) for result, value in archived if value is not None]
        done = sum(amount for _, amount in counted)
        return sum(value for value, _ in counted) / done if done else None


def resource_table(results: Sequence[Result]) -> Table:
    """Return the usage of server and client per operation, size and clients: means over the seconds, bytes summed."""
    return _without_empty_columns(_RESOURCES.table(_groups(results)))


def limits_table(results: Sequence[Result]) -> Table:
    """Return the resource with the highest utilisation, the headroom of the others, and the confidence."""
    return _LIMITS.table(_groups(results))


def per_object_table(results: Sequence[Result]) -> Table:
    """Return the server's usage per object, or per byte of an object."""
    return _without_empty_columns(_PER_OBJECT.table(_groups(results)))


def requests_table(watched: Watched) -> Table:
    """Return the requests that the server counted and the client sent, and the time to first byte on both sides."""
    return _without_empty_columns(_REQUESTS.table(watched.requests))


def server_resources_table(watched: Watched) -> Table:
    """Return every value of every source, per phase. The table is long and meant for programs."""
    return _SERVER.table(
        _Said(phase.position, phase.label, source, quantity, item, spread)
        for phase in watched.phases
        for source, timeline in {**watched.timelines, CLIENT: watched.client}.items()
        for quantity, item, spread in _spreads(timeline, phase.measured_from_ns, phase.measured_to_ns)
    )


class _Said(NamedTuple):
    """One quantity of one source in one phase."""

    position: int
    phase: str
    source: str
    quantity: str
    item: str
    spread: Spread


def _spread_column(name: str) -> Column:
    return Column(name, of=lambda said: getattr(said.spread, name) * _unit_of(said.quantity)[1], digits=3)


def _spreads(timeline: Timeline, from_ns: int, to_ns: int) -> Iterator[tuple[str, str, Spread]]:
    """Yield (quantity, item, spread) for everything that a source reported about a time."""
    for quantity in QUANTITIES:
        items = timeline.spread(quantity, from_ns, to_ns)
        if QUANTITIES[quantity].item == "thread" and items:
            busiest = max(items, key=lambda item: items[item].mean)
            items = {busiest: items[busiest]}
        for item, spread in items.items():
            # There are many operations and bounds, and most of their counters do not change.
            if spread.max or not QUANTITIES[quantity].begins_at_zero:
                yield quantity, item, spread


def _unit_of(quantity: str) -> tuple[str, float]:
    """Return the unit in which people read a quantity (for a counter: its rate per second), and the factor to it."""
    if quantity == "disk_request_seconds":
        return "requests in the queue", 1
    if quantity.endswith("_seconds"):
        return "%", 100
    if quantity.endswith("_bytes_per_second"):
        return "MB/s", 1e-6
    is_rate = QUANTITIES[quantity].counter
    if quantity.endswith("_bytes"):
        return "MB/s" if is_rate else "MB", 1e-6
    return "per second" if is_rate else "cores" if quantity.endswith("_cores") else "count", 1


_SERVER = TableSpec(
    SERVER_RESOURCES,
    "Server resources, phase by phase",
    (
        Column("position", of=lambda said: said.position, label=True),
        Column("phase", of=lambda said: said.phase, label=True),
        Column("source", of=lambda said: said.source, label=True),
        Column("quantity", of=lambda said: said.quantity, label=True),
        Column("item", of=lambda said: said.item, label=True),
        Column("unit", of=lambda said: _unit_of(said.quantity)[0], label=True),
        *map(_spread_column, Spread._fields),
    ),
    "During the measured time of each phase, from sample to sample. Counters are shown as rates. Only the busiest"
    " thread is shown. Source client: the client's host, if the server runs on another host.",
    is_long=True,
)


def _verdict(counted: RequestCount) -> str:
    if counted.difference is None:
        return NOT_MEASURED
    return "differ" if counted.difference else "agree"


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


_REQUESTS = TableSpec(
    "requests",
    "Requests: counted by the server, sent by the client",
    (
        Column("operation", of=lambda each: each.operation, label=True),
        Column("counted", of=lambda each: each.counted),
        Column("sent", of=lambda each: each.sent),
        Column("difference", of=lambda each: each.difference),
        Column("verdict", of=_verdict, words=True),
        Column("first byte within", "ms", lambda each: _times(each.first_byte_seconds_max, 1000)),
        Column("server", "%", lambda each: _times(each.server_first_byte_share, 100), 2),
        Column("client", "%", lambda each: _times(each.client_first_byte_share, 100), 2),
    ),
    "Requests of the whole run, including warm-up, drain and failed requests. First byte: the smallest bound of the"
    f" server's histogram within which it answered {SHARE_IN_TIME:.0%} of its requests. The shares within this bound"
    " are those that server and client measured, in the measured time.",
)


def _groups(results: Sequence[Result]) -> Iterator[_UsageGroup]:
    def row(cell: Unit) -> tuple[str, int, int]:
        return cell.key.operation, cell.key.object_bytes, cell.key.clients

    for key, cells in groupby(sorted(all_cells(results).values(), key=row), key=row):
        yield _UsageGroup(*key, tuple(result for cell in cells for result in cell.results))


def limited_by(result: Result) -> str:
    """Return what limited a result; if that is nothing known, followed by a colon and the advice."""
    judged = any(each.decisive and each.resource != "client" for each in result.utilisations)
    if result.limited_by is None and not judged:
        return "unknown: the server was not watched"
    return result.limit or "nothing: latency, add clients"


def _kinds(words: Iterable[str]) -> str:
    """Return ``server cpu 5/7; client 2/7``: the most frequent first, without numbers if all are the same."""
    counts = Counter(words)
    if len(counts) == 1:
        return next(iter(counts))
    named = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{word} {count}/{counts.total()}" for word, count in named)


def _confidence(results: Sequence[Result]) -> Cell:
    """Return the lowest confidence of several (``low: why``) and its count. Its most frequent reason is a note."""
    words = [result.confidence for result in results if result.confidence is not None]
    for level in ("low", "medium", "high"):
        reasons = Counter(word.partition(": ")[2] for word in words if word.partition(":")[0] == level)
        if reasons:
            share = "" if reasons.total() == len(words) else f" {reasons.total()}/{len(words)}"
            reason = reasons.most_common(1)[0][0]
            return Cell(level + share, None, (reason,) if reason else ())
    return Cell(NOT_MEASURED)


def _bears(used: Utilisation) -> str:
    """Return the headroom: ``network eth0 5%: 20×`` of its load.

    If the measure proves only a bound, return ``disk vda busy 10%: ≥10×``.
    """
    said = f"{used.resource} {'' if used.decisive else 'busy '}{used.share:.0%}"
    if used.share <= 0:
        return said
    times = 1 / used.share
    bears = f"over {_BEARS_MAX}×" if times > _BEARS_MAX else f"{times:.1f}×" if times < 10 else f"{times:.0f}×"
    return f"{said}: {bears if used.decisive or times > _BEARS_MAX else '≥' + bears}"


def _all_disks_busy(server: ServerUsage) -> float | None:
    """Return the sum over the disks with the store's data. Returns None if it equals the busiest disk's value."""
    with_role = [disk for disk in server.disks if disk.role]
    busy = [disk.busy_percent for disk in with_role or server.disks if disk.busy_percent is not None]
    return sum(busy) if len(busy) > 1 else None


def _percentage(name: str, of: Callable[[ServerUsage], float | None]) -> Column:
    return Column(name, "%", lambda group: group.mean(of, seconds_of))


def _of_loopback(group: _UsageGroup) -> tuple[str, ...]:
    links = [link for result in group.results if result.server is not None for link in result.server.links]
    return (_LOOPBACK_NOTE,) if any(link.interface == _LOOPBACK for link in links) else ()


def _client_microseconds(group: _UsageGroup) -> float | None:
    return mean_over(group.results, lambda result: result.client.cpu_microseconds_per_object, objects_of)


def _client_share(group: _UsageGroup) -> float | None:
    mean = mean_over(group.results, lambda result: result.client.object_time_share, seconds_of)
    return mean * 100 if mean is not None else None


_LOOPBACK = "lo"
_LOOPBACK_NOTE = "loopback: includes traffic between other programs of this machine"
_GROUP_COLUMNS = (
    Column("operation", of=lambda group: group.operation, label=True),
    Column("object size", of=lambda group: format_size(group.object_bytes), label=True),
    Column("clients", of=lambda group: group.clients, label=True),
)
_RESOURCES = TableSpec(
    "resource-usage",
    "Resource usage",
    (
        *_GROUP_COLUMNS,
        _percentage("server CPU", lambda server: server.cpu_percent),
        _percentage("busiest thread", lambda server: server.busiest_thread_percent),
        _percentage("busiest core", lambda server: server.busiest_core_percent),
        _percentage("host CPU", lambda server: server.host_cpu_percent),
        _percentage("disk busy", lambda server: server.disk_busy_percent),
        _percentage("all disks busy", _all_disks_busy),
        Column("disk read", "MB", lambda group: group.megabytes(lambda server: server.disk_read_bytes), 1),
        Column("disk written", "MB", lambda group: group.megabytes(lambda server: server.disk_write_bytes), 1),
        Column(
            "network",
            "MB/s",
            lambda group: group.mean(lambda server: server.network_megabytes_per_second, seconds_of),
            2,
            _of_loopback,
        ),
        Column("client CPU", "µs/object", _client_microseconds, 1),
        Column("client", "% of time", _client_share),
    ),
    "During the measured time, over all objects per session. 100% of server CPU is one core. A thread is busy while it"
    " runs on a core or waits for one. MB are 10^6 bytes. Disks are those with the store's data, if these are known."
    " Disk busy is the busiest of them; all disks busy is their sum. Network: loopback if the client is on the server's"
    " machine, else every other interface, both directions. Client: its share of an object's time in a closed loop."
    " Without the client's share s the rate would be at most 1/(1-s) times as high.",
)


def _nearest(group: _UsageGroup) -> Cell:
    if not group.used:
        return Cell(NOT_MEASURED)
    nearest = group.used[0]
    return Cell(f"{nearest.resource}: {nearest.by}", None, () if nearest.decisive else (_BUSY_ONLY,))


_LIMITS = TableSpec(
    "limits",
    "What limits",
    (
        *_GROUP_COLUMNS,
        Column("limited by", of=lambda group: _kinds(map(limited_by, group.results)), words=True),
        Column("nearest to full", of=_nearest, words=True),
        Column("share", "%", lambda group: group.used[0].share * 100 if group.used else None),
        Column(
            "the next: the load each bears",
            of=lambda group: "; ".join(map(_bears, group.used[1 : 1 + _OTHERS_SHOWN])) or NOT_MEASURED,
            words=True,
        ),
        Column("confidence", of=lambda group: _confidence(group.results), words=True),
    ),
    "A result is limited by the resource with the highest utilisation, if its measure can show saturation. A limit by"
    " the client has priority, and failures come before both: more than 10% of the attempts or the time. Shares are"
    " means over the seconds. By the utilisation law, a resource with utilisation U"
    f" can serve 1/U times the load, or more if U is only busy time. Published, {NAME}:"
    f" {'; '.join(dr550().resources.conclusions)}.",
)


def syncs(server: ServerUsage) -> float | None:
    return sum(server.store_syncs.values()) if server.store_syncs else None


def _per_object(name: str, unit: str, of: Callable[[ServerUsage], float | None]) -> Column:
    """Return the column of the mean of a value per object."""
    return Column(name, unit, lambda group: group.mean(of, objects_of), 3)


def _per_byte(
    name: str,
    unit: str,
    of: Callable[[ServerUsage], float | None],
    notes: Callable[[_UsageGroup], tuple[str, ...]] | None = None,
) -> Column:
    """Return the column of the mean of a value per byte."""
    return Column(name, unit, lambda group: group.mean(of, bytes_of), 3, notes)


def _total(name: str, unit: str, of: Callable[[ServerUsage], float | None], over: Callable[[Result], int]) -> Column:
    return Column(name, unit, lambda group: group.total(of, over), 3)


_PER_OBJECT = TableSpec(
    "per-object",
    "Per object",
    (
        *_GROUP_COLUMNS,
        _per_object("server CPU", "ms/object", lambda server: server.cpu_milliseconds_per_object),
        _per_byte("device written", "bytes/byte", lambda server: server.write_amplification),
        _per_byte("from cache", "share", lambda server: server.cache_share),
        _per_byte("network", "bytes/byte", lambda server: server.network_bytes_per_byte, _of_loopback),
        _total("catalogue", "bytes/object", lambda server: server.store_written_bytes.get("catalogue"), objects_of),
        _total("segments", "bytes/byte", lambda server: server.store_written_bytes.get("segments"), bytes_of),
        _total("syncs", "per object", syncs, objects_of),
    ),
    "During the measured time. Server CPU: of the store's processes, or of its host if only the host was watched."
    " Device written: on all disks with the store's data, including other programs' writes. From cache: the share of"
    " the retrieved bytes that no device read. Network: all traffic of the interfaces, including other programs,"
    " divided by the bytes archived or retrieved. Catalogue, segments, syncs: counted by the store.",
)


def _without_empty_columns(table: Table) -> Table:
    """Remove the columns without measurements, and all rows if only labels remain."""
    kept = [
        index
        for index, column in enumerate(table.columns)
        if column.label or any(row[index] != Cell(NOT_MEASURED) for row in table.rows)
    ]
    if all(table.columns[index].label for index in kept):
        return replace(table, rows=())
    return replace(
        table,
        columns=tuple(table.columns[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in table.rows),
    )
