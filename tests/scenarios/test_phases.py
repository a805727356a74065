"""The phases of a scenario: keys and their defaults, copies, lists of clients, scales and overrides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archiver.engine.work.mixed.shares import mix_of
from archiver.values.content import Checksum
from archiver.values.retention import Lock
from scenarios.model import Phase, Scenario, SearchRange, Workload
from scenarios.notation.distribution import Sizes
from scenarios.reading.reader import phases_at, read_scenario, recorded_scenario
from scenarios.work.mix import Arrivals, Aside, Mix, Transaction
from tests.scenarios.files import toml

Read = Callable[..., Scenario]
LOAD = {"name": "load", "operation": "archive", "data": "d", "sizes": "8KiB", "clients": 2, "fill": 100}
READ = {"name": "read", "operation": "retrieve", "data": "d", "clients": 4, "seconds": "5s"}
WRITE = {"name": "write", "operation": "archive", "data": "w", "sizes": "8KiB", "clients": 1, "seconds": "5s",
         "bytes_max": "1MB"}  # fmt: skip


def load(**more: Any) -> dict[str, Any]:
    return {"name": "load", "load": True, "workload": [LOAD], **more}


def mix(*workloads: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "mix", "workload": list(workloads or (READ,)), **more}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that reads a scenario of these phases and tables."""

    def reading(*phases: dict[str, Any], given: dict[str, Any] | None = None, **tables: Any) -> Scenario:
        path = tmp_path / "mine.toml"
        path.write_text(toml({"name": "mine", "title": "Mine", **tables, "phase": list(phases)}))
        return read_scenario(str(path), **(given or {}))

    return reading


def only(phase: Phase) -> tuple[Workload, Mix]:
    (workload,) = phase.workloads
    return workload, mix_of(workload)


# ---- keys and their defaults


def test_omitted_keys_have_defaults(read: Read) -> None:
    phase = read(load(), mix()).phases[1]
    assert (phase.name, phase.position, phase.repetition, phase.label) == ("mix", 2, 1, "mix")
    assert (phase.scale, phase.scale_name) == (None, "")
    assert not phase.is_load
    assert not phase.keeps_cache
    assert not phase.measures_ceiling
    workload, mixed = only(phase)
    assert (workload.name, workload.application, workload.copy) == ("read", "read", None)
    assert (workload.work.operation_label, workload.objects_per_session, workload.clients) == ("retrieve", 1, 4)
    assert (workload.lock, workload.checksum, workload.retain_for_seconds) == (None, None, None)
    assert mixed == Mix(
        transactions=(Transaction(("retrieve",), 1.0),), data="d", sizes=Sizes.constant(1), keys="uniform",
        zipf_exponent=0.99, range_bytes=None, part_bytes=None, aside=None, arrivals=None, deadline_seconds=None,
        starts_seconds=0.0, planned_warm_up_seconds=0.0, planned_seconds=5.0, objects=None, fill=None,
        waits_for=None, ends_with=None, bytes_max=None,
    )  # fmt: skip


def test_every_key_is_read(read: Read) -> None:
    everything = {
        "name": "mail", "application": "e-mail", "clients": 3, "objects_per_session": 7, "data": "d",
        "transactions": [{"steps": ["range-retrieve", "archive"], "share": 3}, {"steps": ["delete"], "share": 1}],
        "sizes": {"histogram": {"8KiB": 1, "16KiB": 3}}, "keys": "zipf", "zipf_exponent": 1.2, "range": "4KiB",
        "part": "5MiB", "aside": {"name": "log", "data": "log", "sizes": 5667, "per_operation": 0.227},
        "arrivals": {"kind": "ramp", "per_second": 1, "to_per_second": 9.5, "backlog_max": 11}, "deadline": "40ms",
        "begins": "2s", "warm_up": "1s", "seconds": "9s", "after": "first", "until": "longest",
        "lock": "separate", "checksum": "md5", "retain_for": "3s",
    }  # fmt: skip
    first = {**READ, "name": "first", "data": "other", "clients": 1}
    longest = {**first, "name": "longest", "seconds": "60s"}
    other = {**LOAD, "name": "other", "data": "other"}
    scenario = read(
        load(workload=[LOAD, other]), mix(first, everything, longest, cache="keep", ceiling=True, load=False)
    )
    phase = scenario.phases[1]
    assert scenario.phases[0].is_load
    assert phase.keeps_cache
    assert phase.measures_ceiling
    workload = phase.workloads[1]
    assert (workload.name, workload.application, workload.work.operation_label) == ("mail", "e-mail", "mixed")
    assert (workload.clients, workload.objects_per_session, workload.work.mean_bytes) == (3, 7, 14 * 1024)
    assert (workload.lock, workload.checksum, workload.retain_for_seconds) == (Lock.SEPARATE, Checksum.MD5, 3.0)
    assert workload.work == Mix(
        transactions=(Transaction(("range-retrieve", "archive"), 3.0), Transaction(("delete",), 1.0)), data="d",
        sizes=Sizes(((8192, 0.25), (16384, 0.75))), keys="zipf", zipf_exponent=1.2, range_bytes=4096,
        part_bytes=5 << 20, aside=Aside("log", "log", Sizes.constant(5667), 0.227),
        arrivals=Arrivals("ramp", 1.0, 9.5, backlog_max=11), deadline_seconds=0.04, starts_seconds=2.0,
        planned_warm_up_seconds=1.0, planned_seconds=9.0, waits_for="first", ends_with="longest",
    )  # fmt: skip


