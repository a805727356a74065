"""Checks, before anything is touched, that phases can be carried out.

One idea: each check refuses one kind of impossible phase. Such a phase waits for itself, or reads objects that no
workload archives. It deletes objects that another workload reads, writes without a bound, or ends before it is
measured.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from archiver.values.errors import ScenarioError
from archiver.values.retention import SHORTEST_SECONDS, Lock
from archiver.values.sizes import format_duration
from scenarios.model import OBJECTS_PER_SESSION_MAX, Phase
from scenarios.notation.ranges import check_ranges
from scenarios.reading.phases import (
    OBJECTS_MAX,
    SECONDS_MAX,
    SIZES_MAX,
    ArrivalsTable,
    PhaseTable,
    ScaleTable,
    WorkloadTable,
    expand_phase,
    expand_phases,
    prefixes,
    sizes_of,
)
from scenarios.reading.replay_phases import check_replay
from scenarios.work.mix import CHANGES, MAKES_OBJECTS, WRITES_CONTENT, Mix

OBJECT_BYTES_MAX = 64 << 20
PART_BYTES_MIN = 5 << 20  # minimum of all parts but the last, by S3
CLIENTS_MAX = 100_000  # of a phase; a larger number is a typing error
WORKLOADS_MAX = 300  # maximum of one copy
EVERY_SECONDS_MIN = 0.001


def check_phases(
    tables: Sequence[PhaseTable], scale_table: ScaleTable | None, where: str, *, allow_large_sessions: bool
) -> None:
    """Refuse phases that cannot be carried out. Raises ScenarioError naming phase, workload and key."""
    archived: set[str] = set()  # data sets
    names: set[str] = set()
    for table in tables:
        key = f"{where}: phase {table.name!r}"
        if table.name in names:
            raise ScenarioError(f"{key}: the name is used twice; give each phase its own")
        names.add(table.name)
        _check_extent(table, key)
        check_replay(table, key)
        if table.replay:
            if table.load or table.ceiling or table.cache != "drop":
                raise ScenarioError(
                    f"{key}: load, ceiling and cache are for phases with [[phase.workload]]; leave them out"
                )
            for phase in reversed(expand_phases(table, 1, 1, None, scale_table)):
                _check_names(phase, key)
            continue
        for workload in table.workload:
            _check_workload(workload, f"{key}: workload {workload.name!r}", allow_large_sessions)
        _check_order(table, key)
        copies = prefixes(table, scale_table)
        _check_data(table, key, copies, archived)
        for workload in table.workload:
            _check_changes(workload, table, f"{key}: workload {workload.name!r}")
        _check_expanded(expand_phase(table, 1, 1, None, scale_table), len(copies), key)
        made = {workload.data for workload in table.workload if workload.steps & MAKES_OBJECTS}
        made |= {workload.aside.data for workload in table.workload if workload.aside is not None}
        archived |= {f"{copy}{data}" for copy in copies for data in made}


def nearest(given: str, known: Iterable[str]) -> str:
    """Return a message with the most similar known name, or with all known names."""
    names = sorted(known)
    close = closest(given, names)
    return f"; did you mean {close!r}?" if close is not None else f"; known here: {', '.join(names)}"


def closest(given: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name, or one that contains the given name; None if there is none."""
    names = sorted(known)
    similar = difflib.get_close_matches(given, names, n=1)
    return next(iter(similar or [name for name in names if len(given) > 2 and given in name]), None)


def _check_extent(table: PhaseTable, key: str) -> None:
    """Check a table before it is multiplied by its copies."""
    if bool(table.workload) == bool(table.replay):
        raise ScenarioError(
            f"{key}: there is no [[phase.workload]] and no [[phase.replay]]; write one of them"
            if not table.replay
            else f"{key}: [[phase.workload]] and [[phase.replay]]: a phase has only one of them; write two phases"
        )
    if table.infrastructure and not table.replay:
        raise ScenarioError(f"{key}: infrastructure needs a [[phase.replay]] in the same phase")
    check_ranges(table, key)
    for workload in table.workload:
        counts = workload.client_counts
        if not counts or min(counts) < 1 or len(set(counts)) < len(counts):
            raise ScenarioError(
                f"{key}: workload {workload.name!r}: clients: {list(counts)} is not possible; each number must be at "
                "least 1 and occur only once"
            )
    clients = (table.copies or 1) * sum(sum(workload.client_counts) for workload in table.workload)
    if clients > CLIENTS_MAX:
        raise ScenarioError(
            f"{key}: clients: {clients} over all workloads and copies is above {CLIENTS_MAX}, the maximum of a phase"
        )
    if sum(len(workload.client_counts) for workload in table.workload) > WORKLOADS_MAX:
        raise ScenarioError(
            f"{key}: more than {WORKLOADS_MAX} workloads, each number of clients counted; write two phases"
        )


