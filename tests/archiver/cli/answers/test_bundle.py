"""Test `archiver bundle` on real runs: making bundles, verifying them, and detecting every kind of forgery."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from archiver.cli import main
from archiver.cli.answers import audit_bundle
from archiver.measure.histogram import Histogram, part_of
from results.recorded.database import VERSION, RunDatabase, RunRecord
from results.recorded.model import CheckRecord
from results.recorded.run import read_run
from tests.results.bundle.audit_bundles import flipped, packed, unpacked, with_manifest
from tests.results.watched_run import PLATFORM, RECORD
from tests.support.commands import archiver
from tests.support.runs import TINY

SECRET = "planted-secret-8f2c"
JUDGED = """
name = "judged"
title = "Two criteria"

[[criterion]]
that = "errors == 0"
[[criterion]]
that = "object_ms.p99 <= 1000"

[[phase]]
name = "load"
load = true
[[phase.workload]]
name = "objects"
operation = "archive"
data = "d"
sizes = "1KiB"
clients = 1
fill = 50

[[phase]]
name = "read"
[[phase.workload]]
name = "reader"
operation = "retrieve"
data = "d"
clients = 2
seconds = "500ms"
[[phase.workload]]
name = "both"
clients = 1
data = "d"
sizes = "1KiB"
transactions = [{ steps = ["retrieve", "archive"], share = 1 }]
seconds = "500ms"
bytes_max = "200MB"
"""
SEARCHED = (
    JUDGED.replace('"judged"', '"searched"')
    .replace('bytes_max = "200MB"\n', "")
    .replace('"errors == 0"', '"sessions_per_second <= 15"\nworkload = "both"')
    + 'arrivals = { kind = "constant", per_second = "10 users" }\n[scale]\nname = "users"\neach = "user"\n'
    "[search]\nfirst = 1\nlast = 4\nrepeat = 1\n"
)
ABORTED = JUDGED.replace('"object_ms.p99 <= 1000"', '"object_ms.max <= 0.000001"\nabort = true').replace(
    '"500ms"', '"100s"'
)
PRICES = 'currency = "EUR"\n[[part]]\nitem = "node"\nquantity = 2\nlist_price = 1000\nsupport_years = 5\n'


@dataclass(frozen=True, slots=True)
class Made:
    """A run and its bundle."""

    run: Path
    bundle: Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def measured(folder: Path, *scenario: str) -> Path:
    """Run a scenario on the null backend with a secret in the environment and return the run's folder."""
    out = folder / str(len(list(folder.iterdir())))
    secrets = {"AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ACCESS_KEY_ID": "someone", "AWS_SESSION_TOKEN": SECRET}
    done = archiver(
        "run",
        *scenario,
        "--backend",
        "null",
        "--quiet",
        "--out",
        str(out),
        ARCHIVER_HOME=str(folder / "home"),
        **secrets,
    )
    assert done.returncode in (0, 1), done.stderr
    (run,) = (path.parent for path in out.glob("*/run.db"))
    return run


def bundle(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["bundle", *map(str, words)])


@pytest.fixture(scope="module")
def matrix(folder: Path) -> Made:
    """A run of sweeps and its bundle with prices."""
    run, prices = measured(folder, "dr550", *TINY), folder / "array.toml"
    prices.write_text(PRICES)
    done = bundle("make", run, folder / "matrix.zip", "--prices", prices)
    assert done.exit_code == 0, done.output
    return Made(run, folder / "matrix.zip")


@pytest.fixture(scope="module")
def judged(folder: Path) -> Made:
    path = folder / "judged.toml"
    path.write_text(JUDGED)
    run = measured(folder, str(path))
    done = bundle("make", run, folder / "judged.zip")
    assert done.exit_code == 0, done.output
    return Made(run, folder / "judged.zip")


def test_verified_bundle_reports_what_cannot_be_confirmed(matrix: Made) -> None:
    done = bundle("verify", matrix.bundle)
    assert done.exit_code == 0, done.output
    assert done.output.count("  confirmed: ") == 4
    assert "cannot be confirmed: that the platform and the machine were what" in done.output
    sha256 = hashlib.sha256(unpacked(matrix.bundle)["manifest.json"]).hexdigest()
    assert f"sha256 {sha256}" in done.output
    said = json.loads(bundle("verify", matrix.bundle, "--json").output)
    assert (said["sha256"], said["wrong"], said["left_out"]) == (sha256, [], "")


