"""Test process trees as a source, on real processes: work is counted once, also after processes end."""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archiver.machine import cgroup
from archiver.machine.description import disks_under
from archiver.values.errors import UsageError
from archiver.watch import process
from archiver.watch.process import READS_PER_SEARCH, ProcessSource
from archiver.watch.source import WatchError
from results.recorded.resources import QUANTITIES, Reading
from tests.support.waiting import wait_until

BEGINNING = """
import json, os, signal, sys, threading, time
def burn(seconds):
    done = time.thread_time() + seconds
    while time.thread_time() < done: pass
def tell(*values): print(json.dumps(values), flush=True)
def wait(): return sys.stdin.readline()
"""
TICK = 0.02  # two counters, each truncated to hundredths of a second


class Child:
    """A Python process that prints its results line by line and waits for permission to continue."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen
        self.pid = popen.pid

    def told(self) -> list[Any]:
        assert self.popen.stdout is not None
        values: list[Any] = json.loads(self.popen.stdout.readline())
        return values

    def has_told(self) -> bool:
        assert self.popen.stdout is not None
        return bool(select.select([self.popen.stdout], [], [], 0)[0])

    def go_on(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def end(self) -> None:
        """Kill the process and every process that it started."""
        if self.popen.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.popen.wait()


@contextmanager
def running(code: str, *arguments: object, name: str = "python") -> Iterator[Child]:
    with subprocess.Popen(
        [name, "-I", "-S", "-c", BEGINNING + code, *map(str, arguments)], executable=sys.executable,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as popen:  # fmt: skip
        child = Child(popen)
        try:
            yield child
        finally:
            child.end()


def only(reading: Reading, quantity: str) -> float:
    assert list(reading[quantity]) == [""]
    return reading[quantity][""]


def cpu(source: ProcessSource) -> float:
    return only(source.read(), "process_cpu_seconds")


def searched(source: ProcessSource) -> Reading:
    """Return the reading after a new search for descendants."""
    return [source.read() for _ in range(READS_PER_SEARCH)][-1]


def test_process_reading_uses_known_quantities() -> None:
    with running("tell(); wait()") as child:
        child.told()
        reading = ProcessSource.of_pid(child.pid).read()
    assert set(reading) <= set(QUANTITIES)
    assert {"process_cpu_seconds", "process_cpu_limit_cores", "process_resident_bytes", "process_open_files"} <= set(
        reading
    )


def test_used_cpu_time_is_counted() -> None:
    with running("wait(); burn(0.3); tell(time.process_time()); wait()") as child:
        source = ProcessSource.of_pid(child.pid)
        before = cpu(source)
        child.go_on()
        [burnt] = child.told()
        assert cpu(source) == pytest.approx(burnt, abs=3 * TICK)
        assert cpu(source) - before >= 0.3 - TICK


def test_threads_are_listed_and_ended_thread_counts_in_total() -> None:
    code = """
busy = threading.Thread(target=lambda: (burn(0.2), tell(busy.native_id), wait()))
busy.start()
busy.join()
tell(time.process_time())
wait()
"""
    with running(code) as child:
        [busy] = child.told()
        source = ProcessSource.of_pid(child.pid)
        threads = source.read()["thread_cpu_seconds"]
        assert set(threads) == {f"{child.pid}/{child.pid}", f"{child.pid}/{busy}"}
        assert threads[f"{child.pid}/{busy}"] >= 0.2 - TICK
        assert threads[f"{child.pid}/{child.pid}"] < 0.2 - TICK
        child.go_on()
        [burnt] = child.told()
        wait_until(
            lambda: list(source.read()["thread_cpu_seconds"]) == [f"{child.pid}/{child.pid}"],
            "reading without the thread",
        )
        assert cpu(source) == pytest.approx(burnt, abs=3 * TICK)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not tell how long threads wait")
def test_time_of_threads_waiting_for_a_core_is_counted() -> None:
    code = """
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])  # one core for both
tell(0)
wait()
if os.fork() == 0:  # another process, as threads of this one wait for each other's lock
    burn(0.3)
    os._exit(0)
burn(0.3)
os.wait()
tell(0)
wait()
"""
    with running(code) as child:
        child.told()
        source = ProcessSource.of_pid(child.pid)
        before = source.read()["thread_wait_seconds"][f"{child.pid}/{child.pid}"]
        child.go_on()
        child.told()
        after = source.read()["thread_wait_seconds"][f"{child.pid}/{child.pid}"]
        assert after - before > 0.1


def test_context_switches_of_running_and_ended_threads_are_counted() -> None:
    code = """