def _check_workload(table: WorkloadTable, key: str, allow_large_sessions: bool) -> None:
    check_ranges(table, key)
    if (table.operation is None) == (not table.transactions):
        raise ScenarioError(f"{key}: write either operation, or transactions with their steps and shares")
    if len(table.transactions) > SIZES_MAX:
        raise ScenarioError(f"{key}: transactions: write at most {SIZES_MAX}")
    for transaction in table.transactions:
        check_ranges(transaction, key, "transactions: ")
        if not transaction.steps:
            raise ScenarioError(f"{key}: transactions: each needs steps")
    if table.objects_per_session > OBJECTS_PER_SESSION_MAX and not allow_large_sessions:
        raise ScenarioError(
            f"{key}: objects_per_session: {table.objects_per_session} is above {OBJECTS_PER_SESSION_MAX}, the maximum "
            "of a session in this study; --allow-large-sessions allows more"
        )
    _check_sizes(table, key)
    _check_keys(table, key)
    _check_end(table, key)
    if table.arrivals is not None:
        _check_arrivals(table, table.arrivals, f"{key}: arrivals")
    _check_locks(table, key)
    _check_aside(table, key)


def _writes(table: WorkloadTable) -> bool:
    return bool(table.steps & WRITES_CONTENT) or table.aside is not None


def _check_sizes(table: WorkloadTable, key: str) -> None:
    asked = [(name, sizes) for name, sizes in (
        ("sizes", table.sizes), ("aside.sizes", table.aside.sizes if table.aside is not None else None)
    ) if sizes is not None]  # fmt: skip
    for name, each in asked:
        try:
            sizes = sizes_of(each)
        except ValueError as error:
            raise ScenarioError(f"{key}: {name}: {str(error).removeprefix('sizes: ')}") from error
        if not 1 <= sizes.classes[0][0] <= sizes.largest <= OBJECT_BYTES_MAX:
            raise ScenarioError(f"{key}: {name}: an object must have 1 byte to 64MiB")
    if table.steps & WRITES_CONTENT and table.sizes is None:
        raise ScenarioError(f"{key}: sizes is missing: write the sizes of the objects that it archives")
    if table.sizes is not None and not table.steps & WRITES_CONTENT:
        raise ScenarioError(
            f"{key}: sizes: requested objects have the sizes that they were archived with; leave it out"
        )
    if ("range-retrieve" in table.steps) != (table.range is not None) or table.range == 0:
        raise ScenarioError(f"{key}: range is the length, above 0, that range-retrieve requests; write both or neither")
    if table.part is not None and (table.part < PART_BYTES_MIN or not _writes(table)):
        raise ScenarioError(f"{key}: part applies only to archived objects, and S3 takes parts of 5MiB and more")


def _check_keys(table: WorkloadTable, key: str) -> None:
    if table.keys != "uniform" and not table.steps - {"archive"}:
        raise ScenarioError(f"{key}: keys: archive makes new objects and chooses no existing ones; leave it out")
    if table.zipf_exponent is not None and (table.keys != "zipf" or not 0 < table.zipf_exponent < 10):
        raise ScenarioError(f'{key}: zipf_exponent needs keys = "zipf", and must be above 0 and below 10')


def _check_end(table: WorkloadTable, key: str) -> None:
    """Check that a workload ends, and that its writes are bounded before it begins."""
    ends = [name for name in ("seconds", "objects", "fill") if getattr(table, name) is not None]
    reads_once = table.keys == "each-once" and not table.steps & CHANGES and not _writes(table)
    if len(ends) > 1 or (not ends and not reads_once):
        raise ScenarioError(
            f"{key}: it must end by one of seconds, objects, fill, or after one pass over keys = 'each-once'; it has "
            f"{' and '.join(ends) or 'none of these'}"
        )
    seconds = table.seconds
    if table.warm_up and (seconds is None or table.warm_up >= seconds):
        raise ScenarioError(f"{key}: warm_up is a part of seconds and must be shorter, because the rest is measured")
    is_counted = table.objects is not None or table.fill is not None
    if is_counted and (table.operation != "archive" or table.arrivals is not None):
        raise ScenarioError(f"{key}: {ends[0]} is for operation archive in a closed loop, without arrivals")
    if table.until is not None and (seconds is None or len(table.client_counts) > 1):
        raise ScenarioError(f"{key}: until needs seconds, its maximum duration, and one number of clients")
    is_bounded = seconds is None or table.arrivals is not None
    if _writes(table) and not is_bounded and table.bytes_max is None:
        raise ScenarioError(
            f"{key}: bytes_max is missing: it archives for {seconds:g} s in a closed loop, and the amount that it "
            "locks must be bounded before it begins"
        )
    if table.bytes_max is not None and (not _writes(table) or is_bounded):
        raise ScenarioError(f"{key}: bytes_max is only for a workload that archives for some seconds in a closed loop")


