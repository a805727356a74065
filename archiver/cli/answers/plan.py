"""``archiver plan``: compute platforms, times and costs from measured rates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from archiver.cli.answers.need import read_need
from archiver.cli.parameters import DURATION, SIZE
from archiver.machine.home import find_run
from archiver.values.errors import UsageError
from archiver.values.sizes import parse_size
from results.document.files import json_text, write_files
from results.planning.answer import PlanAnswer, answer
from results.planning.capacity import mixed_trials
from results.planning.combined import CombinedPlan, CombinedRequest, combine
from results.planning.combined_documents import combined_document, combined_files, combined_text
from results.planning.documents import plan_document, plan_files, plan_text
from results.planning.loads import (
    DAY_SECONDS,
    VIDEO_OBJECTS_PER_SESSION,
    YEAR_SECONDS,
    BackupLoad,
    LoadCourse,
    MailLoad,
    PlannedLoad,
    PlanRequest,
    PlatformLimits,
    RetrieveLoad,
    SizeLoad,
    VideoLoad,
)
from results.planning.measured_rates import REFERENCES, measured_surface, published_surface
from results.planning.rate_surface import RateSurface
from results.planning.size_histogram import read_size_histogram
from results.prices.prices import read_prices
from results.recorded.run import opened

_Command = TypeVar("_Command", bound=Callable[..., Any])

_WIDTH = 120
PAGE_NAME = "plan.html"


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


def parse_redundancy(text: str) -> float:
    """Return the bytes stored for each byte: 2.0 for ``2`` copies, 1.5 for the erasure code ``4+2``.

    Raises ValueError for anything else.
    """
    code = re.fullmatch(r"\s*([1-9][0-9]*)\s*\+\s*([0-9]+)\s*", text)
    if code is not None:
        return (int(code[1]) + int(code[2])) / int(code[1])
    copies = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*", text)
    if copies is None or float(copies[1]) < 1:
        raise ValueError(f"{text!r}: write a number of copies, such as 2, or an erasure code, such as 4+2")
    return float(copies[1])


def parse_step(text: str) -> tuple[int, float]:
    """Return (3, 0.2) for ``3:20%``: a fifth of the load today is added at the beginning of year 3.

    Raises ValueError for anything else.
    """
    year, colon, share = text.partition(":")
    if not (colon and year.strip().isdecimal()):
        raise ValueError(f"{text!r}: write the year and the growth, such as 3:20%")
    return int(year), parse_share(share)


def _parsed_steps(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[int, float], ...]:
    try:
        return tuple(parse_step(text) for text in texts)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


_METAVARS: Mapping[Callable[[str], float], str] = {
    parse_share: "PERCENT",
    parse_stream_rate: "RATE",
    parse_redundancy: "COPIES|K+M",
}


def parsed(parse: Callable[[str], float]) -> dict[str, Any]:
    """Return the arguments of an option that uses this parser."""

    def convert(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return {"callback": convert, "metavar": _METAVARS[parse]}


POSITIVE = click.IntRange(min=1)


def _one_source(_context: click.Context, _parameter: click.Parameter, sources: tuple[str, ...]) -> str:
    """Return the only source of rates. Raises BadParameter for several, of which one would be ignored."""
    if len(sources) > 1:
        raise click.BadParameter(f"given {len(sources)} times; archiver plan all shows several platforms side by side")
    return sources[0]


_SOURCE: Mapping[str, Any] = {
    "multiple": True, "default": ("latest",), "show_default": True, "metavar": f"RUN|{'|'.join(REFERENCES)}",
}  # fmt: skip
_OUTPUT = (
    click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON document."),
    click.option("--out", type=click.Path(file_okay=False, path_type=Path),
                 help="Folder for the page plan.html, tables and figure."),
)  # fmt: skip


def answer_options(command: _Command) -> _Command:
    """Add the options for the source of the rates and the output of the answer."""
    for option in (
        *_OUTPUT,
        click.option("--from", "source", callback=_one_source, **_SOURCE,
                     help="Measured rates: a run's id, folder or database, or published ones."),
    ):  # fmt: skip
        command = option(command)
    return command


def course_options(command: _Command) -> _Command:
    """Add the options for the course of the load over the years, the limits of a platform, and the costs."""
    for option in (
        click.option("--retrieved", **parsed(parse_share), default="0%", show_default=True,
                     help="Share of the kept objects that is retrieved per year; only prices use it."),
        click.option("--prices", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                     help="TOML file of priced parts, or of cloud prices."),
        click.option("--what-if", is_flag=True,
                     help="Also show fewer and more users, cameras or objects per day, and where the load no longer "
                     "fits."),
        click.option("--restore", "restore", type=SIZE,
                     help="Amount to restore within --restore-within, at today's load  [default: everything that "
                     "is kept; for backups, a full backup and its increments]"),
        click.option("--restore-within", type=DURATION,
                     help="Time in which all platforms together must restore that amount."),
        click.option("--objects-max", type=POSITIVE, help="Objects that one platform (all its buckets) can hold."),
        click.option("--redundancy", **parsed(parse_redundancy), default="1", show_default=True,
                     help="Number of copies, or an erasure code, that the usable capacity must hold. The measured "
                     "rates already have its cost."),
        click.option("--reduction", type=click.FloatRange(min=1), default=1.0, show_default=True,
                     help="Bytes of objects for each byte on disk, by compression and deduplication."),
        click.option("--footprint", type=click.FloatRange(min=1),
                     help="Bytes that the platform takes on its disks for each byte of an object, without redundancy  "
                     "[default: as the run measured it]"),
        click.option("--usable", type=SIZE,
                     help="Usable capacity of one platform  [default: as disclosed with the run]"),
        click.option("--clients", type=POSITIVE,
                     help="Clients that archive to each platform  [default: the fastest number that was measured]"),
        click.option("--headroom", **parsed(parse_share), default="20%", show_default=True,
                     help="Share of its time and of its usable capacity that each platform keeps free."),
        click.option("--step", "steps", multiple=True, callback=_parsed_steps, metavar="YEAR:PERCENT",
                     help="Growth at the beginning of a year, such as 3:20% of the load today. Repeat it for several."),
        click.option("--growth", **parsed(parse_share), default="0%", show_default=True,
                     help="Growth of the load per year."),
        click.option("--extend-every", type=DURATION, help="Time between two extensions of a lock  [default: none]"),
        click.option("--held", **parsed(parse_share), default="0%", show_default=True,
                     help="Share of the objects that are under hold and never removed."),
        click.option("--lock-extra", type=DURATION, default="0s", show_default=True,
                     help="Time for which objects are kept beyond retention and lock, until a block is sealed or "
                     "removed."),
        click.option("--lock", type=DURATION, help="Lock of the platform, if it may be longer than --retention."),
        click.option("--retention", type=DURATION,
                     help="Lock period, after which objects are removed  [default: nothing is removed]"),
        click.option("--years", type=click.IntRange(1, 100), default=7, show_default=True,
                     help="Years for which the platforms are bought."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def plan() -> None:
    """Compute how many platforms a load needs.

    The rates come from a measured run. The number of platforms is the largest of several needs: archive rate, capacity
    (--usable), objects (--objects-max) and restore time (--restore-within). The answer says which of them decided, how
    long a retrieval takes and what it costs. Rates between measured sizes are interpolated. For the objects per session
    the next smaller measured number counts. Rates beyond the measured sizes are marked, and refused beyond 4 times.
    """


@plan.command()
@click.option("--users", type=POSITIVE, required=True, help="Number of mailboxes.")
@click.option("--messages", type=POSITIVE, required=True, help="Messages of each user per day.")
@click.option("--mean-size", type=SIZE, required=True, help="Mean size of a message.")
@click.option(
    "--session-per",
    type=click.Choice(["user", "message"]),
    default="user",
    show_default=True,
    help="Content of a session: the messages of one user, or one message.",
)
@click.option("--objects-per-session", type=POSITIVE, help="Messages per session, of any users.")
@click.option(
    "--window",
    type=DURATION,
    default="8h",
    show_default=True,
    help="Time in which the messages of a day must be archived.",
)
@click.option(
    "--discovery-users",
    type=POSITIVE,
    default=1,
    show_default=True,
    help="Users whose messages a discovery retrieves.",
)
@click.option(
    "--discovery-messages",
    type=POSITIVE,
    help="Messages of each of these users that a discovery retrieves  [default: those of a day]",
)
@click.option(
    "--discovery-within", type=DURATION, help="Time in which all platforms together must retrieve these messages."
)
@click.option(
    "--discovery-layout",
    type=click.Choice(["together", "spread"]),
    default="together",
    show_default=True,
    help="Messages of one user: together on one platform, or spread over all platforms.",
)
@course_options
@answer_options
def mail(**given: Any) -> None:
    """Plan an archive of e-mail.

    \b
    Example:
        archiver plan mail --users 30000 --messages 30 --mean-size 20KiB --window 8h --from reference:dr550
    """
    _show("mail", given)


@plan.command()
@click.option("--cameras", type=POSITIVE, required=True, help="Cameras that record at the same time.")
@click.option("--stream-rate", **parsed(parse_stream_rate), help="Rate of each camera: 0.28MB/s, 2.24Mbit/s.")
@click.option("--gigabytes-per-hour", type=float, help="The same rate in GB (10^9 bytes) per hour.")
@click.option(
    "--objects-per-session",
    type=POSITIVE,
    default=VIDEO_OBJECTS_PER_SESSION,
    show_default=True,
    help="Objects per session when archiving.",
)
@click.option(
    "--hours",
    type=click.FloatRange(0, 24, min_open=True),
    default=24.0,
    show_default=True,
    help="Hours of recording a day.",
)
@click.option(
    "--motion",
    **parsed(parse_share),
    default="100%",
    show_default=True,
    help="Share of these hours that is recorded because something moves. The busiest hour counts as a whole.",
)
@click.option(
    "--film",
    type=SIZE,
    help="Size of a retrieved film, one object per session  [default: an hour of one camera]",
)
@course_options
@answer_options
def video(**given: Any) -> None:
    """Plan an archive of digital video.

    A film is stored as objects of the largest measured size.

    \b
    Example:
        archiver plan video --cameras 100 --stream-rate 0.28MB/s --from reference:dr550
    """
    _show("video", given)


@plan.command()
@click.option("--size", type=SIZE, required=True, help="Total size of the objects of a retrieval.")
@click.option("--parallel", type=POSITIVE, default=1, show_default=True, help="Parallel retrievals of this size.")
@click.option(
    "--objects-per-session", type=POSITIVE, default=1, show_default=True, help="Objects per session when retrieving."
)
@answer_options
def retrieve(**given: Any) -> None:
    """Compute how long a retrieval takes.

    Up to the largest measured size a retrieval is one object, and above it a sequence of objects of that size. Parallel
    retrievals overlap only as far as runs with several clients have shown.

    \b
    Example:
        archiver plan retrieve --size 1GiB --parallel 2 --from reference:dr550
    """
    _show("retrieve", given)


@plan.command()
@click.option("--objects-per-day", type=POSITIVE, required=True, help="Objects per day, of all sizes.")
@click.option(
    "--size-histogram", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True,
    metavar="FILE", help="CSV or TOML file of object sizes, and the share of each.",
)  # fmt: skip
@click.option(
    "--objects-per-session", type=POSITIVE, default=1, show_default=True, help="Objects per session when archiving."
)
@click.option(
    "--window",
    type=DURATION,
    default="8h",
    show_default=True,
    help="Time in which the objects of a day must be archived.",
)
@course_options
@answer_options
def size(**given: Any) -> None:
    """Plan an archive of any mix of object sizes.

    FILE is CSV with the first line size,share and lines such as 8KiB,70%. It may also be TOML, with tables [[size]] of
    size and share.

    \b
    Example:
        archiver plan size --objects-per-day 500000 --size-histogram sizes.csv --from reference:dr550
    """
    _show("size", given)


@plan.command()
@click.option("--full", type=SIZE, required=True, help="Size of a full backup.")
@click.option("--change", **parsed(parse_share), default="3%", show_default=True,
              help="Share of a full backup that is backed up on each day between full backups.")  # fmt: skip
@click.option(
    "--full-every", type=DURATION, default="7d", show_default=True, help="Time between full backups, in whole days."
)
@click.option("--object-size", type=SIZE, help="Object size of a backup  [default: the largest measured]")
@click.option(
    "--objects-per-session",
    type=POSITIVE,
    default=1,
    show_default=True,
    help="Objects per session when archiving and restoring.",
)
@click.option(
    "--window", type=DURATION, default="8h", show_default=True, help="Time in which a full backup must be archived."
)
@course_options
@answer_options
def backup(**given: Any) -> None:
    """Plan a store of backups.

    A full backup is archived every --full-every, and on the days between what changed. A chain of a full backup and its
    increments is kept until --retention has passed since the next full backup.

    \b
    Example:
        archiver plan backup --full 100GB --window 24h --retention 90d --restore-within 2d --from reference:dr550
    """
    _show("backup", given)


@plan.command("all")
@click.argument("need", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_OUTPUT[0]
@_OUTPUT[1]
@click.option("--from", "sources", **_SOURCE, help="Measured rates. Repeat it to see platforms side by side.")
def plan_all(need: Path, sources: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Plan several loads on the same platforms.

    NEED is a TOML file. Each table [[load]] has a kind (mail, video, size or backup) and the options of that plan.
    Above the tables are years, headroom, usable, redundancy, objects-max and prices for all loads; purchase, the years
    in which platforms are bought; and budget or budget-per-tb. See docs/planning.md.

    \b
    Example:
        archiver plan all need.toml --from reference:dr550
    """
    request = request_in(need)
    found = [combined_on(surface_from(source), request) for source in sources]
    paths = []
    if out is not None:
        from results.document.html import html_page  # import the templates only for writing
        from results.report.plan_page import combined_as_document

        paths = write_files(out, {PAGE_NAME: html_page(combined_as_document(found)).encode(), **combined_files(found)})
    text = json_text(combined_document(found)) if as_json else combined_text(found, _WIDTH)
    click.echo(text, nl=False)
    if paths:
        click.echo(f"{paths[0]}: {len(paths)} files", err=as_json)


