"""`kill -9` of the command, a worker, the store or all of them at random moments: no finished phase is lost, the ledger
never claims less than what is stored, and `archiver resume` continues correctly.

A failed test reports its seed. ARCHIVER_KILL_SEED=... repeats the random draws; the moments also depend on the machine.
"""

from __future__ import annotations

import os
import random
import secrets
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.soak.killing import VICTIMS, EmbeddedStore, Kills, Platform, RealServer, ask
from tests.support.commands import archiver
from tests.support.servers.real import NAMES

KILLS_QUICK = 2
KILLS_LONG = 100
KILLS_OF_PLATFORM = 8


def carry_out(home: Path, platform: Platform, kills: int, *more: str) -> Kills:
    """Kill so many times, each kind of victim in turn in random order; then audit all objects."""
    seed = int(os.environ.get("ARCHIVER_KILL_SEED") or secrets.randbits(32))
    home.mkdir()
    done = Kills(home, platform, random.Random(seed), more)
    try:
        victims = list(VICTIMS)
        done.chance.shuffle(victims)
        done.carry_out([victims[count % len(victims)] for count in range(kills)])
        for run in runs_of(done):
            audited = archiver("audit", run, **platform.environment)
            assert audited.returncode == 0, audited.stdout + audited.stderr
            assert "is as archived" in audited.stdout
    except BaseException as failed:
        failed.add_note(f"ARCHIVER_KILL_SEED={seed}; what was done: " + "; ".join(done.told))
        raise
    return done


def runs_of(done: Kills) -> list[str]:
    """Return the runs that may have left objects."""
    rows = ask(done.home / "ledger.db", "SELECT DISTINCT run FROM placement WHERE objects_max > 0 ORDER BY run")
    done.platform.begin()
    return [run for (run,) in rows]


def clean_up(done: Kills) -> None:
    """Clean up all runs, and check that all objects that may be deleted are deleted."""
    bypass = ("--bypass-governance",) if "--retain-for" in done.platform.arguments else ()
    for run in runs_of(done):
        removed = archiver("cleanup", run, *bypass, **done.platform.environment)
        assert removed.returncode == (0 if bypass else 1), removed.stdout + removed.stderr  # TSM retention stays
    assert bool(done.platform.objects()) is not bool(bypass)


def test_no_object_is_lost_after_kills(home: Path) -> None:
    done = carry_out(home, EmbeddedStore(home, "s3"), KILLS_QUICK, "--set", "object_sizes=1KiB")
    assert done.killed > 0


@pytest.mark.long
@pytest.mark.parametrize("backend", ["s3", "tsm"])
def test_no_object_is_lost_in_100_kills(home: Path, backend: str) -> None:
    done = carry_out(home, EmbeddedStore(home, backend), KILLS_LONG)
    assert done.killed > KILLS_LONG / 2
    assert done.resumed > KILLS_LONG / 2
    clean_up(done)


@pytest.mark.platforms
@pytest.mark.parametrize("name", NAMES)
def test_no_object_is_lost_when_real_platform_is_killed(home: Path, tmp_path: Path, name: str) -> None:
    with ExitStack() as stack:
        done = carry_out(home, RealServer(name, tmp_path / name, stack), KILLS_OF_PLATFORM)
        clean_up(done)
    assert done.killed > 0