def test_workloads_bounded_by_counts_are_read(read: Read) -> None:
    bursts = {"kind": "bursts", "per_second": 0, "burst_sessions": 5, "every": "500ms"}
    once = {**READ, "name": "once", "keys": "each-once"}
    del once["seconds"]
    counted = {**LOAD, "name": "counted", "data": "c", "objects": 40}
    del counted["fill"]
    phases = read(load(), mix({**READ, "arrivals": bursts}, WRITE, once, counted)).phases
    assert only(phases[0])[1].fill == 100
    bursting, write, reading, counting = map(mix_of, phases[1].workloads)
    assert bursting.arrivals == Arrivals("bursts", 0.0, None, 5, 0.5)
    assert (write.bytes_max, write.planned_seconds) == (1_000_000, 5.0)
    assert (reading.keys, reading.planned_seconds) == ("each-once", None)
    assert (counting.objects, counting.fill) == (40, None)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("8KiB", Sizes.constant(8192)),
        (8192, Sizes.constant(8192)),
        ({"uniform": ["1KiB", 4096]}, Sizes.uniform(1024, 4096)),
        ({"median": "20KiB", "sigma": 1.0, "largest": "1MiB"}, Sizes.lognormal(20480, 1.0, 1 << 20)),
        ({"histogram": {"1KiB": 2, "1024": 1, "2KB": 1}}, Sizes(((1024, 0.75), (2000, 0.25)))),
    ],
)
def test_sizes_are_constant_uniform_lognormal_or_a_histogram(read: Read, sizes: Any, expected: Sizes) -> None:
    workload, mixed = only(read(load(workload=[{**LOAD, "sizes": sizes}])).phases[0])
    assert mixed.sizes == expected
    assert workload.work.mean_bytes == round(expected.mean)


# ---- copies, lists of clients and repetitions


def test_each_copy_has_separate_names_and_data(read: Read) -> None:
    aside = {"name": "log", "data": "log", "sizes": 500, "per_operation": 1}
    late = {**READ, "name": "late", "after": "read"}
    short = {**WRITE, "until": "read", "aside": aside}
    phase = read(load(copies=2), mix(READ, late, short, copies=2)).phases[1]
    found = [(w.name, w.application, w.copy, mix_of(w).data) for w in phase.workloads]
    assert found == [
        (f"copy {copy} {name}", name, copy, f"copy {copy} {data}")
        for copy in (1, 2)
        for name, data in (("read", "d"), ("late", "d"), ("write", "w"))
    ]
    assert [mix_of(w).waits_for for w in phase.workloads if w.application == "late"] == ["copy 1 read", "copy 2 read"]
    writing = [mix_of(w) for w in phase.workloads if w.application == "write"]
    assert [each.ends_with for each in writing] == ["copy 1 read", "copy 2 read"]
    assert [each.aside.data for each in writing if each.aside] == ["copy 1 log", "copy 2 log"]


def test_list_of_clients_gives_consecutive_workloads(read: Read) -> None:
    several = {**READ, "clients": [1, 4, 2], "begins": "3s"}
    phase = read(load(), mix({**READ, "name": "late", "after": "read"}, several)).phases[1]
    late, *chain = phase.workloads
    assert [(w.name, w.application, w.clients) for w in chain] == [
        ("read 1", "read", 1), ("read 4", "read", 4), ("read 2", "read", 2),
    ]  # fmt: skip
    assert [mix_of(w).waits_for for w in chain] == [None, "read 1", "read 4"]
    assert mix_of(late).waits_for == "read 2"
    assert [phase.begins_seconds(w) for w in (*chain, late)] == [3.0, 8.0, 13.0, 18.0]


