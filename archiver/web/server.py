"""The server of `archiver web`: one handler per page, and streams of server-sent events for runs in progress.

It only reads: no request starts or changes a run, and nothing is deleted.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import shlex
import signal
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvloop
from aiohttp import web
from aiohttp.http import HttpProcessingError

from archiver.values.errors import ArchiverError, UsageError
from archiver.web.commands import CommandOutcome, CommandPages, carry_out, carry_out_for_page
from archiver.web.forms import CommandForm, FieldKind, command_arguments
from archiver.web.guard import DOCUMENT_POLICY, add_headers, guard, new_token
from archiver.web.live_state import read_live_state
from archiver.web.run_states import RunList, RunState, ShownRun, run_details
from archiver.web.templates import STATIC_FILES, live_view, render, static_file
from results.comparison import page as comparison_page
from results.document.html import table_view
from results.document.table import Table, linked
from results.report.documents import PAGE_NAME
from results.report.index import runs_table

EVENT_SECONDS = 1.0  # as often as a run writes its live state
_RECONNECT_MILLISECONDS = 2000
_SHUTDOWN_SECONDS = 2.0  # time for answers in progress
_FIRST_COLUMNS = ("run", "verdict", "warnings")
_PLAN_PAGE = "plan.html"  # the file that archiver plan writes
_CarryOut = Callable[[Sequence[str]], Awaitable[CommandOutcome]]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class PageSources:
    """Contents that the server shows in addition to the runs in its folder."""

    runs_dir: Path
    ledger: Callable[[], tuple[Table | None, Sequence[str]]]  # its table, and sentences about it
    plans_about: str
    plans: Sequence[CommandForm]


class _OwnFaults(logging.Filter):
    """Passes the server's own faults on to the terminal, and no malformed request: its client gets 400."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, (HttpProcessingError, web.RequestPayloadError))


class _NotShown(ArchiverError):
    """A page that cannot be shown."""

    def __init__(self, status: int, title: str, words: str) -> None:
        super().__init__(words)
        self.status, self.title = status, title


