"""Conducts one conformance run: carries the checks out in rounds, and stores each with its evidence.

One idea: a run that is interrupted, or whose platform is lost, keeps every check that ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from archiver.machine import description as machine
from archiver.machine import interruption
from archiver.values.errors import ArchiverError
from archiver.values.platform import PlatformProfile
from archiver.worm import checks
from archiver.worm.catalogue import catalogue
from archiver.worm.generated.campaign import Campaign, Generation
from archiver.worm.platforms.under_test import UnderTest, WormRun
from archiver.worm.rounds import Rounds
from archiver.worm.suite import CheckResult, OnResult, Round
from backends.base import RemovalReport
from results.recorded.database import FILE_NAME, RunDatabase, RunRecord
from results.recorded.model import RoundRecord

_ROUNDS = list(Round)


@dataclass(frozen=True, slots=True)
class WormOptions:
    """The user's choices besides the platform."""

    ids: Sequence[str]
    compliance: bool  # checks may lock objects for seconds in COMPLIANCE mode
    out_dir: Path
    command_line: list[str]
    accepts_server_clock: bool = False  # use the platform's clock even if it is far from this machine's
    expected: Sequence[Mapping[str, str]] = ()  # failures that do not fail the run: check, reason, link
    generation: Generation | None = None  # None: no sequences are generated


@dataclass(frozen=True, slots=True)
class WormOutcome:
    """The result of a conformance run; the evidence is in the database."""

    run_id: str
    database: Path
    profile: PlatformProfile
    left: Mapping[str, Mapping[str, RemovalReport]]  # by protocol, and by bucket or file space that remains


def conduct(run: WormRun, platforms: Sequence[UnderTest], options: WormOptions, on_check: OnResult) -> WormOutcome:
    """Run the checks alone, then those that passed under load and after a restart, then generated sequences.

    ``platforms`` are the run's platform over each of its protocols. Raises PlatformError if it creates no place for the
    checks.
    """
    checks.load()
    database = RunDatabase.create(options.out_dir / run.id / FILE_NAME, _run_record(run, options))
    results: list[CheckResult] = []  # of all rounds, each added when its check ends
    rounds_done: list[RoundRecord] = []
    verdict = "fail"

    def ended(result: CheckResult) -> None:
        results.append(result)
        on_check(result)

    try:
        with ExitStack() as servers, ExitStack() as opened:  # restarted servers run until the places are removed
            try:
                run.ledger.begin_run(run.id, database.path)
                rounds, campaigns = [], []
                for platform in platforms:
                    ids = [each for each in options.ids if platform.covers(each)]
                    generation = options.generation if platform.is_generated_for else None
                    if not ids and generation is None:
                        continue
                    suite = opened.enter_context(platform.opened(ids))
                    rounds += [Rounds(suite, ids, ended)] if ids else []
                    campaigns += [Campaign(suite, generation)] if generation is not None else []
                began, clock = time.time(), time.monotonic()
                for each in rounds:
                    each.alone()
                seconds = time.monotonic() - clock
                rounds_done.append(RoundRecord(Round.ALONE, began, seconds, "the checks, in parallel"))
                for each in rounds:
                    for take_round in (each.under_load, partial(each.after_restart, servers)):
                        record = take_round()
                        rounds_done += [record] if record is not None else []
                for campaign in campaigns:
                    words = campaign.run(ended)
                    rounds_done[0] = replace(rounds_done[0], note=f"{rounds_done[0].note}; then {words}")
                expected = {each["check"] for each in options.expected}
                is_violated = any(each.is_violation and each.id not in expected for each in results)
                verdict = "fail" if is_violated else "pass"
            except KeyboardInterrupt:
                verdict = "interrupted"
                raise
            finally:
                with interruption.deferred():  # otherwise results would be lost
                    # Checks end in other threads, but only this thread may use the database.
                    places = {each: place for place, each in enumerate(options.ids)}
                    for result in sorted(
                        results, key=lambda each: (_ROUNDS.index(Round(each.round)), places.get(each.id, len(places)))
                    ):
                        database.add_check(result.record, [each.document for each in result.exchanges])
                    for record in rounds_done:
                        database.add_round(record)
    finally:
        with interruption.deferred():
            database.finish(time.time(), verdict)
            database.close()
            with suppress(ArchiverError):
                run.ledger.end_run(run.id)
    return WormOutcome(run.id, database.path, run.profile, {each.protocol: each.left for each in platforms})


def _run_record(run: WormRun, options: WormOptions) -> RunRecord:
    profile = run.profile
    return RunRecord(
        id=run.id,
        started_at=time.time(),
        command_line=options.command_line,
        scenario="worm",
        scenario_title="WORM conformance",
        backend=profile.backend,
        platform=profile,
        settings={
            "compliance": options.compliance,
            "catalogue": _catalogue(),
            "expected": list(options.expected),
            "generation": options.generation._asdict() if options.generation is not None else None,
            "platform_started": run.platform is not None,
        },
        host=machine.describe(),
        shared_host=profile.shares_host,
        location={"endpoint": profile.endpoints[0]},
    )


def _catalogue() -> dict[str, Any]:
    """Return the number of checks and the rules of the catalogue, for reports of runs that try only some checks."""
    entries = catalogue().values()
    return {"checks": len(entries), "rules": sorted({rule for entry in entries for rule in entry.rules})}
