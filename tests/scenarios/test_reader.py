"""Scenarios with sweeps: phases and their bounds, order, overrides and variants; invalid files and their messages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.content import Checksum
from archiver.values.errors import ScenarioError, UsageError
from archiver.values.retention import Lock
from results.measures.quality import SECONDS_MIN
from scenarios.model import Phase, Scenario, Workload
from scenarios.reading.reader import builtin_names, read_scenario
from scenarios.work.sessions import AllObjects, InWindow, Sessions, UntilPrecise

KIB = 1024
SIZES = [8 * KIB << power for power in range(8)]
SMALL = """
name = "small"
title = "A small matrix"

[stop]
warm_up_sessions = 1
warm_up_seconds = "500ms"
sessions_min = 3
large_sessions_min = 2
large_session = "100MB"
seconds_min = "1s"
seconds_max = "2s"
bytes_max = "1MB"
client_bytes_max = "1MB"
precision = 0.05

[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["8KiB", 512]
objects_per_session = [1, 25]
clients = [1]
quick = { object_sizes = ["8KiB"], stop = { bytes_max = "10KB" } }

[[sweep]]
name = "retrieve"
operation = "retrieve"
object_sizes = ["8KiB"]
objects_per_session = [25]
clients = [1, 2]
drift_check = true
stop = { seconds_max = "5s" }
"""


def written(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def cells(scenario: Scenario, sweep: str, *, drift_check: bool = False) -> list[tuple[int, int, int]]:
    return [
        (w.work.mean_bytes, w.objects_per_session, w.clients)
        for phase in scenario.phases
        if phase.name == sweep and phase.drift_check is drift_check
        for w in phase.workloads
    ]


# ---- the DR550 matrix


def test_full_dr550_matrix_equals_that_of_paper() -> None:
    scenario = read_scenario("dr550")
    matrix = {(size, objects, 1) for size in SIZES for objects in (1, 2, 10, 25, 100, 250, 500)}
    parallel = {(size, 250, clients) for size in SIZES for clients in (1, 2, 4)}
    for sweep, expected in {
        "archive": matrix,
        "retrieve": matrix,
        "archive-parallel": parallel,
        "retrieve-parallel": parallel,
    }.items():
        found = cells(scenario, sweep)
        assert len(found) == len(expected)
        assert set(found) == expected
    assert Counter(phase.name for phase in scenario.phases if phase.drift_check) == {"archive": 1, "retrieve": 1}
    assert len(scenario.phases) == 56 + 56 + 24 + 24 + 2
    assert all(phase.workloads[0].work.operation_label == phase.name.partition("-")[0] for phase in scenario.phases)


def test_phases_are_numbered_in_order_of_execution() -> None:
    phases = read_scenario("dr550", repetitions=2).phases
    assert [phase.position for phase in phases] == list(range(1, len(phases) + 1))
    assert Counter(phase.repetition for phase in phases) == {1: 162, 2: 162}


@given(st.integers(0, 2**63))
def test_full_matrix_archives_at_most_36_gb_in_any_order(seed: int) -> None:
    _, bytes_max = read_scenario("dr550", order_seed=seed).archived_max()
    assert bytes_max <= 36e9


@given(st.integers(0, 2**63))
def test_quick_matrix_archives_at_most_5_gb_in_any_order(seed: int) -> None:
    scenario = read_scenario("dr550", quick=True, order_seed=seed)
    assert scenario.archived_max()[1] <= 5e9  # five repetitions stay below the default of --max-locked-bytes
    assert {phase.name for phase in scenario.phases} == {"archive", "retrieve", "archive-parallel", "retrieve-parallel"}


def test_quick_matrix_measures_long_enough_for_a_headline() -> None:
    scenario = read_scenario("dr550", quick=True)
    works = [phase.workloads[0].work for phase in scenario.phases]
    rules = [work.stop for work in works if isinstance(work, Sessions) and not isinstance(work.stop, AllObjects)]
    seconds = [rule.seconds if isinstance(rule, InWindow) else rule.seconds_min for rule in rules]
    assert len(seconds) == 10
    assert min(seconds) > SECONDS_MIN


def test_bound_counts_archived_objects_but_not_retrieved() -> None:
    scenario = read_scenario("dr550")
    archiving = [phase for phase in scenario.phases if phase.workloads[0].work.operation_label == "archive"]
    bounds = [phase.archived_max() for phase in archiving]
    assert scenario.archived_max() == (sum(objects for objects, _ in bounds), sum(size for _, size in bounds))
    assert all(
        size == objects * phase.workloads[0].work.mean_bytes
        for phase, (objects, size) in zip(archiving, bounds, strict=True)
    )


@pytest.mark.parametrize("name", builtin_names())
def test_every_builtin_scenario_is_readable(name: str) -> None:
    for quick in (False, True):
        assert read_scenario(name, quick=quick).phases


# ---- order


def order_of(scenario: Scenario) -> list[Phase]:
    return list(scenario.phases)


def test_paper_order_is_order_of_file(tmp_path: Path) -> None:
    scenario = read_scenario(written(tmp_path, SMALL), order="paper")
    assert cells(scenario, "archive") == [(8192, 1, 1), (8192, 25, 1), (512, 1, 1), (512, 25, 1)]


def test_order_depends_only_on_seed() -> None:
    assert order_of(read_scenario("dr550", order_seed=1)) == order_of(read_scenario("dr550", order_seed=1))
    assert order_of(read_scenario("dr550", order_seed=1)) != order_of(read_scenario("dr550", order_seed=2))
    assert order_of(read_scenario("dr550", order_seed=1)) != order_of(read_scenario("dr550", order="paper"))


@given(st.integers(0, 2**63))
def test_shuffling_changes_only_order_within_sweeps(seed: int) -> None:
    shuffled, paper = read_scenario("dr550", order_seed=seed), read_scenario("dr550", order="paper")
    assert [phase.name for phase in shuffled.phases] == [phase.name for phase in paper.phases]
    for sweep in ("archive", "retrieve", "archive-parallel", "retrieve-parallel"):
        assert sorted(cells(shuffled, sweep)) == sorted(cells(paper, sweep))


def test_repetitions_have_different_shuffled_orders() -> None:
    phases = read_scenario("dr550", repetitions=2).phases
    first, second = ([p.workloads for p in phases if p.repetition == repetition] for repetition in (1, 2))
    assert first != second


@pytest.mark.parametrize("order", ["paper", "shuffled"])
def test_drift_check_repeats_first_cell_at_end_of_sweep(order: Any) -> None:
    phases = [phase for phase in read_scenario("dr550", order=order, order_seed=5).phases if phase.name == "archive"]
    assert phases[-1].drift_check
    assert not any(phase.drift_check for phase in phases[:-1])
    assert phases[-1].workloads == phases[0].workloads


def test_sweep_of_single_cell_has_no_drift_check() -> None:
    scenario = read_scenario("dr550", overrides=["object_sizes=8KiB", "objects_per_session=25", "clients=1"])
    assert [phase.drift_check for phase in scenario.phases] == [False] * 4


# ---- values


def stops(scenario: Scenario, sweep: str) -> list[UntilPrecise]:
    """Return the stop rules of the single-client cells of a sweep."""
    found = (w.work for phase in scenario.phases if phase.name == sweep for w in phase.workloads)
    return [work.stop for work in found if isinstance(work, Sessions) and isinstance(work.stop, UntilPrecise)]


def test_stop_rule_of_sweep_overrides_that_of_file(tmp_path: Path) -> None:
    scenario = read_scenario(written(tmp_path, SMALL))
    assert {stop.seconds_max for stop in stops(scenario, "archive")} == {2.0}
    assert {stop.seconds_max for stop in stops(scenario, "retrieve")} == {5.0}
    parallel = {workload.work for phase in scenario.phases for workload in phase.workloads if workload.clients == 2}
    assert parallel == {Sessions("retrieve", 8192, InWindow(1.0, 1_000_000, warm_up_seconds=0.5))}


@pytest.mark.parametrize(("large_session", "sessions_min"), [("100MB", 3), ("204800B", 3), ("204799B", 2)])
def test_large_sessions_have_a_minimum_of_their_own(tmp_path: Path, large_session: str, sessions_min: int) -> None:
    text = SMALL.replace('large_session = "100MB"', f'large_session = "{large_session}"')
    scenario = read_scenario(written(tmp_path, text))
    assert {stop.sessions_min for stop in stops(scenario, "retrieve")} == {sessions_min}  # 25 objects of 8 KiB


def test_quick_overrides_only_its_sweep(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    quick = read_scenario(path, quick=True)
    assert {size for size, _, _ in cells(quick, "archive")} == {8192}
    assert {stop.bytes_max for stop in stops(quick, "archive")} == {10_000}
    assert {stop.bytes_max for stop in stops(quick, "retrieve")} == {1_000_000}
    assert {stop.seconds_max for stop in stops(quick, "archive")} == {2.0}  # keys that quick does not name are kept


@pytest.mark.parametrize(
    ("override", "sweep", "expected"),
    [
        ("clients=2", "archive", {"clients": {2}}),
        ("clients=2,4", "archive", {"clients": {2, 4}}),
        ("clients=[2, 4]", "archive", {"clients": {2, 4}}),
        (" clients = 2 ", "archive", {"clients": {2}}),
        ("clients=2", "retrieve", {"clients": {2}}),
        ("retrieve.clients=4", "retrieve", {"clients": {4}}),
        ("retrieve.clients=4", "archive", {"clients": {1}}),
        ("object_sizes=8K", "archive", {"sizes": {8192}}),
        ("archive.object_sizes=8KiB,16KB", "archive", {"sizes": {8192, 16000}}),
        ("archive.object_sizes=8192,512", "archive", {"sizes": {8192, 512}}),
        ('archive.object_sizes=["8KiB", 1024]', "archive", {"sizes": {8192, 1024}}),
        ("stop.seconds_max=7s", "archive", {"seconds_max": {7.0}}),
        ("retrieve.stop.seconds_max=7s", "retrieve", {"seconds_max": {7.0}}),
        ("retrieve.stop.seconds_max=7s", "archive", {"seconds_max": {2.0}}),
        ("stop.precision=0.2", "archive", {"precision": {0.2}}),
    ],
)
def test_set_overrides_key_of_all_sweeps_or_of_one(
    tmp_path: Path, override: str, sweep: str, expected: dict[str, Any]
) -> None:
    scenario = read_scenario(written(tmp_path, SMALL), overrides=[override])
    found = cells(scenario, sweep)
    values = {
        "clients": {clients for _, _, clients in found},
        "sizes": {size for size, _, _ in found},
        "seconds_max": {stop.seconds_max for stop in stops(scenario, sweep)},
        "precision": {stop.precision for stop in stops(scenario, sweep)},
    }
    assert {key: values[key] for key in expected} == expected


def test_overrides_take_precedence_over_quick_and_last_one_wins(tmp_path: Path) -> None:
    overrides = ["archive.object_sizes=8KiB,16KiB", "objects_per_session=2", "objects_per_session=3"]
    scenario = read_scenario(written(tmp_path, SMALL), quick=True, overrides=overrides)
    assert sorted(cells(scenario, "archive")) == [(8192, 3, 1), (16384, 3, 1)]


def test_scenario_text_includes_applied_overrides(tmp_path: Path) -> None:
    scenario = read_scenario(written(tmp_path, SMALL), overrides=["clients=3"], order_seed=9)
    assert (scenario.name, scenario.title, scenario.order_seed) == ("small", "A small matrix", 9)
    assert '"clients":[3]' in scenario.text


# ---- variants and lock operations

LOCKS = """
name = "locks"
title = "Locks"

[stop]
warm_up_sessions = 1
warm_up_seconds = "500ms"
sessions_min = 3
large_sessions_min = 2
large_session = "100MB"
seconds_min = "1s"
seconds_max = "2s"
bytes_max = "1MB"
client_bytes_max = "1MB"
precision = 0.05

[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["8KiB", 512]
objects_per_session = [1, 25]
clients = [1]
locks = ["none", "header", "separate", "header-and-hold"]
checksums = ["crc32c", "md5"]

[[sweep]]
name = "expiring"
operation = "archive"
object_sizes = ["8KiB"]
objects_per_session = [25]
clients = [1]
retain_for = "3s"

[[sweep]]
name = "last"
operation = "delete"
object_sizes = ["8KiB"]
objects_per_session = [25]
clients = [1]
"""


def without(*sweeps: str) -> str:
    """Return LOCKS without these sweeps."""
    head, *tables = LOCKS.split("[[sweep]]")
    return "[[sweep]]".join([head, *(table for table in tables if not any(f'name = "{n}"' in table for n in sweeps))])


def workloads(scenario: Scenario, sweep: str, repetition: int = 1) -> list[Workload]:
    return [p.workloads[0] for p in scenario.phases if p.name == sweep and p.repetition == repetition]


@pytest.mark.parametrize("order", ["paper", "shuffled"])
def test_variants_of_one_cell_follow_each_other(tmp_path: Path, order: Any) -> None:
    scenario = read_scenario(written(tmp_path, LOCKS), order=order, order_seed=3, repetitions=3)
    for repetition in (1, 2, 3):
        found = workloads(scenario, "archive", repetition)
        assert len(found) == 4 * 8
        for start in range(0, len(found), 8):
            group = found[start : start + 8]
            assert len({(w.work.mean_bytes, w.objects_per_session, w.clients) for w in group}) == 1
            assert len({(w.lock, w.checksum) for w in group}) == 8


def test_variants_are_reshuffled_per_cell_except_in_paper_order(tmp_path: Path) -> None:
    path = written(tmp_path, LOCKS)

    def orders(**given: Any) -> list[list[tuple[Lock | None, Checksum | None]]]:
        found = workloads(read_scenario(path, **given), "archive")
        return [[(w.lock, w.checksum) for w in found[start : start + 8]] for start in range(0, 32, 8)]

    as_written = [(Lock(lock), Checksum(checksum)) for lock in ("none", "header", "separate", "header-and-hold")
                  for checksum in ("crc32c", "md5")]  # fmt: skip
    assert orders(order="paper") == [as_written] * 4
    shuffled = orders(order_seed=3)
    assert len({tuple(order) for order in shuffled}) == 4
    assert all(sorted(order) == sorted(as_written) for order in shuffled)


def test_phase_label_names_its_variant(tmp_path: Path) -> None:
    scenario = read_scenario(written(tmp_path, LOCKS), order="paper")
    labels = [phase.label for phase in scenario.phases]
    assert labels[0] == "archive 8KiB x 1, 1 client, lock none, crc32c"
    assert labels[-2] == "archive 8KiB x 25, 1 client, for 3s"
    assert labels[-1] == "delete 8KiB x 25, 1 client"
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("order", ["paper", "shuffled"])
def test_workload_without_variants_has_no_lock_or_checksum(order: Any) -> None:
    for phase in read_scenario("dr550", order=order).phases:
        assert {(w.lock, w.checksum, w.retain_for_seconds, w.variant) for w in phase.workloads} == {
            (None, None, None, "")
        }


def test_lock_cost_scenario_has_every_lock_and_lock_operation() -> None:
    for quick in (False, True):
        scenario = read_scenario("lock-cost", quick=quick)
        assert {w.lock for w in workloads(scenario, "archive")} == set(Lock)
        operations = [phase.workloads[0].work.operation_label for phase in scenario.phases]
        assert set(operations) == {
            "archive", "query", "extend", "refused-delete", "hold", "release", "delete",
        }  # fmt: skip
        assert operations.index("hold") < operations.index("release")
        assert scenario.archived_max()[1] < 10e9


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("archive.locks=separate", {("separate", "crc32c"), ("separate", "md5")}),
        (
            'archive.locks=["none", "header"]',
            {(lock, name) for lock in ("none", "header") for name in ("crc32c", "md5")},
        ),
        ("archive.checksums=none", {(lock, "none") for lock in ("none", "header", "separate", "header-and-hold")}),
    ],
)
def test_set_overrides_lock_and_checksum_variants(tmp_path: Path, override: str, expected: set[Any]) -> None:
    scenario = read_scenario(written(tmp_path, LOCKS), overrides=[override])
    assert {(w.lock, w.checksum) for w in workloads(scenario, "archive")} == expected


@pytest.mark.parametrize(
    ("operation", "after"),
    [
        ("release", "header-and-hold"),
        ("hold", "none"),
        ("query", "none"),
        ("extend", "none"),
        ("delete", "none"),
        ("event-hold", "none"),
        ("event-release", "none"),  # of objects that were archived under an event hold
    ],
)
def test_operation_is_accepted_after_required_lock_variant(tmp_path: Path, operation: str, after: str) -> None:
    text = LOCKS.replace('operation = "delete"', f'operation = "{operation}"')
    scenario = read_scenario(written(tmp_path, text), overrides=[f"archive.locks={after}"])
    assert workloads(scenario, "last")[0].work.operation_label == operation


def test_objects_of_hold_sweep_can_be_released(tmp_path: Path) -> None:
    last = LOCKS[LOCKS.rindex("[[sweep]]") :]
    text = without("expiring", "last") + "".join(
        last.replace('"last"', f'"{name}"').replace('"delete"', f'"{name}"')
        for name in ("hold", "release", "event-hold", "event-release")
    )
    scenario = read_scenario(written(tmp_path, text), overrides=["archive.locks=header"])
    assert [phase.name for phase in scenario.phases][-4:] == ["hold", "release", "event-hold", "event-release"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LOCKS.replace('"separate"', '"seperate"'),
         "locks[2]: Invalid enum value 'seperate'; choose one of none, bucket-default, header, separate,"),
        (LOCKS.replace('"md5"', '"sha1"'), "checksums[1]: Invalid enum value 'sha1'; choose one of crc32c, "),
        (LOCKS.replace('"none", "header",', '"header", "header",'), "locks: an entry occurs twice; name each once"),
        (LOCKS.replace('"crc32c", "md5"', '"md5", "md5"'), "checksums: an entry occurs twice; name each once"),
        (LOCKS.replace('operation = "delete"', 'operation = "delete"\nlocks = ["none"]'),
         "'last': locks: only operation archive has them, not delete"),
        (LOCKS.replace('operation = "delete"', 'operation = "retrieve"\nchecksums = ["md5"]'),
         "'last': checksums: only operation archive has them, not retrieve"),
        (LOCKS.replace('"3s"', '"1500ms"'),
         "'expiring': retain_for: a lock of 1.5 s may end before the platform has it"),
        (LOCKS.replace('"3s"', '"3"'), "retain_for: '3': a duration needs a unit"),
        (LOCKS.replace('operation = "delete"', 'operation = "delete"\nretain_for = "3s"'),
         "'last': retain_for: it applies only to objects archived with their own date"),
        (LOCKS.replace('retain_for', 'locks = ["none"]\nretain_for'),
         "'expiring': retain_for: it applies only to objects archived with their own date"),
        (LOCKS.replace('retain_for', 'locks = ["bucket-default"]\nretain_for'),
         "'expiring': retain_for: it applies only to objects archived with their own date"),
        (without("expiring"), "'last': object_sizes: no object of 8192 bytes is archived with a short retain_for by an "
                              "earlier sweep, so there is nothing to delete"),
        (LOCKS.replace('"delete"', '"release"').replace(', "header-and-hold"', ""),
         "'last': object_sizes: no object of 8192 bytes is held by an earlier sweep, so there is nothing to release"),
        (LOCKS.replace('"delete"', '"event-release"') + LOCKS[LOCKS.rindex("[[sweep]]") :].replace(
            '"last"', '"place"').replace('"delete"', '"event-hold"'),
         "'last': object_sizes: no object of 8192 bytes is under an event hold by an earlier sweep, so there is "
         "nothing to event-release"),
        (LOCKS.replace('operation = "delete"', 'operation = "event-hold"\nretain_for = "3s"'),
         "'last': retain_for: it applies only to objects archived with their own date"),
        (LOCKS.replace('operation = "delete"', 'operation = "event-hold"\nlocks = ["header"]'),
         "'last': locks: only operation archive has them, not event-hold"),
        (without("archive", "expiring").replace('"delete"', '"hold"'),
         "'last': object_sizes: no object of 8192 bytes is archived by an earlier sweep, so there is nothing to hold"),
    ],
)  # fmt: skip
def test_invalid_variant_or_operation_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ScenarioError) as refused:
        read_scenario(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


# ---- invalid scenarios


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("title", "tilte", "unknown key 'tilte'; did you mean 'title'?"),
        ("clients = [1]", "client = [1]", "unknown key 'client'; did you mean 'clients'?"),
        ("sessions_min", "sesions_min", "unknown key 'sesions_min'; did you mean 'sessions_min'?"),
        ("[stop]", "[stops]", "unknown key 'stops'; did you mean 'stop'?"),
        ("clients = [1]\n", "colour = 1\n", "unknown key 'colour'; known here: checksums, clients, drift_check,"),
        ('"8KiB", 512', '"8KX", 512', "sweep 'archive': object_sizes[0]: '8KX': unknown size unit 'KX'; use B, KiB"),
        ('"8KiB", 512', '"8s", 512', "object_sizes[0]: '8s': unknown size unit 's'; use B, KiB"),
        ('"8KiB", 512', "8.5, 512", "object_sizes[0]: '8.5' is not a whole number of bytes"),
        ('"1s"', '"1"', "stop.seconds_min: '1': a duration needs a unit"),
        ('"1s"', '"1MB"', "stop.seconds_min: '1MB': a duration needs a unit"),
        ('"100MB"', '"100m s"', "stop.large_session: '100m s' is not a size such as"),
        ('"8KiB", 512', '"8KiB", 0', "'archive': object_sizes: 0 is not possible; write 1B to 64MiB"),
        ("[1, 25]", "[1, 0]", "'archive': objects_per_session: 0 is not possible; write 1 to 20,000,000"),
        ("[1, 2]", "[1, -2]", "'retrieve': clients: -2 is not possible; write 1 to 100,000"),
        ("[1, 25]", "[1, 501]",
         "objects_per_session: 501 is above 500, the maximum of a session in this study; --allow-large-sessions"),
        ('["8KiB", 512]', "[]", "'archive': object_sizes is empty; name at least one"),
        ("clients = [1]", "clients = [100001]", "'archive': clients: 100001 is not possible; write 1 to 100,000"),
        ('warm_up_seconds = "500ms"', 'warm_up_seconds = "121m"', "stop.warm_up_seconds: 7260s is not possible; write"),
        ('seconds_min = "1s"', 'seconds_min = "121m"', "stop.seconds_min: 7260s is not possible; write more than 0s,"),
        ("[1, 25]", "[]", "'archive': objects_per_session is empty; name at least one"),
        ("[1, 2]", "[]", "'retrieve': clients is empty; name at least one"),
        ("[1, 25]", "25", "objects_per_session: Expected `array`, got `int`"),
        ('"8KiB", 512', '"65MiB", "8KiB"', "object_sizes: 68157440 is not possible; write 1B to 64MiB"),
        ('name = "retrieve"', 'name = "archive"', "'archive': the name is used twice; give each sweep its own"),
        ('object_sizes = ["8KiB"]\nobjects', 'object_sizes = ["8KiB", "9KiB"]\nobjects',
         "'retrieve': object_sizes: no object of 9216 bytes is archived by an earlier sweep"),
        ('operation = "archive"', 'operation = "retrieve"', "'archive': object_sizes: no object of 512 bytes is"),
        ('operation = "archive"', 'operation = "copy"', "operation: Invalid enum value 'copy'; choose one of archive,"),
        ("sessions_min = 3", "sessions_min = 0", "stop.sessions_min: 0 is not possible; write 1 to 20,000,000"),
        ("large_sessions_min = 2", "large_sessions_min = 0", "stop.large_sessions_min: 0 is not possible; write 1 to"),
        ("warm_up_sessions = 1", "warm_up_sessions = -1", "stop.warm_up_sessions: -1 is not possible; write 0 to"),
        ("precision = 0.05", "precision = -0.05", "stop.precision: -0.05 is not possible; write 0 to 20,000,000"),
        ('"1s"', '"0s"', "stop.seconds_min: 0s is not possible; write more than 0s, at most 2h"),
        ('"1s"', '"3s"', "stop.seconds_min must not be above stop.seconds_max"),
        ('client_bytes_max = "1MB"', "client_bytes_max = 0", "stop.client_bytes_max: 0 is not possible; write"),
        ('name = "small"', "", "missing required field `name`"),
        ("[stop]", "[[stop]]", "stop is a table, [stop]; sweep is a list of tables, [[sweep]]"),
        ("[[sweep]]", "[sweep]", "not TOML"),
        ("[stop]", "[stop", "not TOML"),
    ],
)  # fmt: skip
def test_invalid_file_is_refused_with_path_key_and_remedy(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    path = written(tmp_path, SMALL.replace(right, wrong, 1))
    with pytest.raises(ScenarioError) as refused:
        read_scenario(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "a"\ntitle = "b"\nsweep = []', "no .*sweep.* and no .*phase.*, so there is nothing to measure"),
        ('name = "a"\ntitle = "b"\n', "no .*sweep.* and no .*phase.*, so there is nothing to measure"),
        ('name = "a"\ntitle = "b"\nphase = []', "so there is nothing to measure"),
        ("", "missing required field `name`"),
    ],
)
def test_file_without_sweep_or_phase_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        read_scenario(written(tmp_path, text))


@pytest.mark.parametrize("wrong", ["3", '"yes"', "[1]"])
def test_quick_that_is_no_table_is_refused(tmp_path: Path, wrong: str) -> None:
    text = SMALL.replace('quick = { object_sizes = ["8KiB"], stop = { bytes_max = "10KB" } }', f"quick = {wrong}")
    with pytest.raises(ScenarioError, match="quick: Expected `object`"):
        read_scenario(written(tmp_path, text), quick=True)


def test_501_objects_per_session_are_accepted_if_large_sessions_allowed() -> None:
    scenario = read_scenario("dr550", overrides=["objects_per_session=501"], allow_large_sessions=True)
    assert {objects for _, objects, _ in cells(scenario, "archive")} == {501}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("clients", "write it as key=value, for example --set clients=1,2"),
        ("=2", "write it as key=value"),
        ("archive.=2", "write it as key=value"),
        ("cleints=2", "unknown key 'cleints'; did you mean 'clients'?"),
        ("archive.cleints=2", "unknown key 'archive.cleints'; did you mean 'clients'?"),
        ("stop.second_max=2s", "unknown key 'stop.second_max'; did you mean 'seconds_max'?"),
        ("archive=2", "unknown key 'archive'\nkeys of [[sweep]] and their defaults: name (required), operation ("),
        ("seconds_min=2s", "unknown key 'seconds_min'; did you mean 'stop.seconds_min'?"),
        ("sizes=8KiB,1MiB", "unknown key 'sizes'; did you mean 'object_sizes'?"),
        ("retreive.clients=2", "no sweep 'retreive'; did you mean 'retrieve'?"),
        ("quick.clients=2", "no sweep 'quick'; known here: archive, archive-parallel"),
        ("a.b.c=2", "no sweep 'a'; known here"),
    ],
)
def test_invalid_override_is_refused_as_written(override: str, message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read_scenario("dr550", overrides=[override])
    assert f"--set {override}: " in str(refused.value)
    assert message in str(refused.value)


def test_all_invalid_overrides_are_reported_with_keys_and_defaults() -> None:
    with pytest.raises(ScenarioError) as refused:
        read_scenario("dr550", overrides=["cleints=2", "clients=2", "archive.colour=1", "stop.second_max=2s"])
    lines = str(refused.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "--set cleints=2", "--set archive.colour=1", "--set stop.second_max=2s",
        "keys of [[sweep]] and their defaults", "keys of the file and their defaults",
        "keys of stop and their defaults",
    ]  # fmt: skip
    assert "clients (required), locks (none)" in lines[3]
    assert "drift_check (false), load (false), stop.warm_up_sessions (1), stop.warm_up_seconds (0.5s)" in lines[3]
    assert "client_bytes_max (130MB), precision (0.05)" in lines[5]


@pytest.mark.parametrize(
    ("override", "sizes", "locks"),
    [
        ("object_sizes=8KiB, 64KiB", {8192, 65536}, {None}),
        ('object_sizes=["8KiB", 512]', {8192, 512}, {None}),
        ("object_sizes=512", {512}, {None}),
        ("archive.locks=none,header", {512, 8192}, {Lock.NONE, Lock.HEADER}),  # a key that the file does not have
        ("archive.locks=none", {512, 8192}, {Lock.NONE}),
    ],
)
def test_override_is_toml_value_or_plain_list(
    tmp_path: Path, override: str, sizes: set[int], locks: set[Lock | None]
) -> None:
    one = SMALL[: SMALL.rindex("[[sweep]]")]
    workloads = [phase.workloads[0] for phase in read_scenario(written(tmp_path, one), overrides=[override]).phases]
    assert {each.work.mean_bytes for each in workloads} == sizes
    assert {each.lock for each in workloads} == locks


def test_all_invalid_keys_of_a_file_are_reported(tmp_path: Path) -> None:
    text = (
        SMALL.replace("title", "tilte")
        .replace("clients = [1]\n", "colour = 1\n")
        .replace("sessions_min", "sesions_min")
    )
    with pytest.raises(ScenarioError) as refused:
        read_scenario(written(tmp_path, text))
    for message in (
        "unknown key 'tilte'", "missing required field `title`", "sweep 'archive': unknown key 'colour'",
        "sweep 'archive': Object missing required field `clients`", "stop: unknown key 'sesions_min'",
    ):  # fmt: skip
        assert message in str(refused.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("object_sizes=8KX", "unknown size unit 'KX'"),
        ("clients=many", "clients[0]: Expected `int`, got `str`"),
        ("clients=0", "clients: 0 is not possible"),
        ("stop.seconds_max=9", "a duration needs a unit"),
        ("retrieve.object_sizes=2MiB", "is archived by an earlier sweep, so there is nothing to retrieve"),
    ],
)
def test_override_is_validated_like_the_file(override: str, message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read_scenario("dr550", overrides=[override])
    assert str(refused.value).startswith("scenarios/dr550.toml: ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "hint"), [("dr50", "; did you mean dr550?"), ("absent/mine.toml", ", ".join(builtin_names()))]
)
def test_missing_scenario_is_refused_with_available_names(name: str, hint: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read_scenario(name)
    assert str(refused.value).startswith(
        f"no scenario {name!r}: neither a file nor one of {', '.join(builtin_names())}"
    )
    assert str(refused.value).endswith(hint)


def test_unreadable_scenario_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "mine.toml", tmp_path):
        with pytest.raises(ScenarioError, match="cannot be read"):
            read_scenario(str(path))


def test_scenario_error_is_usage_error_with_exit_status_2() -> None:
    assert issubclass(ScenarioError, UsageError)
    assert ScenarioError.exit_status == 2


def test_missing_stop_key_has_default(tmp_path: Path) -> None:
    text = SMALL.replace("precision = 0.05\n", "").replace('client_bytes_max = "1MB"\n', "")
    assert text.count("precision") == 0
    scenario = read_scenario(written(tmp_path, text))
    assert {stop.precision for stop in stops(scenario, "archive")} == {0.05}


CELL = """
name = "small"
title = "Small"

[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["8KiB"]
objects_per_session = [10]
"""


@pytest.mark.parametrize(
    ("clients", "key", "which"),
    [
        ("[1]", 'client_bytes_max = "1MB"', "several clients"),
        ("[2, 4]", "sessions_min = 2", "one client"),
        ("[2, 4]", 'seconds_max = "5s"', "one client"),
    ],
)
def test_stop_key_without_effect_is_refused_by_name(tmp_path: Path, clients: str, key: str, which: str) -> None:
    name = key.partition(" ")[0]
    path = written(tmp_path, f"{CELL}clients = {clients}\nstop = {{ {key} }}\n")
    with pytest.raises(ScenarioError, match=rf"'archive': stop\.{name} is for {which}, but this sweep has .*leave it"):
        read_scenario(path)
    path = written(tmp_path, f"{CELL}clients = {clients}\n")
    value = key.partition(" = ")[2].strip('"')
    with pytest.raises(ScenarioError, match=rf"--set archive\.stop\.{name}=.* is for {which}"):
        read_scenario(path, overrides=[f"archive.stop.{name}={value}"])


@pytest.mark.parametrize("key", ['warm_up_seconds = "1s"', "precision = 0.1", 'seconds_min = "1s"'])
def test_stop_key_that_applies_to_some_client_counts_is_accepted(tmp_path: Path, key: str) -> None:
    scenario = read_scenario(written(tmp_path, f"{CELL}clients = [1, 2]\nstop = {{ {key} }}\n"))
    assert len(scenario.phases) == 2