def _check_arrivals(table: WorkloadTable, arrivals: ArrivalsTable, key: str) -> None:
    if table.seconds is None:
        raise ScenarioError(f"{key} need seconds: the time in which sessions are due")
    check_ranges(arrivals, key)
    if (arrivals.kind == "ramp") != (arrivals.to_per_second is not None):
        raise ScenarioError(f"{key}: to_per_second is the last rate of a ramp; write both or neither")
    if arrivals.kind != "bursts" and (arrivals.burst_sessions or arrivals.every is not None):
        raise ScenarioError(f'{key}: burst_sessions and every need kind = "bursts"')
    every = arrivals.every
    if arrivals.kind == "bursts" and (
        not 1 <= arrivals.burst_sessions <= OBJECTS_MAX or every is None or every < EVERY_SECONDS_MIN
    ):
        raise ScenarioError(f"{key}: bursts need burst_sessions of at least 1, and every of at least 1ms")


def _check_locks(table: WorkloadTable, key: str) -> None:
    for name in ("lock", "checksum", "retain_for"):
        if getattr(table, name) is not None and not _writes(table):
            raise ScenarioError(f"{key}: {name}: it applies only to archived objects")
    if table.retain_for is None:
        return
    if table.lock in (Lock.NONE, Lock.BUCKET_DEFAULT):
        raise ScenarioError(f"{key}: retain_for: it applies only to objects archived with their own date")
    if table.retain_for < SHORTEST_SECONDS:
        raise ScenarioError(f"{key}: retain_for: a lock of {table.retain_for:g} s may end before the platform has it")


def _check_aside(table: WorkloadTable, key: str) -> None:
    aside = table.aside
    if aside is None:
        return
    check_ranges(aside, key, "aside.")
    if aside.data == table.data:
        raise ScenarioError(
            f"{key}: aside.data: {aside.data!r} is the data set of the workload itself; give the aside its own"
        )
    if aside.name in table.steps:
        raise ScenarioError(f"{key}: aside.name: {aside.name!r} is one of its operations; choose another name")


def _check_order(table: PhaseTable, key: str) -> None:
    """Check that workloads that others wait for exist, and that no workload waits for itself."""
    names = {workload.name: workload for workload in table.workload}
    if len(names) < len(table.workload):
        twice = next(w.name for i, w in enumerate(table.workload) if w.name in {o.name for o in table.workload[:i]})
        raise ScenarioError(f"{key}: two workloads are called {twice!r}; give each a name of its own")
    expanded = [name for workload in table.workload for name in workload.names]
    if len(set(expanded)) < len(expanded):
        twice = next(name for index, name in enumerate(expanded) if name in expanded[:index])
        raise ScenarioError(
            f"{key}: two workloads are called {twice!r} after the number of clients is added to the name; rename one"
        )
    for workload in table.workload:
        for word in ("after", "until"):
            other = getattr(workload, word)
            if other is not None and other not in names:
                raise ScenarioError(
                    f"{key}: workload {workload.name!r}: {word}: there is no workload {other!r} in this phase"
                    f"{nearest(other, set(names) - {workload.name})}"
                )
    for workload in table.workload:
        met: set[str] = set()
        waits_for = [workload.after, workload.until]
        while waits_for:
            other = waits_for.pop()
            if other == workload.name:
                raise ScenarioError(f"{key}: workload {workload.name!r}: after, until: it would wait for itself")
            if other is not None and other not in met:
                met.add(other)
                waits_for += [names[other].after, names[other].until]


def _check_names(phase: Phase, key: str) -> None:
    """Check that each workload of a replay has its own name. Infrastructure operations are called as their kind."""
    names = [workload.name for workload in phase.workloads]
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise ScenarioError(
            f"{key}: two workloads are called {twice!r}; write each kind of infrastructure once, and give no replay "
            "the name of a kind"
        )


