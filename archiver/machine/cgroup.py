"""CPU quotas of cgroups, and the time for which a quota throttled their processes.

One idea: a quota applies to everything below it, so the tightest quota from a process's own group to the top counts.
Versions 1 and 2 may both be mounted. A quota that a version or a container does not show counts as no quota.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


def group_of(membership: str, mount: Path = MOUNT) -> Path:
    """Return the folder of the group that limits a process's CPU, from the text of its /proc/PID/cgroup.

    cgroups(7): "hierarchy-ID:controller-list:cgroup-path", version 2 without controllers. Only one version limits the
    CPU: version 1 if it has that controller.
    """
    paths = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path.strip("/")))
    if "cpu" in paths:
        return mount / "cpu" / paths["cpu"]
    whole = (mount / "cgroup.controllers").exists()  # otherwise it is next to version 1
    return (mount if whole else mount / "unified") / paths.get("", "")


def quota_cores(groups: Iterable[Path], mount: Path = MOUNT) -> float:
    """Return the number of cores that the processes of these groups may use in total; infinite without a quota.

    A group's quota limits the sum of the groups below it, so the deepest groups come first.
    """
    allowed = dict.fromkeys(groups, math.inf)
    while allowed:
        group = max(allowed, key=lambda folder: len(folder.parts))
        cores = min(allowed.pop(group), _own_quota_cores(group))
        if group == mount:
            return cores
        allowed[group.parent] = allowed.get(group.parent, 0.0) + cores
    return math.inf


def throttled_microseconds(group: Path) -> int | None:
    """Return the time for which the group's own quota throttled its processes, summed over cores; None if unknown.

    Version 2: "throttled_usec"; version 1: "throttled_time", in nanoseconds.
    """
    try:
        lines = (group / "cpu.stat").read_text().splitlines()
    except OSError:
        return None
    counts = dict(line.split(" ", 1) for line in lines if " " in line)
    if "throttled_usec" in counts:
        return int(counts["throttled_usec"])
    return int(counts["throttled_time"]) // 1000 if "throttled_time" in counts else None


def and_above(groups: Iterable[Path], mount: Path = MOUNT) -> set[Path]:
    """Return these groups and all groups above them."""
    return {folder for group in groups for folder in (group, *group.parents) if folder.is_relative_to(mount)}


def _own_quota_cores(group: Path) -> float:
    """Return the group's own quota in cores; infinite without one.

    Version 2: cpu.max, "$MAX $PERIOD" or "max $PERIOD"; version 1: two files of microseconds, -1 for no quota.
    """
    try:
        quota, period = (group / "cpu.max").read_text().split()
    except OSError:
        try:
            quota = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return math.inf
    return math.inf if quota in ("max", "-1") else int(quota) / int(period)
