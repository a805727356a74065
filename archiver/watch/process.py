"""Processes of this host with all their descendants, from /proc: CPU by thread, memory, I/O, limits.

One idea: a tree's counters never fall. Linux adds CPU time and I/O of a process that has ended to its parent when the
parent waits for it. The sums then contain these values through the parent. For other ended processes the sums keep the
last values. All counters are integers, because a sum of fractions can fall by rounding.

Descendants are searched only every few reads. A child that lives only between two searches is counted when its parent
waits for it, except its context switches. Memory that processes share is counted for each of them.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from archiver.machine import cgroup
from archiver.values.errors import UsageError
from archiver.watch.source import Source, WatchError
from results.recorded.resources import Reading

READS_PER_SEARCH = 10  # a search reads the whole process table, so it is not done at every read

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_HAS_SCHEDSTAT = os.path.exists("/proc/self/schedstat")
_FILE_BYTES_MAX = 65536  # all files read here are shorter


@dataclass(frozen=True, slots=True)
class _Stat:
    """The fields of /proc/PID/stat: proc_pid_stat(5)."""

    command: str
    has_ended: bool  # a zombie
    parent: int
    own_ticks: int  # user and system, including ended threads
    waited_ticks: int  # of descendants that were waited for
    started: int  # ticks since boot; identifies a process together with its pid
    resident_pages: int

    @property
    def cpu_ticks(self) -> int:
        return self.own_ticks + self.waited_ticks


class _Thread(NamedTuple):
    """One thread at one read."""

    cpu_ticks: int
    switches: int
    wait_nanoseconds: int | None  # ready to run without a core; None: the kernel does not report it


@dataclass(frozen=True, slots=True)
class _Process:
    """One process at one read."""

    stat: _Stat
    read_write_bytes: tuple[int, int]  # last known values
    shows_bytes: bool  # False: not allowed for this user, or not counted by this kernel
    open_files: int | None
    threads: Mapping[int, _Thread]


class _Sum:
    """A sum of counters that never falls: the value of an ended or restarted counter stays in the sum."""

    def __init__(self) -> None:
        self._ended = 0
        self._last: Mapping[Any, int] = {}

    def total(self, values: Mapping[Any, int], elsewhere: frozenset[int] = frozenset()) -> int:
        """Return the current sum. Values of processes that ended ``elsewhere`` are part of other values."""
        for key, last in self._last.items():
            if key not in elsewhere and values.get(key, -1) < last:
                self._ended += last
        self._last = values
        return self._ended + sum(values.values())


class ProcessSource(Source):
    """One process, or all processes of one name, each with its descendants."""

    def __init__(self, name: str, processes: Mapping[int, _Process], program: str | None, cgroups: Path) -> None:
        self.name = name
        self._commands = {pid: process.stat.command for pid, process in processes.items()}
        self._processes = dict(processes)
        self._program = program
        self._cgroups = cgroups
        self._reads = 0
        self._limit_cores = 0.0
        self._throttling: list[Path] = []  # groups that report how long their quota throttled processes
        self._cpu, self._read, self._written, self._switches, self._throttled = (_Sum() for _ in range(5))

    @classmethod
    def of_pid(cls, pid: int, cgroups: Path = cgroup.MOUNT) -> Self:
        """Watch this process, but no later process with its number. Raises UsageError if it does not run."""
        process = _look(pid)
        if process is None or process.stat.has_ended:
            raise UsageError(f"pid:{pid}: no such process runs on this machine that this user may see; look with ps -e")
        return cls(f"pid:{pid}", {pid: process}, None, cgroups)

    @classmethod
    def of_name(cls, program: str, cgroups: Path = cgroup.MOUNT) -> Self:
        """Watch every process whose executable or first command word has this name, including later ones."""
        return cls(f"name:{program}", {}, program, cgroups)

    def read(self) -> Reading:
        before = self._processes
        try:
            searching = self._reads % READS_PER_SEARCH == 0
            now = _look_at_all(self._search() if searching else list(before), before)
            if searching:
                self._find_limits(now)
        except OSError as failed:
            raise WatchError(
                f"{self.name}: /proc cannot be read ({failed}); correct that, or do not watch it"
            ) from failed
        self._reads += 1
        self._processes = now
        reading = self._reading(now, _handed_up(before, now))  # also without processes, to count the ended ones
        self._refuse_what_has_ended(now)
        return reading

    def _search(self) -> list[int]:
        """Return the known processes, the processes of the name, and their descendants, but never this process."""
        pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
        table = {pid: stat for pid in pids if pid != os.getpid() and (stat := _stat(pid)) is not None}
        children: dict[int, list[int]] = {}
        for pid, stat in table.items():
            children.setdefault(stat.parent, []).append(pid)
        workers = {worker.pid for worker in multiprocessing.active_children()}  # the client's workers are not servers
        named = [
            pid for pid in table if self._program is not None and pid not in workers and self._program in _names(pid)
        ]
        waiting, found = [*self._processes, *named], set[int]()
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting += children.get(pid, ())
        return list(found)

    def _find_limits(self, processes: Mapping[int, _Process]) -> None:
        """Find the tree's CPU limits: the union of the threads' affinity masks, and the cgroups' quotas."""
        cores: set[int] = set()
        groups: set[Path] = set()
        for pid, process in processes.items():
            try:
                for thread in process.threads:
                    cores |= os.sched_getaffinity(thread)
                groups.add(cgroup.group_of(_text(f"/proc/{pid}/cgroup"), self._cgroups))
            except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                continue
        self._limit_cores = min(len(cores), cgroup.quota_cores(groups, self._cgroups))
        above = cgroup.and_above(groups, self._cgroups)
        self._throttling = [group for group in above if cgroup.throttled_microseconds(group) is not None]

    def _reading(self, processes: Mapping[int, _Process], handed_up: frozenset[int]) -> Reading:
        """Return the reading. Every sum gets every process, even if the reading lacks it, to notice each end."""
        everyone = processes.items()
        cpu_ticks = self._cpu.total({pid: process.stat.cpu_ticks for pid, process in everyone}, handed_up)
        read = self._read.total({pid: process.read_write_bytes[0] for pid, process in everyone}, handed_up)
        written = self._written.total({pid: process.read_write_bytes[1] for pid, process in everyone}, handed_up)
        switches = self._switches.total(
            {(pid, number): thread.switches for pid, process in everyone for number, thread in process.threads.items()}
        )
        throttled = {group: count for group in self._throttling if (count := cgroup.throttled_microseconds(group))}
        files = [process.open_files for process in processes.values() if process.open_files is not None]
        reading: dict[str, dict[str, float]] = {
            "process_cpu_seconds": {"": cpu_ticks / _TICKS_PER_SECOND},
            "thread_cpu_seconds": {
                f"{pid}/{number}": thread.cpu_ticks / _TICKS_PER_SECOND
                for pid, process in everyone
                for number, thread in process.threads.items()
            },
            "thread_wait_seconds": {
                f"{pid}/{number}": thread.wait_nanoseconds / 1e9
                for pid, process in everyone
                for number, thread in process.threads.items()
                if thread.wait_nanoseconds is not None
            },
            "process_context_switches": {"": switches},
            "process_resident_bytes": {
                "": sum(process.stat.resident_pages for process in processes.values()) * _PAGE_BYTES
            },
        }
        if self._limit_cores:
            reading["process_cpu_limit_cores"] = {"": self._limit_cores}
        if self._throttling:
            reading["process_throttled_seconds"] = {"": self._throttled.total(throttled) / 1e6}
        # A value that one process does not report is unknown for the tree.
        if all(process.shows_bytes for process in processes.values()):
            reading |= {"process_read_bytes": {"": read}, "process_write_bytes": {"": written}}
        if len(files) == len(processes):
            reading["process_open_files"] = {"": sum(files)}
        return reading

    def _refuse_what_has_ended(self, processes: Mapping[int, _Process]) -> None:
        running = {pid for pid, process in processes.items() if not process.stat.has_ended}
        for pid, command in self._commands.items():
            if pid not in running:
                raise WatchError(
                    f"{self.name}: process {pid} ({command}) has ended; watch it by name to outlast restarts"
                )
        if not running:
            raise WatchError(f"{self.name}: no process of this name runs on this machine; start it, or watch pid:N")


