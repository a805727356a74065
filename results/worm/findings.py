"""Results of conformance checks: as values, by requirement, and for several platforms in one table.

A table of checks is evidence of a platform's behaviour on one day, in one configuration. It is never a certificate.
Requirements that no request can prove are listed too, and marked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from archiver.values.platform import PlatformProfile
from results.document.table import Cell, Column, Table, TableSpec, columns_of
from results.recorded.database import StoredRun
from results.recorded.model import FIRST_ROUND, CheckRecord, RoundRecord
from results.worm.harm import gravity, harm_words

VERDICTS = ("PASS", "DEVIATION", "FAIL", "NOT OFFERED", "NOT TRIED", "INCONCLUSIVE")
DISCLAIMER = (
    "Evidence of this platform's behaviour on that day, in that configuration, as a client sees it. It is not a legal "
    "opinion or a certificate: the firm must prove retention procedures, time sources, administrators and second "
    "copies."
)
# SEC Rule 17a-4(f) as amended in 2022. FINRA 4511(c) requires nothing beyond it. CFTC 1.31(c)-(d) is principle-based.
REQUIREMENTS: Mapping[str, tuple[str, str]] = {
    "R1": ("17a-4(f)(2)(i)(B)", "records only in non-rewriteable, non-erasable form for the whole retention period"),
    "RA": ("17a-4(f)(2)(i)(A)", "the alternative: a complete time-stamped audit trail"),
    "RH": ("2003 interpretive release", "hold records beyond their period when other duties demand it"),
    "R2": ("17a-4(f)(2)(ii)", "verify automatically that records are stored completely and accurately"),
    "R3": ("17a-4(f)(2)(iii)", "serialise units and date the information: a unique id and a creation time"),
    "R4": ("17a-4(f)(2)(iv), (f)(3)(iv)", "download and transfer records readily, with what is needed to find them"),
    "R5": ("17a-4(f)(2)(v)", "a backup system or other redundancy"),
    "R6": ("17a-4(f)(3)(iii)", "an audit system: accountability for inputs and changes"),
    "CF": ("CFTC 1.31(c)-(d)", "authenticity, reliability, security and availability of records"),
}


class CheckCatalogue(NamedTuple):
    """All checks that Archiver had at the time of a run. The run may have tried only some of them."""

    checks: int
    rules: frozenset[str]  # tags of the requirements with at least one check


def catalogue_of(run: StoredRun) -> CheckCatalogue | None:
    """Return the catalogue that a conformance run recorded; None for runs that recorded none."""
    found = run.settings.get("catalogue")
    return CheckCatalogue(found["checks"], frozenset(found["rules"])) if found else None


def checks_tried(checks: Sequence[CheckRecord], catalogue: CheckCatalogue | None) -> str:
    """Return ``2 of 170 checks``: the checks of a run, each counted once, and those of the catalogue if it is known.

    Generated sequences are not counted.
    """
    tried = len({check.id for check in checks if not check.is_generated})
    if catalogue is not None:
        return f"{tried:,} of {catalogue.checks:,} checks"
    return f"{tried:,} check{'s' if tried != 1 else ''}"


def checks_sentence(label: str, checks: Sequence[CheckRecord], catalogue: CheckCatalogue | None) -> str:
    """Return the result of a platform's checks in one run, as one sentence."""
    grave = sorted((check for check in checks if check.is_violation), key=gravity)
    violations = list(dict.fromkeys(check.id for check in grave))
    proving = {check.id for check in checks if check.verdict not in ("NOT TRIED", "NOT OFFERED")}
    tried = checks_tried(checks, catalogue)
    unproven = len({check.id for check in checks} - proving)
    left_out = f", {unproven:,} of which were not tried or not offered" if unproven else ""
    if not proving:
        return f"No check could be tried on {label} ({tried}): nothing is known about its locks."
    if violations:
        first = ", ".join(violations[:3]) + (" ..." if len(violations) > 3 else "")
        return (
            f"{label} violates its locks: a record could be lost, altered or unlocked before its time in "
            f"{len(violations):,} {'check' if len(violations) == 1 else 'checks'} ({first}); this run made {tried}"
            f"{left_out}."
        )
    return f"{label} refused every request that could lose, alter or unlock a record, in {tried}{left_out}."


