"""Test CPU quotas of cgroups, on folders laid out as by both versions of cgroups."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from archiver.machine import cgroup


def lay_out(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def cores(mount: Path, *memberships: str) -> float:
    return cgroup.quota_cores([cgroup.group_of(text, mount) for text in memberships], mount)


VERSION_1 = "9:name=systemd:/\n4:cpu,cpuacct:/{0}\n3:cpuset:/other\n0::/elsewhere\n"
VERSION_2 = "0::/{0}\n"


@pytest.mark.parametrize(
    ("quotas", "members", "limit"),
    [
        ({"a": "150000 100000"}, ["a/b"], 1.5),  # quota of the parent group
        ({"a": "200000 100000", "a/b": "50000 100000"}, ["a/b"], 0.5),
        ({"a": "50000 100000", "a/b": "200000 100000"}, ["a/b"], 0.5),
        ({"a": "max 100000", "a/b": "25000 50000"}, ["a/b"], 0.5),
        ({"a": "max 100000"}, ["a/b"], math.inf),
        ({}, [""], math.inf),
        ({"a/b": "100000 100000", "a/c": "200000 100000"}, ["a/b", "a/c"], 3),  # quotas of two containers are added
        ({"a": "250000 100000", "a/b": "100000 100000", "a/c": "200000 100000"}, ["a/b", "a/c"], 2.5),
        ({"a/b": "100000 100000"}, ["a/b", "a/b"], 1),  # both processes are in one group
        ({"a/b": "100000 100000"}, ["a/b", "a"], math.inf),  # one process is outside the group
        ({"": "100000 100000"}, ["a/b", "c"], 1),  # a container sees its own group as the root
        ({"": "100000 100000"}, ["../../away"], 1),  # and the group of another container like this
    ],
)
def test_smallest_quota_of_group_and_ancestors_applies(
    tmp_path: Path, quotas: dict[str, str], members: list[str], limit: float
) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    lay_out(two, {"cgroup.controllers": "cpu"})
    for group, text in quotas.items():
        lay_out(two / group, {"cpu.max": text})
        quota, period = text.split()
        lay_out(one / "cpu" / group, {"cpu.cfs_quota_us": quota.replace("max", "-1"), "cpu.cfs_period_us": period})
    assert cores(two, *(VERSION_2.format(member) for member in members)) == limit
    assert cores(one, *(VERSION_1.format(member) for member in members)) == limit


def test_cgroup_v2_in_hybrid_mode_is_in_the_unified_folder(tmp_path: Path) -> None:
    assert cgroup.group_of("4:memory:/m\n0::/a\n", tmp_path) == tmp_path / "unified" / "a"


def test_quota_is_infinite_without_cgroups(tmp_path: Path) -> None:
    assert cores(tmp_path / "nowhere", "0::/a/b\n") == math.inf
    assert cores(tmp_path / "nowhere", "") == math.inf


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("usage_usec 7\nnr_throttled 3\nthrottled_usec 2500\n", 2500),
        ("nr_periods 9\nnr_throttled 3\nthrottled_time 2500000\n", 2500),
        ("usage_usec 7\n", None),  # the root group of version 2
        ("", None),
    ],
)
def test_throttled_time_is_read_from_both_cgroup_versions(tmp_path: Path, text: str, microseconds: int | None) -> None:
    lay_out(tmp_path, {"cpu.stat": text})
    assert cgroup.throttled_microseconds(tmp_path) == microseconds


def test_missing_group_has_no_throttled_time(tmp_path: Path) -> None:
    assert cgroup.throttled_microseconds(tmp_path / "gone") is None
