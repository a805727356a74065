"""Test which cores workers use: whole physical cores, and no more than the CPU quota allows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from archiver.machine import cgroup, cores
from archiver.machine.cores import Cores, cores_here, divide

FOUR = range(4)


def threads(*cores: Iterable[int]) -> dict[int, frozenset[int]]:
    """Return the siblings of each hyper-thread, from the threads of each physical core."""
    return {thread: frozenset(core) for core in cores for thread in core}


ALONE = threads(*((core,) for core in range(64)))  # no hyper-threads
NEIGHBOURS = threads((0, 1), (2, 3), (4, 5), (6, 7))  # numbering of AMD and of virtual machines
HALVES = threads((0, 4), (1, 5), (2, 6), (3, 7))  # numbering of Intel


@pytest.mark.parametrize(
    ("usable", "siblings", "workers", "server"),
    [
        ([0], ALONE, [0], []),
        ([0, 1], ALONE, [1], [0]),
        ([0, 1, 2], ALONE, [2], [0, 1]),
        ([5, 9, 11, 40], ALONE, [11, 40], [5, 9]),
        (FOUR, NEIGHBOURS, [2, 3], [0, 1]),
        ([0, 1, 4, 5], HALVES, [1, 5], [0, 4]),  # taking 4 and 5 would split both cores
        (range(8), HALVES, [2, 3, 6, 7], [0, 1, 4, 5]),  # two workers use two cores
        (range(6), NEIGHBOURS, [4, 5], [0, 1, 2, 3]),
        ([0, 1, 2], NEIGHBOURS, [2], [0, 1]),  # only one thread of the second core is usable
        ([0, 1], NEIGHBOURS, [1], [0]),  # a single physical core must be shared
    ],
)
def test_client_and_server_on_one_host_get_whole_physical_cores(
    usable: Iterable[int], siblings: Mapping[int, frozenset[int]], workers: list[int], server: list[int]
) -> None:
    assert divide(list(usable), siblings, math.inf, shares_host=True) == Cores(workers, server)


def test_client_on_its_own_host_gets_all_cores() -> None:
    assert divide(range(4), ALONE, math.inf, shares_host=False) == Cores([0, 1, 2, 3], [])
    assert sorted(divide(range(8), HALVES, math.inf, shares_host=False).workers) == list(range(8))


@pytest.mark.parametrize(
    ("quota", "by_itself", "beside_a_server"),
    [(0.5, 1, 1), (1.0, 1, 1), (2.0, 2, 1), (2.9, 2, 1), (4.0, 4, 2), (7.99, 7, 3), (100.0, 8, 4)],
)
def test_worker_count_is_limited_to_whole_cores_of_the_quota(
    quota: float, by_itself: int, beside_a_server: int
) -> None:
    assert len(divide(range(8), HALVES, quota, shares_host=False).workers) == by_itself
    found = divide(range(8), HALVES, quota, shares_host=True)
    assert len(found.workers) == beside_a_server
    assert found.server == [0, 1, 4, 5]  # unused threads of the client are not given to the server


def test_few_workers_are_on_different_physical_cores() -> None:
    assert divide(range(8), NEIGHBOURS, 4.0, shares_host=True).workers == [4, 6]
    assert divide(range(8), NEIGHBOURS, 4.0, shares_host=False).workers == [0, 2, 4, 6]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of four hyper-threads on two cores, as files of the kernel."""
    for core, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / "cpu" / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    (tmp_path / "cgroup").mkdir()
    monkeypatch.setattr(cores, "_TOPOLOGY", tmp_path / "cpu")
    monkeypatch.setattr(cores, "_MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(cgroup, "MOUNT", tmp_path / "cgroup")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(4)))
    return tmp_path


def test_hyper_threads_are_read_from_the_kernel(machine: Path) -> None:
    assert cores_here(shares_host=True) == Cores([1, 3], [0, 2])
    lists = sorted((machine / "cpu").rglob("thread_siblings_list"))
    for path, siblings in zip(lists, ("0-1", "0-1", "2-3", "2-3"), strict=True):
        path.write_text(f"{siblings}\n")
    assert cores_here(shares_host=True) == Cores([2, 3], [0, 1])
    for path in lists[2:]:
        path.unlink()
    assert cores_here(shares_host=True) == Cores([3], [0, 1, 2])  # no siblings known for 2 and 3: three cores


def test_cpu_quota_is_read_from_cgroup_version_2(machine: Path) -> None:
    mount = machine / "cgroup"
    (mount / "cgroup.controllers").write_text("cpu\n")
    (machine / "membership").write_text("0::/service/client\n")
    assert len(cores_here(shares_host=False).workers) == 4
    (mount / "service" / "client").mkdir(parents=True)
    (mount / "service" / "client" / "cpu.max").write_text("max 100000\n")
    (mount / "service" / "cpu.max").write_text("250000 100000\n")  # the parent group limits it
    assert len(cores_here(shares_host=False).workers) == 2


def test_cpu_quota_is_read_from_cgroup_version_1(machine: Path) -> None:
    group = machine / "cgroup" / "cpu" / "docker" / "1"
    group.mkdir(parents=True)
    (machine / "membership").write_text("3:memory:/docker/1\n2:cpu,cpuacct:/docker/1\n1:name=systemd:/\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    (group / "cpu.cfs_quota_us").write_text("-1\n")
    assert len(cores_here(shares_host=False).workers) == 4
    (group / "cpu.cfs_quota_us").write_text("350000\n")
    assert len(cores_here(shares_host=False).workers) == 3
