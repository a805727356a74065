"""Test `archiver plan`: the paper's examples, a real run, every command in the documentation, and bad input."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from archiver.cli import main
from archiver.cli.answers.plan import parse_redundancy, parse_share, parse_stream_rate
from results.recorded.database import VERSION
from tests.support.commands import archiver
from tests.support.documented import ROOT, words_of, written_commands
from tests.support.runs import TINY

PAGE = "docs/planning.md"
DR550 = ("--from", "reference:dr550")
MAIL = ("mail", "--users", "30000", "--messages", "30", "--mean-size", "20KiB")
SIZE = ("size", "--objects-per-day", "10", "--size-histogram")


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments])


def answers(*arguments: str) -> dict[str, Any]:
    done = plan(*arguments, "--json")
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize(
    ("arguments", "key", "low", "high"),
    [
        (MAIL, "archive_seconds", 48 * 60, 53 * 60),
        (MAIL, "retrieve_milliseconds_per_object", 71.0, 73.0),
        (("retrieve", "--size", "20KiB"), "retrieve_milliseconds_per_object", 71.0, 73.0),
        (("retrieve", "--size", "1GiB"), "retrieve_seconds", 95, 105),
        (("retrieve", "--size", "1GiB", "--parallel", "2"), "retrieve_seconds", 190, 210),
        (("video", "--cameras", "1", "--stream-rate", "0.28MB/s", "--film", "1GiB"), "retrieve_seconds", 95, 105),
        (("video", "--cameras", "100", "--stream-rate", "0.28MB/s"), "archive_seconds", 2_700, 2_900),
        (("video", "--cameras", "100", "--gigabytes-per-hour", "1"), "archive_seconds", 2_700, 2_900),
    ],
)
def test_plan_gives_the_results_of_the_paper(arguments: tuple[str, ...], key: str, low: float, high: float) -> None:
    found = answers(*arguments, *DR550)[key]
    assert low <= found["value"] <= high
    assert found["low"] < found["value"] < found["high"]


def test_plan_from_real_run_uses_its_measured_rates(home: Path, tmp_path: Path) -> None:
    done = archiver("run", "dr550", *TINY, "--backend", "null", "--json")
    assert done.returncode == 0, done.stderr
    measured = {
        (each["operation"], each["clients"]): each["objects_per_second"]["median"]
        for each in json.loads(done.stdout)["cells"]
    }
    asked = ("mail", "--users", "50", "--messages", "2", "--mean-size", "8KiB")
    found = answers(*asked)
    assert found["archive_seconds"]["value"] == pytest.approx(100 / measured["archive", 1])
    assert found["retrieve_seconds"]["value"] == pytest.approx(2 / measured["retrieve", 1])
    assert found["archive_seconds"]["low"] is None
    assert found["question"]["users"] == 50
    assert any("EXTRAPOLATED: 1 objects per session" in each for each in found["warnings"])  # the run measured 2
    said = plan(*asked, "--what-if", "--out", str(tmp_path / "out"))
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("retrieve: EXTRAPOLATED: ")
    assert "no longer fits" in said.stdout
    assert (tmp_path / "out" / "what-if.png").stat().st_size > 10_000
    assert said.stdout.endswith(f"{tmp_path}/out/plan.html: 11 files\n")
    assert home.exists()
    far = plan("mail", "--users", "50", "--messages", "9000", "--mean-size", "8KiB")
    hint = "archiver run dr550 --backend null --set object_sizes=8KiB --set objects_per_session=500"
    assert hint in " ".join(far.stderr.split())


@pytest.mark.platforms
@pytest.mark.usefixtures("home")
def test_footprint_of_small_locked_objects_is_measured() -> None:
    """versitygw keeps a file of 8 KiB and a block of 4 KiB with its attributes for each object."""
    several = [value if value != "objects_per_session=2" else "objects_per_session=200" for value in TINY]
    done = archiver("run", "dr550", *several, "--platform", "versitygw", "--quiet")
    assert done.returncode == 0, done.stderr
    found = answers("mail", "--users", "50", "--messages", "500", "--mean-size", "8KiB", "--usable", "1TB")
    assert found["footprint"] == pytest.approx(1.5, abs=0.1)
    assert found["years"][-1]["needs"][1]["exact"]["value"] == pytest.approx(
        found["years"][-1]["bytes_kept"] * found["footprint"] / 0.8e12
    )


@pytest.fixture
def with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder with the files that the documentation page shows."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / PAGE).read_text()
    shown = re.findall(r"^```(csv|toml)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = ("sizes.csv", "need.toml", "must.toml", "array.toml", "cloud.toml")
    assert len(shown) == len(names)
    for name, (_, content) in zip(names, shown, strict=True):
        Path(name).write_text(content)
    Path("need.toml").write_text(Path("must.toml").read_text() + Path("need.toml").read_text())


@pytest.mark.usefixtures("with_files")
@pytest.mark.parametrize("line", [line for line in written_commands(PAGE) if " RUN" not in line])
def test_every_command_of_the_page_runs(line: str) -> None:
    done = CliRunner().invoke(main, words_of(line)[1:])
    assert done.exit_code == 0, done.output
    if "--prices" in line:
        assert "TB-year" in done.output


def test_every_option_named_on_the_page_exists() -> None:
    described = "".join(plan(name, "--help").output for name in ("mail", "video", "retrieve", "size", "backup"))
    named = set(re.findall(r"`(--[a-z-]+)", (ROOT / PAGE).read_text())) - {"--repeat", "--session-open", "--disclose"}
    assert len(named) > 5
    assert all(f"{option} " in described for option in named), named


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("mail", "--users", "0", *MAIL[3:], *DR550), 2, "'--users': 0 is not in the range"),
        ((*MAIL[:5], "--mean-size", "0", *DR550), 2, "--mean-size 0: must be above 0"),
        ((*MAIL[:5], "--mean-size", "20B", *DR550), 1, "archive of 20B objects, 30 per session, is more than 4 times"),
        ((*MAIL[:5], "--mean-size", "20 parsecs", *DR550), 2, "unknown size unit 'parsecs'"),
        ((*MAIL, "--window", "8", *DR550), 2, "a duration needs a unit"),
        ((*MAIL, "--window", "2d", *DR550), 2, "--window: 172800 s; write a time above 0"),
        ((*MAIL, "--window", "0s", *DR550), 2, "write a time above 0 and at most 24h"),
        ((*MAIL, "--growth", "0.1", *DR550), 2, "'0.1': write it in percent"),
        ((*MAIL, "--headroom", "100%", *DR550), 2, "a headroom of 100% leaves no room"),
        ((*MAIL, "--years", "0", *DR550), 2, "0 is not in the range"),
        ((*MAIL, "--retrieved", "5%", *DR550), 2, "--retrieved only changes what a plan costs"),
        ((*MAIL, "--session-per", "message", "--objects-per-session", "5", *DR550), 2, "one object per session"),
        ((*MAIL, "--prices", "no-such.toml", *DR550), 2, "does not exist"),
        ((*MAIL, "--from", "reference:dr990"), 1, "no such published study; choose one of: reference:dr550"),
        ((*MAIL, "--from", "no-such-run"), 2, "no such run"),
        (("video", "--cameras", "3", *DR550), 2, "give the rate of a camera once"),
        (
            ("video", "--cameras", "3", "--stream-rate", "1MB/s", "--gigabytes-per-hour", "1", *DR550), 2,
            "give the rate of a camera once",
        ),
        (("video", "--cameras", "3", "--stream-rate", "0.28Mb/s", *DR550), 2, "Mb may be bits or bytes"),
        (("video", "--cameras", "3", "--stream-rate", "0MB/s", *DR550), 2, "is not possible"),
        (("video", "--cameras", "3", "--gigabytes-per-hour", "nan", *DR550), 2, "write a number above 0"),
        ((*MAIL, "--usable", "0", *DR550), 2, "usable capacity: 0 is not possible"),
        ((*MAIL, "--redundancy", "0.5", *DR550), 2, "write a number of copies, such as 2, or an erasure code"),
        ((*MAIL, "--restore", "1TB", *DR550), 2, "--restore is an amount and --restore-within its time: give both"),
        ((*MAIL, "--clients", "4", *DR550), 1, "did not measure archive with 4 clients (measured: 1 client)"),
        ((*MAIL, "--retention", "5", *DR550), 2, "a duration needs a unit"),
        (("backup", "--full", "1TB", "--full-every", "36h", *DR550), 2, "--full-every: 1.5 days; write whole days"),
        (("backup", "--full", "0", *DR550), 2, "--full 0: must be above 0"),
        (("backup", "--full", "1TB", "--change", "200%", *DR550), 2, "a change of 200% a day is not possible"),
        (("retrieve", "--size", "0", *DR550), 2, "--size 0: must be above 0"),
        (("retrieve", "--size", "1KiB", *DR550), 1, "is more than 4 times beyond"),
        ((*SIZE, "no-such.csv", *DR550), 2, "does not exist"),
    ],
)  # fmt: skip
def test_bad_input_has_one_clear_message(arguments: tuple[str, ...], status: int, words: str) -> None:
    done = plan(*arguments)
    assert (done.exit_code, done.stdout) == (status, "")
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_run_that_cannot_be_read_is_named(home: Path) -> None:
    assert archiver("run", "dr550", *TINY, "--backend", "null", "--quiet").returncode == 0
    (folder,) = (home / "runs").iterdir()
    path = folder / "run.db"
    whole = path.read_bytes()

    def refused(words: str) -> None:
        done = plan(*MAIL, "--from", str(folder))
        assert (done.exit_code, done.stdout) == (1, "")
        assert words in done.stderr
        assert done.exception is None or isinstance(done.exception, SystemExit)

    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    refused(f"has format version {VERSION + 1}, and this Archiver reads only {VERSION}")
    path.write_bytes(whole[: len(whole) // 2])
    refused("run.db")
    path.write_bytes(b"")
    refused("no results database")
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM result")
        database.execute("DELETE FROM phase")
    refused("no phase finished")


@pytest.mark.parametrize(
    ("text", "rate"),
    [("0.28MB/s", 280_000.0), ("280kB/s", 280_000.0), ("1MiB/s", 1 << 20), ("2.24Mbit/s", 280_000.0), ("8bit/s", 1.0)],
)
def test_a_streams_rate_is_bytes_per_second(text: str, rate: float) -> None:
    assert parse_stream_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(("text", "factor"), [("2", 2.0), ("4+2", 1.5), (" 8 + 3 ", 1.375), ("1.2", 1.2), ("5+0", 1.0)])
def test_redundancy_is_number_of_copies_or_erasure_code(text: str, factor: float) -> None:
    assert parse_redundancy(text) == factor
    for wrong in ("0", "0.9", "4+", "+2", "0+2", "4-2", "twice"):
        with pytest.raises(ValueError, match="number of copies"):
            parse_redundancy(wrong)


def test_plan_options_change_the_number_of_platforms() -> None:
    """Keep 6.7 TB and 328.5 million objects a year for two years, on platforms of 8 TB including parity."""
    asked = ("--retention", "2y", "--usable", "8TB", "--redundancy", "4+1", "--headroom", "0%", "--growth", "0%")
    found = answers(*MAIL, *asked, "--objects-max", "100000000", "--restore-within", "30d", "--restore", "1TB", *DR550)
    assert found["question"]["retention_years"] == 2.0
    assert found["question"]["redundancy"] == 1.25
    assert found["bytes_kept_max"] == pytest.approx(2 * 900_000 * (20 << 10) * 365)
    needs = {need["reason"]: need["exact"]["value"] for need in found["years"][-1]["needs"]}
    assert needs["capacity"] == pytest.approx(13.455e12 * 1.25 / 8e12, rel=1e-3)
    assert needs["objects"] == pytest.approx(6.57)
    assert set(needs) == {"archive rate", "capacity", "objects", "restore time"}
    assert (found["decided_by"], found["platforms"]["value"]) == ("objects", 7)


def test_a_backup_is_planned_from_the_papers_rates() -> None:
    found = answers("backup", "--full", "100GB", "--window", "24h", "--retention", "90d", "--usable", "1TB", *DR550)
    assert found["archive_seconds"]["value"] == pytest.approx(100e9 / 5.18 / (1 << 20))
    # A chain has 118 GB and is kept for 97 days. On the sixth day the 13 previous chains are kept as well.
    assert found["bytes_kept_max"] == pytest.approx(13 * 118e9 + 115e9)
    assert (found["decided_by"], found["platforms"]["value"]) == ("capacity", 3)


def test_year_of_mail_is_retrieved_in_sessions_of_measured_length() -> None:
    """10,950 messages of 20 KiB, 500 in a session, from one platform and from all."""
    asked = ("--discovery-messages", "10950", "--discovery-within", "1h", "--usable", "10TB")
    found = answers(*MAIL, *asked, *DR550)
    discovery = found["discovery"]
    assert discovery["objects_per_session"] == 500
    assert discovery["seconds_on_one_platform"] == discovery["seconds_on_all_platforms"]  # one user, on one platform
    spread = answers(*MAIL, *asked, "--discovery-layout", "spread", *DR550)["discovery"]
    assert found["platforms"]["value"] == 6
    assert spread["seconds_on_all_platforms"]["value"] == pytest.approx(
        discovery["seconds_on_one_platform"]["value"] / 6
    )
    assert discovery["fits"]
    shown = " ".join(plan(*MAIL, *asked, *DR550).output.split())
    assert "within 1h from all platforms yes yes yes" in shown
    refused = plan(*MAIL, "--discovery-messages", "10950", "--discovery-within", "5s", *DR550)
    assert refused.exit_code == 2
    assert "no number of platforms retrieves them within 5s" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("text", ["0.28MB", "0.28", "Mb/s", "1Mb/s", "1Mib/s", "1parsec/s", "-1MB/s", "1 MB per s"])
def test_ambiguous_or_malformed_stream_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a stream's rate|may be bits or bytes|unknown size unit"):
        parse_stream_rate(text)


def test_share_without_percent_sign_is_refused() -> None:
    assert parse_share("12.5%") == 0.125
    for text in ("0.1", "10", "ten%", "-5%"):
        with pytest.raises(ValueError, match="in percent"):
            parse_share(text)