def request_in(need: Path) -> CombinedRequest:
    """Return the request in NEED.toml. Raises UsageError naming the file, the load and the key."""
    kinds = {kind: plan.commands[kind] for kind in _LOADS if kind != RetrieveLoad.kind}
    return read_need(need, kinds, plan_request)


def combined_on(surface: RateSurface, request: CombinedRequest) -> CombinedPlan:
    """Return the plan of several loads with these rates. Raises UsageError and ResultsError as ``combine``."""
    loads = tuple((name, _with_disclosed_capacity(load, surface)) for name, load in request.requests)
    return combine(surface, replace(request, requests=loads))


def plan_request(kind: str, given: Mapping[str, Any]) -> PlanRequest:
    """Return the request of ``archiver plan KIND`` from the parameters of that command.

    Raises UsageError for parameters that do not fit together, or for a file that cannot be read.
    """
    load = _LOADS[kind](given)
    if isinstance(load, RetrieveLoad):
        return PlanRequest(load=load)
    retention, prices = given["retention"], given["prices"]
    if prices is None and given["retrieved"]:
        raise UsageError("--retrieved only changes what a plan costs; give --prices with it, or leave it out")
    if given["restore"] is not None and given["restore_within"] is None:
        raise UsageError("--restore is an amount and --restore-within its time: give both")
    return PlanRequest(
        load=load,
        course=LoadCourse(
            given["years"],
            given["growth"],
            given["headroom"],
            None if retention is None else retention / YEAR_SECONDS,
            given["steps"],
            lock_years=None if given["lock"] is None else given["lock"] / YEAR_SECONDS,
            lock_extra_days=given["lock_extra"] / DAY_SECONDS,
            held_share=given["held"],
            extend_every_days=None if given["extend_every"] is None else given["extend_every"] / DAY_SECONDS,
        ),
        limits=PlatformLimits(
            usable_bytes=given["usable"],
            redundancy=given["redundancy"],
            footprint=given["footprint"],
            reduction=given["reduction"],
            objects_max=given["objects_max"],
            restore_seconds=given["restore_within"],
            restore_bytes=given["restore"],
        ),
        clients=given["clients"],
        prices=None if prices is None else read_prices(prices),
        retrieved_share=given["retrieved"],
    )


