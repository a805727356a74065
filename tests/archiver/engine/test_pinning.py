"""Test that all processes and threads of a platform's server stay on their cores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from archiver.engine.execution import pin
from archiver.platforms.kinds import Access
from archiver.platforms.servers import Server

_PARENT_WITH_CHILD_AND_THREAD = """
import subprocess, sys, threading
threading.Thread(target=input).start()
with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE) as child:
    child.wait()
"""


def test_child_processes_and_threads_are_pinned_with_the_server(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    command = [sys.executable, "-c", _PARENT_WITH_CHILD_AND_THREAD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the child runs
        pin(Server("example", "", process.pid, tmp_path, Access("", "")), [core])
        server = psutil.Process(process.pid)
        tasks = [thread.id for each in (server, *server.children()) for thread in each.threads()]
        assert len(tasks) == 3
        assert {tuple(os.sched_getaffinity(task)) for task in tasks} == {(core,)}
        for each in (*server.children(), server):
            each.kill()
