"""The course of a phase: the rates of all workloads second by second, the spikes, and the cause of each spike.

The steady rate is the median of the seconds outside spikes. A spike is two seconds or more with a rate that exceeds
that median by 25% and by four times the usual scatter. The scatter is 1.4826 times the median distance from the median
(the standard deviation of a normal distribution). A single second between two marked seconds is marked too.

The two definitions depend on each other, so the module iterates. It begins with all seconds, marks the spikes, takes
the median of the others, and repeats until no new second is marked. Marks are never removed, so the iteration ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median

from results.recorded.database import WorkloadInterval
from results.recorded.model import Result

BIN_SECONDS = 1.0
PEAK_SECONDS = 10.0
RISE_MIN = 0.25  # relative to the steady rate
SCATTERS_MIN = 4.0
SPIKE_BINS_MIN = 2
CAUSE_SECONDS = 2.0  # a change up to this long before a spike's first second may have caused it
BESIDE_SECONDS = 10.0  # time before and after a spike, for comparison
_SCATTER = 1.4826
_LABELS_MAX = 2  # labels shown of changes at one moment

MEGABYTES = "MB/s"
OBJECTS = "objects/s"


@dataclass(slots=True)
class Amount:
    """Work done in a bin."""

    objects: int = 0
    bytes: int = 0
    response_total_ns: int = 0

    def add(self, objects: int, size_bytes: int, response_total_ns: int) -> None:
        self.objects += objects
        self.bytes += size_bytes
        self.response_total_ns += response_total_ns


@dataclass(frozen=True, slots=True)
class Span:
    """The time in which one workload ran, warm-up included, in seconds after its phase began."""

    workload: str
    application: str  # the application, or the workload's name if it has none
    label: str  # the application, and the number of outstanding requests if that changes
    clients: int
    begins: float
    measured_from: float
    ends: float


@dataclass(frozen=True, slots=True)
class RateChange:
    """The beginning or end of a workload, or of its copies in several tiles at the same time."""

    at: float
    begins: bool
    application: str
    label: str
    copies: int

    @property
    def words(self) -> str:
        where = f" in {self.copies} tiles" if self.copies > 1 else ""
        return f"{self.label} {'began' if self.begins else 'ended'}{where}"


@dataclass(frozen=True, slots=True)
class Course:
    """A phase second by second.

    ``bins`` has for each application all bins of the phase. ``window`` has the bins wholly within the programme: first
    and one past the last.
    """

    position: int
    scale: float | None
    bin_seconds: float
    spans: tuple[Span, ...]
    bins: dict[str, list[Amount]]
    window: tuple[int, int]

    @property
    def applications(self) -> list[str]:
        """Return the applications in the order in which they began."""
        return list(dict.fromkeys(span.application for span in sorted(self.spans, key=lambda span: span.begins)))

    def rates(self, quantity: str, application: str | None = None) -> list[float]:
        """Return MB/s or objects/s of every bin, of one application or the sum over all."""
        chosen = self.bins.values() if application is None else [self.bins[application]]
        return [
            sum(_of(amount, quantity) for amount in column) / self.bin_seconds for column in zip(*chosen, strict=True)
        ]

    def is_under_way(self, application: str, place: int) -> bool:
        """Return whether an application was running in the middle of a bin."""
        middle = (place + 0.5) * self.bin_seconds
        return any(span.begins <= middle < span.ends for span in self.spans if span.application == application)

    def began(self, application: str, at: float) -> float | None:
        """Return when an application's work at this moment, or within one bin after it, began.

        Points without a pause between them count as one.
        """
        spans = sorted((s.begins, s.ends) for s in self.spans if s.application == application)
        began: float | None = None
        ended = -self.bin_seconds
        for begins, ends in spans:
            if begins > at + self.bin_seconds:
                break
            if began is None or begins - ended > self.bin_seconds:
                began = begins
            ended = max(ended, ends)
        return began if ended > at else None

    def labels(self, application: str, places: Iterable[int]) -> frozenset[str]:
        """Return the labels of an application in these bins: its numbers of outstanding requests."""
        middles = [(place + 0.5) * self.bin_seconds for place in places]
        own = [span for span in self.spans if span.application == application]
        return frozenset(span.label for span in own for middle in middles if span.begins <= middle < span.ends)

    @property
    def changes(self) -> list[RateChange]:
        """Return every beginning and end. Copies that changed within one bin count as one change."""
        moments = [(span.begins, True, span) for span in self.spans] + [(span.ends, False, span) for span in self.spans]
        found: list[RateChange] = []
        for at, begins, span in sorted(moments, key=lambda moment: (moment[2].label, moment[1], moment[0])):
            last = found[-1] if found else None
            if last and (last.label, last.begins) == (span.label, begins) and at - last.at <= self.bin_seconds:
                found[-1] = RateChange(last.at, begins, span.application, span.label, last.copies + 1)
            else:
                found.append(RateChange(at, begins, span.application, span.label, 1))
        return sorted(found, key=lambda change: (change.at, not change.begins))


@dataclass(frozen=True, slots=True)
class Rate:
    """One quantity of a phase: its peak (the best ``peak_seconds``), and the median of the seconds outside spikes."""

    quantity: str
    peak: float
    peak_seconds: float
    steady: float
    marked: tuple[bool, ...]  # bins of the window in a spike


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another workload before, during and after a spike; None: it was not running, or did nothing.

    If the spike's carrier began as another workload ended, the values before do not show the carrier's effect. The
    values after the spike do, if neither workload was running then.
    """

    application: str
    objects_per_second: tuple[float | None, float | None, float | None]
    response_ms: tuple[float | None, float | None, float | None]
    changed: str  # its own change over these times; empty: none