def _before(workload: WorkloadTable, table: PhaseTable) -> list[WorkloadTable]:
    """Return the workloads that have ended when this one begins."""
    by_name = {each.name: each for each in table.workload}
    found = []
    while workload.after is not None:
        workload = by_name[workload.after]
        found.append(workload)
    return found


def _check_data(table: PhaseTable, key: str, copies: Sequence[str], archived: set[str]) -> None:
    """Check that requested objects exist."""
    for workload in table.workload:
        if not workload.steps - {"archive"}:
            continue
        if any(other.data == workload.data and other.steps & MAKES_OBJECTS for other in _before(workload, table)):
            continue
        missing = next((name for copy in copies if (name := f"{copy}{workload.data}") not in archived), None)
        if missing is not None:
            hint = nearest(missing, archived) if archived else ""
            raise ScenarioError(
                f"{key}: workload {workload.name!r}: data: no workload archives {missing!r} before it; archive it in "
                f"an earlier phase with as many copies{hint}"
            )


def _check_changes(workload: WorkloadTable, table: PhaseTable, key: str) -> None:
    """Check that a workload that changes a data set is its only user, and that filled data sets are not reduced."""
    sharing = [other for other in table.workload if other.data == workload.data]
    if workload.fill is not None:
        others = [other.name for other in sharing if other is not workload and other.fill is not None]
        if others or len(workload.client_counts) > 1:
            raise ScenarioError(
                f"{key}: fill: only one workload of a phase may fill a data set, with one number of clients"
            )
        if any(other.steps & {"delete", "delete-marker"} for other in sharing):
            raise ScenarioError(
                f"{key}: fill: another workload deletes objects of {workload.data!r}; fill it in another phase"
            )
    if not workload.steps & CHANGES:
        return
    before = _before(workload, table)
    for other in sharing:
        if other is not workload and other not in before and workload not in _before(other, table):
            raise ScenarioError(
                f"{key}: it changes data {workload.data!r}, which {other.name!r} uses at the same time; give each its "
                "own data, or run one after the other"
            )
    if len({count for other in sharing for count in other.client_counts}) > 1:
        raise ScenarioError(
            f"{key}: it changes data {workload.data!r}, which is partitioned over its clients; give "
            f"{', '.join(repr(other.name) for other in sharing)} the same number of clients"
        )


def _check_expanded(phase: Phase, copies: int, key: str) -> None:
    """Check times and amounts, which are known once the workloads are expanded."""
    beginnings = phase.beginnings()
    if not phase.seconds_max <= SECONDS_MAX:
        raise ScenarioError(
            f"{key}: its workloads take up to {phase.seconds_max:,.0f} s, one after another; a phase may take at most "
            f"{format_duration(SECONDS_MAX)}"
        )
    alike = phase.workloads[: len(phase.workloads) // copies]  # all copies have the same
    for workload in alike:
        mix = workload.work
        assert isinstance(mix, Mix)  # tables of phases make only mixes
        where = f"{key}: workload {workload.name!r}"
        written = sum(mix.written_max(workload.objects_per_session))
        if written > OBJECTS_MAX:
            raise ScenarioError(
                f"{where}: up to {written:,} objects would be archived; at most {OBJECTS_MAX:,} are possible"
            )
        if mix.bytes_max is not None and written < workload.clients:
            raise ScenarioError(f"{where}: bytes_max: {mix.bytes_max} is not enough for an object of each client")
        if mix.arrivals is not None and mix.planned_seconds is not None:
            if mix.arrivals.expected(mix.planned_seconds - mix.planned_warm_up_seconds) < 1:
                raise ScenarioError(f"{where}: arrivals: no session is due in {mix.planned_seconds:g} s")
            if mix.arrivals.sessions_max(mix.planned_seconds) > OBJECTS_MAX:
                raise ScenarioError(
                    f"{where}: arrivals: more than {OBJECTS_MAX:,} sessions in {mix.planned_seconds:g} s"
                )
        ends = _ends_seconds(phase, mix.ends_with, beginnings)
        begins = beginnings[workload.name]
        if ends is not None and begins is not None and ends <= begins + mix.planned_warm_up_seconds:
            raise ScenarioError(f"{where}: until: {mix.ends_with!r} ends before this workload is measured")


def _ends_seconds(phase: Phase, name: str | None, beginnings: Mapping[str, float | None]) -> float | None:
    """Upper bound of a workload's end in seconds after the phase's start; None if it is not known."""
    if name is None:
        return None
    workload = next((each for each in phase.workloads if each.name == name), None)
    begins = beginnings.get(name)
    if workload is None or workload.work.planned_seconds is None or begins is None:
        return None
    return begins + workload.work.planned_seconds