def test_phase_lasts_until_its_last_workload_ends(read: Read) -> None:
    once = {**READ, "name": "check", "keys": "each-once", "after": "read"}
    del once["seconds"]
    last = {**READ, "name": "last", "after": "check", "begins": "2s"}
    phases = read(load(), mix({**READ, "begins": "2s"}), {**mix(READ, once, last), "name": "chained"}).phases
    assert phases[1].seconds_max == 7.0
    assert phases[2].seconds_max == 72.0  # a workload without seconds is assumed to last 60 s
    assert [(phase.has_time_limit, phase.expected_seconds, phase.limited_seconds) for phase in phases] == [
        (False, 0.0, 0.0), (True, 7.0, 7.0), (False, 5.0, 5.0),
    ]  # fmt: skip


def test_workload_with_until_has_expected_end_of_that_workload(read: Read) -> None:
    long = {**READ, "name": "long", "seconds": "1h", "until": "read"}
    once = {key: value for key, value in READ.items() if key != "seconds"} | {"name": "once", "keys": "each-once"}
    known = read(load(), mix({**READ, "begins": "2s"}, long)).phases[1]
    assert (known.expected_seconds, known.limited_seconds, known.has_time_limit) == (7.0, 7.0, True)
    unknown = read(load(), mix(READ, {**long, "until": "once"}, once)).phases[1]
    assert (unknown.expected_seconds, unknown.has_time_limit) == (5.0, False)


def test_phases_are_numbered_through_scales_and_repetitions(read: Read) -> None:
    scale = {"name": "tiles", "each": "tile", "values": [1, 2]}
    phases = read(
        load(copies="tiles"), mix(copies="tiles"), scale=scale, given={"repetitions": 2}
    ).phases  # fmt: skip
    assert [(p.position, p.repetition, p.label) for p in phases] == [
        (1, 1, "load, 1 tile"), (2, 1, "mix, 1 tile"), (3, 1, "load, 2 tiles"), (4, 1, "mix, 2 tiles"),
        (5, 2, "load, 1 tile"), (6, 2, "mix, 1 tile"), (7, 2, "load, 2 tiles"), (8, 2, "mix, 2 tiles"),
    ]  # fmt: skip
    assert [w.name for w in phases[3].workloads] == ["tile 1 read", "tile 2 read"]
    assert all(isinstance(w.work, Mix) for phase in phases for w in phase.workloads)


# ---- scales


@pytest.mark.parametrize(
    ("written", "value", "expected"),
    [
        ("users", 7, 7),
        ("20 users", 3, 60),
        ("0.1 users", 25, 3),  # rounded up
        ("0.07 users", 100, 7),  # computed exactly; in floating point it is slightly more than 7
        ("0.1 users", 1, 1),
        ("2.5 users", 2, 5),
        ("users", 2.5, 3),
        ("1 users", 1e6, 100_000),
    ],
)
def test_scaled_counts_are_rounded_up(read: Read, written: str, value: float, expected: int) -> None:
    scale = {"name": "users", "each": "user", "values": [min(value, 100_000)]}
    scenario = read(load(workload=[{**LOAD, "fill": written}]), scale=scale)
    assert only(scenario.phases[0])[1].fill == expected


def test_scaled_rates_are_not_rounded(read: Read) -> None:
    arrivals = {"kind": "ramp", "per_second": "0.25 users", "to_per_second": "users"}
    scenario = read(
        load(), mix({**READ, "arrivals": arrivals}), scale={"name": "users", "each": "user", "values": [2.5, 9]}
    )
    found = [mix_of(phase.workloads[0]).arrivals for phase in scenario.phases if phase.name == "mix"]
    assert found == [Arrivals("ramp", 0.625, 2.5), Arrivals("ramp", 2.25, 9.0)]
    assert [phase.scale for phase in scenario.phases] == [2.5, 2.5, 9.0, 9.0]


