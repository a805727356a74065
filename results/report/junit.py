"""The criteria and conformance checks of a run as JUnit XML, which every build server shows.

Missed criteria, failed checks, failed operations, lost workers and lost content are failures. A void phase and the
criteria missed in it are errors, because they prove nothing about the platform (``results/measures/verdict.py``).
Checks that were not tried, not offered or inconclusive are skipped. Expected failures are skipped too, with their
reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from results.measures.verdict import unmeasured_because, void_because
from results.recorded.model import CheckRecord, CriterionResult, Result
from results.recorded.run import RecordedRun
from results.worm.expected import ExpectedFailure, expected_of

_SKIPPED = ("NOT TRIED", "NOT OFFERED", "INCONCLUSIVE")


def junit_xml(recorded: RecordedRun) -> str:
    """Return the document: a suite of the phases, one of criteria, and one for each family of conformance checks."""
    run = recorded.run
    results, criteria = recorded.results, recorded.criteria
    void = {result.position: words for result in results if (words := void_because(result, results, criteria))}
    suites = [_suite("phases", (_phase(each, void_because(each, results, criteria)) for each in results))]
    suites.append(_suite("criteria", (_criterion(each, results, void.get(each.position, "")) for each in criteria)))
    expected = expected_of(run)
    families: dict[str, list[CheckRecord]] = {}
    for check in recorded.checks:
        families.setdefault(check.family, []).append(check)
    suites += [
        _suite(f"worm.{family}", (_check(each, expected.get(each.id)) for each in checks))
        for family, checks in families.items()
    ]
    root = ElementTree.Element("testsuites", name=f"{run.scenario} on {run.platform.name}, run {run.id}")
    root.extend(suite for suite in suites if len(suite))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(name: str, cases: Iterable[ElementTree.Element]) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=name)
    suite.extend(cases)
    for case in suite:
        case.set("classname", name)
    counts = {"tests": len(suite)}
    counts |= {f"{kind}s": len(suite.findall(f"*/{kind}")) for kind in ("failure", "error")}
    counts["skipped"] = len(suite.findall("*/skipped"))
    for attribute, count in counts.items():
        suite.set(attribute, str(count))
    return suite


def _case(name: str, seconds: float = 0.0) -> ElementTree.Element:
    return ElementTree.Element("testcase", name=name, time=f"{seconds:.3f}")


def _phase(result: Result, void: str) -> ElementTree.Element:
    """Return the case of one result. It passes if its operations succeeded and its phase is complete and not void."""
    case = _case(f"{result.position} {result.phase}: {result.workload}", result.seconds)
    broken = [*([f"incomplete: {result.incomplete}"] if result.incomplete is not None else []), *result.lost]
    if broken and not result.void:
        ElementTree.SubElement(case, "failure", message="; ".join(broken))
    elif void:
        ElementTree.SubElement(case, "error", message=f"void: {void}")
    elif result.errors:
        first = next((error for error in result.first_errors if error.count), None)
        reason = f"; the first: {first.reason}: {first.message or 'no message'}" if first is not None else ""
        ElementTree.SubElement(case, "failure", message=f"{result.errors:,} operations failed{reason}")
    return case


def _criterion(criterion: CriterionResult, results: Sequence[Result], void: str) -> ElementTree.Element:
    """Return the case of one criterion. ``void``: why its phase says nothing about the platform, or empty."""
    scale = f" at scale {criterion.scale:g}" if criterion.scale is not None else ""
    case = _case(f"phase {criterion.position}: {criterion.workload or 'all'}: {criterion.name}{scale}")
    if not criterion.passed:
        measured = f"measured {criterion.measured:g}" if criterion.measured is not None else "nothing was measured"
        if because := unmeasured_because(criterion, results):
            measured += f", because {because}"
        kind, reason = ("error", f"void: {void}: ") if void else ("failure", "")
        ElementTree.SubElement(case, kind, message=f"{reason}{measured}, the limit is {criterion.limit:g}")
    return case


def _check(check: CheckRecord, expected: ExpectedFailure | None) -> ElementTree.Element:
    case = _case(f"{check.name}: {check.must}", check.seconds)
    if expected is not None and check.is_finding:
        words = f"expected: {expected.reason} ({expected.link}): {check.verdict}: {check.reason}"
        ElementTree.SubElement(case, "skipped", message=words)
    elif check.verdict == "FAIL":
        ElementTree.SubElement(case, "failure", type=check.severity, message=check.reason)
    elif check.verdict in _SKIPPED:
        ElementTree.SubElement(case, "skipped", message=f"{check.verdict}: {check.reason}")
    elif check.verdict == "DEVIATION":
        ElementTree.SubElement(case, "system-out").text = f"DEVIATION: {check.reason}"
    return case
