"""Generation of traces from the model of an application, if none was captured.

One idea: two streams of random numbers generate a trace block by block: one for the arrival times and one for the
operations. An object's size follows from its number. The generator therefore keeps no list of objects, and memory does
not grow with the trace.

Arrivals. Every stream is silent for a while, then runs a session: operations with short think times, a given number on
average. All times are exponential. They are measured on a clock that runs only in busy periods. Busy and quiet periods
are exponential too, and common to all streams. A session that a quiet period interrupts counts as two.

Operations. Every operation is drawn by its share. Reads address the stock, which exists before the trace begins
(.../stock/...), or objects that the trace itself archived at least ``SETTLED_SECONDS`` ago (.../new/...). Reads of the
stock follow a ranking that the seed determines. Of the new objects, the newest are read most often. New versions
replace objects that the trace itself archived, with equal probability, and keep their size. Until such an object
exists, they are archived as new objects. The stock never changes, so it can be used again.

A trace is the same, byte by byte, for the same model, name, time, capacity and seed (with the same versions of the
libraries and the same kind of processor). A longer trace begins with the rows of a shorter one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import PCG64, SeedSequence
from numpy.typing import NDArray

from archiver.traces.format import CODES, SCHEMA, Origin, TraceInfo, TraceWriter, words
from archiver.values.errors import UsageError
from archiver.values.sizes import format_bytes
from scenarios.notation.distribution import Sizes
from scenarios.work.application_model import ApplicationModel

KIND = "model"  # of the trace's origin
SETTLED_SECONDS = 2.0
_SETTLED_NS = round(SETTLED_SECONDS * 1e9)
SECONDS_MAX = 31 * 86_400.0
_BLOCK_OPERATIONS = 32_768  # on average
_GOLDEN = (5**0.5 - 1) / 2
_FOLDER_OBJECTS = 1_000_000
_ROUNDS = 4

Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]


def generate(
    out: Path,
    model: ApplicationModel,
    *,
    name: str,
    seconds: float,
    lies_there_bytes: int,
    seed: int,
    overwrite: bool = False,
) -> TraceInfo:
    """Write the trace of ``seconds`` of an application whose stock has at most ``lies_there_bytes``.

    ``name`` is the application; keys begin with it, and every name gives another trace. A trace has at least one
    operation. Raises UsageError if the file cannot be written or no object fits into the stock.
    """
    if not 0 < seconds <= SECONDS_MAX:
        raise UsageError(f"a trace of {seconds:g} s cannot be made: write a time above 0 s and up to 31 days")
    maker = _OperationMaker(model, name, lies_there_bytes, _Draws(seed, name, "what"))
    with TraceWriter(out, 0, [Origin(KIND, name)], overwrite=overwrite) as writer:
        rows = 0
        for due_ns, client, session in _arrivals(model, seconds, _Draws(seed, name, "when")):
            writer.write(maker.batch(due_ns, client, session))
            rows += len(due_ns)
        if not rows:
            zero = np.zeros(1, dtype=np.int64)
            writer.write(maker.batch(zero + round(seconds / 2 * 1e9), zero, zero))
        return writer.close()


class Stock:
    """The objects that exist before a trace begins: as many as fit into a capacity.

    Any number of objects has sizes in the model's shares. The size of an object follows from its number by a weighted
    shuffle in which every prefix has about the shares of the whole.
    """

    def __init__(self, sizes: Sizes, bytes_max: int) -> None:
        """Raise UsageError if no object fits."""
        items = np.sort(np.array(sizes.shuffle_items(), dtype=np.int64))
        places = np.argsort(np.argsort(np.arange(len(items)) * _GOLDEN % 1.0, kind="stable"), kind="stable")
        self._cycle: Numbers = items[places]
        repeats, rest = divmod(bytes_max, int(self._cycle.sum()))
        self.objects = repeats * len(self._cycle) + int(np.searchsorted(np.cumsum(self._cycle), rest, side="right"))
        if self.objects < 1:
            raise UsageError(
                f"{format_bytes(bytes_max)} have no room for an object of the model, whose smallest has "
                f"{format_bytes(int(self._cycle[0]))}; give it more capacity"
            )

    def sizes_of(self, numbers: Numbers) -> Numbers:
        """Return the sizes of objects in bytes, also of those that are archived later."""
        found: Numbers = self._cycle[numbers % len(self._cycle)]
        return found


class _Draws:
    """Random numbers. numpy guarantees only the raw stream of a generator for all versions."""

    def __init__(self, seed: int, *purpose: str) -> None:
        words = "/".join(purpose).encode()
        self._bits = PCG64(SeedSequence([seed, *words]))

    def raw(self, count: int) -> NDArray[np.uint64]:
        return self._bits.random_raw(count)

    def uniform(self, *shape: int) -> Reals:
        """Draw from [0, 1)."""
        drawn = (self.raw(int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return drawn.reshape(shape)

    def exponential(self, *shape: int) -> Reals:
        """Draw with mean 1."""
        drawn: Reals = -np.log1p(-self.uniform(*shape))
        return drawn


class _BusyClock:
    """A clock that runs only in busy periods. It converts its instants to busy periods and to seconds of the trace."""

    def __init__(self, model: ApplicationModel, draws: _Draws) -> None:
        self._draws = draws
        self._busy_seconds = model.busy_seconds
        self._quiet_seconds = model.busy_seconds * (1 / model.busy_share - 1)
        self._dropped = 0
        self._ends: Reals = np.array([np.inf])
        self._quiet_before: Reals = np.array([0.0])
        if self._quiet_seconds:
            begins_quiet = draws.uniform(1)[0] >= model.busy_share
            self._ends = draws.exponential(1) * self._busy_seconds
            self._quiet_before = draws.exponential(1) * self._quiet_seconds * begins_quiet

    def reach(self, begin: float, end: float) -> None:
        """Generate the busy periods from ``begin`` to ``end``."""
        past = int(np.searchsorted(self._ends, begin))
        if past:
            self._ends, self._quiet_before = self._ends[past:], self._quiet_before[past:]
            self._dropped += past
        while self._ends[-1] < end:
            self._add()

    def busy_time(self, instants: Reals) -> Numbers:
        """Return the number of the busy period of each instant."""
        found: Numbers = np.searchsorted(self._ends, instants) + self._dropped
        return found

    def seconds_at(self, instants: Reals) -> Reals:
        found: Reals = instants + self._quiet_before[np.searchsorted(self._ends, instants)]
        return found

    def _add(self) -> None:
        lengths = self._draws.exponential(2)
        self._ends = np.append(self._ends, self._ends[-1] + lengths[0] * self._busy_seconds)
        self._quiet_before = np.append(self._quiet_before, self._quiet_before[-1] + lengths[1] * self._quiet_seconds)


def _arrivals(model: ApplicationModel, seconds: float, draws: _Draws) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Yield due times of operations (ns, ascending), the stream of each, and its session within the stream."""
    clock = _BusyClock(model, draws)
    every = np.arange(model.streams)
    block_seconds = _BLOCK_OPERATIONS * model.busy_share / model.per_second
    columns = int(1.25 * _BLOCK_OPERATIONS / model.streams) + 8
    # Start in steady state: a stream is in a session, or silent, with the probability of any later time.
    in_sessions_seconds = (model.objects_per_session - 1) * model.gap_seconds
    in_session_share = in_sessions_seconds / (in_sessions_seconds + model.silence_seconds)
    silent = draws.uniform(model.streams) >= in_session_share
    upcoming = draws.exponential(model.streams) * np.where(silent, model.silence_seconds, model.gap_seconds)
    begins = np.ones(model.streams, dtype=np.bool_)  # the stream's next operation begins a session
    session = np.full(model.streams, -1)
    busy_time = np.full(model.streams, -1)
    begin = 0.0
    clock.reach(0.0, block_seconds)
    while clock.seconds_at(np.array([begin]))[0] < seconds:
        end = begin + block_seconds
        clock.reach(begin, end)
        due, begun = _drawn_until(end, upcoming, begins, model, columns, draws)
        within = due < end
        counts = within.sum(axis=1)
        upcoming, begins = due[every, counts], begun[every, counts]
        busy_times = clock.busy_time(np.where(within, due, begin))
        before = np.concatenate((busy_time[:, None], busy_times[:, :-1]), axis=1)
        sessions = session[:, None] + np.cumsum((begun | (busy_times != before)) & within, axis=1)
        has = counts > 0
        session = np.where(has, sessions[every, counts - 1], session)
        busy_time = np.where(has, busy_times[every, counts - 1], busy_time)
        due_ns = np.rint(np.minimum(clock.seconds_at(due[within]), seconds) * 1e9).astype(np.int64)
        order = np.argsort(due_ns, kind="stable")
        order = order[: np.searchsorted(due_ns[order], seconds * 1e9)]
        yield due_ns[order], np.repeat(every, counts)[order], sessions[within][order]
        begin = end
        clock.reach(begin, begin)


