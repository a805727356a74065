"""The documents of an audit bundle: traces and their models, environment, prices, and evidence of the platform."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archiver.values import version
from archiver.values.errors import ResultsError, UsageError
from results.bundle.contents import environment_document, prices_document, replayed_traces, traces_document
from results.bundle.evidence import check_same_platform
from results.recorded.database import VERSION
from results.recorded.model import Replayed
from results.recorded.run import RecordedRun
from tests.results.conftest import MakeResult
from tests.results.watched_run import PLATFORM, phase_record

MakeRun = Callable[..., RecordedRun]
MODEL = {"streams": 4, "per_second": 30.0, "operations": {"archive": 1.0}, "sizes": "8KiB"}
SCENARIO = {
    "name": "sets",
    "phase": [
        {
            "name": "replay",
            "model_seed": 7,
            "capacity_scale": 0.5,
            "seconds": "60s",
            "replay": [{"name": "web", "model": MODEL, "capacity": "1GB"}, {"name": "mail", "trace": "mail.parquet"}],
        }
    ],
}


def replayed(trace: str, sha256: str, **more: Any) -> Replayed:
    values: dict[str, Any] = {
        "trace": trace, "origin": "capture", "sha256": sha256, "anonymised": True, "speed": 1.0, "streams": 2,
        "operations": 10, "begun": 10, "waited": 0, "left_out": (("list: has no counterpart", 3),),
        "capacity_bytes": 0, "capacity_scale": 1.0, "trace_seconds": 60.0, "replay_seconds": 60.0,
        "allowed_seconds": 61.0, "lateness_ms": None, "tolerance_ms": 10.0, "void": "",
    }  # fmt: skip
    return Replayed(**{**values, **more})


@pytest.fixture
def run(make_run: MakeRun, make_result: MakeResult) -> RecordedRun:
    results = [
        make_result(phase="replay", workload=f"{copy}: {name}", application=name, copy=copy, position=copy,
                    replayed=replayed(trace, sha256, origin=origin))
        for copy in (1, 2)
        for name, trace, sha256, origin in (("web", "web", "aa", "model"), ("mail", "mail.parquet", "bb", "capture"))
    ]  # fmt: skip
    phases = [phase_record(copy, results[2 * copy - 2], copy, copy + 1, results=results[2 * copy - 2 : 2 * copy])
              for copy in (1, 2)]  # fmt: skip
    return make_run(phases, scenario_json=json.dumps(SCENARIO), command_line=["archiver", "run", "sets.toml"])


def test_each_trace_is_listed_once_with_its_generating_model(run: RecordedRun) -> None:
    mail, web = sorted(traces_document(run, {"traces/bb.parquet": "bb"})["traces"], key=lambda each: each["trace"])
    assert web["model"] == {
        "parameters": MODEL, "seed": 7, "seconds": "60s", "capacity": "1GB", "capacity_scale": 0.5,
    }  # fmt: skip
    assert (web["file"], web["replays"]) == (None, 2)
    assert mail["model"] is None
    assert (mail["file"], mail["sha256"], mail["origin"]) == ("traces/bb.parquet", "bb", "capture")
    assert mail["left_out"] == {"list: has no counterpart": 3}
    assert replayed_traces(run) == {"aa", "bb"}


def test_environment_document_has_command_scenario_and_versions(run: RecordedRun) -> None:
    found = environment_document(run)
    assert found["bundle_made_by"] == {"archiver": version.VERSION, "database_version": VERSION}
    assert found["run"]["command_line"] == ["archiver", "run", "sets.toml"]
    assert found["scenario"] == SCENARIO


def evidence(name: str, version: str | None) -> dict[str, Any]:
    return {"parts": {"summary": {"platform": {"name": name, "version": version}}}}


def test_evidence_of_another_platform_is_refused_with_both_names() -> None:
    measured = replace(PLATFORM, version="2025-01")
    check_same_platform(measured, evidence("minio", "2025-01"))
    for other, words in (
        (evidence("minio", "2025-02"), "minio 2025-02, but the run measured minio 2025-01"),
        (evidence("versitygw", "2025-01"), "versitygw 2025-01, but the run measured minio 2025-01"),
        (evidence("minio", None), r"minio \(version unknown\), but the run"),
        ({"parts": {}}, "does not name its platform"),
    ):
        with pytest.raises(ResultsError, match=words):
            check_same_platform(measured, other)


def test_prices_document_has_lines_and_total(tmp_path: Path) -> None:
    path = tmp_path / "array.toml"
    path.write_text(
        'currency = "EUR"\n[[part]]\nitem = "node"\nquantity = 2\nlist_price = 1000\nsupport_years = 1\n'
        "support_price_per_year = 100\n"
    )
    found = prices_document(path, None)
    assert (found["currency"], found["support_years"], found["total"]) == ("EUR", 3, 2 * 1000 + 2 * 2 * 100)
    assert [line["item"] for line in found["lines"]] == ["node", "node: year of support"]
    assert found["per_unit"] == {}
    path.write_text('currency = "EUR"\n[cloud]\nper_gb_month = 0.02\n')
    with pytest.raises(UsageError, match="has no"):
        prices_document(path, None)
