"""What conformance checks came to: as values, by requirement, and for several platforms side by side.

One idea: a table of checks is evidence of what a platform did on a day, in a configuration; it is never a certificate.
Requirements that no request can prove are listed as such, beside those that were tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from results.model import CheckRecord
from results.tables import Cell, Column, Table

VERDICTS = ("PASS", "DEVIATION", "FAIL", "NOT OFFERED", "NOT TRIED", "INCONCLUSIVE")
DISCLAIMER = (
    "Evidence of what this platform did on that day, in that configuration, seen from outside. It is no legal opinion "
    "and no certificate: retention procedures, time sources, administrators and second copies are the firm's to prove."
)
# SEC Rule 17a-4(f) as amended in 2022; FINRA 4511(c) asks for nothing beyond it; CFTC 1.31(c)-(d) is principle-based.
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


def worm_document(platform: Mapping[str, Any], run: str, checks: Sequence[CheckRecord]) -> dict[str, Any]:
    """``archiver worm --json``."""
    return {
        "run": run,
        "platform": dict(platform),
        "checks": [asdict(check) for check in checks],
        "verdicts": dict(Counter(check.verdict for check in checks)),
        "violations": sum(check.is_violation for check in checks),
    }


def findings_table(checks: Sequence[CheckRecord]) -> Table:
    """Every check that did not simply pass, the gravest first; those that could not be tried are left out."""
    order = {verdict: place for place, verdict in enumerate(("FAIL", "INCONCLUSIVE", "DEVIATION", "NOT OFFERED"))}
    found = [check for check in checks if check.verdict in order]
    found.sort(key=lambda check: (order[check.verdict], check.severity.replace("-", "S9")))
    return Table(
        name="findings",
        title="Findings",
        columns=(
            *(Column(name, label=True) for name in ("verdict", "severity", "check")),
            Column("what was tried", words=True),
            Column("what was seen", words=True),
        ),
        rows=tuple(
            (Cell(each.verdict), Cell(each.severity), Cell(each.id), Cell(each.tries), Cell(each.reason))
            for each in found
        ),
        caption="S1: a record can be destroyed or altered inside its period. S2: a lock can be weakened, or is silently"
        " missing. S3: wrong reporting, or what must be allowed is refused. S4: a code only. DEVIATION: the state is"
        " right, the answer is not the original's.",
    )


def requirement_table(checks: Sequence[CheckRecord]) -> Table:
    """Requirement -> checks -> verdicts."""
    rows = []
    for tag, (paragraph, words) in REQUIREMENTS.items():
        mine = [check for check in checks if tag in check.rules]
        counts = Counter(check.verdict for check in mine)
        failed = ", ".join(check.id for check in mine if check.verdict == "FAIL")
        rows.append(
            (
                Cell(paragraph),
                Cell(words),
                *(Cell(str(counts[verdict]), counts[verdict]) for verdict in VERDICTS),
                Cell(failed or ("–" if mine else "no request can prove it: declare it")),
            )
        )
    return Table(
        name="requirements",
        title="By requirement",
        columns=(
            Column("requirement", label=True),
            Column("asks for", words=True),
            *(Column(verdict.lower()) for verdict in VERDICTS),
            Column("failed", words=True),
        ),
        rows=tuple(rows),
        caption="SEC 17a-4(f), to which FINRA 4511(c) adds no test of its own, and CFTC 1.31. " + DISCLAIMER,
    )


def evidence_table(checks: Sequence[CheckRecord], exchanges: Mapping[str, int]) -> Table:
    """Every check with its requirement, verdict and how much evidence there is of it."""
    return Table(
        name="checks",
        title="Checks",
        columns=(
            *(Column(name, label=True) for name in ("check", "verdict", "severity", "rules")),
            Column("what is tried", words=True),
            Column("must", words=True),
            Column("what was seen", words=True),
            Column("exchanges"),
        ),
        rows=tuple(
            (
                Cell(each.id), Cell(each.verdict), Cell(each.severity), Cell(", ".join(each.rules)), Cell(each.tries),
                Cell(each.must), Cell(each.reason), Cell(str(exchanges.get(each.id, 0)), exchanges.get(each.id, 0)),
            )
            for each in checks
        ),
    )  # fmt: skip


def matrix_table(platforms: Mapping[str, Sequence[CheckRecord]]) -> Table:
    """Checks by platforms; what nobody could try is left out."""
    by_platform = {name: {check.id: check for check in checks} for name, checks in platforms.items()}
    every = {check.id: check for checks in platforms.values() for check in checks}
    tried = [
        identifier
        for identifier in sorted(every)
        if any(identifier in own and own[identifier].verdict != "NOT TRIED" for own in by_platform.values())
    ]
    return Table(
        name="matrix",
        title="Checks by platform",
        columns=(
            *(Column(name, label=True) for name in ("check", "severity")),
            Column("what is tried", words=True),
            *(Column(name, words=True) for name in by_platform),
        ),
        rows=tuple(
            (
                Cell(identifier),
                Cell(every[identifier].severity),
                Cell(every[identifier].tries),
                *(Cell(own[identifier].verdict if identifier in own else "–") for own in by_platform.values()),
            )
            for identifier in tried
        ),
    )
