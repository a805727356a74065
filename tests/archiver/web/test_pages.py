"""Test the pages of `archiver web`: runs and their states, reports, comparisons, plans and the ledger."""

from __future__ import annotations

import asyncio
import html
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from archiver.cli.answers.plan import plan
from archiver.cli.answers.web import page_sources
from archiver.cli.live.live_file import live_state
from archiver.web.forms import FieldKind
from archiver.web.guard import DOCUMENT_POLICY
from archiver.web.live_state import write_live_state
from tests.archiver.cli.live.metered_run import Run
from tests.archiver.web.served import TOKEN, begun_run, client, ended_run, text
from tests.support.commands import archiver
from tests.support.runs import TINY
from tests.support.waiting import SECONDS_MAX

HOSTILE = """</script><script>alert(1)</script>"'&{{ 7*7 }}"""
QUESTION = "users=30000&messages=30&mean-size=20KiB&from=reference:dr550"


def put_live_state(home: Path, name: str) -> None:
    """Write the live figures of a run with 80 objects/s into its folder."""
    run = Run()
    run.begin(1)
    for _ in range(4):
        run.second((10, 4), (10, 4), errors=1)
    run.meter.warned(HOSTILE)
    write_live_state([home / "runs" / name], live_state(run.meter))


def states(page: str) -> dict[str, str]:
    """Return the state of each listed run."""
    return dict(re.findall(r'data-run="([^"]+)">([^<]+)<', page))


