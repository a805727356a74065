"""``archiver plan``: compute platforms, times and costs from measured rates."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from archiver.cli.parameters import DURATION, SIZE
from archiver.machine.home import find_run
from archiver.values.errors import UsageError
from archiver.values.sizes import parse_size
from results.contract import json_text
from results.opened import opened
from results.planning.cost import plan_cost
from results.planning.documents import plan_document, write_plan
from results.planning.plan import (
    VIDEO_OBJECTS_PER_SESSION,
    CapacityPlan,
    LoadCourse,
    plan_mail,
    plan_retrieve,
    plan_size,
    plan_video,
)
from results.planning.prices import read_prices
from results.planning.rate_surface import REFERENCES, RateSurface, measured_surface, published_surface
from results.planning.size_histogram import read_size_histogram
from results.planning.tables import plan_tables
from results.text import render_text

_Command = TypeVar("_Command", bound=Callable[..., Any])

_WIDTH = 120
_NOT_ASKED = ("source", "out", "as_json")  # parameters that are not part of the question
_PER_DAY = 86_400.0


def parse_share(text: str) -> float:
    """Return 0.2 for ``20%``. Raises ValueError for ``0.2``, which could mean 0.2% or 20%."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
    if match is None:
        raise ValueError(f"{text!r}: write it in percent, such as 20%")
    return float(match[1]) / 100


