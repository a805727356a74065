"""The live state of a run: one small JSON file in the run's folder, written by the run and read by `archiver web`.

The file is only for watching. It exists while the run's process lives; a killed run leaves its last state. Results come
from the run's database and never from this file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from archiver.values.typed import typed_json

FILE_NAME = "live.json"


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """Performance of one phase: in its measured time if it has finished, else in the last seconds.

    None means unknown. MB are 10^6 bytes; latency is the objects' service time.
    """

    label: str
    name: str  # a shorter label, without the clients
    position: int  # number of the phase, from 1
    platform: str
    clients: int
    errors: int  # of the phase so far
    objects_per_second: float | None
    megabytes_per_second: float | None
    p50_milliseconds: float | None
    p99_milliseconds: float | None
    server_cpu_percent: float | None  # 100 = one core
    host_cpu_percent: float | None  # of all cores
    disk_busy_percent: float | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event of a run."""

    at: float  # epoch seconds
    text: str


@dataclass(frozen=True, slots=True)
class LiveState:
    """The state of a run at one moment."""

    written_at: float  # epoch seconds
    phases: int  # planned phases
    platforms: int  # platforms that take turns
    seconds: float  # since the first phase began
    seconds_left: float | None  # None before one phase has finished
    errors: int  # of the whole run so far
    current: LiveFigures | None  # in the last seconds
    finished: tuple[LiveFigures, ...]  # the last few phases in their measured time, oldest first
    objects_by_second: list[int]  # of the last minute, without the times between phases
    log: tuple[LogLine, ...]  # the last events, oldest first


def write_live_state(folders: Sequence[Path], state: LiveState) -> None:
    """Write the state into each run's folder that exists. A reader sees the previous state or this one."""
    content = msgspec.json.encode(state)
    for folder in folders:
        new = folder / f"{FILE_NAME}.new"
        try:
            new.write_bytes(content)
            os.replace(new, folder / FILE_NAME)
        except OSError:  # the folder does not exist yet, or its disk is full: the run continues without live figures
            continue


def read_live_state(folder: Path) -> LiveState | None:
    """Return the last state of a run; None if there is none, or it is not readable."""
    try:
        return typed_json((folder / FILE_NAME).read_bytes(), LiveState)
    except (OSError, msgspec.MsgspecError):
        return None


def remove_live_state(folders: Sequence[Path]) -> None:
    """Remove the state from these folders, whose runs have ended and have their results in the databases."""
    for folder in folders:
        for name in (FILE_NAME, f"{FILE_NAME}.new"):
            (folder / name).unlink(missing_ok=True)
