"""Removal of what runs left, holding by holding, as far as the locks allow.

One idea: the platform decides. This machine's clock and the ledger show where to try, but only data that the platform
deleted counts as gone. A place that cannot be reached, or is not the same place as before, keeps its record and does
not stop the other removals.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from archiver.ledger.holdings import Holding
from archiver.ledger.ledger import Ledger, RunEntry
from archiver.machine.home import runs_dir
from archiver.platforms.opening import PlatformOptions, open_backend
from archiver.values.errors import ArchiverError, PlatformGone
from archiver.values.sizes import format_instant
from backends.base import Backend, Location, RemovalReport
from backends.tsm.library.configuration import parse_server
from results.recorded.database import LOCK_NAME

_SILENT_SECONDS_MAX = 86_400.0  # a run without an end that wrote nothing for a day was killed


@dataclass(frozen=True, slots=True)
class RemovalResult:
    """The result for one holding: either ``report`` or ``failure``."""

    holding: Holding
    report: RemovalReport | None = None
    failure: ArchiverError | None = None
    is_forgotten: bool = False  # the ledger no longer has it, although it was not seen to be removed


@dataclass(frozen=True, slots=True)
class Consent:
    """Consent of the user to more than removing expired objects."""

    bypass_governance: bool = False
    release_holds: bool = False  # only holds that the run placed
    forget: bool = False  # the record of data whose platform does not answer, or has none of it


def in_progress(run: str, ledger: Ledger, now: float) -> str | None:
    """Return why the objects of a run may be in use; None: nothing uses them.

    They are used while the run, or a run that reads them, is in progress.
    """
    return next((reason for entry in ledger.runs_using(run) if (reason := _in_progress(entry, ledger, now))), None)


def is_under_way(run: str, ledger: Ledger) -> bool:
    """Return whether a process is known to write the results of a run."""
    return any(_writer_is_alive(entry) for entry in ledger.runs_using(run) if entry.run == run)


def results_of(run: str, ledger: Ledger) -> Path:
    """Return the path of a run's results: where the run began to write them, or in Archiver's home."""
    recorded = (entry.database for entry in ledger.runs_using(run) if entry.run == run)
    return next((path for path in recorded if path.exists()), runs_dir() / run)


def _in_progress(entry: RunEntry, ledger: Ledger, now: float) -> str | None:
    alive = _writer_is_alive(entry)
    if alive:
        return f"run {entry.run} is under way; let it end, or stop it"
    # Whoever reads the lock on another machine may read a copy of it.
    if entry.ended_at is not None or (alive is False and entry.is_of_this_machine):
        return None
    heard = max([entry.begun_at, *(each.written_at for each in ledger.placements(entry.run))])
    if heard < now - _SILENT_SECONDS_MAX:
        return None
    return (
        f"run {entry.run} may be in progress: it began on {entry.machine}, and whether it still writes to "
        f"{entry.database} cannot be seen here; if it was killed, try again after "
        f"{format_instant(heard + _SILENT_SECONDS_MAX)}"
    )


def _writer_is_alive(entry: RunEntry) -> bool | None:
    """Return whether a process has the lock on a run's results; None if there is no lock at their place."""
    try:
        with (entry.database.parent / LOCK_NAME).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def remove(
    holdings: Sequence[Holding], options: PlatformOptions, ledger: Ledger, consent: Consent, now: float
) -> Iterator[RemovalResult]:
    """Remove the data of each holding that may be removed, and the bucket or file space if its run created it.

    Yields a result after each holding. The ledger has the places; ``options`` have the credentials. Raises ResultsError
    before removing anything if the ledger cannot be written.
    """
    ledger.check_writable()
    on_one_platform: dict[tuple[str, ...], list[Holding]] = {}
    for each in holdings:
        first = each.first
        key = (first.backend, first.platform or first.endpoint, first.region)
        on_one_platform.setdefault(key, []).append(each)
    for of_platform in on_one_platform.values():
        yield from _remove_on(of_platform, options, ledger, consent, now)