class Pages:
    """The handlers of all pages."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._list = RunList(sources.runs_dir)
        self._made = CommandPages()
        self._stopping = asyncio.Event()

    def application(self, token: str, host: str) -> web.Application:
        """Return the application that answers requests with this token."""
        application = web.Application(middlewares=[guard(token, host), _shown_problems])
        application.on_response_prepare.append(add_headers)
        application.on_startup.append(self._start)
        application.on_shutdown.append(self._stop)
        root = "/{token}"
        application.add_routes(
            [
                web.get(root, _to_root),
                web.get(f"{root}/", self._runs),
                web.get(f"{root}/events", self._list_events),
                web.get(f"{root}/runs/{{run}}", self._run),
                web.get(f"{root}/runs/{{run}}/events", self._run_events),
                web.get(f"{root}/runs/{{run}}/report", self._report),
                web.get(f"{root}/compare", self._compare),
                web.get(f"{root}/plan", self._plans),
                web.get(f"{root}/plan/{{plan}}", self._plan),
                web.get(f"{root}/plan/{{plan}}/page", self._plan_page),
                web.get(f"{root}/ledger", self._ledger),
                *(web.get(f"{root}/{name}", _static) for name in STATIC_FILES),
            ]
        )
        return application

    async def _start(self, _application: web.Application) -> None:
        self._reading = asyncio.create_task(self._read_ahead())

    async def _read_ahead(self) -> None:
        """Read the databases before the first request. Each run takes 40 ms of CPU, and long runs take more."""
        for name in await asyncio.to_thread(self._list.names):
            await asyncio.to_thread(self._list.run, name)

    async def _stop(self, _application: web.Application) -> None:
        self._stopping.set()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _runs(self, _request: web.Request) -> web.Response:
        runs = await asyncio.to_thread(self._list.runs)
        listed = [run for run in runs.values() if run.figures is not None]
        table = runs_table(run.figures for run in listed if run.figures is not None)
        view = table_view(_in_order(table))
        return _html(
            "runs.html",
            up="",
            view=view,
            rows=list(zip(listed, view["rows"], strict=True)),
            unread=[run for run in runs.values() if run.figures is None],
            running=await asyncio.to_thread(_running, runs),
        )

    async def _list_events(self, request: web.Request) -> web.StreamResponse:
        def events() -> list[tuple[str, str]]:
            runs = self._list.runs()
            states = {run.id: run.words for run in runs.values() if run.figures is not None}
            return [("states", json.dumps(states)), ("figures", render("running.html", running=_running(runs)))]

        return await self._stream(request, events)

    async def _run(self, request: web.Request) -> web.Response:
        run = await self._found(request)
        if run.figures is None:
            raise _NotShown(500, f"Run {run.id} cannot be read", run.problem)
        details = await asyncio.to_thread(run_details, run.database)
        return _html("run.html", up="../", run=run, details=details, live=await asyncio.to_thread(_live, run))

    async def _run_events(self, request: web.Request) -> web.StreamResponse:
        name = (await self._found(request)).id

        def events() -> list[tuple[str, str]]:
            run = self._list.run(name)
            if run is None or run.state is not RunState.RUNNING:
                return [("ended", "")]
            return [("figures", render("progress.html", live=_live(run)))]

        return await self._stream(request, events)

    async def _report(self, request: web.Request) -> web.Response:
        run = await self._found(request)
        arguments = ["report", str(run.database), "--format", "html"]
        key = ("report", run.id, run.fingerprint)
        made = await self._made.page(key, lambda: carry_out_for_page(arguments, PAGE_NAME))
        if made.problem:
            raise _NotShown(500, f"No report of {run.id}", made.problem)
        return _document(made.printed)

    async def _compare(self, request: web.Request) -> web.Response:
        names = list(dict.fromkeys(request.query.getall("run", [])))
        if len(names) < 2:
            raise _NotShown(400, "No comparison", "Tick two or more runs in the list of runs.")
        runs = await asyncio.to_thread(lambda: [self._list.run(name) for name in names])
        found = [run for run in runs if run is not None]
        if len(found) < len(runs):
            missing = next(name for name, run in zip(names, runs, strict=True) if run is None)
            raise _NotShown(404, "No comparison", f"There is no run {missing} here.")
        arguments = ["compare", *(str(run.database) for run in found), "--format", "html"]
        key = ("compare", *((run.id, run.fingerprint) for run in found))
        made = await self._made.page(key, lambda: carry_out_for_page(arguments, comparison_page.PAGE_NAME))
        if made.problem:
            raise _NotShown(400, "No comparison", made.problem)
        return _document(made.printed)

    async def _plans(self, _request: web.Request) -> web.Response:
        return _html("plans.html", up="", forms=self._sources.plans, about=self._sources.plans_about)

    async def _plan(self, request: web.Request) -> web.Response:
        form, runs = await self._form(request)
        command, answer = "", CommandOutcome("", "")
        if request.query:
            command, answer = await self._answer(form, request, runs, carry_out)
        return _html(
            "plan.html",
            up="../",
            form=form,
            given=request.query,
            query=request.query_string,
            run_names=runs,
            problem=answer.problem,
            printed=answer.printed,
            command=command,
            status=400 if answer.problem else 200,
        )

    async def _plan_page(self, request: web.Request) -> web.Response:
        form, runs = await self._form(request)
        _, answer = await self._answer(form, request, runs, partial(carry_out_for_page, name=_PLAN_PAGE))
        if answer.problem:
            raise _NotShown(400, f"No plan of {form.name}", answer.problem)
        return _document(answer.printed)

    async def _form(self, request: web.Request) -> tuple[CommandForm, list[str]]:
        """Return the form that a request names, and the sources of rates that it accepts."""
        name = request.match_info["plan"]
        form = next((each for each in self._sources.plans if each.name == name), None)
        if form is None:
            plans = ", ".join(each.name for each in self._sources.plans)
            raise _NotShown(404, "No such plan", f"There is no plan {name}; there are {plans}.")
        runs = [run.id for run in (await asyncio.to_thread(self._list.runs)).values() if run.figures is not None]
        return form, [*next((field.choices for field in form.fields if field.kind is FieldKind.RUN), ()), *runs]

    async def _answer(
        self, form: CommandForm, request: web.Request, runs: Sequence[str], carried_out: _CarryOut
    ) -> tuple[str, CommandOutcome]:
        """Return the command of a filled form, and its outcome."""
        with tempfile.TemporaryDirectory(prefix="archiver-web-") as folder:
            try:
                arguments = command_arguments(form, list(request.query.items()), runs, Path(folder))
            except UsageError as wrong:
                return "", CommandOutcome("", str(wrong))
            outcome = await self._made.page(None, lambda: carried_out(arguments))
            printed, problem = (each.replace(f"{folder}/", "") for each in (outcome.printed, outcome.problem))
            return shlex.join(["archiver", *arguments]).replace(f"{folder}/", ""), CommandOutcome(printed, problem)

    async def _ledger(self, _request: web.Request) -> web.Response:
        table, sentences = await asyncio.to_thread(self._sources.ledger)
        links = {name: f"runs/{quote(name)}" for name in await asyncio.to_thread(self._list.runs)}
        view = None if table is None else table_view(linked(table, links))
        return _html("ledger.html", up="", view=view, sentences=sentences)

    async def _found(self, request: web.Request) -> ShownRun:
        name = request.match_info["run"]
        run = await asyncio.to_thread(self._list.run, name)
        if run is None:
            raise _NotShown(404, "No such run", f"There is no run {name} here.")
        return run

    async def _stream(self, request: web.Request, events: Callable[[], list[tuple[str, str]]]) -> web.StreamResponse:
        """Send the events once a second until one of them is ``ended``, the reader is gone, or the server stops."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        await response.write(f"retry: {_RECONNECT_MILLISECONDS}\n\n".encode())
        try:
            while not self._stopping.is_set():
                sent = await asyncio.to_thread(events)
                await response.write("".join(_event(name, data) for name, data in sent).encode())
                if any(name == "ended" for name, _ in sent):
                    break
                try:
                    await asyncio.wait_for(self._stopping.wait(), EVENT_SECONDS)
                except TimeoutError:
                    continue
        except ConnectionResetError:  # the reader closed the page
            pass
        return response


