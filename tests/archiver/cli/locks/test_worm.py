"""Test `archiver worm` and `archiver bundle` on real platforms."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archiver.cli.locks.worm import cleanup_command
from backends.base import RemovalReport
from tests.support.commands import archiver
from tests.support.runs import TINY, left_in
from tests.support.servers import real


def checked(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = archiver("worm", *arguments, "--json")
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


def verdicts(document: dict[str, Any], round_: str = "alone") -> dict[str, str]:
    return {check["id"]: check["verdict"] for check in document["checks"] if check["round"] == round_}


def test_embedded_store_passes_checks_through_s3_and_tsm(home: Path) -> None:
    status, document = checked("--check", "DEL-02", "--check", "LH-01", "--check", "TSM-04")
    assert status == 0
    assert verdicts(document) == dict.fromkeys(("DEL-02", "LH-01", "TSM-04"), "PASS")
    assert document["violations"] == 0
    assert document["platform"]["name"] == "embedded"
    # Objects locked until their management class expires remain, and the ledger knows them.
    assert {row["backend"] for row in left_in(home)} <= {"tsm"}
    with sqlite3.connect(home / "ledger.db") as ledger:
        known = ledger.execute("SELECT count(*) FROM placement WHERE backend = 's3'").fetchone()[0]
    ledger.close()
    assert known > 0


def test_selected_checks_run_alone_under_load_and_after_store_kill(home: Path) -> None:
    status, document = checked("--check", "DEL-02", "--check", "TSM-04")
    assert status == 0
    assert verdicts(document) == {"DEL-02": "PASS", "TSM-04": "PASS"}
    assert verdicts(document, "under load") == {"DEL-02": "PASS"}
    assert verdicts(document, "after restart") == {"DEL-02": "PASS"}
    alone, loaded, restarted = document["rounds"]
    assert (alone["round"], alone["load_seconds"]) == ("alone", 0.0)
    assert loaded["objects_archived"] > 0
    assert loaded["retrieved_per_second"] > 0
    assert "was killed (SIGKILL) and answered again" in restarted["note"]
    assert {row["backend"] for row in left_in(home)} <= {"tsm"}


def test_every_change_to_evidence_file_is_found(home: Path, tmp_path: Path) -> None:
    checked("--check", "DEL-02", "--check", "GOV-06")
    path = tmp_path / "evidence.json"
    made = archiver("bundle", "make", "latest", str(path))
    assert made.returncode == 0, made.stderr
    assert archiver("bundle", "make", "latest", str(path)).returncode == 1  # an existing file is not overwritten
    assert archiver("bundle", "verify", str(path)).returncode == 0
    bundle = json.loads(path.read_text())
    exchanges = bundle["parts"]["checks/DEL-02"]["exchanges"]
    refused = [each for each in exchanges if each["method"] == "DELETE" and each["status"] == 403]
    assert refused, "the refusal itself is in the evidence"
    assert "AccessDenied" in refused[0]["response_body"]
    for round_ in ("under load", "after restart"):
        part = bundle["parts"][f"checks/DEL-02 {round_}"]
        assert part["check"]["round"] == round_
        assert any(each["status"] == 403 for each in part["exchanges"])
    assert [each["round"] for each in bundle["parts"]["summary"]["rounds"]] == ["alone", "under load", "after restart"]

    changes: tuple[Callable[[Any], object], ...] = (
        lambda b: b["parts"]["checks/DEL-02"]["check"].update(verdict="FAIL"),
        lambda b: b["parts"]["checks/DEL-02"]["exchanges"].pop(),
        lambda b: b["parts"].pop("checks/DEL-02"),
        lambda b: b["parts"].update({"checks/DEL-99": {}}),
        lambda b: b["manifest"].pop("run") and b["parts"].pop("run"),
    )
    for change in changes:
        tampered = json.loads(path.read_text())
        change(tampered)
        other = tmp_path / "tampered.json"
        other.write_text(json.dumps(tampered))
        done = archiver("bundle", "verify", str(other))
        assert done.returncode == 1
        assert "was changed since it was written" in done.stderr


def test_results_database_contains_no_secret_of_the_store(home: Path, tmp_path: Path) -> None:
    checked("--check", "ING-12", "--check", "ING-13", "--check", "GOV-02", "--check", "GOV-06", "--check", "TSM-01")
    secrets = [
        entry[name]
        for file in ("credentials.json", "nodes.json")
        for entry in _entries(json.loads((home / "store" / file).read_text()))
        for name in ("secret_key", "password")
        if entry.get(name)
    ]
    assert len(secrets) >= 6
    (run,) = home.glob("runs/*/run.db")
    content = run.read_bytes()
    assert not [secret for secret in secrets if secret.encode() in content]
    assert b"X-Amz-Signature=(left out)" in content  # presigned URLs are kept without their signatures


def _entries(document: Any) -> list[dict[str, Any]]:
    """Return every object in a JSON document."""
    if isinstance(document, dict):
        return [document, *(entry for value in document.values() for entry in _entries(value))]
    return [entry for value in document for entry in _entries(value)] if isinstance(document, list) else []


def test_worm_report_lists_results_by_requirement_with_disclaimer(home: Path) -> None:
    done = archiver("worm", "--check", "DEL-02", "--check", "CLK-09")
    assert done.returncode == 0, done.stderr
    assert "17a-4(f)(2)(i)(B)" in done.stdout
    assert "not a legal opinion or a certificate" in " ".join(done.stdout.split())
    (html,) = home.glob("runs/*/report/worm.html")
    assert "DEL-02" in html.read_text()
    for text in (done.stdout, html.read_text(), html.with_suffix(".md").read_text()):
        assert "objects archived (" in " ".join(text.split())
    assert "not a legal opinion or a certificate" in html.with_suffix(".md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--check", "DEL-99"], "--check DEL-99: no such check; families are CFG, ING, DEL"),
        (["--platform", "embedded", "--endpoint", "http://127.0.0.1:1"], "choose one of them"),
        (["--seed", "7"], "name their time with --for"),
    ],
)
def test_invalid_worm_options_are_refused_before_start(home: Path, arguments: list[str], words: str) -> None:
    done = archiver("worm", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (home / "ledger.db").exists()


def test_worm_for_some_time_tries_generated_sequences_after_the_checks(home: Path) -> None:
    done = archiver("worm", "--check", "DEL-01", "--for", "4s", "--seed", "7", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    by_id = {each["id"]: each for each in document["checks"]}
    assert by_id["DEL-01"]["verdict"] == "PASS"
    assert by_id["GEN-STORE"]["verdict"] == "PASS"
    assert "generated sequences of seed 7" in document["rounds"][0]["note"]
    assert document["violations"] == 0


@pytest.mark.parametrize(
    ("option", "text", "status"),
    [
        ("--expected", '[[expected]]\ncheck = "DEL-99"\nreason = "a"\nlink = "b"\n', 2),
        ("--expected", '[[expected]]\ncheck = "DEL-02"\nlink = "b"\n', 2),
        ("--against", "{}", 1),
    ],
)
def test_invalid_worm_input_file_is_refused_before_start(
    home: Path, tmp_path: Path, option: str, text: str, status: int
) -> None:
    path = tmp_path / "given.json"
    path.write_text(text)
    done = archiver("worm", option, str(path))
    assert (done.returncode, "given.json" in done.stderr) == (status, True)
    assert not (home / "ledger.db").exists()


def test_run_without_checks_makes_no_evidence_bundle(home: Path) -> None:
    assert archiver("run", "dr550", *TINY, "--backend", "null", "--quiet").returncode == 0
    done = archiver("bundle", "make", "latest", "evidence.json")
    assert done.returncode == 1
    assert "made no conformance checks" in done.stderr


@pytest.mark.platforms
def test_known_failures_of_real_platforms_are_found(home: Path) -> None:
    for name in real.NAMES:
        real.need(name)
    chosen = ("DEL-02", "DEL-03", "LH-02", "OVR-04", "DFT-05", "RET-05")
    status, document = checked(
        *(word for name in real.NAMES for word in ("--platform", name)),
        *(w for each in chosen for w in ("--check", each)),
    )
    assert status == 1
    minio, versitygw = (verdicts(each) for each in document["platforms"])
    assert (minio["OVR-04"], versitygw["OVR-04"] == "FAIL") == ("FAIL", False)
    assert (versitygw["LH-02"], minio["LH-02"] == "FAIL") == ("FAIL", False)
    assert (versitygw["DFT-05"], minio["DFT-05"] == "FAIL") == ("FAIL", False)
    for of_platform in (minio, versitygw):
        assert {of_platform["DEL-02"], of_platform["DEL-03"], of_platform["RET-05"]} <= {"PASS", "DEVIATION"}
    assert left_in(home) == []


@pytest.mark.parametrize(
    ("left", "command"),
    [
        ((RemovalReport(objects_left=1, locked_until=1.0),), "archiver cleanup run-1"),  # COMPLIANCE
        (
            (RemovalReport(objects_left=1), RemovalReport(objects_left=1, locked_until=1.0, governance=True)),
            "archiver cleanup run-1 --bypass-governance",
        ),
        ((RemovalReport(objects_left=1, on_hold=True),), "archiver cleanup run-1 --release-holds"),
    ],
)
def test_suggested_cleanup_command_has_options_that_remaining_locks_need(
    left: tuple[RemovalReport, ...], command: str
) -> None:
    assert cleanup_command("run-1", left) == command
