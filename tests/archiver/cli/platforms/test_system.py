"""Test on which systems the command line starts."""

from __future__ import annotations

import subprocess
import sys


def test_non_linux_system_is_refused_with_one_sentence() -> None:
    elsewhere = """
import os, select, sys, time
sys.platform = "darwin"
del os.sched_getaffinity, os.sched_setaffinity, time.CLOCK_BOOTTIME, select.epoll
from archiver.cli import main
main(sys.argv[1:], prog_name="archiver")
"""
    for arguments in (["run", "dr550", "--dry-run"], ["--help"], ["doctor"], []):
        done = subprocess.run(
            [sys.executable, "-c", elsewhere, *arguments], capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == "archiver: needs Linux, and this system is darwin; run it on a Linux machine\n"