def serve(sources: PageSources, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the pages until SIGINT or SIGTERM. ``ready`` gets the address of the first page, with the token.

    Raises UsageError if the server cannot listen there.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(sources, host, port, ready))


async def _serve(sources: PageSources, host: str, port: int, ready: Callable[[str], None]) -> None:
    token = new_token()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    faults = logging.getLogger(__name__)
    faults.addFilter(_OwnFaults())
    pages = Pages(sources).application(token, host)
    runner = web.AppRunner(pages, logger=faults, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as failed:
            raise UsageError(
                f"cannot listen on {host} port {port}: {failed.strerror}; "
                "choose another port with --port, or 0 for any free one"
            ) from failed
        (address, own_port, *_) = runner.addresses[0]
        ready(f"http://{_reached_as(address)}:{own_port}/{token}/")
        await stop.wait()
    finally:
        await runner.cleanup()


def _reached_as(address: str) -> str:
    """Return the host of a URL for a listening address; for an unspecified address, this machine's name."""
    if ipaddress.ip_address(address).is_unspecified:
        return socket.gethostname()
    return f"[{address}]" if ":" in address else address


@web.middleware
async def _shown_problems(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Show a problem as a page."""
    try:
        return await handler(request)
    except _NotShown as problem:
        status, title, words = problem.status, problem.title, str(problem)
    except ArchiverError as error:
        status, title, words = 500, "This page cannot be shown", str(error)
    up = "../" * (request.path.count("/") - 2)
    return _html("message.html", up=up, title=title, words=words, status=status)


async def _to_root(request: web.Request) -> web.Response:
    raise web.HTTPFound(f"{request.path}/")


async def _static(request: web.Request) -> web.Response:
    name = request.path.rpartition("/")[2]
    return web.Response(body=static_file(name), content_type=STATIC_FILES[name][2], charset="utf-8")


def _in_order(table: Table) -> Table:
    """Return the table of runs with the columns first that a narrow screen shows without scrolling."""
    names = [column.name for column in table.columns]
    places = sorted(range(len(names)), key=lambda at: (names[at] not in _FIRST_COLUMNS, at))
    return replace(
        table,
        columns=tuple(table.columns[at] for at in places),
        rows=tuple(tuple(row[at] for at in places) for row in table.rows),
    )


def _running(runs: Mapping[str, ShownRun]) -> list[tuple[ShownRun, dict[str, Any] | None]]:
    return [(run, _live(run)) for run in runs.values() if run.state is RunState.RUNNING]


def _live(run: ShownRun) -> dict[str, Any] | None:
    """Return the live state of a run; for a killed run its last state, without an age. None without one."""
    state = read_live_state(run.folder)
    if state is None or run.state is RunState.ENDED:
        return None
    return live_view(state, time.time() if run.state is RunState.RUNNING else state.written_at)


def _event(name: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n"


def _html(template: str, *, status: int = 200, **values: Any) -> web.Response:
    return web.Response(text=render(template, **values), content_type="text/html", charset="utf-8", status=status)


def _document(text: str) -> web.Response:
    """Return a page that a command made as one file."""
    return web.Response(
        text=text, content_type="text/html", charset="utf-8", headers={"Content-Security-Policy": DOCUMENT_POLICY}
    )