def plan_answer(kind: str, given: Mapping[str, Any]) -> PlanAnswer:
    """Return the answer of ``archiver plan KIND`` from the parameters of that command.

    The usable capacity is the disclosed one if none is given. Raises UsageError and ResultsError.
    """
    surface = surface_from(given["source"])
    return answer(surface, _with_disclosed_capacity(plan_request(kind, given), surface))


def _with_disclosed_capacity(request: PlanRequest, surface: RateSurface) -> PlanRequest:
    if request.limits.usable_bytes is not None or surface.disclosure is None:
        return request
    return replace(request, limits=replace(request.limits, usable_bytes=surface.disclosure.usable_bytes))


def _mail(given: Mapping[str, Any]) -> MailLoad:
    count, per_message = given["objects_per_session"], given["session_per"] == "message"
    if per_message and count is not None:
        raise UsageError(
            "--session-per message means one object per session; leave out --session-per or --objects-per-session"
        )
    return MailLoad(
        users=given["users"],
        messages=given["messages"],
        mean_bytes=_size("--mean-size", given["mean_size"]),
        window_seconds=_window(given["window"]),
        objects_per_session=1 if per_message else count,
        discovery_users=given["discovery_users"],
        discovery_messages=given["discovery_messages"],
        discovery_seconds=given["discovery_within"],
        discovery_layout=given["discovery_layout"],
    )


