"""Make a run's audit bundle from its database, and verify a bundle from its contents.

Making and verifying do the same work. Verification makes everything again that follows from the database and the given
files, and compares it with the bundle. No command therefore writes a bundle that would fail verification.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from archiver.engine.judging.rejudging import Recorded, what_does_not_follow
from archiver.values import version
from archiver.values.errors import ResultsError, UsageError
from archiver.values.typed import typed_json
from archiver.values.visible import visible
from results.bundle.attestations import Attestations, Trusted, attest, check_attestations
from results.bundle.audit import DATABASE, ReadBundle, read_audit_bundle, sha256_of, write_audit_bundle
from results.bundle.contents import (
    PRICES,
    environment_document,
    prices_document,
    replayed_traces,
    report_files,
    trace_name,
    traces_document,
)
from results.bundle.database_copy import copy_database, database_version, stored_counts, stored_histograms, unsound
from results.bundle.evidence import check_same_platform, whole_evidence
from results.document.files import json_text
from results.recorded.database import VERSION
from results.recorded.run import RecordedRun, read_run
from results.report.contract import run_document
from results.report.mixed_contents import mixed_run
from scenarios.reading.reader import recorded_scenario

RESULTS = "results.json"
ENVIRONMENT = "environment.json"
EVIDENCE = "evidence.json"
NEVER_CONFIRMED = (
    "that the platform and the machine were what they are said to be",
    "that this was the only run, and not the best of many",
    "that the measurement was honest: a signature proves who vouches for it, a timestamp when it existed",
)
_NAMED_MAX = 10  # of the differing fields of two documents
_TOLERANCE = 1e-9  # another processor or library may round the last digit differently


class _Maker(msgspec.Struct):
    archiver: str


class _RunHost(msgspec.Struct):
    host: _Maker


class _Environment(msgspec.Struct):
    """What names the versions in environment.json. Nothing else of it is read into memory."""

    bundle_made_by: _Maker
    run: _RunHost


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying a bundle. ``wrong`` is empty if the bundle is confirmed."""

    sha256: str
    run: str
    files: int
    wrong: tuple[str, ...]
    confirmed: tuple[str, ...]
    left_out: str = ""  # why nothing was made again; empty: everything was
    not_checked: tuple[str, ...] = ()  # attestations, because the reader trusts nobody for them


def make_audit_bundle(
    recorded: RecordedRun,
    out: Path,
    *,
    evidence: bytes | None = None,
    prices: Path | None = None,
    traces: Sequence[Path] = (),
    attest: Callable[[bytes], Attestations] = attest,
) -> Verification:
    """Write the bundle of a run that ended, never over another file.

    ``evidence`` is of a conformance run on the same platform. ``prices`` is a price file. ``traces`` are files that the
    run replayed. ``attest`` makes the attestations of the manifest, none by default. Raises UsageError for files that
    do not belong to this run. Raises ResultsError if the run has nothing to confirm, or if its database contradicts
    itself.
    """
    run = recorded.run
    if run.verdict is None:
        raise ResultsError(
            f"{run.id}: has not ended: it is under way, or was killed; wait, or go on: archiver resume {run.id}"
        )
    if not recorded.results:
        raise ResultsError(f"{run.id}: measured nothing, so there is nothing to confirm")
    given: dict[str, bytes | Path] = {}
    if evidence is not None:
        given[EVIDENCE] = evidence
    if prices is not None:
        prices_document(prices, None)
        given[PRICES] = prices.read_bytes()
    for trace in traces:
        sha256 = _sha256_of_replayed(trace, replayed_traces(recorded))
        given[trace_name(sha256)] = trace
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / DATABASE
        copy_database(recorded.path, copy)
        texts = {name: content for name, content in given.items() if isinstance(content, bytes)}
        hashes = {name: sha256_of(content) for name, content in given.items() if isinstance(content, Path)}
        made = _follows(read_run(copy), texts, hashes)
        write_audit_bundle(out, run.id, {DATABASE: copy, **given, **made}, attest)
    verification = verify_audit_bundle(out, Trusted())
    if verification.wrong:
        out.unlink()
        raise ResultsError(f"{run.id}: would not be confirmed, so no bundle was made: {'; '.join(verification.wrong)}")
    return verification