def _drawn_until(
    end: float, upcoming: Reals, begins: Flags, model: ApplicationModel, columns: int, draws: _Draws
) -> tuple[Reals, Flags]:
    """Return the next operations of each stream (a row) until one is beyond ``end``.

    The first array has times of the busy clock, the second whether the operation begins a session.
    """
    due, begun = [upcoming[:, None]], [begins[:, None]]
    while due[-1][:, -1].min() < end:
        fresh = draws.uniform(model.streams, columns) * model.objects_per_session < 1
        gaps = draws.exponential(model.streams, columns) * np.where(fresh, model.silence_seconds, model.gap_seconds)
        due.append(due[-1][:, -1:] + np.cumsum(gaps, axis=1))
        begun.append(fresh)
    return np.concatenate(due, axis=1), np.concatenate(begun, axis=1)


class _OperationMaker:
    """The objects and operations of a trace, block by block in order of time."""

    def __init__(self, model: ApplicationModel, name: str, lies_there_bytes: int, draws: _Draws) -> None:
        self._model = model
        self._folder = re.sub(r"[^A-Za-z0-9._-]+", "-", name) or "application"
        self._stock = Stock(model.sizes, lies_there_bytes)
        self._draws = draws
        self._scatter_keys = draws.raw(_ROUNDS)
        self._codes = np.array([CODES[label] for label, _ in model.operations])
        self._limits = np.cumsum([share for _, share in model.operations])
        self._first_ns: int | None = None  # time of the first archive in the trace
        self._archived = 0
        self._settled = 0
        self._late_ns: Numbers = np.zeros(0, dtype=np.int64)  # times of archives that have not settled yet

    def batch(self, due_ns: Numbers, client: Numbers, session: Numbers) -> pa.RecordBatch:
        """Return the rows of these operations."""
        rows = len(due_ns)
        kind_draw, recent_draw, object_draw, range_draw = self._draws.uniform(rows, 4).T
        at = np.minimum(np.searchsorted(self._limits, kind_draw, side="right"), len(self._codes) - 1)
        codes, number, is_new = self._objects(self._codes[at], due_ns, recent_draw, object_draw)
        size = self._stock.sizes_of(number)
        offset = length = pa.nulls(rows, pa.int64())
        if self._model.range_bytes is not None:
            whole = codes != CODES["range-retrieve"]
            begins = (range_draw * -(-size // self._model.range_bytes)).astype(np.int64) * self._model.range_bytes
            offset = pa.array(begins, pa.int64(), mask=whole)
            length = pa.array(np.minimum(self._model.range_bytes, size - begins), pa.int64(), mask=whole)
        columns = {
            "due_ns": due_ns,
            "operation": words("operation", codes.astype(np.int8)),
            "key": self._keys(number, is_new),
            "size_bytes": size,
            "offset": offset,
            "length": length,
            "client": client,
            "session": session,
            "endpoint": np.zeros(rows, dtype=np.int16),
            "status": np.zeros(rows, dtype=np.int16),
            "attempts": np.ones(rows, dtype=np.int16),
        }
        return pa.record_batch(
            [
                pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
                for field in SCHEMA
            ],
            schema=SCHEMA,
        )

    def _objects(
        self, codes: Numbers, due_ns: Numbers, recent_draw: Reals, object_draw: Reals
    ) -> tuple[Numbers, Numbers, Flags]:
        """Return the final operations, the object number of each, and whether the trace itself archived that object."""
        archives, replaces = codes == CODES["archive"], codes == CODES["new-version"]
        writes = archives | replaces
        if self._first_ns is None and writes.any():
            self._first_ns = int(due_ns[np.argmax(writes)])
        archives |= replaces & (due_ns < (self._first_ns or 0) + _SETTLED_NS)
        codes = np.where(archives, CODES["archive"], codes)
        replaceable = self._replaceable(due_ns, archives)
        recent = ~writes & (recent_draw < self._model.recent_share) & (replaceable > 0)
        newest_first = replaceable - 1 - self._ranks(object_draw, np.maximum(replaceable, 1))
        counts = np.full(len(codes), self._stock.objects)
        number = np.select(
            [archives, replaces, recent],
            [self._archived + np.cumsum(archives) - 1, (object_draw * replaceable).astype(np.int64), newest_first],
            _scattered(self._ranks(object_draw, counts), self._stock.objects, self._scatter_keys),
        )
        self._count_archives(due_ns, archives)
        return codes, number, writes | recent

    def _replaceable(self, due_ns: Numbers, archives: Flags) -> Numbers:
        """Return how many objects the trace itself had archived at least ``SETTLED_SECONDS`` before each operation."""
        archived_ns = np.concatenate((self._late_ns, due_ns[archives]))
        found: Numbers = np.searchsorted(archived_ns, due_ns - _SETTLED_NS, side="right")
        return found + self._settled

    def _count_archives(self, due_ns: Numbers, archives: Flags) -> None:
        if not len(due_ns):
            return
        archived_ns = np.concatenate((self._late_ns, due_ns[archives]))
        settled = int(np.searchsorted(archived_ns, due_ns[-1] - _SETTLED_NS, side="right"))
        self._late_ns = archived_ns[settled:]
        self._settled += settled
        self._archived += int(archives.sum())

    def _ranks(self, draws: Reals, counts: Numbers) -> Numbers:
        """Return ranks below ``counts`` in proportion to 1 / (rank + 1)^exponent.

        An integral approximates the sum over ranks, which favours the first rank by a tenth.
        """
        power = 1 - self._model.zipf_exponent
        if abs(power) < 1e-9:
            at = 0.5 * (2.0 * counts + 1) ** draws
        else:
            first = 0.5**power
            at = (first + draws * ((counts + 0.5) ** power - first)) ** (1 / power)
        return np.clip((at + 0.5).astype(np.int64), 1, counts) - 1

    def _keys(self, number: Numbers, is_new: Flags) -> pa.Array:
        kinds: Sequence[str] = (f"{self._folder}/stock/", f"{self._folder}/new/")
        folder = pa.DictionaryArray.from_arrays(pa.array(is_new.astype(np.int8)), pa.array(kinds)).cast(pa.string())
        upper, lower = np.divmod(number, _FOLDER_OBJECTS)
        return pc.binary_join_element_wise(folder, _digits(upper, 4), "/", _digits(lower, 6), "")


def _digits(numbers: Numbers, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def _scattered(ranks: Numbers, count: int, keys: NDArray[np.uint64]) -> Numbers:
    """Map ranks below ``count`` one to one to numbers below ``count``.

    This is a Feistel network over the next power of four, repeated for results that are too large.
    """
    half = np.uint64(max(1, ((count - 1).bit_length() + 1) // 2))
    low = (np.uint64(1) << half) - np.uint64(1)
    numbers = ranks.astype(np.uint64)
    walking = np.arange(len(numbers))
    while len(walking):
        left, right = numbers[walking] >> half, numbers[walking] & low
        for key in keys:
            mixed = (right ^ key) * np.uint64(0x9E3779B97F4A7C15)
            left, right = right, left ^ ((mixed ^ (mixed >> np.uint64(32))) >> np.uint64(7) & low)
        numbers[walking] = (left << half) | right
        walking = walking[numbers[walking] >= count]
    return numbers.astype(np.int64)