def _video(given: Mapping[str, Any]) -> VideoLoad:
    stream_rate, hourly, film = given["stream_rate"], given["gigabytes_per_hour"], given["film"]
    if (stream_rate is None) == (hourly is None):
        raise UsageError("give the rate of a camera once: --stream-rate 0.28MB/s or --gigabytes-per-hour 1")
    if hourly is not None and not (math.isfinite(hourly) and hourly > 0):
        raise UsageError(f"--gigabytes-per-hour {hourly:g}: write a number above 0")
    return VideoLoad(
        cameras=given["cameras"],
        bytes_per_second=stream_rate if hourly is None else hourly * 1e9 / 3600,
        objects_per_session=given["objects_per_session"],
        hours_per_day=given["hours"],
        motion_share=given["motion"],
        film_bytes=None if film is None else _size("--film", film),
    )


def _retrieve(given: Mapping[str, Any]) -> RetrieveLoad:
    return RetrieveLoad(
        size_bytes=_size("--size", given["size"]),
        parallel=given["parallel"],
        objects_per_session=given["objects_per_session"],
    )


def _mix(given: Mapping[str, Any]) -> SizeLoad:
    return SizeLoad(
        objects_per_day=given["objects_per_day"],
        shares=tuple(read_size_histogram(given["size_histogram"])),
        window_seconds=_window(given["window"]),
        objects_per_session=given["objects_per_session"],
    )


