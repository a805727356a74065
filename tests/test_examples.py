"""The commands of the tutorial and of the help texts run as written. Their JSON agrees with docs/reference/json.md."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import requests

from archiver.machine.home import find_run
from results.recorded.database import RunDatabase
from results.worm.findings import worm_document
from tests.archiver.traces.made import write_example_files
from tests.archiver.web.served import started_web
from tests.docs.json_page import Met, compare, generated, printed, tables
from tests.docs.tutorial_page import in_shape, run_names, steps
from tests.support.commands import archiver_within
from tests.support.documented import ALL, example
from tests.support.waiting import SECONDS_MAX

# Examples that need a platform's program run in tests/archiver/cli/platforms/test_platform.py, with a substitute for
# the program. A comparison needs the names of two runs; the tutorial has one. Only an interrupted run can be resumed:
# tests/archiver/cli/runs/test_resume.py. Only a finding can be reproduced: tests/archiver/worm/test_reproductions.py.
ELSEWHERE = ["archiver serve", "archiver web", "archiver compare", "archiver resume", "archiver capture"]
ELSEWHERE += ["archiver worm reproduce"]
ELSEWHERE += [name for name in ALL if name.startswith("archiver platform")]
# Documents that need no run, or two of another kind, are tested in tests/docs/test_json_page.py. The tutorial does not
# use objects of another run, or workers on a cluster.
NOT_HERE = {
    "A plan", "Range", "Fits", "Load", "Year", "Trial", "Retrieval", "SizeShare", "Price", "Line", "Basis", "BasisCell",
    "Need", "Sensitivity", "Outcome", "Traces", "Kind", "This machine", "Limit", "ComparedWorkload", "Measured",
    "ObjectsFrom", "Cluster", "ClusterWorker", "A scorecard", "Card", "CardConformance", "CardPoint", "CardLockCost",
    "MissingPart", "CheckFinding", "A combined plan", "PlannedPlatform", "PlannedLoad", "PlannedYear", "Discovery",
}  # fmt: skip
OF_A_WORKLOAD = {("Judgement", field) for field in ("phase", "scale", "workload")}
OF_OPTIONS = {("A conformance run", field) for field in ("against", "expected")}  # only with options of archiver worm


# These options shorten measuring to fractions of a second. Lines and documents keep their shape.
SHORTER = {
    "archiver doctor": "--seconds 50ms",
    "archiver run dr550 --quick": "--set stop.seconds_min=150ms --set stop.seconds_max=300ms",
    "archiver run dr550 --quick --backend tsm": "--set stop.seconds_min=50ms --set stop.seconds_max=100ms",
}


def run(line: str) -> subprocess.CompletedProcess[str]:
    shorter = [options for start, options in SHORTER.items() if line.startswith(start)]
    words = shlex.split(" ".join([line, *shorter]))
    assert words[0] == "archiver"
    return archiver_within(600, words[1:], {})


def carry_out_the_tutorial() -> list[str]:
    """Run every command of the tutorial in order and check what it prints. Return the names of its runs."""
    names: dict[str, str] = {}
    for step in steps():
        line = step.command
        for on_the_page, here in names.items():
            line = line.replace(on_the_page, here)
        done = run(line)
        # On a slow machine a lock may have ended before the command that it should refuse.
        assert done.returncode in (0, step.exit_status), f"{line}\n{done.stdout}\n{done.stderr}"
        in_print = in_shape(done.stdout + done.stderr)  # the wider the numbers, the fewer fit on a line
        for shown in step.shown if done.returncode == step.exit_status else ():
            assert in_shape(shown) in in_print or is_otherwise_when_slow(shown, in_print), (
                f"{line} has no {shown!r}\n{done.stdout}"
            )
        if line.startswith("archiver run") and "--dry-run" not in line:
            names[run_names()[len(names)]] = done.stdout.rpartition("archiver report ")[2].split()[0]
    return list(names.values())


def is_otherwise_when_slow(shown: str, in_print: str) -> bool:
    """Return whether a busy machine explains that this line of the tutorial was not printed."""
    if " locked " in shown:  # the lock may have ended
        return in_shape(shown.replace(" locked ", " can be removed ")) in in_print
    if not shown.startswith("batching: "):
        return False
    # The line is left out if longer sessions take more time for each object.
    rates = {
        each["objects_per_session"]: each["objects_per_second"]
        for each in printed("report", "latest", "--format", "json")["results"]
        if (each["operation"], each["object_bytes"], each["clients"]) == ("archive", 8192, 1)
    }
    return bool(rates[100] < rates[1])


def met_in_runs(through_s3: str, through_tsm: str) -> Met:
    """Compare the documents of these runs with the page; return the fields that were found."""
    condition = "archive.8KiB.1.errors > 0"
    met = compare(printed("compare", through_s3, through_tsm, "--json", "--fail-if", condition), "A comparison")
    met |= compare(printed("ledger", "--json", "--price-per-gb-month", "0.023"), "The ledger")
    for name in (through_s3, through_tsm):
        met |= compare(printed("report", name, "--format", "json"), "A run")
    with closing(RunDatabase.open(find_run(through_tsm))) as database:
        met |= compare(database.audits()[0], "An audit")
    with closing(RunDatabase.open(find_run("latest"))) as database:
        document = worm_document(database.run().platform, database.run().id, database.checks(), database.rounds())
        return met | compare(document, "A conformance run")


def is_too_slow(name: str, exit_status: int) -> bool:
    """Return whether a command measured without errors but failed because this busy machine was too slow."""
    if (name, exit_status) != ("archiver replay", 1):
        return False
    document = printed("report", "latest", "--format", "json")
    return document["verdict"] in ("fail", "void") and not any(each["errors"] for each in document["results"])


def lacks_room(ran: subprocess.CompletedProcess[str]) -> bool:
    """Return whether what a command plans is larger than this machine's disk."""
    return ran.returncode == 2 and "--dry-run" in ran.args and "this may archive up to" in ran.stderr


