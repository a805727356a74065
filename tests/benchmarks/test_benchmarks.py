"""The small versions of the benchmarks run. No test depends on a rate."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.small import document_of


def small(name: str) -> dict[str, Any]:
    document = document_of(name)
    assert document["command"] == f"{name} --small --json"
    assert document["host"]["processor"]
    return document


def test_client_cost_compares_every_contender_on_every_case() -> None:
    document = small("client-cost")
    assert [(case["operation"], case["object_bytes"]) for case in document["cases"]] == [
        ("archive", 8192), ("retrieve", 8192), ("archive", 1 << 20), ("retrieve", 1 << 20),
    ]  # fmt: skip
    for case in document["cases"]:
        assert {"archiver", "aiohttp", "boto3", "archiver, TLS"} <= set(case["rounds"])
        assert all(len(values) == document["rounds"] for values in case["rounds"].values())
        assert all(value > 0 for values in case["rounds"].values() for value in values)
        assert {"aiohttp", "boto3", "archiver, TLS"} <= set(case["ratios"])
        (plain,), (with_tls,) = case["rounds"]["archiver"], case["rounds"]["archiver, TLS"]
        assert case["ratios"]["archiver, TLS"] == with_tls / plain


def test_polling_compares_both_ways_of_waiting() -> None:
    document = small("polling")
    assert set(document["connections"]) == {"1", "16"}
    for rounds in document["connections"].values():
        for each in rounds:
            assert all(value > 0 for way in ("sleep", "busy") for value in each[way].values())
            assert each["busy"]["median_microseconds"] < 1e6
    (one,) = document["connections"]["1"]
    assert document["busy_to_sleep"]["1"] == one["busy"]["objects_per_second"] / one["sleep"]["objects_per_second"]


def test_memory_measures_worker_and_coordinator() -> None:
    document = small("memory")
    few, many = document["objects"]
    for name in ("worker", "coordinator"):
        assert document["growth"][name] == document["peaks"][str(many)][name] - document["peaks"][str(few)][name]
        assert document["peaks"][str(few)][name] > 10 << 20


def test_ceilings_are_measured_for_engine_and_wire() -> None:
    found = {(c["limit"], c["operation"], c["object_bytes"]): c for c in small("ceilings")["ceilings"]}
    assert len(found) == 8
    assert all(c["errors"] == 0 and c["objects_per_second"] > 0 for c in found.values())


def test_sampling_measures_host_and_process_with_many_threads() -> None:
    document = small("sampling")
    assert {"host", "process"} <= set(document["medians"])
    assert document["values_per_read"]["process"] > document["threads_of_process"]
    assert all(milliseconds > 0 for rounds in document["milliseconds"].values() for milliseconds in rounds)
    together = document["medians"]["host"] + document["medians"]["process"]
    assert document["percent_of_core"] * 10 == pytest.approx(together)


def test_method_simulates_coverage_and_bias_and_measures_the_tail() -> None:
    document = small("method")
    assert all(0 <= each["settled"] <= 1 and 0 <= each["coverage"] <= 1 for each in document["coverage"])
    assert [each["votes_seconds"] for each in document["bias"]] == [0.45, 1.0, 2.5]
    for percentiles in document["tail"].values():
        assert all(values[0] >= 0.5 for values in percentiles.values())  # no answer is early
