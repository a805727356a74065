"""What cgroups let processes use of the CPU: their quotas, and for how long a quota kept them waiting.

One idea: a quota holds for everything beneath it, so every group from a process's own up to the top is asked, and the
tightest counts. Versions 1 and 2 may both be mounted; what a version or a container does not show is no quota.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


def group_of(membership: str, mount: Path = MOUNT) -> Path:
    """The folder of the group that bounds a process's CPU, from the text of its /proc/PID/cgroup.

    cgroups(7): "hierarchy-ID:controller-list:cgroup-path", version 2 without controllers. The CPU is bounded by one
    version only, and by version 1 where that has it.
    """
    paths = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path.strip("/")))
    if "cpu" in paths:
        return mount / "cpu" / paths["cpu"]
    whole = (mount / "cgroup.controllers").exists()  # else beside version 1, for other controllers
    return (mount if whole else mount / "unified") / paths.get("", "")


def quota_cores(groups: Iterable[Path], mount: Path = MOUNT) -> float:
    """How many cores processes of these groups may use together; infinite without a quota.

    What the groups beneath one may use adds up, and is bounded by its own quota; so the deepest are taken first.
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
    """For how long processes of one group waited for its own quota, all cores together; None where it is not told.

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
    """These groups and all that hold them."""
    return {folder for group in groups for folder in (group, *group.parents) if folder.is_relative_to(mount)}


def _own_quota_cores(group: Path) -> float:
    """Version 2: cpu.max, "$MAX $PERIOD" or "max $PERIOD"; version 1: two files of microseconds, -1 for no quota."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
    except OSError:
        try:
            quota = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return math.inf
    return math.inf if quota in ("max", "-1") else int(quota) / int(period)
