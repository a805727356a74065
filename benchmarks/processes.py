"""Processes of benchmarks: their cores, their memory, and functions that run in a new process."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

LOOK_SECONDS = 0.1
MIB = 1 << 20


def usable_cores() -> list[int]:
    """Return the cores that this process may use, in order."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Restrict this process and its children to these cores within the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a new process, which has its own memory and CPU time; return its result."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


class Memory(NamedTuple):
    """Sizes of a process's memory in bytes."""

    resident: int
    resident_max: int  # since the process began; getrusage would include the process that started this one
    private: int  # part of ``resident`` that no file backs


def memory_of(pid: int) -> Memory:
    """Return a process's memory now. Raises ProcessLookupError if it has ended, also before its parent has noticed."""
    sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
    try:
        return Memory(*(int(sizes[field]) * 1024 for field in ("VmRSS", "VmHWM", "RssAnon")))
    except KeyError:
        raise ProcessLookupError(f"process {pid} has ended: it has no memory") from None


def processes_of(command: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the processes of a run with their roles."""
    yield "coordinator", command
    workers = 0
    with suppress(psutil.Error):
        for child in sorted(command.children(), key=lambda each: each.pid):
            with suppress(psutil.Error):
                words = " ".join(child.cmdline())
                if "backends.embedded.server" in words:
                    yield "store", child
                elif "spawn_main" in words:
                    workers += 1
                    yield f"worker {workers}", child


def peaks_of_command(home: Path, *words: str) -> dict[str, float]:
    """Return peak MiB of `archiver WORDS`: private and resident memory of the command and of its only worker.

    Memory is read ten times per second. The command may end with status 1: a busy machine delays operations.
    """
    command = [sys.executable, "-m", "archiver", *words, "--backend", "null", "--workers", "1", "--quiet"]
    peaks: dict[str, dict[str, float]] = {}
    with subprocess.Popen(command, env={**os.environ, "ARCHIVER_HOME": str(home)}) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            for name, each in processes_of(watched):
                with suppress(FileNotFoundError, ProcessLookupError):  # the process has just ended
                    memory, peak = memory_of(each.pid), peaks.setdefault(name, {"private": 0, "resident": 0})
                    # A process that executes a program begins with less memory than the one it was forked from.
                    peak["private"] = max(peak["private"], memory.private)
                    peak["resident"] = max(peak["resident"], memory.resident_max)
            time.sleep(LOOK_SECONDS)
    assert process.returncode in (0, 1), "the command failed; its error is above"
    return {f"{name.removesuffix(' 1')}, {kind} MiB": each[kind] / MIB for name, each in peaks.items() for kind in each}