def verify_audit_bundle(path: Path, trusted: Trusted) -> Verification:
    """Compare every file with the manifest, then make everything again that follows from the database.

    ``trusted`` has what the attestations of the manifest are checked with. Raises UsageError if that is unreadable.
    """
    with tempfile.TemporaryDirectory() as folder:
        read, database = read_audit_bundle(path, Path(folder)), Path(folder) / DATABASE
        if read.wrong:
            return Verification(read.sha256, read.run, read.files, read.wrong, ())
        attested = check_attestations(read.manifest, read.attested, trusted)
        wrong = [*attested.wrong]
        confirmed = ["every file is as the manifest names it, and there is no other", *attested.confirmed]
        left_out = _other_version(read, database)
        if not left_out:
            contradictions, found = _made_again(read, database)
            wrong += contradictions
            confirmed += found
        return Verification(
            read.sha256, read.run, read.files, tuple(wrong), tuple(confirmed), left_out, attested.not_checked
        )


def _sha256_of_replayed(trace: Path, replayed: frozenset[str]) -> str:
    try:
        sha256 = sha256_of(trace)
    except OSError as error:
        raise UsageError(f"--trace {trace}: cannot be read: {error.strerror}") from error
    if sha256 not in replayed:
        raise UsageError(f"--trace {trace}: no result of this run replayed it (its SHA-256 is {sha256})")
    return sha256


def _other_version(read: ReadBundle, path: Path) -> str:
    """Return why this version cannot make the contents again; empty if it can."""
    found = database_version(path)
    if found != VERSION:
        return f"its database is of version {found}, and this Archiver's is {VERSION}"
    try:
        environment = typed_json(read.documents[ENVIRONMENT], _Environment)
        makers = {environment.bundle_made_by.archiver, environment.run.host.archiver}
    except (KeyError, ValueError, RecursionError):
        return ""  # later found not to follow
    others = sorted(makers - {version.VERSION})
    return f"it was made by Archiver {' and '.join(others)}, and this is {version.VERSION}" if others else ""


def _made_again(read: ReadBundle, path: Path) -> tuple[list[str], list[str]]:
    """Return the contents of a bundle with correct hashes that do not follow, and the confirmed ones.

    The database is another owner's and may contain anything where numbers should be. Any error from that is a finding.
    """
    reason = unsound(path)
    if reason is not None:
        return [f"{DATABASE}: {reason}"], []
    steps: tuple[tuple[Callable[[ReadBundle, RecordedRun], Iterator[str]], str], ...] = (
        (_documents_that_differ, "all other documents follow from the database and the files that were given"),
        (_database_contradictions, "percentiles follow from histograms, amounts from intervals, verdicts from results"),
    )
    wrong: list[str] = []
    confirmed = ["the database is whole"]
    for step, words in steps:
        try:
            found = list(step(read, read_run(path)))
        except Exception as error:  # noqa: BLE001 - somebody else's database must not end this with a traceback
            found = [f"{DATABASE}: cannot be read as a run's: {type(error).__name__}: {error}"]
        wrong += found
        confirmed += [] if found else [words]
    return wrong, confirmed


def _documents_that_differ(read: ReadBundle, recorded: RecordedRun) -> Iterator[str]:
    run = recorded.run.id
    if run != read.run:
        yield f"the manifest is of run {read.run}, and {DATABASE} of run {run}"
    given = {name: read.documents[name] for name in (EVIDENCE, PRICES) if name in read.documents}
    if EVIDENCE in given:
        try:
            check_same_platform(recorded.run.platform, whole_evidence(given[EVIDENCE], EVIDENCE))
        except ResultsError as error:
            yield str(error)
    for name, sha256 in read.traces.items():
        if name != trace_name(sha256) or sha256 not in replayed_traces(recorded):
            yield f"{name}: no result of this run replayed it"
    made = _follows(recorded, given, read.traces)
    there = {name: content for name, content in read.documents.items() if name not in given}
    for name in sorted(made.keys() | there.keys()):
        if name not in made:
            yield f"{name}: a bundle of this run has no file of this name"
        elif name not in there:
            yield f"{name}: is missing"
        else:
            yield from (f"{name}: {each}" for each in _difference(there[name], made[name], is_json=name.endswith("on")))