@dataclass(frozen=True, slots=True)
class Spike:
    """Seconds with a rate far above the steady rate. ``quantities``: in MB/s, in objects/s, or in both."""

    quantities: tuple[str, ...]
    begins: float
    ends: float
    rate: float  # mean of the first of its quantities
    highest: float
    steady: float
    carrier: str  # the application whose rate rose most
    cause: str
    relieved: tuple[str, ...]  # applications that ended as the carrier began
    others: tuple[Neighbour, ...]


def course(results: Sequence[Result], rows: Iterable[WorkloadInterval], interval_ns: int) -> Course:
    """Return the course of one phase from its results and the intervals of its workloads.

    A bin is 1 s, or one interval if that is longer. An interval belongs to the bin in which it begins.
    """
    per_bin = max(1, round(BIN_SECONDS * 1e9 / interval_ns))
    bin_seconds = per_bin * interval_ns / 1e9
    kept = [row for row in rows if row.objects or row.errors]
    spans = _spans(results, kept, interval_ns / 1e9)
    of = {span.workload: span.application for span in spans}
    count = max((row.interval // per_bin for row in kept), default=-1) + 1
    bins = {span.application: [Amount() for _ in range(count)] for span in spans}
    for row in kept:
        if row.workload in of:
            bins[of[row.workload]][row.interval // per_bin].add(row.objects, row.bytes, row.response_total_ns)
    first = min((span.begins for span in spans), default=0.0)
    last = max((span.ends for span in spans), default=0.0)
    whole = (-int(-first // bin_seconds), min(count, int((last + 1e-9) // bin_seconds)))
    return Course(
        position=results[0].position if results else 0,
        scale=results[0].scale if results else None,
        bin_seconds=bin_seconds,
        spans=spans,
        bins=bins,
        window=whole if whole[0] < whole[1] else (0, count),
    )


def summary(course: Course, quantity: str) -> Rate | None:
    """Return peak and steady rate of a phase. Returns None if nothing was done."""
    first, last = course.window
    rates = course.rates(quantity)[first:last]
    if not rates or not any(rates):
        return None
    length = min(len(rates), max(1, round(PEAK_SECONDS / course.bin_seconds)))
    peak = max(fmean(rates[place : place + length]) for place in range(len(rates) - length + 1))
    marked = standing_out(rates)
    steady = median([rate for rate, out in zip(rates, marked, strict=True) if not out] or rates)
    return Rate(quantity, peak, length * course.bin_seconds, steady, tuple(marked))


def standing_out(rates: Sequence[float]) -> list[bool]:
    """Return which bins are in a spike, by the rule in this module's docstring."""
    marked = [False] * len(rates)
    while True:
        calm = [rate for rate, out in zip(rates, marked, strict=True) if not out]
        centre = median(calm)
        scatter = _SCATTER * median([abs(rate - centre) for rate in calm])
        above = [rate > centre + max(RISE_MIN * centre, SCATTERS_MIN * scatter) for rate in rates]
        joined = [
            out or (0 < place < len(above) - 1 and above[place - 1] and above[place + 1])
            for place, out in enumerate(above)
        ]
        grown = [old or new for old, new in zip(marked, _long_enough(joined), strict=True)]
        if grown == marked or all(grown):
            return marked
        marked = grown


def spikes(course: Course) -> list[Spike]:
    """Return every spike of a phase in order of time.

    A spike in objects/s that overlaps one in MB/s by at least half of the shorter is the same spike.
    """
    megabytes, objects = summary(course, MEGABYTES), summary(course, OBJECTS)
    found = [(run, [MEGABYTES], megabytes) for run in _runs(megabytes)]
    for run in _runs(objects):
        twin = next((each for each in found if _is_same(each[0], run)), None)
        if twin is not None:
            twin[1].append(OBJECTS)
        else:
            found.append((run, [OBJECTS], objects))
    return [
        _spike(course, run, tuple(quantities), rate)
        for run, quantities, rate in sorted(found, key=lambda each: each[0])
        if rate is not None
    ]


def _spans(results: Sequence[Result], rows: Sequence[WorkloadInterval], interval_seconds: float) -> tuple[Span, ...]:
    """Return the spans from the first to the last activity of each workload, and at least its measured time."""
    clients: dict[str, set[int]] = {}
    for result in results:
        clients.setdefault(_application(result), set()).add(result.clients)
    at_work: dict[str, list[int]] = {}
    for row in rows:
        at_work.setdefault(row.workload, []).append(row.interval)
    found = []
    for result in results:
        seen = at_work.get(result.workload, [])
        if result.begins_seconds is None and not seen:
            continue
        begins = [min(seen) * interval_seconds] if seen else []
        ends = [(max(seen) + 1) * interval_seconds] if seen else []
        if result.begins_seconds is not None:
            begins.append(result.begins_seconds)
            ends.append(result.begins_seconds + result.seconds)
        application = _application(result)
        several = len(clients[application]) > 1
        label = f"{application} with {result.clients} outstanding" if several else application
        measured_from = result.begins_seconds if result.begins_seconds is not None else min(begins)
        found.append(Span(result.workload, application, label, result.clients, min(begins), measured_from, max(ends)))
    return tuple(found)


def _application(result: Result) -> str:
    return result.application or result.workload


def _of(amount: Amount, quantity: str) -> float:
    return amount.bytes / 1e6 if quantity == MEGABYTES else amount.objects


def _long_enough(marked: Sequence[bool]) -> list[bool]:
    kept: list[bool] = []
    for out, group in groupby(marked):
        length = len(list(group))
        kept += [out and length >= SPIKE_BINS_MIN] * length
    return kept


def _runs(rate: Rate | None) -> list[tuple[int, int]]:
    """Return runs of consecutive marked bins: first and one past the last, from the window's beginning."""
    runs, place = [], 0
    for out, group in groupby(rate.marked if rate else ()):
        length = len(list(group))
        if out:
            runs.append((place, place + length))
        place += length
    return runs


def _is_same(one: tuple[int, int], other: tuple[int, int]) -> bool:
    overlap = min(one[1], other[1]) - max(one[0], other[0])
    return overlap >= 0.5 * min(one[1] - one[0], other[1] - other[0])


def _spike(course: Course, run: tuple[int, int], quantities: tuple[str, ...], rate: Rate) -> Spike:
    first = course.window[0]
    during = range(first + run[0], first + run[1])
    near = max(1, round(BESIDE_SECONDS / course.bin_seconds))
    calm = {first + place for place, out in enumerate(rate.marked) if not out}
    quantity = quantities[0]
    values = course.rates(quantity)

    def stretch_before(place: int) -> list[int]:
        return _stretch(reversed(range(place - near, place)), calm)

    def rise(application: str) -> float:
        own, before = course.rates(quantity, application), stretch_before(during.start)
        return fmean(own[place] for place in during) - (fmean(own[place] for place in before) if before else 0.0)

    carrier = max(course.applications, key=rise)
    begins = during.start * course.bin_seconds
    cause, origin = _cause(course, begins, carrier)
    relieved = _relieved(course, origin, carrier)
    before = stretch_before(min(during.start, int((origin + 1e-9) // course.bin_seconds)))
    after = _stretch(range(during.stop, during.stop + near), calm)
    if relieved:
        after = [place for place in after if not course.is_under_way(carrier, place)]
    return Spike(
        quantities=quantities,
        begins=begins,
        ends=during.stop * course.bin_seconds,
        rate=fmean(values[place] for place in during),
        highest=max(values[place] for place in during),
        steady=rate.steady,
        carrier=carrier,
        cause="; ".join((cause, *(_told(change, begins, course.bin_seconds) for change in relieved))),
        relieved=tuple(change.application for change in relieved),
        others=tuple(
            _beside(course, application, (before, during, after))
            for application in course.applications
            if application != carrier and any(course.is_under_way(application, place) for place in during)
        ),
    )


def _stretch(places: Iterable[int], calm: set[int]) -> list[int]:
    """Return the bins up to the next spike or the end of the programme."""
    found = []
    for place in places:
        if place not in calm:
            break
        found.append(place)
    return found


def _cause(course: Course, begins: float, carrier: str) -> tuple[str, float]:
    """Return the change of the programme that caused a spike, and the last moment before it took effect.

    A change of the workload that carries the spike has priority. Its rate may have risen slowly, seconds before.
    """
    began = course.began(carrier, begins)
    gently = began if began is not None and 0 <= begins - began <= BESIDE_SECONDS else begins
    near = [each for each in course.changes if -CAUSE_SECONDS <= each.at - begins <= course.bin_seconds]
    own = [change for change in near if change.begins and change.application == carrier]
    chosen = own[:1] or near
    if not chosen and gently < begins:
        return f"{carrier} began {begins - gently:.0f} s before", gently
    if not chosen:
        return f"no workload began or ended; {carrier} rose most", begins
    labels = ", ".join(change.words for change in chosen[:_LABELS_MAX])
    more = f" and {len(chosen) - _LABELS_MAX} more" if len(chosen) > _LABELS_MAX else ""
    origin = min(gently, *(change.at for change in chosen))
    return (labels if own else f"{labels}{more}; {carrier} rose most"), origin


def _relieved(course: Course, origin: float, carrier: str) -> list[RateChange]:
    """Return the ends of other applications at the moment at which the carrier began, if it began then."""
    began = course.began(carrier, origin)
    if began is None or abs(began - origin) > course.bin_seconds:
        return []
    return [
        change
        for change in course.changes
        if not change.begins
        and change.application != carrier
        and abs(change.at - began) <= course.bin_seconds
        and not course.is_under_way(change.application, int(change.at // course.bin_seconds) + 1)
    ]


def _told(change: RateChange, begins: float, bin_seconds: float) -> str:
    """Return an end at the moment of a spike, or before it."""
    before = begins - change.at
    return f"{change.words} {f'{before:.0f} s before' if before > bin_seconds else 'at that moment'}"


def _beside(course: Course, application: str, times: tuple[Sequence[int], Sequence[int], Sequence[int]]) -> Neighbour:
    bins = course.bins[application]
    working = [[place for place in places if course.is_under_way(application, place)] for places in times]
    amounts = [[bins[place] for place in places] for places in working]
    labels = {course.labels(application, places) for places in working if places}
    changed = "" if len(labels) < 2 else "its own outstanding requests changed meanwhile"
    return Neighbour(
        application, _three(amounts, lambda a: _rate(a, course.bin_seconds)), _three(amounts, _mean), changed
    )


def _three(
    amounts: Sequence[Sequence[Amount]], of: Callable[[Sequence[Amount]], float | None]
) -> tuple[float | None, float | None, float | None]:
    before, during, after = (of(each) for each in amounts)
    return before, during, after


def _rate(amounts: Sequence[Amount], bin_seconds: float) -> float | None:
    return sum(amount.objects for amount in amounts) / (len(amounts) * bin_seconds) if amounts else None


def _mean(amounts: Sequence[Amount]) -> float | None:
    """Return the mean response time in milliseconds."""
    objects = sum(amount.objects for amount in amounts)
    return sum(amount.response_total_ns for amount in amounts) / objects / 1e6 if objects else None