def test_bundle_contains_the_results_and_tables_of_the_report_command(matrix: Made, tmp_path: Path) -> None:
    held = unpacked(matrix.bundle)
    printed = CliRunner().invoke(main, ["report", str(matrix.run), "--format", "json"]).output
    assert held["results.json"].decode() == printed
    CliRunner().invoke(main, ["report", str(matrix.run), "--format", "csv", "--out", str(tmp_path)])
    tables = {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()}
    assert tables == {name.rpartition("/")[2]: held[name] for name in held if name.endswith(".csv")}
    assert json.loads(held["prices.json"])["total"] == 2000
    assert json.loads(held["environment.json"])["run"]["host"]["packages"]
    assert json.loads(held["traces.json"]) == {"traces": []}


def test_the_same_run_gives_the_same_bytes(matrix: Made, judged: Made, tmp_path: Path) -> None:
    assert bundle("make", judged.run, tmp_path / "again.zip").exit_code == 0
    assert (tmp_path / "again.zip").read_bytes() == judged.bundle.read_bytes()


def test_bundle_contains_no_secret_of_the_environment(matrix: Made, judged: Made) -> None:
    for made in (matrix, judged):
        for name, content in unpacked(made.bundle).items():
            assert SECRET.encode() not in content, name


def test_one_bit_of_any_file_is_found(matrix: Made, tmp_path: Path) -> None:
    held = unpacked(matrix.bundle)
    assert len(held) > 10
    for name, content in held.items():
        changed = packed(tmp_path / "changed.zip", held | {name: flipped(content, len(content) // 2)})
        done = bundle("verify", changed)
        assert done.exit_code == 1
        assert name in done.output or name == "manifest.json"  # a bit there changes a name, a length or a hash


def test_dropped_or_added_file_is_found_despite_matching_manifest(judged: Made, tmp_path: Path) -> None:
    held = unpacked(judged.bundle)
    for name in held:
        left = {other: content for other, content in held.items() if other != name}
        assert bundle("verify", packed(tmp_path / "dropped.zip", left)).exit_code == 1
        if name != "manifest.json":
            done = bundle("verify", packed(tmp_path / "dropped.zip", with_manifest(left)))
            assert done.exit_code == 1, name
            assert name in done.output
    for name, words in (
        ("more.json", "a bundle of this run has no file of this name"),
        ("traces/x.parquet", "no result of this run"),
    ):
        done = bundle("verify", packed(tmp_path / "added.zip", with_manifest(held | {name: b"{}"})))
        assert done.exit_code == 1
        assert words in done.output


def forged(made: Made, path: Path, change: Callable[[sqlite3.Connection], Any], *, all_of_it: bool = False) -> Result:
    """Change the bundle's database, write a matching manifest, and return the result of `bundle verify`.

    ``all_of_it``: also make again every document that follows from the database.
    """
    held = unpacked(made.bundle)
    database = path / "forged.db"
    database.write_bytes(held["run.db"])
    with closing(sqlite3.connect(database)) as connection:
        change(connection)
        connection.commit()
    held["run.db"] = database.read_bytes()
    if all_of_it:
        with closing(RunDatabase.open(database)) as opened:
            documents = audit_bundle._follows(read_run(opened.path), {}, {})
        held = {name: held[name] for name in ("manifest.json", "run.db")} | documents
    return bundle("verify", packed(path / "forged.zip", with_manifest(held)))


def set_in_results(where: str, value: str) -> Callable[[sqlite3.Connection], Any]:
    return lambda database: database.execute(f"UPDATE result SET document = json_replace(document, '{where}', {value})")


def swap_histograms(database: sqlite3.Connection) -> None:
    """Swap the first two histograms of one quantity."""
    (one, *first), (other, *second) = database.execute(
        "SELECT rowid, total_ns, max_ns, indices, counts FROM histogram WHERE quantity = 'object' "
        "ORDER BY position DESC, workload LIMIT 2"
    ).fetchall()
    for rowid, values in ((one, second), (other, first)):
        database.execute(
            "UPDATE histogram SET total_ns = ?, max_ns = ?, indices = ?, counts = ? WHERE rowid = ?", (*values, rowid)
        )


def in_criteria(where: str, value: str) -> Callable[[sqlite3.Connection], Any]:
    return lambda database: database.execute(f"UPDATE criterion SET document = json_set(document, '{where}', {value})")


FORGERIES: dict[str, tuple[Callable[[sqlite3.Connection], Any], str]] = {
    "better percentile": (set_in_results("$.object_ms.p99", "0.0001"), "differs from its histogram: p99"),
    "better part": (set_in_results("$.parts[0].object_ms.p50", "0.0001"), "differs from its histogram"),
    "swapped histograms": (swap_histograms, "differs from its histogram"),
    "no histogram": (lambda db: db.execute("DELETE FROM histogram WHERE quantity = 'object'"), "has no histo"),
    "more objects": (set_in_results("$.objects", "json_extract(document, '$.objects') + 1"), "its intervals add up to"),
    "fewer errors": (lambda db: db.execute("UPDATE interval SET errors = 1"), "errors is 0, but its intervals"),
    "better rate": (set_in_results("$.objects_per_second", "1e9"), "amount and seconds give"),
    "less measured": (in_criteria("$.measured", "0.5"), "is recorded as met with 0.5, but judged again"),
    "missed and said to be met": (
        lambda db: db.execute(
            "UPDATE run SET scenario_json = replace(scenario_json, 'object_ms.p99 <= 1000', 'object_ms.p99 <= 0')"
        ),
        "judged again missed",
    ),
    "no criterion": (lambda db: db.execute("DELETE FROM criterion"), "is recorded as nothing, but judged again met"),
    "ended early for what was met": (in_criteria("$.aborted", "json('true')"), "ended a phase is recorded as met"),
    "twice": (lambda db: db.execute("INSERT INTO criterion SELECT * FROM criterion"), "more often than "
    "the scenario requests"),
    "another verdict": (lambda db: db.execute("UPDATE run SET verdict = 'none'"), "verdict is 'none', but its results"),
    "words for numbers": (lambda db: db.execute("UPDATE histogram SET total_ns = 'x'"), "cannot be read as a run's"),
    "no numbers": (
        lambda db: db.execute("UPDATE histogram SET indices = x'00' WHERE quantity = 'session_open'"),
        "cannot be read as a run's",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_inconsistent_database_is_found_despite_matching_documents(judged: Made, tmp_path: Path, name: str) -> None:
    change, words = FORGERIES[name]
    done = forged(judged, tmp_path, change, all_of_it=True)
    assert done.exit_code == 1, done.output
    assert words in done.output
    assert "results.json" not in done.output


def test_a_settled_cell_is_as_precise_as_its_scenario_requires(matrix: Made, tmp_path: Path) -> None:
    def settle(database: sqlite3.Connection) -> None:
        set_in_results("$.settled", "json('true')")(database)
        set_in_results("$.session_half_width", "0.06")(database)

    done = forged(matrix, tmp_path, settle, all_of_it=True)
    assert done.exit_code == 1, done.output
    assert "settled is true, but session_half_width is 0.06, above 0.05" in done.output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_in_results("$.settled", "json('false')"), "results.json: results[0].settled is true, and the database"),
        (lambda db: db.execute("UPDATE run SET host = json_set(host, '$.cores', 999)"), "environment.json: run.host.c"),
        (lambda db: db.execute("DELETE FROM result"), "run.db: "),
        (lambda db: db.execute("UPDATE run SET id = 'other'"), "and run.db of run other"),
        (lambda db: db.execute("UPDATE run SET platform = '[]'"), "cannot be read as a run's"),
        (lambda db: db.execute("CREATE VIEW more AS SELECT 1"), "its tables are not those of a results database"),
    ],
)
def test_documents_that_do_not_follow_from_the_database_are_named_by_field(
    judged: Made, tmp_path: Path, change: Callable[[sqlite3.Connection], Any], words: str
) -> None:
    done = forged(judged, tmp_path, change)
    assert done.exit_code == 1
    assert words in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("results.json", b'"verdict": "none"', b'"verdict": "pass"'),
        ("report/report.md", b"archive", b"Archive"),
        ("report/tables/latency.csv", b"1", b"2"),
        ("prices.json", b'"total": 2000.0', b'"total": 1000.0'),
        ("prices.toml", b"1000", b"1001"),
    ],
)
def test_document_changed_with_its_hash_is_found(
    matrix: Made, tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    held = unpacked(matrix.bundle)
    assert old in held[name]
    changed = held | {name: held[name].replace(old, new, 1)}
    done = bundle("verify", packed(tmp_path / "changed.zip", with_manifest(changed)))
    assert done.exit_code == 1
    assert name.replace("toml", "json") in done.output


def test_rounding_difference_in_last_digit_is_accepted(judged: Made, tmp_path: Path) -> None:
    held = unpacked(judged.bundle)
    document = json.loads(held["results.json"])
    document["results"][0]["seconds"] *= 1 + 1e-15
    changed = held | {"results.json": json.dumps(document).encode()}
    assert bundle("verify", packed(tmp_path / "other.zip", with_manifest(changed))).exit_code == 0


@pytest.mark.parametrize("version", ["database", "archiver"])
def test_bundle_of_another_version_is_verified_only_by_hashes(judged: Made, tmp_path: Path, version: str) -> None:
    held = unpacked(judged.bundle)
    if version == "database":
        done = forged(judged, tmp_path, lambda db: db.execute(f"PRAGMA user_version = {VERSION + 1}"))
    else:
        environment = json.loads(held["environment.json"])
        environment["bundle_made_by"]["archiver"] = "99.1"
        held["environment.json"] = json.dumps(environment).encode()
        done = bundle("verify", packed(tmp_path / "newer.zip", with_manifest(held)))
    assert done.exit_code == 0
    assert "not computed again, so only the hashes are confirmed: it" in done.output
    assert done.output.count("  confirmed: ") == 1
    changed = tmp_path / ("newer.zip" if version == "archiver" else "forged.zip")
    held = unpacked(changed)
    done = bundle("verify", packed(changed, held | {"results.json": b"{}"}))
    assert done.exit_code == 1


SEARCH_FORGERIES = (("$.largest", "4"), ("$.failed_at", "1"), ("$.steps[0].passed", "json('false')"),
                    ("$.steps[0].void", "'client limit reached'"))  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [("searched", SEARCHED), ("aborted", ABORTED)])
