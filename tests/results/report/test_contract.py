"""The JSON contract: documents have the published keys, and results can be read back from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from archiver.values.errors import ResultsError
from archiver.values.typed import undamaged
from results.recorded.model import (
    CriterionResult,
    DiskUsage,
    FirstError,
    Latency,
    LinkUsage,
    Result,
    ServerUsage,
    Utilisation,
)
from results.report.contract import document_of

MakeResult = Callable[..., Result]
PROMISED = {
    "phase", "workload", "operation", "object_bytes", "objects_per_session", "clients",
    "repetition", "session_kind", "temperature", "checksum", "retention_mode", "verified",
    "sessions", "objects", "bytes", "attempts", "errors", "refusals", "seconds",
    "objects_per_second", "megabytes_per_second", "mebibytes_per_second", "offered_per_second",
    "achieved_per_second", "session_service_ms", "session_ms", "object_service_ms",
    "object_ms", "first_byte_ms", "server", "client", "limited_by",
}  # fmt: skip
FACTS: dict[str, Any] = {
    "run": "r1",
    "scenario": "dr550",
    "backend": "s3",
    "platform": {"name": "embedded"},
    "hosts": ["here"],
}


def test_result_document_has_every_promised_key(make_result: MakeResult) -> None:
    document = asdict(make_result())
    assert document.keys() >= PROMISED
    for population in [name for name in PROMISED if name.endswith("_ms")]:
        assert document[population].keys() >= {"mean", "p50", "p70", "p90", "p99", "p99_9", "max"}
    assert document["server"].keys() >= {"cpu_percent", "disk_busy_percent", "network_megabytes_per_second"}
    assert document["server"].keys() >= {"cpu_milliseconds_per_object", "write_amplification", "cache_share"}
    assert document["utilisations"][0].keys() == {"resource", "by", "share", "decisive"}
    assert document["client"].keys() >= {"cpu_percent", "cpu_microseconds_per_object", "lateness_p99_ms"}


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"server": None, "first_byte_ms": None, "session_open_ms": None, "limited_by": None},
        {"objects_per_transaction": 25, "transaction_commit_ms": Latency(1, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0)},
        {"offered_per_second": 100.0, "achieved_per_second": 99.5, "operation": "retrieve"},
        {
            "server": ServerUsage(
                50.0,
                25.0,
                80.0,
                31.0,
                0,
                10,
                4.5,
                store_written_bytes={"catalogue": 10.0},
                store_syncs={"segments": 2.0},
                disks=(
                    DiskUsage("vda", "catalogue", 31.0, 0.0, 10.0, 0.5, 1.5, None),
                    DiskUsage("vdb", "", None, 0.0, 0.0, None, None, None),
                ),
                links=(LinkUsage("eth0", 1.5, 3.0, 1250.0),),
                overlap=0.75,
            )
        },
        {"utilisations": (Utilisation("network eth0", "share of its speed", 0.5, True),), "confidence": "low: why"},
        {"utilisations": (), "confidence": None},
        {"errors": 2, "first_errors": (FirstError("archive", "403 AccessDenied", 2, "no", "id1", "o/1"),)},
    ],
)
def test_result_round_trips_through_json(make_result: MakeResult, overrides: dict[str, Any]) -> None:
    result = make_result(**overrides)
    assert undamaged(Result, json.loads(json.dumps(asdict(result)))) == result


def test_full_run_round_trips_through_json(full_run: list[Result]) -> None:
    document = json.loads(json.dumps(document_of(FACTS, full_run)))
    assert [undamaged(Result, entry) for entry in document["results"]] == full_run


def test_bytes_of_memory_stay_whole_numbers_in_json(make_result: MakeResult) -> None:
    first = make_result()
    assert first.server is not None
    result = replace(
        first,
        server=replace(first.server, resident_bytes=24_138_928_128),
        client=replace(first.client, memory_available_bytes=3_000_000_001),
    )
    text = json.dumps(asdict(undamaged(Result, json.loads(json.dumps(asdict(result))))))
    assert '"resident_bytes": 24138928128,' in text
    assert '"memory_available_bytes": 3000000001,' in text


def test_unknown_fields_are_ignored(make_result: MakeResult) -> None:
    document = asdict(make_result())
    document["server"]["temperature_celsius"] = 40
    assert undamaged(Result, {**document, "added_later": 1, "added_ms": 2}) == make_result()


def test_document_without_transaction_fields_is_readable(make_result: MakeResult) -> None:
    document = asdict(make_result())
    for name in ("objects_per_transaction", "transaction_send_ms", "transaction_commit_ms"):
        del document[name]
    assert undamaged(Result, document) == make_result()


@pytest.mark.parametrize("key", ["operation", "objects_per_second", "client"])
def test_missing_key_is_named(make_result: MakeResult, key: str) -> None:
    document = asdict(make_result())
    del document[key]
    with pytest.raises(ResultsError, match=key):
        undamaged(Result, document)


def test_missing_key_of_nested_document_is_named(make_result: MakeResult) -> None:
    document = asdict(make_result())
    del document["object_service_ms"]["p99"]
    with pytest.raises(ResultsError, match=r"missing required field `p99` - at `\$\.object_service_ms`"):
        undamaged(Result, document)


def test_a_value_of_another_kind_is_refused_with_its_place(make_result: MakeResult) -> None:
    document = asdict(make_result())
    document["client"]["cpu_percent"] = "high"
    with pytest.raises(ResultsError, match=r"Expected `float`, got `str` - at `\$\.client\.cpu_percent`"):
        undamaged(Result, document)


def test_run_document_has_results_cells_criteria_and_verdict(make_result: MakeResult) -> None:
    criterion = CriterionResult("objects_per_second >= 100", "archive", 1, 100.0, 500.0, True)
    document = document_of({**FACTS, "seed": 7}, [make_result()], [criterion], "pass")
    assert document == {
        **FACTS,
        "seed": 7,
        "results": [asdict(make_result())],
        "cells": [
            {
                "operation": "archive",
                "object_bytes": 8192,
                "objects_per_session": 25,
                "clients": 1,
                "repetitions": 1,
                "seconds_min": 2.0,
                "sessions_min": 40,
                "objects_min": 1000,
                "objects_per_second": {"median": make_result().objects_per_second, "low": None, "high": None},
                "grade": "A",
                "doubts": [],
            }
        ],
        "criteria": [
            {
                "name": "objects_per_second >= 100",
                "workload": "archive",
                "position": 1,
                "limit": 100.0,
                "measured": 500.0,
                "passed": True,
                "scale": None,
                "aborted": False,
            }
        ],
        "search": None,
        "verdict": "pass",
    }


def test_run_document_without_required_facts_is_refused() -> None:
    with pytest.raises(ResultsError, match="scenario, backend"):
        document_of({"run": "r1", "platform": {"name": "x"}, "hosts": []}, [])