def lacks_platform(ran: subprocess.CompletedProcess[str]) -> bool:
    """Return whether a command names a platform that is not installed on this machine."""
    return ran.returncode == 3 and "is not installed" in ran.stderr and "archiver platform install" in ran.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with Archiver's home, as in the tutorial, and with the files that examples read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARCHIVER_HOME", str(tmp_path / "tutorial"))
    Path("sizes.csv").write_text("size,share\n8KiB,70%\n1MiB,30%\n")  # for archiver plan size
    Path("need.toml").write_text(
        '[[load]]\nkind = "mail"\nusers = 30000\nmessages = 30\nmean-size = "20KiB"\n'
    )  # for archiver plan all
    write_example_files(tmp_path)  # for archiver trace
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_tutorial_and_help_examples_run_as_written() -> None:
    met = met_in_runs(*carry_out_the_tutorial())
    done = {step.command for step in steps()}
    # The clean-up removes the objects of the replay; those of the tutorial's second run are locked.
    first = ["archiver replay", "archiver cleanup"]
    for name in [*first, *(name for name in ALL if name not in first and name not in ELSEWHERE)]:
        if example(name) not in done:
            ran = run(example(name))
            excused = is_too_slow(name, ran.returncode) or lacks_room(ran) or lacks_platform(ran)
            assert ran.returncode == 0 or excused, f"{example(name)}\n{ran.stdout}\n{ran.stderr}"
    met |= compare(printed("report", "latest", "--format", "json"), "A run")
    met |= compare(printed("bundle", "verify", "audit.zip", "--json"), "A bundle")
    everything = {(heading, field) for heading, fields in tables().items() for field in fields}
    missing = {each for each in everything - met - OF_A_WORKLOAD - OF_OPTIONS if each[0] not in NOT_HERE | generated()}
    assert not missing, f"docs/reference/json.md has what no document has: {sorted(missing)}"


def test_serve_example_serves_until_ctrl_c(tmp_path: Path) -> None:
    words = shlex.split(example("archiver serve").replace("/tmp/worm-store", str(tmp_path / "worm-store")))
    process = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    assert "listens on http://127.0.0.1:" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, errors


def test_web_example_serves_until_ctrl_c() -> None:
    with started_web(*shlex.split(example("archiver web"))[2:]) as (process, address):
        assert requests.get(address, timeout=SECONDS_MAX).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 0
