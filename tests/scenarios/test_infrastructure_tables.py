"""Infrastructure operations in a scenario: the sizes of their sets, and how much they archive at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import ScenarioError
from archiver.values.retention import Lock
from scenarios.notation.sizes import SizesTable
from scenarios.notation.units import Seconds, SizeBytes
from scenarios.reading.reader import read_scenario
from scenarios.work.infrastructure import INSTANCES_MAX, Infrastructure, InfrastructureTable, infrastructure
from tests.scenarios.files import toml

CLONE, MIGRATION = "clone and deploy", "storage migration"
SIZES = SizesTable(histogram={"1KiB": 3, "8KiB": 1})


def made(
    kind: Any = CLONE, capacity: int = 1_000_000, *, scale: float = 1.0, trace_seconds: float = 60.0, **table: Any
) -> Any:
    table = {"sizes": SIZES, "minimum_per_hour": 6.0, **table}
    asked = InfrastructureTable(kind=kind, capacity=SizeBytes(capacity), **table)
    return infrastructure(asked, "beside", scale, trace_seconds)


@given(
    capacity=st.integers(1, 10**7),
    scale=st.floats(0.001, 1.0),
    kind=st.sampled_from([CLONE, MIGRATION]),
    instances=st.integers(1, 20),
    share=st.floats(0.01, 1.0),
)
def test_bounds_equal_objects_that_instances_make(
    capacity: int, scale: float, kind: Any, instances: int, share: float
) -> None:
    what: Infrastructure = made(kind, capacity, scale=scale, instances_max=instances, upgrade_share=share)
    sizes = [what.size_of(place) for place in range(what.objects)]
    assert set(sizes) == set(what.object_sizes) <= {1024, 8192}
    assert sum(sizes) == what.set_bytes >= capacity * scale
    assert what.objects <= 3 or sum(sizes[:-1]) < capacity * scale
    parts = [what.places(part) for part in ("held", "locked", "unlocked")]
    for part in what.parts:
        objects, size_bytes = what.preparing(part).archived_anywhere_max
        assert (objects, size_bytes) == (len(what.places(part)), sum(sizes[place] for place in what.places(part)))
    if kind == MIGRATION:
        assert [*parts[0], *parts[1], *parts[2]] == list(range(what.objects))
        assert max(map(len, parts)) - min(map(len, parts)) <= 2
        unlocked = [sizes[place] for place in parts[2]]
        assert what.archived_own_max == (instances * len(unlocked), instances * sum(unlocked))
        assert what.archived_second_max == (instances * what.objects, instances * sum(sizes))
        assert (what.own_numbers, what.second_numbers) == (instances * len(unlocked), instances * what.objects)
    else:
        assert list(parts[1]) == list(range(what.objects))
        assert 1 <= what.upgrades <= what.objects
        upgrades = sizes[: what.upgrades]
        assert what.archived_anywhere_max == (instances * len(sizes + upgrades), instances * sum(sizes + upgrades))
        assert (what.own_numbers, what.second_numbers) == (instances * what.objects, 0)


def test_operations_and_locks_follow_from_kind() -> None:
    clone, migration = made(), made(MIGRATION)
    assert clone.does == {"copy", "retrieve", "new-version", "delete"}
    assert migration.does == {"archive", "copy", "audit", "delete"}
    assert (clone.lock, clone.locks_with(None)) == (Lock.NONE, {Lock.NONE})
    assert (migration.lock, migration.locks_with(None)) == (Lock.NONE, {None, Lock.NONE, Lock.HEADER_AND_HOLD})
    assert (clone.parts, migration.parts) == (("locked",), ("held", "locked"))
    held, locked = migration.preparing("held"), migration.preparing("locked")
    assert (held.lock, held.locks_with(None), held.does) == (Lock.HEADER_AND_HOLD, {Lock.HEADER_AND_HOLD}, {"archive"})
    assert (locked.lock, locked.locks_with(None)) == (None, {None})


def test_instances_max_grows_with_time_and_for_small_sets() -> None:
    large = made(capacity=15 * 10**9, sizes="1MiB", trace_seconds=3600.0)
    assert large.instances_max == 12
    assert made(capacity=15 * 10**9, sizes="1MiB", trace_seconds=10.0).instances_max == 1
    assert made(capacity=1000).instances_max == INSTANCES_MAX
    some = made(capacity=15 * 10**9, scale=1e-3, sizes="1MiB", trace_seconds=60.0)
    assert some.instances_max == 112  # a set has 17 objects
    assert made(instances_max=7).instances_max == 7


def test_infrastructure_without_seconds_lasts_as_long_as_traces() -> None:
    large = made(capacity=15 * 10**9, sizes="1MiB")
    assert large.instances_max == 1
    assert (large.lasting(3600.0).seconds, large.lasting(3600.0).instances_max) == (3600.0, 12)
    bounded = made(instances_max=7).lasting(3600.0)
    assert (bounded.seconds, bounded.instances_max) == (3600.0, 7)
    asked = InfrastructureTable(
        kind="clone and deploy", capacity=SizeBytes(1000), minimum_per_hour=6.0, seconds=Seconds(30)
    )
    assert infrastructure(asked, "beside", 1.0, 60.0).lasting(3600.0).seconds == 30.0


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"minimum_per_hour": 0.0}, "minimum_per_hour: 0 is not possible; write more than 0, at most 3,600"),
        ({"minimum_per_hour": float("nan")}, "minimum_per_hour: nan"),
        ({"upgrade_share": 0.0}, "upgrade_share: 0 is not possible"),
        ({"upgrade_share": 1.5}, "upgrade_share: 1.5 is not possible"),
        ({"clients": 0}, "clients: 0 is not possible; write 1 to 64"),
        ({"instances_max": 0}, "instances_max: 0 is not possible; write 1 to 1,000"),
        ({"capacity": 0}, "capacity: 0 is not possible; write at least 1B"),
        ({"capacity": 10**13}, "too many for one set"),
        ({"sizes": "1GiB"}, "an object must have 1 byte to 64MiB"),
        ({"sizes": "0"}, "beside"),
        ({"sizes": "many"}, "beside"),
        ({"sizes": SizesTable()}, "sizes is one size"),
        ({"seconds": Seconds(0)}, "seconds: 0s is not possible; write more than 0s"),
    ],
)
def test_invalid_infrastructure_values_are_refused_with_name(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        made(**table)
    assert str(refused.value).startswith("beside: ")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("replay", "kinds", "twice"),
    [
        ("web", (CLONE, MIGRATION), None),
        ("web", (CLONE, CLONE), CLONE),
        (CLONE, (CLONE,), CLONE),
        (f"{MIGRATION}: held", (MIGRATION,), f"{MIGRATION}: held"),
    ],
)
def test_two_workloads_of_a_replay_with_one_name_are_refused(
    tmp_path: Path, replay: str, kinds: tuple[str, ...], twice: str | None
) -> None:
    """The database has one row for each name, and a run would fail only after everything was archived."""
    operations = [{"kind": kind, "capacity": "10MB", "minimum_per_hour": 6} for kind in kinds]
    phase = {"name": "sets", "replay": [{"name": replay, "trace": "web.csv"}], "infrastructure": operations}
    file = tmp_path / "mine.toml"
    file.write_text(toml({"name": "mine", "title": "Mine", "phase": [phase]}))
    if twice is None:
        assert len(read_scenario(str(file)).phases) == 2
        return
    with pytest.raises(ScenarioError) as refused:
        read_scenario(str(file))
    assert f"phase 'sets': two workloads are called '{twice}'; write each kind of" in str(refused.value)