def _look_at_all(pids: list[int], before: Mapping[int, _Process]) -> dict[int, _Process]:
    """Return the current processes. The parent of an ended child is read after the child was found to be gone.

    Otherwise the source could read a parent before it gets a child's counters, and find the child gone afterwards.
    """
    while True:
        now = {pid: process for pid in pids if (process := _look(pid, before.get(pid))) is not None}
        running = [pid for pid in now if (stat := _stat(pid)) is not None and stat.started == now[pid].stat.started]
        if len(running) == len(pids):
            return now
        pids = running


def _handed_up(before: Mapping[int, _Process], now: Mapping[int, _Process]) -> frozenset[int]:
    """Return ended processes whose counters are part of an ancestor's, because their parents waited for them.

    The evidence is that the ancestor's counters of waited-for children grew by at least the values of each. A parent
    that ignores SIGCHLD gets nothing: wait(2), getrusage(2).
    """
    room = {
        pid: process.stat.waited_ticks - before[pid].stat.waited_ticks for pid, process in now.items() if pid in before
    }
    found = set()
    # Oldest first: a parent passes on its children's counters with its own.
    for pid in sorted(before.keys() - now.keys(), key=lambda ended: (before[ended].stat.started, ended)):
        ended = before[pid].stat
        ancestor = ended.parent
        while ancestor in before and ancestor not in now:
            ancestor = before[ancestor].stat.parent
        if room.get(ancestor, -1) >= ended.cpu_ticks:
            room[ancestor] -= ended.cpu_ticks
            found.add(pid)
    return frozenset(found)