def often():
    for _ in range(200): time.sleep(0.0001)
    tell()
    wait()
wait()
thread = threading.Thread(target=often)
thread.start()
thread.join()
tell()
wait()
"""
    with running(code) as child:
        source = ProcessSource.of_pid(child.pid)
        before = only(source.read(), "process_context_switches")
        child.go_on()
        child.told()
        after = only(source.read(), "process_context_switches")
        assert after - before >= 200
        child.go_on()
        child.told()
        assert only(source.read(), "process_context_switches") >= after


def test_memory_and_open_files_are_counted() -> None:
    code = """
tell()
wait()
kept = bytearray(b"x" * (32 << 20)), [open("/dev/null") for _ in range(50)]
tell()
wait()
"""
    with running(code) as child:
        child.told()
        source = ProcessSource.of_pid(child.pid)
        before = source.read()
        child.go_on()
        child.told()
        after = source.read()
    assert only(after, "process_resident_bytes") - only(before, "process_resident_bytes") >= 30 << 20
    assert only(after, "process_open_files") - only(before, "process_open_files") == 50


def test_open_files_are_listed_if_the_descriptor_folder_has_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    with running("tell(); wait()") as child:
        child.told()
        counted = only(ProcessSource.of_pid(child.pid).read(), "process_open_files")
        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", lambda path: os.stat_result((0,) * 10))
            listed = only(ProcessSource.of_pid(child.pid).read(), "process_open_files")
    assert listed == counted == 3


def test_written_and_read_bytes_are_counted(tmp_path: Path) -> None:
    if not disks_under(tmp_path):
        pytest.skip(f"{tmp_path} is on no disk")
    code = """
wait()
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(file, b"x" * (1 << 20))
os.fsync(file)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
os.pread(file, 1 << 20, 0)
tell()
wait()
"""
    with running(code, tmp_path / "file") as child:
        source = ProcessSource.of_pid(child.pid)
        before = source.read()
        child.go_on()
        child.told()
        after = source.read()
    for quantity in ("process_write_bytes", "process_read_bytes"):
        assert only(after, quantity) - only(before, quantity) >= 1 << 20


TREE = """
signal.signal(signal.SIGCHLD, signal.{on_child_end})
go_on, gate = os.pipe()
child = os.fork()
if child == 0:
    grandchild = os.fork()
    burn(0.2)
    file = os.open(sys.argv[1] + ("g" if grandchild == 0 else "c"), os.O_WRONLY | os.O_CREAT)
    os.write(file, b"x" * (1 << 20))
    os.fsync(file)
    tell(os.getpid())
    os.read(go_on, 1)
    if grandchild:
        try: os.waitpid(grandchild, 0)
        except ChildProcessError: pass
    os._exit(0)
wait()
os.write(gate, b"xx")
try: os.waitpid(child, 0)
except ChildProcessError: pass
tell()
wait()
"""


@pytest.mark.parametrize("on_child_end", ["SIG_DFL", "SIG_IGN"])  # SIG_IGN: the parent gets no child times
def test_ended_processes_stay_counted_once_in_their_tree(tmp_path: Path, on_child_end: str) -> None:
    with running(TREE.format(on_child_end=on_child_end), tmp_path / "file") as child:
        pids = {child.pid, *child.told(), *child.told()}
        source = ProcessSource.of_pid(child.pid)
        before = source.read()
        assert {int(item.partition("/")[0]) for item in before["thread_cpu_seconds"]} == pids
        assert only(before, "process_cpu_seconds") >= 0.4 - 2 * TICK
        child.go_on()
        child.told()
        after = source.read()
    assert {int(item.partition("/")[0]) for item in after["thread_cpu_seconds"]} == {child.pid}
    # Waiting costs almost no CPU. Any larger difference is lost or counted twice.
    assert 0 <= only(after, "process_cpu_seconds") - only(before, "process_cpu_seconds") < 0.2
    assert 0 <= only(after, "process_write_bytes") - only(before, "process_write_bytes") < 1 << 20
    assert only(after, "process_context_switches") >= only(before, "process_context_switches")


def test_short_lived_children_are_counted_once_during_reads(tmp_path: Path) -> None:
    code = """