def worm_document(
    platform: PlatformProfile, run: str, checks: Sequence[CheckRecord], rounds: Sequence[RoundRecord]
) -> dict[str, Any]:
    """Return the document of ``archiver worm --json``."""
    return {
        "run": run,
        "platform": asdict(platform),
        "checks": [asdict(check) for check in checks],
        "rounds": [asdict(each) for each in rounds],
        "verdicts": dict(Counter(check.verdict for check in checks)),
        "violations": sum(check.is_violation for check in checks),
    }


def findings_of(checks: Sequence[CheckRecord]) -> list[CheckRecord]:
    """Return every check with a verdict other than PASS, the most serious first.

    Checks that could not be tried are excluded. So are later rounds with the same result as the first.
    """
    order = {verdict: place for place, verdict in enumerate(("FAIL", "INCONCLUSIVE", "DEVIATION", "NOT OFFERED"))}
    found = [check for check in checks if check.verdict in order and _is_news(check, checks)]
    return sorted(found, key=lambda check: (order[check.verdict], gravity(check)))


def harm_table(checks: Sequence[CheckRecord]) -> Table:
    """Return each violation in plain words, the gravest first."""
    return _HARM.table(check for check in findings_of(checks) if harm_words(check))


def findings_table(checks: Sequence[CheckRecord]) -> Table:
    """Return the table of ``findings_of``."""
    return _FINDINGS.table(findings_of(checks))


def _is_news(check: CheckRecord, checks: Sequence[CheckRecord]) -> bool:
    """Return whether the check belongs to the first round, or its verdict differs from that of the first round."""
    return check.round == FIRST_ROUND or not any(
        other.id == check.id and other.round == FIRST_ROUND and other.verdict == check.verdict for other in checks
    )


def requirement_table(checks: Sequence[CheckRecord], catalogue: CheckCatalogue | None) -> Table:
    """Return a row for each requirement with its verdicts. A requirement without checks in this run says why."""

    def absent(tag: str) -> str:
        if catalogue is None:
            return "not tried in this run, or no request can prove it"
        return "not tried in this run" if tag in catalogue.rules else "no request can prove it: declare it"

    asked = (
        _Asked(paragraph, words, [check for check in checks if tag in check.rules], absent(tag))
        for tag, (paragraph, words) in REQUIREMENTS.items()
    )
    return _REQUIREMENTS.table(asked)


def rounds_table(checks: Sequence[CheckRecord], rounds: Sequence[RoundRecord]) -> Table:
    """Return the platform's state in each round, and the results of its checks."""
    return _ROUNDS.table((each, [check for check in checks if check.round == each.round]) for each in rounds)


def _load_words(record: RoundRecord) -> str:
    """Return the note, and the load if there was any."""
    if not record.load_seconds:
        return record.note
    return (
        f"{record.objects_archived:,} objects archived ({record.archived_per_second:,.0f}/s), "
        f"{record.objects_retrieved:,} retrieved ({record.retrieved_per_second:,.0f}/s), {record.errors:,} errors: "
        f"{record.note}"
    )


def evidence_table(checks: Sequence[CheckRecord], exchanges: Mapping[str, int]) -> Table:
    """Return every check with its requirement, its verdict and its amount of evidence."""
    return TableSpec(
        "checks",
        "Checks",
        (
            _NAME,
            _VERDICT,
            _SEVERITY,
            Column("rules", of=lambda check: ", ".join(check.rules), label=True),
            Column("what is tried", of=lambda check: check.tries, words=True),
            Column("must", of=lambda check: check.must, words=True),
            _SEEN,
            Column("expected", of=lambda check: check.answer or "–", words=True),
            Column("source", of=lambda check: check.source or "none: only expected", words=True),
            Column("exchanges", of=lambda check: _count(exchanges.get(check.name, 0))),
        ),
    ).table(checks)