def changed_at(folder: Path) -> dict[Path, int]:
    """Return the modification time of each file in a folder, except those that SQLite creates for readers."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {path: path.stat().st_mtime_ns for path in files}


async def test_empty_run_list_shows_the_command_to_make_a_run() -> None:
    async with client() as served:
        assert "archiver run dr550 --quick" in await text(served)


async def test_list_distinguishes_running_killed_ended_and_damaged_runs(home: Path) -> None:
    running = begun_run(home, "run-1")
    begun_run(home, "run-2").close()
    ended_run(home, "run-3")
    (home / "runs" / "run-4").mkdir()
    (home / "runs" / "run-4" / "run.db").write_text("no database")
    async with client() as served:
        page = await text(served)
        assert states(page) == {"run-1": "running", "run-2": "killed", "run-3": "finished"}
        assert re.findall(r'<td class="label (\w*)"><span class="state"', page) == ["", "care", "good"]
        assert "run-4" in page.partition("Runs that cannot be read")[2]
        running.finish(3.0, "pass")
        running.close()
        assert states(await text(served))["run-1"] == "passed"


async def test_a_run_in_progress_shows_its_live_figures(home: Path) -> None:
    running = begun_run(home, "run-1")
    put_live_state(home, "run-1")
    async with client() as served:
        for path in ("", "runs/run-1"):
            page = await text(served, path)
            assert 'id="objects-per-second">80.0<' in page
            assert "<script>alert" not in page
        assert "No news" not in page
    running.close()


async def test_killed_run_is_shown_with_its_last_figures(home: Path) -> None:
    begun_run(home, "run-1", phases_planned=3).close()
    put_live_state(home, "run-1")
    async with client() as served:
        page = await text(served, "runs/run-1")
    assert "it was killed" in page
    assert "0 of 3 phases finished" in page
    assert "archiver resume run-1" in page
    assert "Last live figures" in page
    assert 'id="live"' not in page


async def test_killed_conformance_run_shows_no_resume_command(home: Path) -> None:
    begun_run(home, "run-1", phases_planned=0).close()
    async with client() as served:
        page = await text(served, "runs/run-1")
    assert "it was killed" in page
    assert "archiver resume" not in page


async def test_event_stream_sends_figures_until_the_run_ends(home: Path) -> None:
    running = begun_run(home, "run-1")
    put_live_state(home, "run-1")
    async with client() as served, served.get(f"/{TOKEN}/runs/run-1/events") as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        first = await response.content.readuntil(b"event: figures")
        assert b"event: ended" not in first
        running.close()
        async with asyncio.timeout(SECONDS_MAX):
            rest = (await response.content.read()).decode()
    assert rest.endswith("event: ended\ndata: \n\n")
    assert "80.0" in rest


async def test_hostile_text_of_a_run_is_escaped(home: Path) -> None:
    ended_run(home, "run-1", scenario=HOSTILE, scenario_title=HOSTILE, command_line=["archiver", HOSTILE])
    async with client() as served:
        for path in ("", "runs/run-1"):
            page = await text(served, path)
            assert "alert(1)" in page
            assert "<script>alert" not in page
            assert "49" not in page


@pytest.mark.parametrize(
    "path",
    ["runs/nope", "runs/nope/report", "runs/..%2Fruns%2F..", "runs/nope/events", "plan/cars", "compare?run=a&run=b"],
)
async def test_unknown_run_plan_or_comparison_is_answered_with_404(home: Path, path: str) -> None:
    (home / "runs").mkdir(parents=True)
    (home / "run.db").write_text("outside of the folder of runs")
    async with client() as served:
        page = await text(served, path, status=404)
    assert "<h1>" in page


async def test_a_comparison_needs_two_runs(home: Path) -> None:
    ended_run(home, "run-1")
    async with client() as served:
        assert "two or more" in await text(served, "compare?run=run-1&run=run-1", status=400)


async def test_report_comparison_and_ledger_pages_match_the_commands(home: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = archiver("run", "dr550", *TINY, "--quiet")
        assert done.returncode == 0, done.stderr
    first, second = sorted(path.name for path in (home / "runs").iterdir())
    for command in (("report", first), ("compare", first, second)):
        archiver(*command, "--format", "html", "--out", str(tmp_path))
    before = changed_at(home)
    async with client() as served:
        async with served.get(f"/{TOKEN}/runs/{first}/report") as response:
            assert await response.text() == (tmp_path / "report.html").read_text()
            assert response.headers["Content-Security-Policy"] == DOCUMENT_POLICY
        async with served.get(f"/{TOKEN}/compare?run={first}&run={second}") as response:
            assert await response.text() == (tmp_path / "comparison.html").read_text()
            assert response.headers["Content-Security-Policy"] == DOCUMENT_POLICY
        left = await text(served, "ledger")
        assert f'<a href="runs/{first}">{first}</a>' in left
        assert "locks asked for until" in left
    assert changed_at(home) == before


async def test_empty_ledger_page_reports_that_nothing_is_left() -> None:
    async with client() as served:
        assert "nothing is left on any platform" in await text(served, "ledger")


def options(name: str) -> dict[str, click.Option]:
    command = plan.get_command(click.Context(plan), name)
    assert command is not None
    found = (each for each in command.params if isinstance(each, click.Option))
    return {max(each.opts, key=len).removeprefix("--"): each for each in found}


def test_every_plan_option_except_output_options_is_a_form_field() -> None:
    forms = {form.name: form for form in page_sources().plans}
    assert set(forms) == set(plan.list_commands(click.Context(plan))) - {"all"}  # which reads a file of loads
    for name, form in forms.items():
        fields = {field.name: field for field in form.fields}
        assert set(fields) == set(options(name)) - {"out", "json"}
        for field, option in ((fields[each], options(name)[each]) for each in fields):
            assert field.required == option.required
            assert field.help == option.help
            assert "UNSET" not in field.default
            assert (field.kind is FieldKind.FLAG) == option.is_flag
        assert (fields["from"].kind, fields["from"].default) == (FieldKind.RUN, "latest")
        assert fields["from"].choices[:2] == ("latest", "reference:dr550")


async def test_plan_page_shows_the_command_output_and_takes_inputs_from_the_url() -> None:
    printed = archiver(*shlex.split("plan mail --users=30000 --messages=30 --mean-size=20KiB --from=reference:dr550"))
    assert printed.returncode == 0
    async with client() as served:
        page = await text(served, f"plan/mail?{QUESTION}")
        assert printed.stdout in html.unescape(page)
        assert "archiver plan mail --users=30000 --messages=30 --mean-size=20KiB --from=reference:dr550" in page
        assert re.search(r'name="users" value="30000"', page)
        form = await text(served, "plan/mail")
    assert '<h2 id="answer">' not in form
    assert re.search(r'name="years" value="7"', form)


async def test_plan_document_equals_the_file_that_the_command_writes(tmp_path: Path) -> None:
    done = archiver(
        *shlex.split("plan mail --users=30000 --messages=30 --mean-size=20KiB --from=reference:dr550"),
        "--out", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    async with client() as served:
        (link,) = re.findall(r'href="(mail/page[^"]+)"', await text(served, f"plan/mail?{QUESTION}"))
        async with served.get(f"/{TOKEN}/plan/{html.unescape(link)}") as response:
            assert await response.text() == (tmp_path / "plan.html").read_text()
            assert response.headers["Content-Security-Policy"] == DOCUMENT_POLICY
        assert "there is no such run here" in await text(served, "plan/mail/page?from=/etc/passwd", status=400)


async def test_size_histogram_is_accepted_as_text() -> None:
    sizes = "size,share%0A8KiB,70%25%0A1MiB,30%25"
    async with client() as served:
        page = await text(served, f"plan/size?objects-per-day=500000&size-histogram={sizes}&from=reference:dr550")
        wrong = await text(
            served, "plan/size?objects-per-day=500000&size-histogram=8KiB&from=reference:dr550", status=400
        )
    assert "--size-histogram=size-histogram.csv" in page
    assert "archiver-web-" not in page + wrong
    assert "the first line must be size,share" in wrong


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (QUESTION.replace("30000", "none"), "none"),
        (QUESTION.replace("20KiB", "large"), "large"),
        (QUESTION.replace("messages=30&", ""), "--messages"),
        (QUESTION.replace("reference:dr550", "/etc/passwd"), "there is no such run here"),
        (QUESTION.replace("reference:dr550", "../../ledger.db"), "there is no such run here"),
        (f"{QUESTION}&out=/tmp/written", "no input out"),
        (f"{QUESTION}&users=1", "users is given twice"),
        (QUESTION.replace("30000", "--help"), "--help"),
    ],
)
async def test_invalid_plan_input_is_answered_with_the_reason(query: str, words: str) -> None:
    async with client() as served:
        page = await text(served, f"plan/mail?{query}", status=400)
    problem: Any = re.search(r'role="alert">(.*?)</p>', page, re.DOTALL)
    assert words in problem[1]
    assert "Traceback" not in page