@pytest.mark.parametrize("name", ["uniform", "retrieve", "d", "read", "mix", "constant", "keep", "8KiB", "b.*", "Mine"])
def test_scale_may_have_the_name_of_any_word_of_the_file(read: Read, name: str) -> None:
    arrivals = {"kind": "constant", "per_second": name}
    scenario = read(
        load(), mix({**READ, "keys": "uniform", "arrivals": arrivals}, cache="keep"),
        scale={"name": name, "each": name, "values": [3]}, criterion=[{"that": "errors == 0", "workload": "read"}],
    )  # fmt: skip
    workload, mixed = only(scenario.phases[1])
    assert (workload.name, workload.work.operation_label, mixed.data, mixed.keys) == (
        "read",
        "retrieve",
        "d",
        "uniform",
    )
    assert mixed.arrivals == Arrivals("constant", 3.0)
    assert scenario.title == "Mine"


SEARCHED: dict[str, Any] = {
    "scale": {"name": "tiles", "each": "tile", "values": [1, 2], "quick": {"values": [5]}},
    "search": {"first": 2, "last": 8, "step": 2, "quick": {"last": 4}},
    "criterion": [{"that": "errors == 0"}],
}


def test_search_begins_with_its_first_scale(read: Read) -> None:
    scenario = read(load(copies="tiles"), mix(copies="tiles"), **SEARCHED, given={"searches": True})
    assert scenario.search == SearchRange("tiles", 2, 8, 3, 2)
    assert [phase.scale for phase in scenario.phases] == [2.0, 2.0]
    step = phases_at(scenario, 6, 9)
    assert [(phase.position, phase.scale, len(phase.workloads)) for phase in step] == [(9, 6.0, 6), (10, 6.0, 6)]


def test_without_search_every_scale_is_planned(read: Read) -> None:
    scenario = read(load(copies="tiles"), mix(copies="tiles"), **SEARCHED)
    assert scenario.search is None
    assert [phase.scale for phase in scenario.phases] == [1.0, 1.0, 2.0, 2.0]


def test_scale_without_values_uses_search(read: Read) -> None:
    tables = {**SEARCHED, "scale": {"name": "tiles", "each": "tile"}}
    assert read(load(copies="tiles"), mix(copies="tiles"), **tables).search is not None


def test_recorded_scenario_equals_planned_scenario(read: Read) -> None:
    given = {"overrides": ["mix.copies=3", "load.copies=3"], "quick": True, "repetitions": 2}
    scenario = read(load(copies=2), mix({**READ, "quick": {"clients": 1}}, copies=2), given=given)
    again = recorded_scenario(scenario.text, order="shuffled", order_seed=0, repetitions=2)
    assert again.phases == scenario.phases
    assert len(again.phases[1].workloads) == 3


def test_criteria_and_weights_are_read(read: Read) -> None:
    criterion = {"that": "object_ms.mean <= 20", "workload": "read", "operation": "retrieve", "abort": True}
    scenario = read(load(), mix(), criterion=[criterion], weights={"read": 2})
    (found,) = scenario.criteria
    assert (found.metric, found.statistic, found.limit, found.workload, found.operation, found.abort) == (
        "object_ms", "mean", 20.0, "read", "retrieve", True,
    )  # fmt: skip
    assert scenario.weights == (("read", 2.0),)


# ---- bounds of archived objects


def test_fill_of_data_set_is_counted_once(read: Read) -> None:
    scale = {"name": "tiles", "each": "tile", "values": [1, 2, 4]}
    scenario = read(load(copies="tiles"), mix(copies="tiles"), scale=scale, given={"repetitions": 3})
    assert scenario.archived_max() == (400, 400 * 8192)


def test_bound_counts_refill_after_delete(read: Read) -> None:
    remove = {**READ, "operation": "delete"}
    scenario = read(load(), mix(remove), given={"repetitions": 3})
    assert scenario.archived_max() == (300, 300 * 8192)


def test_fewer_copies_may_read_data_archived_by_more_copies(read: Read) -> None:
    scenario = read(load(copies=3), mix(copies=2))
    assert {mix_of(w).data for w in scenario.phases[1].workloads} == {"copy 1 d", "copy 2 d"}


# ---- quick, and --set


