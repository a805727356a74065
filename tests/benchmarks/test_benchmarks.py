"""The small version of every benchmark runs. No test depends on a rate."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.peers.base import has_minio
from benchmarks.schedules import EARLIEST, PACER
from benchmarks.store import S3, SYNCS, TSM
from tests.benchmarks.small import document_of

# Experiments by benchmark, and the number of their rows.
ROWS = {
    "client-cost": {"client-cost": 16 + 4 * bool(shutil.which("wrk"))},
    "polling": {"polling": 4},
    "ceilings": {"ceilings": 8},
    "scale-out": {"client-cores": 4, "coordinator": 2, "report": 1},
    "merging": {"merging": 1, "histogram-forms": 2},
    "tsm": {"tsm": 8, "tsm-clients": 8},
    "store": {"store": 7},
    "method": {"coverage": 18, "bias": 3, "rounds": 7, "tail": 2},
    "open-loop": {"open-loop": 6},
    "replay": {"replay": 2, "replay-memory": 2},
    "audit": {"audit": 4},
    "capture": {"capture": 2},
    "memory": {"memory": 2},
    "traces": {"traces": 9},
    "sampling": {"sampling": 2 + has_minio()},
    "many-objects": {"many-objects": 2, "many-objects-store": 2},
}
NEED_TSM = {"tsm", "store", "audit"}
LONG = {"many-objects", "traces"}
OWN_TEST = {"sampling", "open-loop", "tsm"}


def small(name: str) -> dict[str, Any]:
    """Carry out the small version; every row must have a value by round, and every goal a judgement."""
    if name in NEED_TSM and shutil.which("cc") is None:
        pytest.skip("no C compiler, so no TSM library")
    document = document_of(name)
    assert document["command"] == f"{name} --small --json"
    assert document["host"]["processor"]
    assert {each: len(rows) for each, rows in document["experiments"].items()} == ROWS[name]
    for experiment, rows in document["experiments"].items():
        for row in rows:
            figures = [values for figure, values in row.items() if figure != "labels" and isinstance(values, list)]
            assert figures, row
            assert all(len(values) == document["rounds"][experiment] for values in figures), row
    assert [goal["what"] for goal in document["goals"]] == [goal.what for goal in BENCHMARKS[name].goals]
    for goal in document["goals"]:
        assert goal["value"] is not None or "wrk" in goal["what"] or "if 1 client" in goal["what"], goal
    return document


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in ROWS if name not in OWN_TEST]
)
def test_every_contender_is_measured_and_every_goal_judged(name: str) -> None:
    small(name)


def test_sampling_measures_host_and_process_with_many_threads() -> None:
    document = small("sampling")
    by_source = {row["labels"][0]: row for row in document["experiments"]["sampling"]}
    process = by_source["a process of 20 threads"]
    assert process["values"][0] > 20
    (goal,) = document["goals"]
    assert goal["value"] * 10 == pytest.approx(by_source["this host"]["CPU, ms"][0] + process["CPU, ms"][0])


def test_pacer_is_never_early() -> None:
    rows = small("open-loop")["experiments"]["open-loop"]
    assert all(value >= 0 for row in rows if row["labels"][1] == PACER for value in row[EARLIEST])


def test_tsm_syncs_once_per_transaction() -> None:
    rows = small("tsm")["experiments"]["tsm"]
    syncs = {tuple(row["labels"]): row[SYNCS][0] for row in rows}
    assert syncs["500", TSM] <= 3  # each session is one transaction, so objects do not matter
    assert syncs["500", S3] >= 500


def test_every_benchmark_is_tested() -> None:
    assert {*ROWS, "peers", "soak"} == set(BENCHMARKS)