def matrix_table(platforms: Mapping[str, Sequence[CheckRecord]]) -> Table:
    """Return checks by platforms.

    Checks that no platform could try are excluded. So are later rounds with the same results as the first.
    """
    by_platform = {name: {check.name: check for check in checks} for name, checks in platforms.items()}
    every = {check.name: check for checks in platforms.values() for check in checks}
    tried = [
        name
        for name in sorted(every)
        if any(name in own and own[name].verdict != "NOT TRIED" for own in by_platform.values())
        and any(name in own and _is_news(own[name], platforms[platform]) for platform, own in by_platform.items())
    ]

    def of(own: Mapping[str, CheckRecord]) -> Callable[[CheckRecord], str]:
        return lambda check: own[check.name].graded_verdict if check.name in own else "–"

    return TableSpec(
        "matrix",
        "Checks by platform",
        (
            _NAME,
            Column("what is tried", of=lambda check: check.tries, words=True),
            *(Column(name, of=of(own), words=True) for name, own in by_platform.items()),
        ),
        "Checks under load and after a restart are shown where the verdict of a platform differs.",
    ).table(every[name] for name in tried)


def failed_checks(checks: Sequence[CheckRecord], absent: str) -> str:
    """Return the names of the failed checks, or a dash if none failed. Returns ``absent`` if there are no checks."""
    names = ", ".join(check.name for check in checks if check.verdict == "FAIL")
    return names or ("–" if checks else absent)


class _Asked(NamedTuple):
    """A requirement, and its checks."""

    paragraph: str
    words: str
    checks: Sequence[CheckRecord]
    absent: str  # why there are no checks


def _count(number: int) -> Cell:
    return Cell(str(number), number)


def _verdict_column(verdict: str) -> Column:
    """Return the column that counts the checks with this verdict."""
    return Column(verdict.lower(), of=lambda checks: _count(sum(check.verdict == verdict for check in checks)))


_NAME = Column("check", of=lambda check: check.name, label=True)
_VERDICT = Column("verdict", of=lambda check: check.verdict, label=True)
_SEVERITY = Column("severity", of=lambda check: check.severity, label=True)
_SEEN = Column("what was seen", of=lambda check: check.reason, words=True)
VERDICT_COUNTS = tuple(map(_verdict_column, VERDICTS))
_HARM = TableSpec(
    "harm",
    "Violations in plain words",
    (
        _NAME,
        _SEVERITY,
        Column("what it means", of=harm_words, words=True),
        Column("request", of=lambda check: check.tries, words=True),
    ),
    "The gravest first: by what is lost, by the rights that it needs, and whether it needs requests at the same time."
    " The table Findings has what was seen, and of a race in how many pairs.",
)
_FINDINGS = TableSpec(
    "findings",
    "Findings",
    (_VERDICT, _SEVERITY, _NAME, Column("what was tried", of=lambda check: check.tries, words=True), _SEEN),
    "S1: a record can be destroyed or altered inside its retention period. S2: a lock can be weakened, or is silently"
    " missing. S3: wrong reports, or an allowed request is refused. S4: only the status or error code is wrong."
    " DEVIATION: the state is right, but the response differs from the expected one. The table Checks names the source"
    " of Amazon's responses. Checks under load and after a restart are shown where their verdict differs.",
)
_REQUIREMENTS = TableSpec(
    "requirements",
    "By requirement",
    (
        Column("requirement", of=lambda asked: asked.paragraph, label=True),
        Column("requires", of=lambda asked: asked.words, words=True),
        *columns_of(lambda asked: asked.checks, VERDICT_COUNTS),
        Column("failed", of=lambda asked: failed_checks(asked.checks, asked.absent), words=True),
    ),
    "SEC 17a-4(f) and CFTC 1.31. FINRA 4511(c) requires nothing beyond SEC 17a-4(f). " + DISCLAIMER,
)
_ROUNDS = TableSpec(
    "rounds",
    "Rounds",
    (
        Column("round", of=lambda row: row[0].round, label=True),
        *columns_of(lambda row: row[1], VERDICT_COUNTS),
        Column("load", of=lambda row: _load_words(row[0]), words=True),
    ),
    "Later rounds repeat checks while clients archive and retrieve, and after the server was killed.",
)