def test_quick_tables_override_keys_at_every_level(read: Read) -> None:
    arrivals = {"kind": "constant", "per_second": 100, "backlog_max": 7}
    reading = {**READ, "arrivals": arrivals, "quick": {"seconds": "1s", "arrivals": {"per_second": 10}}}
    phases = [load(copies="tiles"), mix(reading, copies="tiles", quick={"copies": 2, "cache": "keep"})]
    quick = read(*phases, **SEARCHED, given={"quick": True})
    assert [phase.scale for phase in quick.phases] == [5.0, 5.0]
    assert len(quick.phases[1].workloads) == 2
    assert quick.phases[1].keeps_cache
    mixed = mix_of(quick.phases[1].workloads[0])
    assert mixed.planned_seconds == 1.0
    assert mixed.arrivals == Arrivals("constant", 10.0, backlog_max=7)  # keys that quick does not name are kept
    searched = read(*phases, **SEARCHED, given={"quick": True, "searches": True}).search
    assert searched == SearchRange("tiles", 2, 4, 3, 2)
    assert mix_of(read(*phases, **SEARCHED).phases[1].workloads[0]).planned_seconds == 5.0


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("read.clients=9", lambda s: [(w.name, w.clients) for w in s.phases[1].workloads[:1]] == [("read", 9)]),
        ("read.clients=1,2", lambda s: [w.clients for w in s.phases[1].workloads[:2]] == [1, 2]),
        ("clients=9", lambda s: {w.clients for p in s.phases for w in p.workloads} == {9}),
        ("read.arrivals.per_second=2.5",
         lambda s: mix_of(s.phases[1].workloads[0]).arrivals == Arrivals("constant", 2.5)),
        ("arrivals.kind=poisson", lambda s: mix_of(s.phases[1].workloads[0]).arrivals == Arrivals("poisson", 1.0)),
        ("arrivals.backlog_max=3",
         lambda s: mix_of(s.phases[1].workloads[0]).arrivals == Arrivals("constant", 1.0, backlog_max=3)),
        ('read.arrivals={ kind = "constant", per_second = 4 }',
         lambda s: mix_of(s.phases[1].workloads[0]).arrivals == Arrivals("constant", 4.0)),
        ("load.sizes={ uniform = [1, 9] }", lambda s: mix_of(s.phases[0].workloads[0]).sizes == Sizes.uniform(1, 9)),
        ("v1.2 web.deadline=2s", lambda s: mix_of(s.phases[1].workloads[1]).deadline_seconds == 2.0),
        ("mix.cache=keep", lambda s: [p.keeps_cache for p in s.phases] == [False, True]),
        ("cache=keep", lambda s: [p.keeps_cache for p in s.phases] == [True, True]),
        ("scale.values=3", lambda s: [p.scale for p in s.phases] == [3.0, 3.0]),
        ("scale.values=3,4", lambda s: [p.scale for p in s.phases] == [3.0, 3.0, 4.0, 4.0]),
        ("search.last=16", lambda s: s.search is None),  # no search was requested
    ],
)  # fmt: skip
def test_set_overrides_keys_of_phases_workloads_and_their_tables(
    read: Read, override: str, found: Callable[[Scenario], bool]
) -> None:
    arrivals = {"kind": "constant", "per_second": 1}
    web, other = {**READ, "name": "v1.2 web"}, {**READ, "name": "v1"}
    scale = {"name": "fills", "each": "fill", "values": [2]}
    filling = {**LOAD, "fill": "100 fills"}
    scenario = read(
        load(workload=[filling]), mix({**READ, "arrivals": arrivals}, web, other), scale=scale,
        search={"first": 1, "last": 4}, criterion=[{"that": "errors == 0"}], given={"overrides": [override]},
    )  # fmt: skip
    assert found(scenario)


def test_set_overrides_search_range(read: Read) -> None:
    given = {"overrides": ["search.last=16", "search.repeat=1"], "searches": True}
    assert read(load(copies="tiles"), mix(copies="tiles"), **SEARCHED, given=given).search == SearchRange(
        "tiles", 2, 16, 1, 2
    )


@pytest.mark.parametrize("quick", [False, True])
def test_e_mail_of_tiles_ends_after_the_database(quick: bool) -> None:
    """In ESG's study, e-mail ran for 7,200 s and the database for 36 points of 150 s."""
    measured = read_scenario("tiles", quick=quick).phases[1]
    begins = measured.beginnings()

    def ends(workload: Workload) -> float:
        began, seconds = begins[workload.name], workload.work.planned_seconds
        assert began is not None
        assert seconds is not None
        return began + seconds

    of = {workload.application: workload for workload in measured.workloads}
    database = max(ends(each) for each in measured.workloads if each.application.startswith("database"))
    assert ends(of["e-mail"]) > database + 3
    for name in ("web", "scan"):
        work = of[name].work
        assert isinstance(work, Mix)
        assert work.ends_with == of["e-mail"].name