wait()
for number in range(40):
    child = os.fork()
    if child == 0:
        burn(0.01)
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        os.write(file, b"x" * 65536)
        os.fsync(file)
        os._exit(0)
    os.waitpid(child, 0)
tell(sum(os.times()[:4]))
wait()
"""
    with running(code, tmp_path / "file") as child:
        source = ProcessSource.of_pid(child.pid)
        seen = [source.read()]
        child.go_on()
        while not child.has_told():
            seen.append(source.read())
        [burnt] = child.told()
        seen.append(source.read())
        counts = dict(line.split(": ") for line in Path(f"/proc/{child.pid}/io").read_text().splitlines())
    for quantity in ("process_cpu_seconds", "process_write_bytes", "process_context_switches"):
        values = [only(reading, quantity) for reading in seen]
        assert values == sorted(values)
    assert only(seen[-1], "process_cpu_seconds") == pytest.approx(burnt, abs=3 * TICK)
    assert only(seen[-1], "process_write_bytes") == int(counts["write_bytes"])


def test_descendant_is_found_at_next_search_and_kept_after_parent_ends() -> None:
    code = """
wait()
middle = os.fork()
if middle == 0:
    if os.fork() == 0:
        tell(os.getpid())
        signal.pause()
    signal.pause()
wait()
os.kill(middle, signal.SIGKILL)
os.waitpid(middle, 0)
tell()
wait()
"""
    with running(code) as child:
        source = ProcessSource.of_pid(child.pid)
        source.read()
        child.go_on()
        [orphan] = child.told()
        for _ in range(READS_PER_SEARCH - 1):
            assert f"{orphan}/{orphan}" not in source.read()["thread_cpu_seconds"]
        assert f"{orphan}/{orphan}" in source.read()["thread_cpu_seconds"]
        child.go_on()
        child.told()
        assert f"{orphan}/{orphan}" in searched(source)["thread_cpu_seconds"]


def test_zombie_process_keeps_its_counts_before_and_after_reaping(tmp_path: Path) -> None:
    code = """
child = os.fork()
if child == 0:
    burn(0.1)
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
    os.write(file, b"x" * (1 << 20))
    os.fsync(file)
    tell()
    signal.pause()
wait()
os.kill(child, signal.SIGKILL)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
tell()
wait()
os.waitpid(child, 0)
tell()
wait()
"""
    with running(code, tmp_path / "file") as child:
        source = ProcessSource.of_pid(child.pid)
        seen = []
        for _ in ("it runs", "it has ended", "it was asked for"):
            child.told()
            seen.append(source.read())
            child.go_on()
    assert only(seen[0], "process_cpu_seconds") >= 0.1 - TICK
    for quantity, less_than in (("process_cpu_seconds", 0.1), ("process_write_bytes", 1 << 20)):
        values = [only(reading, quantity) for reading in seen]
        assert values == sorted(values)
        assert values[-1] - values[0] < less_than


def test_orphan_cpu_time_is_counted_once_after_its_parent_ends() -> None:
    code = """
import ctypes
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans become this one's, which is not part of the tree
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork():
    signal.pause()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
tell(os.getpid())
middle = os.fork()
if middle == 0:
    if os.fork() == 0:
        burn(0.1)
        tell(os.getpid())
        signal.pause()
    burn(0.2)
    tell(os.getpid())
    signal.pause()
