"""The traces of a run: each is read once, or generated from its model.

One idea: the library adds the facts of a trace to the phases that replay it. From then on, a replay is bounded, guarded
and shown like any other work.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from archiver.values.errors import UsageError
from archiver.values.record import Operation
from scenarios.model import Phase, Scenario, Workload
from scenarios.reading.replay_phases import with_facts
from scenarios.work.mix import CHANGES, WRITES_CONTENT
from scenarios.work.replay import Replay, TraceFacts

# Operations after which the prepared objects differ for the next replay.
_CHANGES = tuple(each for each in Operation if each.label in CHANGES | WRITES_CONTENT)


class TraceLibrary:
    """Traces by their distinguishing properties: file, or model and application; speed; prepared bytes.

    ``commits``: keep transactions of a trace as transactions.

    The library is a context manager. Its files are in a folder within ``folder``, which is made when needed and removed
    at the end of the context.
    """

    def __init__(self, folder: Path, *, commits: bool = False) -> None:
        self._folder = folder
        self._commits = commits
        self._inside: tempfile.TemporaryDirectory[str] | None = None
        self._known: dict[tuple[str, Replay], tuple[TraceFacts, str]] = {}

    def __enter__(self) -> TraceLibrary:
        return self

    def __exit__(self, *_: object) -> None:
        if self._inside is not None:
            self._inside.cleanup()

    def complete(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the facts of its traces. Raises UsageError for a trace that cannot be replayed."""
        return replace(scenario, phases=self.read(scenario.phases), last_step=self.read(scenario.last_step))

    def read(self, phases: Sequence[Phase]) -> tuple[Phase, ...]:
        """Return the phases with the facts of their traces. Raises UsageError for a trace that cannot be replayed."""
        return tuple(
            with_facts(phase, tuple(self._with_facts(workload) for workload in phase.workloads))
            if any(isinstance(each.work, Replay) for each in phase.workloads)
            else phase
            for phase in phases
        )

    def _with_facts(self, workload: Workload) -> Workload:
        replay = workload.work
        if not isinstance(replay, Replay):
            return workload
        # These properties are the same for every set, and for its preparation.
        alike = replace(replay, begins_seconds=0.0, prepares=False, tolerance_seconds=0.0)
        key = (workload.application if replay.model is not None else "", alike)  # several may share a model
        if key not in self._known:
            self._known[key] = self._compile(workload.application, alike)
        facts, folder = self._known[key]
        clients = workload.clients if replay.prepares else facts.streams
        return replace(workload, clients=clients, work=replace(replay, facts=facts, folder=folder))

    def _compile(self, application: str, replay: Replay) -> tuple[TraceFacts, str]:
        """Return the facts of a trace, and the folder of its compiled form."""
        # Only these need pyarrow, which is not installed with the rest.
        from archiver.engine.work.replay.compile.compiling import compile_trace
        from archiver.traces.generating import generate

        number, inside = len(self._known), self._inner_folder()
        path = Path(replay.trace) if replay.trace is not None else inside / f"{number}.parquet"
        if replay.model is not None:
            assert replay.seconds is not None
            assert replay.lies_there_bytes is not None
            generate(
                path,
                replay.model,
                name=application,
                seconds=replay.seconds,
                lies_there_bytes=replay.lies_there_bytes,
                seed=replay.seed,
            )
        folder = inside / str(number)
        trace = compile_trace(
            path, folder, speed=replay.speed, lies_there_bytes=replay.lies_there_bytes, commits=self._commits
        )
        changes = np.isin(trace.operation, _CHANGES) & (trace.object < sum(count for _, count in trace.facts.prepared))
        name = application if replay.model is not None else trace.facts.name
        return replace(trace.facts, name=name, changes_prepared=bool(changes.any())), str(folder)

    def _inner_folder(self) -> Path:
        """Return the library's folder. Raises UsageError if it cannot be made."""
        if self._inside is None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._inside = tempfile.TemporaryDirectory(prefix="traces-", dir=self._folder)
            except OSError as error:
                raise UsageError(f"{self._folder}: traces cannot be prepared there: {error}") from error
        return Path(self._inside.name)
