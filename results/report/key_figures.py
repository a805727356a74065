"""The key figures of a run: its verdict, its best rates, and the warnings.

A verdict is a sentence with a state: good, bad or needs care. The state is only a colour; the sentence says the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from archiver.values.sizes import format_size
from results.document.document import KeyFinding, State
from results.measures.doubts import doubts
from results.measures.quality import cautions
from results.measures.statistics import RATIOS_APART_MAX
from results.measures.units import Unit, all_cells, fastest, single_cells
from results.mixed.replay.verdicts import capacity_mark, capacity_sentence, marked, void_words
from results.mixed.scale_up import search_sentence
from results.recorded.database import StoredRun
from results.recorded.model import CheckRecord, CriterionResult, Result, SearchOutcome
from results.recorded.run import RecordedRun
from results.reference.published import NAME, dr550
from results.tables.lock_cost import LIFE_CYCLE

_WORDS = {"pass": "passed", "none": "finished", "fail": "failed", "interrupted": "interrupted", "void": "VOID"}


@dataclass(frozen=True, slots=True)
class Peak:
    """The cells of an operation with the most objects/s and the most MB/s; MB are 10^6 bytes."""

    operation: str
    by_objects: Unit
    by_megabytes: Unit


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """The values of one run in a list of runs."""

    run: str
    started_at: float  # epoch seconds
    has_ended: bool
    platform: str
    backend: str
    scenario: str
    verdict: str  # verdict in one word
    state: State
    peaks: Mapping[str, Peak]  # by operation
    doubts: int


def key_figures(recorded: RecordedRun) -> KeyFigures:
    """Return the key figures of a run. Raises ResultsError as reading its results does."""
    run, results, checks = recorded.run, recorded.results, recorded.checks
    state, word = verdict(run, results, checks)
    return KeyFigures(
        run=run.id,
        started_at=run.started_at,
        has_ended=run.ended_at is not None,
        platform=run.platform.name,
        backend=run.backend,
        scenario=run.scenario,
        verdict=word,
        state=state,
        peaks=peaks(results),
        doubts=len(doubts(recorded)),
    )


def verdict(run: StoredRun, results: Sequence[Result], checks: Sequence[CheckRecord]) -> tuple[State, str]:
    """Return the verdict on a run in a word or two with its mandatory notes, and its state."""
    state, word = _verdict(run, results, checks)
    return ("care" if state == "good" and capacity_mark(results) else state), marked(word, results)


def _verdict(run: StoredRun, results: Sequence[Result], checks: Sequence[CheckRecord]) -> tuple[State, str]:
    violations = sum(check.is_violation for check in checks)
    if violations:
        return "bad", f"{violations:,} violation{'s' if violations > 1 else ''}"
    if run.verdict is None:
        return "care", "not finished"
    if run.verdict == "void":
        return "bad", _WORDS["void"]
    if any(result.errors for result in results):
        return "bad", "finished with errors" if run.verdict != "interrupted" else "interrupted, with errors"
    if run.verdict == "none" and run.lock_verified not in (None, "verified"):
        return "bad", "lock did not hold"
    state: State = "good" if run.verdict in ("pass", "none") else "bad"
    return ("care" if run.verdict == "interrupted" else state), _WORDS.get(run.verdict, run.verdict)


def peaks(results: Sequence[Result]) -> dict[str, Peak]:
    """Return the best rates of archiving, with any number of clients, and those of retrieving at the same points.

    Variants are included. If a point was only archived, or nothing was, these are the best rates of retrieving.
    """
    cells = all_cells(results).values()
    found: dict[str, Peak] = {}
    for operation in ("archive", "retrieve"):
        mine = [cell for cell in cells if cell.first.operation == operation and cell.objects_per_second > 0]
        if mine:
            first = next(iter(found.values()), None)
            found[operation] = Peak(
                operation,
                at_same_point(first.by_objects if first else None, mine, lambda cell: cell.objects_per_second),
                at_same_point(first.by_megabytes if first else None, mine, lambda cell: cell.megabytes_per_second),
            )
    return found


def at_same_point(cell: Unit | None, cells: Sequence[Unit], rate: Callable[[Unit], float]) -> Unit:
    """Return the fastest of these cells at the sizes and clients of another cell; of all if none is there."""
    there = [each for each in cells if cell is not None and each.key[1:4] == cell.key[1:4]]
    return fastest(there or cells, rate)


def where(cell: Unit) -> str:
    """Return ``1MiB x 100, 4 clients`` for a cell whose operation is known."""
    key = cell.key
    variant = cell.first.variant
    return (
        f"{format_size(key.object_bytes)} x {key.objects_per_session}, {key.clients} "
        f"client{'s' if key.clients > 1 else ''}" + (f", {variant}" if variant else "")
    )


def findings(
    run: StoredRun,
    results: Sequence[Result],
    checks: Sequence[CheckRecord],
    audits: Sequence[Mapping[str, Any]],
    criteria: Sequence[CriterionResult] = (),
    search: SearchOutcome | None = None,
) -> list[KeyFinding]:
    """Return the findings of a run: why it is void, its checks, criteria, errors, locks and audits."""
    found = []
    void = void_words(results, criteria)
    if void:
        is_replay = any(result.replayed is not None for result in results)
        label = "Replay" if is_replay else "Void"
        found.append(KeyFinding("bad" if run.verdict == "void" else "care", label, void))
    if checks:
        found.append(_of_checks(checks))
    if search is not None:
        sentence = " ".join(
            filter(None, (search_sentence(search), _short_of(search, results), capacity_sentence(results)))
        )
        found.append(KeyFinding("good" if search.largest is not None else "bad", "Search", sentence))
    elif criteria:
        found.append(_of_criteria(criteria, run.verdict == "void"))
    if results:
        failed = sum(result.errors for result in results)
        objects = sum(result.objects for result in results)
        retries = sum(result.retries for result in results)
        again = f"; {retries:,} attempts failed and were sent again" if retries else ""
        error = next((each for result in results for each in result.first_errors), None)
        first = f", the first on {run.platform.name}: {error.operation}: {error.quoted}" if error is not None else ""
        found.append(
            KeyFinding("bad", "Errors", f"{failed:,} operations failed{first}; no rate includes them{again}")
            if failed
            else KeyFinding("care", "Errors", f"no operation failed{again}{first}; {objects:,} objects were measured")
            if retries
            else KeyFinding("good", "Errors", f"no operation failed; {objects:,} objects were measured")
        )
    if run.lock_verified is not None:
        held = run.lock_verified == "verified"
        text = "the locks that were read back are as requested" if held else f"did not hold: {run.lock_verified}"
        found.append(KeyFinding("good" if held else "bad", "Lock", text))
    for audit in audits:
        bad = sum(audit["counts"].values())
        text = f"{audit['objects']:,} objects read again and compared: " + (
            ", ".join(f"{count:,} {kind}" for kind, count in audit["counts"].items()) if bad else "all as archived"
        )
        found.append(KeyFinding("bad" if bad else "good", "Audit", text))
    return [*found, *(_beside_published(results) if run.scenario == "dr550" else ())]


def verdict_sentence(word: str, finished: int, planned: int) -> str:
    """Return a verdict with the number of phases that it is about."""
    if not planned:
        return word
    if planned == finished == 1:
        return f"{word}: its one phase is in these numbers"
    return f"{word}: {'all' if finished >= planned else f'{finished:,} of'} {planned:,} phases are in these numbers"


def limit_sentences(results: Sequence[Result]) -> tuple[str, ...]:
    """Return one sentence for each operation of the matrix: the resources that limited its measurements, and how many.

    Phases that only prepare data are excluded.
    """
    measured = [result for result in results if not result.is_load]
    found = []
    for operation in ("archive", "retrieve", *LIFE_CYCLE):
        of_operation = [result for result in measured if result.operation == operation]
        counts = Counter(result.limit for result in of_operation if result.limit)
        if not of_operation or (operation in LIFE_CYCLE and not counts):
            continue
        named = [f"{name} in {count} of {len(of_operation)} measurements" for name, count in counts.most_common()]
        text = "; ".join(named) or "no watched resource was near saturation"
        found.append(f"{operation.capitalize()}: what limits: {text}.")
    return tuple(found)


def _short_of(search: SearchOutcome, results: Sequence[Result]) -> str:
    """Return what to mind about the measurements at the largest scale, as a sentence."""
    positions = {each for step in search.steps if step.scale == search.largest for each in step.positions}
    found = cautions(each for each in results if each.position in positions and not each.is_load)
    return f"Measurements at that scale were: {', '.join(found)}." if found else ""


def _of_criteria(criteria: Sequence[CriterionResult], is_void: bool) -> KeyFinding:
    missed = [criterion for criterion in criteria if not criterion.passed]
    if not missed and is_void:
        return KeyFinding("care", "Criteria", f"all {len(criteria):,} were met, but the run is void and proves nothing")
    if not missed:
        return KeyFinding("good", "Criteria", f"all {len(criteria):,} were met")
    first = f"{missed[0].workload}: {missed[0].name}" if missed[0].workload else missed[0].name
    more = f", and {len(missed) - 1:,} more" if len(missed) > 1 else ""
    nothing = "; the run is void and proves nothing" if is_void else ""
    state: State = "care" if is_void else "bad"
    return KeyFinding(state, "Criteria", f"{len(missed):,} of {len(criteria):,} were missed: {first}{more}{nothing}")


def _of_checks(checks: Sequence[CheckRecord]) -> KeyFinding:
    violations = [check.name for check in checks if check.is_violation]
    tried = [check for check in checks if check.verdict not in ("NOT TRIED", "NOT OFFERED")]
    if violations:
        shown = ", ".join(violations[:5]) + (" ..." if len(violations) > 5 else "")
        return KeyFinding("bad", "WORM", f"{len(violations)} violations in {len(tried)} checks tried: {shown}")
    counts = Counter(check.verdict.lower() for check in tried)
    return KeyFinding(
        "good" if tried else "care",
        "WORM",
        f"no violation in {len(tried)} checks tried"
        + (f": {', '.join(f'{count} {word}' for word, count in counts.most_common())}" if tried else ""),
    )


def _beside_published(results: Sequence[Result]) -> list[KeyFinding]:
    """Return the median ratio to the published rates over the cells of one client."""
    found = []
    for operation in ("archive", "retrieve"):
        ratios = [
            (cell, cell.objects_per_second / theirs.objects_per_second)
            for key, cell in single_cells(results).items()
            if key.operation == operation
            and (theirs := dr550().cells.get((operation, key.object_bytes, key.objects_per_session)))
        ]
        if ratios:
            text, state = _of_ratios(ratios)
            found.append(KeyFinding(state, f"{operation.capitalize()} compared with {NAME}", text))
    return found


def _of_ratios(ratios: Sequence[tuple[Unit, float]]) -> tuple[str, State]:
    """Return one ratio in words; none where the cells are more than RATIOS_APART_MAX times apart."""
    values = [ratio for _, ratio in ratios]
    sound = sum(not cell.cautions for cell, _ in ratios)
    low, high = min(values), max(values)
    if high > low * RATIOS_APART_MAX:
        text = f"{_times(low)} to {_times(high)} the published objects/s over {len(values)} cells; see each cell"
    else:
        text = f"{_times(median(values))} the published objects/s, the median of {len(values)} cells"
        text += f" ({_times(low)} to {_times(high)})" if len(values) > 1 else ""
    if sound < len(values):
        text += f"; {len(values) - sound} of them to be read with care"
    return text, "plain" if sound == len(values) else "care"


def _times(ratio: float) -> str:
    return f"{ratio:,.2f}×" if ratio < 10 else f"{ratio:,.0f}×"