wait()
os.kill(middle, signal.SIGKILL)
os.waitpid(middle, 0)
tell()
wait()
"""
    with running(code) as child:
        root, *others = [*child.told(), *child.told(), *child.told()]
        source = ProcessSource.of_pid(root)
        before = cpu(source)
        assert before >= 0.3 - 2 * TICK
        child.go_on()
        child.told()
        orphan = max(others)
        os.kill(orphan, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{orphan}").exists(), "end of the orphan")
        assert 0 <= cpu(source) - before < 0.08


def test_own_process_is_excluded_from_the_tree() -> None:
    # The tree of this process's parent, which is often a shell
    items = ProcessSource.of_pid(os.getppid()).read()["thread_cpu_seconds"]
    assert not any(item.startswith(f"{os.getpid()}/") for item in items)


def test_pid_of_ended_process_is_refused() -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        for _ in range(2):  # first as a zombie, then after it was reaped
            with pytest.raises(UsageError, match=f"pid:{child.pid}: no such process runs"):
                ProcessSource.of_pid(child.pid)
            child.wait()


def test_ended_process_is_reported_and_reused_pid_is_not_followed() -> None:
    with running("tell(); wait()") as child, running("tell(); wait()") as other:
        child.told()
        other.told()
        source = ProcessSource.of_pid(child.pid)
        assert source.name == f"pid:{child.pid}"
        source.read()
        child.popen.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        ended = rf"pid:{child.pid}: process {child.pid} \(python.*\) has ended"
        with pytest.raises(WatchError, match=ended):
            source.read()
        child.popen.wait()
        with pytest.raises(WatchError, match=ended):
            searched(source)
        now = process._look(other.pid)
        assert now is not None
        former = replace(now, stat=replace(now.stat, started=now.stat.started - 1))  # earlier process with the same pid
        source = ProcessSource(f"pid:{other.pid}", {other.pid: former}, None, cgroup.MOUNT)
        for _ in range(2 * READS_PER_SEARCH):
            with pytest.raises(WatchError, match="has ended"):
                source.read()


def test_process_is_still_read_after_its_main_thread_ended() -> None:
    code = """
import ctypes
exit_thread = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
def rest():
    burn(0.05)
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.001)
    tell()
    wait()
threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall(exit_thread, 0)
"""
    if os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("the number of the system call is not known here")
    with running(code) as child:
        child.told()
        assert cpu(ProcessSource.of_pid(child.pid)) > 0


def test_processes_of_a_name_are_summed_and_found_after_a_restart() -> None:
    name = f"archive-server-{os.getpid()}"
    source = ProcessSource.of_name(name)
    assert source.name == f"name:{name}"
    nothing = f"name:{name}: no process of this name runs"
    with pytest.raises(WatchError, match=nothing):
        source.read()
    code = "burn(0.1); tell(); wait()"
    with running(code, name=name) as one, running(code, name=f"/opt/{name}") as two:
        one.told()
        two.told()
        for _ in range(READS_PER_SEARCH - 1):
            with pytest.raises(WatchError, match=nothing):
                source.read()
        reading = source.read()
        assert set(reading["thread_cpu_seconds"]) == {f"{one.pid}/{one.pid}", f"{two.pid}/{two.pid}"}
        assert only(reading, "process_cpu_seconds") >= 0.2 - 2 * TICK
        one.end()
        before = cpu(source)
        assert before >= only(reading, "process_cpu_seconds")
    with pytest.raises(WatchError, match=nothing):
        source.read()
    with running(code, name=name) as again:
        again.told()
        found = []
        for _ in range(READS_PER_SEARCH):
            try:
                found.append(source.read())
            except WatchError:
                assert not found
        assert set(found[-1]["thread_cpu_seconds"]) == {f"{again.pid}/{again.pid}"}
        assert only(found[-1], "process_cpu_seconds") >= before + 0.1 - TICK


def test_process_is_found_by_executable_name_not_by_its_command(tmp_path: Path) -> None:
    sleep = shutil.copy(shutil.which("sleep") or "", tmp_path / f"sleeper-{os.getpid()}")
    with subprocess.Popen(["sleep", "60"], executable=sleep) as child:
        try:
            wait_until(lambda: os.readlink(f"/proc/{child.pid}/exe") == str(sleep), "other program")
            source = ProcessSource.of_name(Path(sleep).name)
            assert list(source.read()["thread_cpu_seconds"]) == [f"{child.pid}/{child.pid}"]
            Path(sleep).unlink()  # as after an update of the program
            source = ProcessSource.of_name(Path(sleep).name)
            assert list(source.read()["thread_cpu_seconds"]) == [f"{child.pid}/{child.pid}"]
        finally:
            child.kill()


def test_unreadable_quantities_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(pid: int) -> None:
        return None

    with running("tell(); wait()") as child:
        child.told()
        monkeypatch.setattr(process, "_read_write_bytes", denied)
        monkeypatch.setattr(process, "_open_files", denied)
        reading = ProcessSource.of_pid(child.pid).read()
    assert not {"process_read_bytes", "process_write_bytes", "process_open_files"} & set(reading)
    assert "process_cpu_seconds" in reading


def test_ended_child_whose_byte_counts_became_unreadable_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(TREE.format(on_child_end="SIG_DFL"), tmp_path / "file") as child:
        pids = {*child.told(), *child.told()}
        source = ProcessSource.of_pid(child.pid)
        before = source.read()
        with monkeypatch.context() as patched:
            shown = process._read_write_bytes
            patched.setattr(process, "_read_write_bytes", lambda pid: None if pid in pids else shown(pid))
            assert "process_write_bytes" not in source.read()
        child.go_on()
        child.told()
        after = source.read()
    assert 0 <= only(after, "process_write_bytes") - only(before, "process_write_bytes") < 1 << 20


def test_missing_io_counters_do_not_count_as_ended_process(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = process._text

    def without_io(path: str) -> str:
        if path.endswith("/io"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return shown(path)

    with running("tell(); wait()") as child:
        child.told()
        monkeypatch.setattr(process, "_text", without_io)
        reading = ProcessSource.of_pid(child.pid).read()
    assert "process_write_bytes" not in reading
    assert "process_open_files" in reading


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process of another user")
def test_another_users_process_shows_its_cpu_but_not_its_bytes() -> None:
    code = """