def parse_stream_rate(text: str) -> float:
    """Return bytes per second for ``0.28MB/s``, ``280kB/s`` or ``2.24Mbit/s``.

    Raises ValueError for a lower-case b after a letter (Mb), which could mean megabit or megabyte.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)/s\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is not a stream's rate such as 0.28MB/s or 2.24Mbit/s")
    number, unit = float(match[1]), match[2]
    if re.fullmatch(r"[A-Za-z]i?b", unit):
        raise ValueError(f"{text!r}: {unit} may be bits or bytes; write {unit[:-1]}bit/s or {unit[:-1]}B/s")
    if unit.lower().endswith("bit"):
        return number * parse_size(f"1{unit[:-3]}B") / 8
    return number * parse_size(f"1{unit}")


def parsed(parse: Callable[[str], float]) -> dict[str, Any]:
    """Return the arguments of an option that uses this parser."""

    def convert(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return {"callback": convert, "metavar": "PERCENT" if parse is parse_share else "RATE"}


POSITIVE = click.IntRange(min=1)


def answer_options(command: _Command) -> _Command:
    """Add the options for the source of the rates and the output of the answer."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON document."),
        click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for tables and figure."),
        click.option(
            "--from", "source", default="latest", show_default=True, metavar=f"RUN|{'|'.join(REFERENCES)}",
            help="Measured rates: a run's id, folder or database, or published ones.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def course_options(command: _Command) -> _Command:
    """Add the options for the course of the load over the years, and its costs."""
    for option in (
        click.option("--retrieved", **parsed(parse_share), default="0%", show_default=True,
                     help="Of the objects kept, retrieved each year; only prices ask for it."),
        click.option("--prices", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                     help="TOML file of priced parts, or of a cloud's prices."),
        click.option("--what-if", is_flag=True, help="Also for fewer and more, and where it no longer fits."),
        click.option("--headroom", **parsed(parse_share), default="20%", show_default=True,
                     help="Of its time, that each platform is to keep free."),
        click.option("--growth", **parsed(parse_share), default="0%", show_default=True,
                     help="Of the load, each year."),
        click.option("--years", type=click.IntRange(1, 100), default=7, show_default=True,
                     help="Retention: nothing is removed before."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def plan() -> None:
    """Answer how many are needed, how long it takes and what it costs, from a measured run.

    Rates between measured sizes are interpolated; of the objects per session the next smaller number measured counts.
    What lies beyond the measured is said loudly, and refused beyond 4 times.
    """


@plan.command()
@click.option("--users", type=POSITIVE, required=True, help="Mailboxes.")
@click.option("--messages", type=POSITIVE, required=True, help="Of each user, each day.")
@click.option("--mean-size", type=SIZE, required=True, help="Of a message.")
@click.option(
    "--session-per", type=click.Choice(["user", "message"]), default="user", show_default=True, help="Session for each."
)
@click.option("--objects-per-session", type=POSITIVE, help="Messages in a session, whoever they are of.")
@click.option("--window", type=DURATION, default="8h", show_default=True, help="In which a day's messages go in.")
@click.option("--discovery-users", type=POSITIVE, default=1, show_default=True, help="Whose messages are retrieved.")
@click.option("--discovery-messages", type=POSITIVE, help="Of each of them  [default: a day's]")
@course_options
@answer_options
def mail(
    users: int,
    messages: int,
    mean_size: int,
    session_per: str,
    objects_per_session: int | None,
    window: float,
    discovery_users: int,
    discovery_messages: int | None,
    source: str,
    **common: Any,
) -> None:
    """Plan an archive of e-mail.

    \b
    Example:
        archiver plan mail --users 30000 --messages 30 --mean-size 20KiB --window 8h --from reference:dr550
    """
    if session_per == "message" and objects_per_session is not None:
        raise UsageError(
            "--session-per message is one object per session; leave out one of it and --objects-per-session"
        )
    found = plan_mail(
        _surface(source),
        users=users,
        messages=messages,
        mean_bytes=_size("--mean-size", mean_size),
        course=_course(**common),
        window_seconds=_window(window),
        objects_per_session=1 if session_per == "message" else objects_per_session,
        discovery_users=discovery_users,
        discovery_messages=discovery_messages,
    )
    _show(found, **common)


@plan.command()
@click.option("--cameras", type=POSITIVE, required=True, help="Streams at the same time.")
@click.option("--stream-rate", **parsed(parse_stream_rate), help="Of each camera: 0.28MB/s, 2.24Mbit/s.")
@click.option("--gigabytes-per-hour", type=float, help="The same as GB (10^9 bytes) an hour.")
@click.option(
    "--objects-per-session", type=POSITIVE, default=VIDEO_OBJECTS_PER_SESSION, show_default=True, help="When archiving."
)
@click.option("--film", type=SIZE, help="Retrieved, one object per session  [default: an hour of one camera]")
@course_options
@answer_options
def video(
    cameras: int,
    stream_rate: float | None,
    gigabytes_per_hour: float | None,
    objects_per_session: int,
    film: int | None,
    source: str,
    **common: Any,
) -> None:
    """Plan an archive of digital video.

    A film is a stream of objects of the largest size measured.

    \b
    Example:
        archiver plan video --cameras 100 --stream-rate 0.28MB/s --from reference:dr550
    """
    if (stream_rate is None) == (gigabytes_per_hour is None):
        raise UsageError("say how much a camera sends once: --stream-rate 0.28MB/s or --gigabytes-per-hour 1")
    if gigabytes_per_hour is not None and not (math.isfinite(gigabytes_per_hour) and gigabytes_per_hour > 0):
        raise UsageError(
            f"--gigabytes-per-hour {gigabytes_per_hour:g}: a camera sends something; write a number above 0"
        )
    found = plan_video(
        _surface(source),
        cameras=cameras,
        bytes_per_second=stream_rate if stream_rate is not None else (gigabytes_per_hour or 0) * 1e9 / 3600,
        course=_course(**common),
        objects_per_session=objects_per_session,
        film_bytes=None if film is None else _size("--film", film),
    )
    _show(found, **common)


@plan.command()
@click.option("--size", type=SIZE, required=True, help="Of what is retrieved, all of its objects together.")
@click.option("--parallel", type=POSITIVE, default=1, show_default=True, help="Retrievals of this size at once.")
@click.option("--objects-per-session", type=POSITIVE, default=1, show_default=True, help="Of a larger stream.")
@answer_options
def retrieve(size: int, parallel: int, objects_per_session: int, source: str, **common: Any) -> None:
    """Tell how long it takes to get something back.

    Up to the largest size measured it is one object; above, a stream of objects of that size. Parallel retrievals
    overlap only as far as it was measured with several clients.

    \b
    Example:
        archiver plan retrieve --size 1GiB --parallel 2 --from reference:dr550
    """
    found = plan_retrieve(
        _surface(source),
        size_bytes=_size("--size", size),
        parallel=parallel,
        objects_per_session=objects_per_session,
    )
    _show(found, **common)


@plan.command()
@click.option("--objects-per-day", type=POSITIVE, required=True, help="Of all sizes.")
@click.option(
    "--size-histogram", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True,
    metavar="FILE", help="Sizes, and the share of the objects that each has.",
)  # fmt: skip
@click.option("--objects-per-session", type=POSITIVE, default=1, show_default=True, help="When archiving.")
@click.option("--window", type=DURATION, default="8h", show_default=True, help="In which a day's objects go in.")
@course_options
@answer_options
def size(
    objects_per_day: int,
    size_histogram: Path,
    objects_per_session: int,
    window: float,
    source: str,
    **common: Any,
) -> None:
    """Plan an archive of any mix of sizes.

    FILE has lines such as 8KiB,70% under a first line size,share; or, as TOML, tables [[size]] with size and share.

    \b
    Example:
        archiver plan size --objects-per-day 500000 --size-histogram sizes.csv --from reference:dr550
    """
    found = plan_size(
        _surface(source),
        objects_per_day=objects_per_day,
        shares=read_size_histogram(size_histogram),
        course=_course(**common),
        window_seconds=_window(window),
        objects_per_session=objects_per_session,
    )
    _show(found, **common)


def _surface(source: str) -> RateSurface:
    if source.startswith("reference:"):
        return published_surface(source)
    with opened(find_run(source)) as database:
        return measured_surface(database)


def _course(years: int, growth: float, headroom: float, **_other: Any) -> LoadCourse:
    return LoadCourse(years, growth, headroom)


def _size(option: str, size_bytes: int) -> int:
    if size_bytes < 1:
        raise UsageError(f"{option} {size_bytes}: nothing has that size; write a size such as 20KiB")
    return size_bytes


def _window(seconds: float) -> float:
    if not 0 < seconds <= _PER_DAY:
        raise UsageError(f"--window: {seconds:g} s is no part of a day, whose objects it takes; write one such as 8h")
    return seconds


def _show(
    found: CapacityPlan,
    as_json: bool,
    out: Path | None,
    what_if: bool = False,
    prices: Path | None = None,
    retrieved: float = 0.0,
    **_course: Any,
) -> None:
    """Price the plan if prices are given, and print it. If a folder is given, write the documents."""
    if prices is None and retrieved:
        raise UsageError("--retrieved only changes what a plan costs; give --prices with it, or leave it out")
    cost = None if prices is None else plan_cost(found, read_prices(prices), retrieved)
    asked = click.get_current_context().params
    question = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asked.items()
        if name not in _NOT_ASKED and value is not None
    }
    document = plan_document(found, question, what_if=what_if or out is not None, cost=cost)
    paths = [] if out is None else write_plan(out, found, document, cost)
    if as_json:
        click.echo(json_text(document), nl=False)
    else:
        _say(found.warnings)
        for table in plan_tables(found, what_if=what_if, cost=cost):
            click.echo(render_text(table, _WIDTH))
        _say([f"doubt: {doubt}" for doubt in found.doubts])
        _say([f"not answered: {reason}" for reason in found.unanswered])
    if paths:
        click.echo(f"{paths[0]}: {len(paths)} files", err=as_json)


def _say(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        click.echo(textwrap.fill(sentence, _WIDTH, subsequent_indent="  ", break_on_hyphens=False))