def _backup(given: Mapping[str, Any]) -> BackupLoad:
    days, object_size = given["full_every"] / DAY_SECONDS, given["object_size"]
    if days < 1 or days != int(days):
        raise UsageError(f"--full-every: {days:g} days; write whole days, such as 7d")
    return BackupLoad(
        full_bytes=_size("--full", given["full"]),
        change_share=given["change"],
        full_every_days=int(days),
        object_bytes=None if object_size is None else _size("--object-size", object_size),
        window_seconds=_window(given["window"]),
        objects_per_session=given["objects_per_session"],
    )


_LOADS: Mapping[str, Callable[[Mapping[str, Any]], PlannedLoad]] = {
    "mail": _mail, "video": _video, "retrieve": _retrieve, "size": _mix, "backup": _backup,
}  # fmt: skip


def surface_from(source: str) -> RateSurface:
    """Return the rates of a run, or published ones. Raises ResultsError and UsageError."""
    if source.startswith("reference:"):
        return published_surface(source)
    with opened(find_run(source)) as recorded:
        return replace(measured_surface(recorded), mixed=mixed_trials(recorded.results, recorded.criteria))


def _size(option: str, size_bytes: int) -> int:
    if size_bytes < 1:
        raise UsageError(f"{option} {size_bytes}: must be above 0; write a size such as 20KiB")
    return size_bytes


def _window(seconds: float) -> float:
    if not 0 < seconds <= DAY_SECONDS:
        raise UsageError(f"--window: {seconds:g} s; write a time above 0 and at most 24h, such as 8h")
    return seconds


def _show(kind: str, given: Mapping[str, Any]) -> None:
    """Print the answer. If a folder is given, write the documents."""
    found = plan_answer(kind, given)
    out, what_if, as_json = given["out"], given.get("what_if", False), given["as_json"]
    paths = []
    if out is not None:
        from results.document.html import html_page  # import the templates only for writing
        from results.report.plan_page import plan_as_document

        paths = write_files(out, {PAGE_NAME: html_page(plan_as_document(found)).encode(), **plan_files(found)})
    if as_json:
        click.echo(json_text(plan_document(found, what_if=what_if or out is not None)), nl=False)
    else:
        click.echo(plan_text(found, what_if=what_if, width=_WIDTH), nl=False)
    if paths:
        click.echo(f"{paths[0]}: {len(paths)} files", err=as_json)
