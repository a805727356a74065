"""Archiver compared with other clients: the costs of small jobs, and when their results agree."""

from __future__ import annotations

import pytest

from benchmarks.benchmark import Measured
from benchmarks.client_cost import ARCHIVER, MINIO, MINIO_GO, NULL, OTHER, OURS, WARP, WRK, agreement, programs_found
from benchmarks.peers.base import RATE
from tests.benchmarks.small import document_of


@pytest.mark.platforms
def test_every_installed_client_is_measured_on_every_server() -> None:
    missing = {name for name, found in programs_found().items() if not found}
    experiments = document_of("peers")["experiments"]
    expected = {NULL: {ARCHIVER, MINIO_GO, WRK} - missing, MINIO: {ARCHIVER, MINIO_GO, WARP} - missing}
    for server, clients in expected.items():
        if server in missing:
            continue
        rows = experiments[f"peers-{server.lower().replace(' ', '-')}"]
        assert {row["labels"][1].partition(",")[0] for row in rows} == clients
        for row in rows:
            assert all(row[option] for option in ("signed", "checksum", "lock"))
    assert ("agreement" in experiments) == (not {MINIO_GO, MINIO} & missing)


@pytest.mark.parametrize(
    ("rates", "agree"), [((100.0, 102.0, 98.0), True), ((200.0, 202.0, 198.0), False), ((50.0, 51.0, 49.0), False)]
)
def test_clients_agree_if_their_intervals_overlap(rates: tuple[float, ...], agree: bool) -> None:
    measured = Measured()
    for ours, other in zip(rates, (101.0, 99.0, 100.0), strict=True):
        measured.add(OURS, {RATE: ours})
        measured.add(OTHER, {RATE: other})
    assert ("they agree" in agreement(measured)) is agree
    assert ("THEY DISAGREE" in agreement(measured)) is not agree