def _remove_on(
    holdings: Sequence[Holding], options: PlatformOptions, ledger: Ledger, consent: Consent, now: float
) -> Iterator[RemovalResult]:
    """Yield the results of one platform, which is started once if Archiver starts it."""
    waiting = list(holdings)
    first = waiting[0].first
    try:
        with open_backend(first.backend, first.platform, reaching(waiting[0], options)) as (backend, _):
            while waiting:
                try:
                    report = _remove_one(waiting[0], backend, consent, now)
                except ArchiverError as failure:
                    yield _failed(waiting.pop(0), failure, ledger, consent)
                    continue
                if not report.objects_left:
                    ledger.mark_rows_removed(waiting[0].rows)
                elif consent.release_holds and waiting[0].is_held and not (report.on_hold or report.holds_unconfirmed):
                    ledger.record_release(waiting[0].rows, report.locked_until)
                elif report.locked_until is not None and report.locked_until > (waiting[0].locked_until or 0.0):
                    ledger.observe(waiting[0].rows, None, report.locked_until)
                yield RemovalResult(waiting.pop(0), report)
    except ArchiverError as failure:
        for each in waiting:
            yield _failed(each, failure, ledger, consent)


def _failed(holding: Holding, failure: ArchiverError, ledger: Ledger, consent: Consent) -> RemovalResult:
    """Return the result of a failure; forget the holding if its data may be gone and the user wants that."""
    is_forgotten = consent.forget and isinstance(failure, PlatformGone)
    if is_forgotten:
        ledger.mark_rows_removed(holding.rows)
    return RemovalResult(holding, failure=failure, is_forgotten=is_forgotten)


def _remove_one(holding: Holding, backend: Backend, consent: Consent, now: float) -> RemovalReport:
    """Remove one holding. Raises PlatformGone if the platform has none of its locked objects."""
    first = holding.first
    location = Location(first.endpoint, first.region, first.bucket, first.bucket_created, first.prefix)
    report = backend.remove(
        location,
        holding.numbers,
        # The bypass header is sent only for GOVERNANCE: a bucket without Object Lock refuses it (400).
        bypass_governance=consent.bypass_governance and holding.can_be_bypassed(),
        release_holds=consent.release_holds and holding.is_held,
    )
    if not holding.may_be_locked(now):
        return report
    if report.bucket_missing:
        raise _another_platform(holding, f"has no {holding.place} {first.bucket}")
    # The name of a place that the run created is unique. A place of the user may have the same name on another
    # platform.
    if not first.bucket_created and not report.objects_removed and not report.objects_left:
        raise _another_platform(holding, f"has nothing of the run in {holding.place} {first.bucket}")
    return report


def _another_platform(holding: Holding, what: str) -> PlatformGone:
    return PlatformGone(
        f"{holding.first.run}: {holding.first.endpoint} {what}, but objects of this run are locked there; check "
        "whether another platform answers at that address; the ledger keeps its record"
    )


def reaching(holding: Holding, options: PlatformOptions) -> PlatformOptions:
    """Return the user's options for the platform of a holding."""
    first = holding.first
    options = replace(options, recorded_in=f"the record of run {first.run}")
    if first.platform is not None:
        return options
    if first.backend == "tsm":
        node, _, server = first.endpoint.removeprefix("tsm://").rpartition("@")
        server = options.tsm.server or server
        # A stanza with stored passwords has its own node and takes no other; a node is passed only with a password.
        names_node = options.tsm.password_file is not None or parse_server(server) is not None
        tsm = replace(options.tsm, server=server, node=options.tsm.node or (node if names_node else None))
        return replace(options, tsm=tsm)
    return replace(
        options, s3=replace(options.s3, endpoints=(first.endpoint,), region=first.region, bucket=first.bucket)
    )
