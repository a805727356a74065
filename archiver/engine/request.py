"""The user's request for one run, as one value that the run's database stores.

One idea: the command line is parsed once. All later commands, ``archiver resume`` included, read this value. It names
the files that contain secrets, and never contains the secrets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from archiver.engine.workers.contract import IfLost
from archiver.values.retention import Guards, RetentionWish
from archiver.values.typed import typed
from backends.s3 import S3Request
from backends.tsm import TsmRequest
from scenarios.model import Order

Poll = Literal["auto", "busy", "sleep"]  # how workers wait for answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRequest:
    """A scenario, and how its phases are made from it."""

    source: str  # name of a scenario, its file, or the command that made its text
    text: str | None = None  # TOML made by a command; None: that of the source
    overrides: tuple[str, ...]  # KEY=VALUE
    quick: bool
    order: Order
    order_seed: int | None  # None: random
    allow_large_sessions: bool
    searches: bool
    criteria: tuple[str, ...] = ()  # judged in addition to those of the scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """Traces to replay."""

    traces: tuple[Path, ...]
    speed: float
    sets: int
    shift_seconds: float
    tolerance_seconds: float
    criteria: tuple[str, ...] = ()  # judged in addition to the replay's own


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """Server resources to sample."""

    sources: tuple[str, ...]
    metric_names: Path | None
    metrics_token_file: Path | None


@dataclass(frozen=True, slots=True)
class Devices:
    """Facts that the user knows about the server's devices."""

    disk_roles: Mapping[str, str] = field(default_factory=dict)  # device -> object, catalogue ...
    disk_speeds: Mapping[str, float] = field(default_factory=dict)  # device -> sustained bytes per second
    link_speed_bytes_per_second: float | None = None  # rated, each direction


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The user's request. Paths are as written, so relative paths start at the folder of the command."""

    scenario: ScenarioRequest | None  # None: a replay
    replay: ReplayRequest | None  # None: a scenario
    repetitions: int  # with a budget: at most
    budget_seconds: float | None  # time for rounds of repetitions; None: as many as ``repetitions``
    objects_from: str | None  # run whose objects are read; None: this run archives its own
    backend: str
    platforms: tuple[str, ...]  # to start
    s3: S3Request
    tsm: TsmRequest
    catalogue_dir: Path | None  # of the embedded store
    retention: RetentionWish
    guards: Guards
    accepts_server_clock: bool  # accept dates by a platform clock that is far from this machine's clock
    verify: str
    watch: WatchRequest
    devices: Devices
    workers: int | None  # None: one per usable core, or half of them if the platform shares this host
    dask: str | None  # cluster that carries the run out; None: processes of this machine
    if_worker_lost: IfLost
    out_dir: Path | None  # None: in the home folder
    op_log_dir: Path | None
    metrics_port: int | None
    poll: Poll
    disclosure: Mapping[str, Any] | None  # tested configuration, in the user's own words; None: not disclosed
    dry_run: bool
    as_json: bool
    tables: tuple[str, ...]  # names of the tables to print; empty: the most important
    quiet: bool

    def to_json(self) -> str:
        """Return the document from which ``from_json`` makes an equal request."""
        return json.dumps(msgspec.to_builtins(self, enc_hook=str))  # only paths have no JSON type

    @classmethod
    def from_json(cls, text: str) -> RunRequest:
        """Return the request of such a document. Raises ValueError for any other text."""
        try:
            return typed(json.loads(text), cls, decode=_path)
        except msgspec.ValidationError as wrong:
            raise ValueError(str(wrong)) from wrong


def _path(kind: type[Path], value: object) -> Path:
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return kind(value)