def test_bundles_of_search_and_aborted_phase_are_confirmed(folder: Path, tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    run = measured(folder, str(path), *(["--search"] if name == "searched" else []))
    done = bundle("make", run, tmp_path / "made.zip")
    assert done.exit_code == 0, done.output
    assert not bundle("verify", tmp_path / "made.zip").exit_code
    for where, value in SEARCH_FORGERIES if name == "searched" else ():
        change = f"UPDATE search SET document = json_set(document, '{where}', {value})"
        made = Made(run, tmp_path / "made.zip")
        done = forged(made, tmp_path, methodcaller("execute", change), all_of_it=True)
        assert done.exit_code == 1, where
        assert "search" in done.output or "cannot be read" in done.output


def test_bundle_that_would_not_be_confirmed_is_not_made(judged: Made, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(judged.run / "run.db", run)
    with closing(sqlite3.connect(run / "run.db")) as database:
        swap_histograms(database)
        database.commit()
    done = bundle("make", run, tmp_path / "out.zip")
    assert done.exit_code == 1
    assert "would not be confirmed, so no bundle was made" in done.output
    assert not (tmp_path / "out.zip").exists()


REPLAYED = {
    "trace": "reader.parquet", "origin": "capture", "anonymised": False, "speed": 1.0, "streams": 2, "operations": 10,
    "begun": 10, "waited": 0, "left_out": [["list", 3]], "capacity_bytes": 0, "capacity_scale": 1.0,
    "trace_seconds": 1.0, "replay_seconds": 1.0, "allowed_seconds": 2.0, "lateness_ms": None, "tolerance_ms": 10.0,
    "void": "",
}  # fmt: skip


def test_replayed_trace_is_included_in_bundle_only_if_given(judged: Made, tmp_path: Path) -> None:
    trace, run = tmp_path / "reader of ours.parquet", tmp_path / "run.db"
    trace.write_bytes(b"what the reader did")
    sha256 = hashlib.sha256(trace.read_bytes()).hexdigest()
    run.write_bytes(unpacked(judged.bundle)["run.db"])
    with closing(sqlite3.connect(run)) as database:
        database.execute(
            "UPDATE result SET document = json_set(document, '$.replayed', json(?)) WHERE workload = 'reader'",
            (json.dumps(REPLAYED | {"sha256": sha256}),),
        )
        database.commit()
    assert bundle("make", run, tmp_path / "without.zip").exit_code == 0
    without, name = unpacked(tmp_path / "without.zip"), f"traces/{sha256}.parquet"
    assert json.loads(without["traces.json"])["traces"][0]["file"] is None
    done = bundle("make", run, tmp_path / "with.zip", "--trace", trace)
    assert done.exit_code == 0, done.output
    assert "reader.parquet is in it and not anonymised" in done.output
    held = unpacked(tmp_path / "with.zip")
    assert held[name] == trace.read_bytes()
    assert json.loads(held["traces.json"])["traces"][0]["file"] == name
    assert bundle("verify", tmp_path / "with.zip").exit_code == 0

    other = f"traces/{hashlib.sha256(b'another').hexdigest()}.parquet"
    rest = {each: content for each, content in held.items() if each != name}
    for changed, words in (
        (held | {name: b"something else"}, f"{name}: no result of this run replayed it"),
        (held | {other: b"another"}, f"{other}: no result of this run replayed it"),
        (rest, "traces.json: traces[0].file"),
        (without | {name: held[name]}, "traces.json: traces[0].file"),
    ):
        done = bundle("verify", packed(tmp_path / "cheated.zip", with_manifest(changed)))
        assert done.exit_code == 1
        assert words in done.output


def test_bundle_of_late_replay_not_marked_void_is_rejected(judged: Made, tmp_path: Path) -> None:
    histogram = Histogram()
    histogram.add(part_of(np.array([11_000_000])))
    latency, part = histogram.latency(), histogram.part()
    assert latency is not None
    late, times = asdict(latency), (part.indices.astype("<i8").tobytes(), part.counts.astype("<i8").tobytes())
    for void, status in (("", 1), ("the client was too late", 0)):
        replayed = REPLAYED | {"sha256": "aa", "lateness_ms": late, "void": void}

        def change(database: sqlite3.Connection, replayed: dict[str, Any] = replayed) -> None:
            document = "json_set(document, '$.replayed', json(?))"
            database.execute(
                f"UPDATE result SET document = {document} WHERE workload = 'reader'", (json.dumps(replayed),)
            )
            database.execute(
                "INSERT INTO histogram SELECT position, workload, 'lateness', ?, ?, ?, ? FROM result "
                "WHERE workload = 'reader'",
                (part.total_ns, part.max_ns, *times),
            )
            database.execute("UPDATE run SET verdict = ?", ("void" if replayed["void"] else "pass",))

        done = forged(judged, tmp_path, change, all_of_it=True)
        assert done.exit_code == status, done.output
        assert ("is not marked as void" in done.output) == (not void)


def conformance_run(path: Path, platform: str, version: str | None) -> Path:
    """Create a run with one check and return its folder."""
    profile = replace(PLATFORM, name=platform, version=version)
    with closing(RunDatabase.create(path / "run.db", RunRecord(**{**RECORD, "platform": profile}))) as database:
        check = CheckRecord(
            "DEL-02", "Delete", "delete it", "refuse", "403", ("R1",), "S1", "PASS", "refused", 1.0, 0.1, "alone"
        )
        database.add_check(check, [{"method": "DELETE", "status": 403}])
    return path


def test_bundle_accepts_evidence_only_of_the_platform_of_its_run(judged: Made, tmp_path: Path) -> None:
    same = conformance_run(tmp_path / "same", "null", None)
    assert bundle("make", same, tmp_path / "evidence.json").exit_code == 0
    for number, source in enumerate((same, tmp_path / "evidence.json")):
        done = bundle("make", judged.run, tmp_path / f"{number}.zip", "--worm", source)
        assert done.exit_code == 0, done.output
    held = unpacked(tmp_path / "0.zip")
    assert held["evidence.json"] == (tmp_path / "evidence.json").read_bytes()
    assert (tmp_path / "0.zip").read_bytes() == (tmp_path / "1.zip").read_bytes()
    assert bundle("verify", tmp_path / "0.zip").exit_code == 0

    changed = held["evidence.json"].replace(b'"PASS"', b'"FAIL"', 1)
    assert changed != held["evidence.json"]
    cheated = packed(tmp_path / "cheated.zip", with_manifest(held | {"evidence.json": changed}))
    assert "evidence.json: was changed since it was written" in bundle("verify", cheated).output

    other = conformance_run(tmp_path / "other", "minio", "2025-01")
    refused = bundle("make", judged.run, tmp_path / "other.zip", "--worm", other)
    assert refused.exit_code == 1
    assert "the conformance evidence is of minio 2025-01, but the run measured null" in refused.output
    assert not (tmp_path / "other.zip").exists()
    assert bundle("make", other, tmp_path / "other.json").exit_code == 0
    of_other = with_manifest(held | {"evidence.json": (tmp_path / "other.json").read_bytes()})
    done = bundle("verify", packed(tmp_path / "cheated.zip", of_other))
    assert done.exit_code == 1
    assert "is of minio 2025-01, but the run measured null" in done.output


def test_standalone_evidence_is_verified_by_bundle_verify(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    made = bundle("make", conformance_run(tmp_path / "run", "minio", "1"), path)
    assert made.exit_code == 0, made.output
    said = json.loads(bundle("verify", path, "--json").output)
    assert said["wrong"] == []
    assert said["sha256"] in made.output
    path.write_text(path.read_text().replace('"refused"', '"deleted"'))
    for words in ((), ("--json",)):
        done = bundle("verify", path, *words)
        assert done.exit_code == 1
        assert "checks/DEL-02 was changed" in done.output


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("make", "RUN", "THERE.zip"), 1, "already exists"),
        (("make", "RUN", "out.tar"), 2, "name it .zip for an audit bundle"),
        (("make", "RUN", "out.json"), 1, "made no conformance checks"),
        (("make", "RUN", "out.json", "--prices", "THERE.zip"), 2, "--worm, --prices and --trace go into a bundle"),
        (("make", "RUN", "out.zip", "--trace", "THERE.zip"), 2, "no result of this run replayed it"),
        (("make", "RUN", "out.zip", "--prices", "THERE.zip"), 2, "cannot be read"),
        (("make", "RUN", "out.zip", "--worm", "RUN"), 1, "made no conformance checks"),
        (("make", "missing", "out.zip"), 2, "no such run"),
        (("verify", "missing.zip"), 2, "cannot be read: No such file"),
        (("verify", "TEXT"), 2, "is not a bundle"),
        (("verify", "BRACE"), 1, "is not readable evidence"),
        (("verify", "CUT"), 1, "the ZIP file is damaged"),
    ],
)
def test_bad_bundle_command_is_refused_with_one_message(
    judged: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], status: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("THERE.zip").write_bytes(b"\xff")
    Path("TEXT").write_text("text")
    Path("BRACE").write_text("{")
    Path("CUT").write_bytes(judged.bundle.read_bytes()[:-100])
    done = bundle(*(str(judged.run) if word == "RUN" else word for word in words))
    assert done.exit_code == status, done.output
    assert says in done.output
    assert not Path("out.zip").exists()


def test_run_that_is_unfinished_or_empty_makes_no_bundle(judged: Made, tmp_path: Path) -> None:
    run = tmp_path / "run.db"
    run.write_bytes(unpacked(judged.bundle)["run.db"])
    for statement, words in (
        ("UPDATE run SET verdict = NULL", "has not ended"),
        ("UPDATE run SET verdict = 'none'", "measured nothing"),
    ):
        with closing(sqlite3.connect(run)) as database:
            database.execute("DELETE FROM result")
            database.execute(statement)
            database.commit()
        done = bundle("make", run, tmp_path / "out.zip")
        assert done.exit_code == 1
        assert words in done.output