def _look(pid: int, before: _Process | None = None) -> _Process | None:
    """Read a process; None if it is gone or its number belongs to another process."""
    stat = _stat(pid)
    if stat is None or (before is not None and before.stat.started != stat.started):
        return None
    last_bytes = before.read_write_bytes if before is not None else (0, 0)
    if stat.has_ended:  # then only its parent has newer values
        return _Process(stat, last_bytes, True, 0, {})
    try:
        # Only root can read these values of a process that is about to end.
        found = _read_write_bytes(pid)
        return _Process(stat, found or last_bytes, found is not None, _open_files(pid), dict(_threads(pid)))
    except (FileNotFoundError, ProcessLookupError):
        return None


def _stat(pid: int) -> _Stat | None:
    """Read the fields of /proc/PID/stat; None if the process is gone or hidden from this user."""
    try:
        text = _text(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    before, _, after = text.rpartition(")")  # a command may contain any character
    fields = after.split()
    # If the first thread has ended and others run, the process only looks like a zombie.
    has_ended = fields[0] in "ZX" and int(fields[17]) <= 1
    own, waited = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    command = before.partition("(")[2]
    return _Stat(command, has_ended, int(fields[1]), own, waited, int(fields[19]), int(fields[21]))


def _threads(pid: int) -> Iterator[tuple[int, _Thread]]:
    """Yield every thread; skip one that ends meanwhile."""
    for entry in os.listdir(f"/proc/{pid}/task"):
        try:
            fields = _text(f"/proc/{pid}/task/{entry}/stat").rpartition(")")[2].split()
            status = _text(f"/proc/{pid}/task/{entry}/status")
            waited = int(_text(f"/proc/{pid}/task/{entry}/schedstat").split()[1]) if _HAS_SCHEDSTAT else None
        except (FileNotFoundError, ProcessLookupError):
            continue
        # Two adjacent lines, voluntary_ctxt_switches and nonvoluntary_ctxt_switches, of this thread only.
        switches = status[status.index("voluntary_ctxt_switches:") :].split()
        yield int(entry), _Thread(int(fields[11]) + int(fields[12]), int(switches[1]) + int(switches[3]), waited)


def _read_write_bytes(pid: int) -> tuple[int, int] | None:
    """Return the storage bytes of the process and its waited-for children: read and written; None if hidden."""
    try:
        counts = dict(line.split(": ") for line in _text(f"/proc/{pid}/io").splitlines())
    except (PermissionError, FileNotFoundError):
        return None
    return int(counts["read_bytes"]), int(counts["write_bytes"])


def _open_files(pid: int) -> int | None:
    """Return the number of open descriptors. Since Linux 6.2 it is the folder's size, without listing thousands."""
    folder = f"/proc/{pid}/fd"
    try:
        return os.stat(folder).st_size or len(os.listdir(folder))
    except PermissionError:
        return None


def _names(pid: int) -> set[str]:
    """Return the executable and the first word of the command, without folders."""
    names = set()
    try:
        names.add(os.path.basename(_text(f"/proc/{pid}/cmdline").partition("\0")[0]))
        names.add(os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")))
    except OSError:  # it has ended, or belongs to another user
        pass
    return names


def _text(path: str) -> str:
    """Read a file of /proc in one call, in two thirds of the time of open(). Every thread has two such files."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _FILE_BYTES_MAX).decode("utf-8", "replace")
    finally:
        os.close(descriptor)
