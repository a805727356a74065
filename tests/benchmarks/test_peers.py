"""Archiver compared with other clients: the costs of small jobs, and when their results agree."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import page
from benchmarks.peers import agreement, comparison
from benchmarks.peers.base import Cost
from benchmarks.peers.comparison import ARCHIVER, MINIO, MINIO_GO, NULL, WARP, WRK
from tests.benchmarks.small import document_of


@pytest.mark.platforms
def test_every_installed_client_is_measured_on_every_server() -> None:
    installed = {name for name, found in comparison.programs_found().items() if found}
    document = document_of("peers")
    missing = {*document["missing"]}
    assert not missing & installed
    expected = {NULL: {ARCHIVER, MINIO_GO, WRK} - missing, MINIO: {ARCHIVER, MINIO_GO, WARP} - missing}
    assert set(document["servers"]) == expected.keys() - missing
    for server, cases in document["servers"].items():
        assert [(case["operation"], case["with_tls"]) for case in cases] == [("archive", False), ("retrieve", True)]
        for case in cases:
            assert {name.partition(",")[0] for name in case["contenders"]} == expected[server]
            for client in case["contenders"].values():
                assert all(client[option] for option in ("signed", "checksum", "lock"))
                assert all(value > 0 for value in client["cpu_microseconds_per_object"] + client["objects_per_second"])
    assert (document["agreement"] is None) == bool({MINIO_GO, MINIO} & missing)
    text = page.text(comparison, document)
    assert all(f"{name} is not installed" in text for name in missing)


def test_goals_apply_to_median_of_ratios_within_rounds() -> None:
    (_, met, not_met) = comparison.notes(
        {
            "missing": [WRK],
            "servers": {
                NULL: [
                    compared([10.0, 30.0, 10.0], [100.0, 100.0, 50.0], goal=0.2),
                    compared([10.0, 30.0, 21.0], [100.0, 100.0, 100.0], goal=0.2),
                ]
            },
            "agreement": None,
        }
    )
    assert met.endswith("at most 0.2 x minio-go: 0.20: met")
    assert not_met.endswith("at most 0.2 x minio-go: 0.21: NOT MET")


def compared(archiver: list[float], minio_go: list[float], goal: float) -> dict[str, Any]:
    """Return a case with the CPU time of two clients in each round."""
    cpu = {ARCHIVER: archiver, MINIO_GO: minio_go}
    return {
        "operation": "archive", "object_bytes": 8192, "connections": 1, "with_tls": False, "goals": {MINIO_GO: goal},
        "contenders": {name: {"cpu_microseconds_per_object": values} for name, values in cpu.items()},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rates", "agree"), [((100.0, 102.0, 98.0), True), ((200.0, 202.0, 198.0), False), ((50.0, 51.0, 49.0), False)]
)
def test_clients_agree_if_their_intervals_overlap(rates: tuple[float, ...], agree: bool) -> None:
    others = [Cost(50.0, rate) for rate in (101.0, 99.0, 100.0)]
    document = agreement.document_of({"archiver": [Cost(50.0, rate) for rate in rates], "minio-go": others})
    assert document["agree"] is agree
    assert ("they agree" in agreement.note(document)) is agree
    assert document["clients"]["minio-go"]["low"] < 100 < document["clients"]["minio-go"]["high"]
    assert document["clients"]["minio-go"]["core_percent"][0] == pytest.approx(0.505)