def _database_contradictions(read: ReadBundle, recorded: RecordedRun) -> Iterator[str]:
    run = recorded.run
    scenario = recorded_scenario(
        run.scenario_json,
        order=run.sweep_order,
        order_seed=run.order_seed,
        repetitions=run.repetitions,
        retrieving_only=run.objects_from is not None,
    )
    times = {each.position: each.measured_to_ns - each.measured_from_ns for each in recorded.phase_times}
    stated = Recorded(
        scenario=scenario,
        verdict=run.verdict,
        results=[*recorded.results, *recorded.drift_checks],
        criteria=recorded.criteria,
        search=recorded.search,
        measured_seconds={position: nanoseconds / 1e9 for position, nanoseconds in times.items()},
        histograms=stored_histograms(recorded.path),
        counts=stored_counts(recorded.path),
    )
    yield from (f"{DATABASE}: {each}" for each in what_does_not_follow(stated))


def _follows(recorded: RecordedRun, given: Mapping[str, bytes], traces: Mapping[str, str]) -> dict[str, bytes]:
    """Return every file that follows from the database and the given ones, by name. ``traces``: name -> SHA-256."""
    mixed = mixed_run(recorded)
    made = {
        RESULTS: json_text(run_document(recorded)),
        ENVIRONMENT: json_text(environment_document(recorded)),
        "traces.json": json_text(traces_document(recorded, traces)),
    }
    if PRICES in given:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / PRICES
            path.write_bytes(given[PRICES])
            made["prices.json"] = json_text(prices_document(path, mixed.replay if mixed is not None else None))
    made |= report_files(recorded, mixed)
    return {name: visible(text).encode() for name, text in made.items()}


def _difference(there: bytes, made: bytes, *, is_json: bool) -> Iterator[str]:
    """Yield the differences between a file and the one made again, in words."""
    if there == made:
        return
    if is_json and len(there) > 2 * len(made):
        yield f"has {len(there):,} bytes, and the database gives {len(made):,}"
    elif is_json:
        different = list(_different_fields(json.loads(there), json.loads(made), ""))
        words = [f"{where.lstrip('.')} is {_short(found)}, and the database gives {_short(expected)}"
                 for where, found, expected in different[:_NAMED_MAX]]  # fmt: skip
        yield from words
        if len(different) > _NAMED_MAX:
            yield f"and {len(different) - _NAMED_MAX:,} more fields do not follow"
    elif not _same_text(there.decode(errors="replace"), made.decode()):
        yield "does not follow from the database"


def _different_fields(found: Any, expected: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in dict.fromkeys((*expected, *found)):
            yield from _different_fields(found.get(key, "(nothing)"), expected.get(key, "(nothing)"), f"{where}.{key}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for index, pair in enumerate(zip(found, expected, strict=True)):
            yield from _different_fields(*pair, f"{where}[{index}]")
    elif isinstance(found, float) and isinstance(expected, float):
        if not math.isclose(found, expected, rel_tol=_TOLERANCE):
            yield where, found, expected
    elif type(found) is not type(expected) or found != expected:
        yield where, found, expected


def _same_text(found: str, expected: str) -> bool:
    """Return whether two texts are equal except for the last digits of their numbers."""
    number = r"(\d+\.\d+(?:e[+-]?\d+)?)"
    one, other = (re.split(number, text) for text in (found, expected))
    return len(one) == len(other) and all(
        a == b or (index % 2 == 1 and math.isclose(float(a), float(b), rel_tol=_TOLERANCE))
        for index, (a, b) in enumerate(zip(one, other, strict=True))
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."