import sys
sys.path[:0] = json.loads(sys.argv[2])
from archiver.watch.process import ProcessSource
source = ProcessSource.of_pid(int(sys.argv[1]))
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
tell(sorted(source.read()))
"""
    with running("tell(); wait()") as watched:
        watched.told()
        with running(code, watched.pid, json.dumps(sys.path)) as asking:
            [quantities] = asking.told()
    assert {"process_cpu_seconds", "thread_cpu_seconds", "process_context_switches"} <= set(quantities)
    assert not {"process_read_bytes", "process_write_bytes"} & set(quantities)


def test_lack_of_file_descriptors_is_reported_as_unreadable_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(path: str) -> str:
        raise OSError(errno.EMFILE, "Too many open files", path)

    with running("burn(0.05); tell(); wait()") as child:
        child.told()
        source = ProcessSource.of_pid(child.pid)
        monkeypatch.setattr(process, "_text", none_left)
        with pytest.raises(WatchError, match=rf"pid:{child.pid}: /proc cannot be read .*Too many open files"):
            source.read()
        monkeypatch.undo()
        assert cpu(source) > 0


def test_cpu_limit_is_the_union_of_the_affinity_masks_of_the_tree(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core only")
    code = """
os.sched_setaffinity(0, {int(sys.argv[1])})
tell()
wait()
if os.fork() == 0:
    os.sched_setaffinity(0, {int(sys.argv[2])})
    tell()
wait()
"""
    with running(code, *cores[:2]) as child:
        child.told()
        source = ProcessSource.of_pid(child.pid, tmp_path)
        assert only(source.read(), "process_cpu_limit_cores") == 1
        child.go_on()
        child.told()
        searched(source)
        assert only(source.read(), "process_cpu_limit_cores") == 2


def test_cgroup_quota_is_the_cpu_limit_and_throttled_time_is_counted(tmp_path: Path) -> None:
    with running("tell(); wait()") as child:
        child.told()
        group = cgroup.group_of(Path(f"/proc/{child.pid}/cgroup").read_text(), tmp_path)
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.max").write_text("50000 100000\n")
        (group / "cpu.stat").write_text("usage_usec 9\nthrottled_usec 2500000\n")
        source = ProcessSource.of_pid(child.pid, tmp_path)
        reading = source.read()
        assert only(reading, "process_cpu_limit_cores") == 0.5
        assert only(reading, "process_throttled_seconds") == 2.5
        (group / "cpu.stat").write_text("usage_usec 9\nthrottled_usec 3000000\n")
        assert only(source.read(), "process_throttled_seconds") == 3
        (group / "cpu.stat").write_text("usage_usec 0\nthrottled_usec 250000\n")  # the group was created again
        assert only(source.read(), "process_throttled_seconds") == 3.25
        (group / "cpu.max").write_text("25000 100000\n")
        searched(source)
        assert only(source.read(), "process_cpu_limit_cores") == 0.25


def test_throttled_time_is_absent_without_a_quota(tmp_path: Path) -> None:
    with running("tell(); wait()") as child:
        child.told()
        reading = ProcessSource.of_pid(child.pid, tmp_path).read()
    assert "process_throttled_seconds" not in reading
    assert only(reading, "process_cpu_limit_cores") == len(os.sched_getaffinity(0))
