"""Division of the cores between the client's workers and a server on the same host.

One idea: two hyper-threads of one physical core share its units, so client and server each get whole physical cores. If
a control group limits this process's CPU time, there are no more workers than that limit allows. The results say that
such a measurement is a comparison and not a capacity.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from archiver.machine import cgroup

_TOPOLOGY = Path("/sys/devices/system/cpu")
_MEMBERSHIP = Path("/proc/self/cgroup")


class Cores(NamedTuple):
    """Logical cores by number."""

    workers: list[int]  # one for each worker, first of different physical cores
    server: list[int]  # for a server on this host; empty: none, or it shares the workers' core


def cores_here(*, shares_host: bool) -> Cores:
    """Return the division of the cores that this process may use; see ``divide``."""
    usable = sorted(os.sched_getaffinity(0))
    quota_cores = _quota_cores(cgroup.MOUNT, _MEMBERSHIP)
    return divide(usable, _siblings(usable, _TOPOLOGY), quota_cores, shares_host=shares_host)


def divide(
    usable: Sequence[int], siblings: Mapping[int, frozenset[int]], quota_cores: float, *, shares_host: bool
) -> Cores:
    """Give the workers all cores, or half of them if a server ``shares_host``; at least one.

    ``siblings`` has the hyper-threads of each core's physical core. A single physical core is divided by its
    hyper-threads. ``quota_cores`` is the number of cores that client and server on this host may use in total, infinite
    without a quota. There is one worker for each whole core of the quota, or of the client's half of it.
    """
    physical = sorted({tuple(sorted(siblings[core].intersection(usable) | {core})) for core in usable})
    allowed = int(min(len(usable), quota_cores))
    if not shares_host:
        return Cores(_one_of_each(physical)[: max(1, allowed)], [])
    shared = physical if len(physical) > 1 else [(core,) for core in sorted(usable)]
    left = len(shared) - max(1, len(shared) // 2)
    return Cores(_one_of_each(shared[left:])[: max(1, allowed // 2)], sorted(chain(*shared[:left])))


def have_cores_of_their_own(workers: int, cores: Sequence[int]) -> bool:
    """Return whether each worker gets a physical core of these logical ``cores``, and at least one more is left."""
    siblings = _siblings(cores, _TOPOLOGY)
    return workers < len({min(siblings[core]) for core in cores})


def _one_of_each(physical: Sequence[Sequence[int]]) -> list[int]:
    """Return the first hyper-thread of every core, then the second of every core, and so on."""
    return [core for rank in zip_longest(*physical) for core in rank if core is not None]


def _siblings(usable: Sequence[int], topology: Path) -> dict[int, frozenset[int]]:
    """Return the hyper-threads of each core's physical core. A core without topology is a physical core."""
    found = {}
    for core in usable:
        try:
            found[core] = _listed((topology / f"cpu{core}" / "topology" / "thread_siblings_list").read_text())
        except (OSError, ValueError):
            found[core] = frozenset((core,))
    return found


def _listed(text: str) -> frozenset[int]:
    """Parse the kernel's list format: ``0-1,8``."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _quota_cores(mount: Path, membership: Path) -> float:
    """Return how many cores this process's control group may use; infinite without a quota."""
    try:
        return cgroup.quota_cores([cgroup.group_of(membership.read_text(), mount)], mount)
    except OSError:
        return math.inf
