"""The contents of a run of simultaneous workloads: its tables and its figures, from its database.

A run of tiles has its own tables and figures. Every other run has the common ones: workloads, course, criteria, search.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from results.document.table import Table
from results.measures.phases import phases_of
from results.mixed.drives import drives_table
from results.mixed.programme import Course, course
from results.mixed.programme_tables import programme_tables
from results.mixed.published import ds5020, storwize_v7000
from results.mixed.reference_tile import stored_reference
from results.mixed.replay.contents import FIGURE_TABLES as REPLAY_FIGURE_TABLES
from results.mixed.replay.contents import replay_tables
from results.mixed.replay.trials import ReplayedRun, replay_run
from results.mixed.replay.verdicts import capacity_sentence
from results.mixed.scale_up import criteria_table, search_table
from results.mixed.score import score_table
from results.mixed.tile_tables import tile_tables
from results.mixed.tiles import tile_scales
from results.mixed.workloads import workloads_table
from results.planning.capacity import capacity_tables
from results.recorded.model import CriterionResult, Result, SearchOutcome
from results.recorded.run import RecordedRun
from results.reference.esg_peaks import published_peaks
from results.tables.characterization import characterization_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from results.figures.phases import Caption

FIGURE_TABLES = {  # the table with the numbers of each figure
    "figure-10-client-utilisation": "workloads",
    "figure-11-aggregate-rate": "aggregate-rates",
    "figure-12-throughput-spikes": "spikes",
    "figure-13-mailboxes": "tiles-email",
    "figure-14-email-response": "tiles-email",
    **REPLAY_FIGURE_TABLES,
}
QUICK_HAS_NO_SCORE = "withheld: --quick measures a subset, which does not compare with a whole reference tile"
COURSE_TABLES = ("programme", "aggregate-rates", "spikes", "spikes-others", "workloads")  # long: for a report


@dataclass(frozen=True, slots=True)
class WorkloadsShown:
    """The parts of a run that only simultaneous workloads have."""

    results: Sequence[Result]  # without phases that only made data
    criteria: Sequence[CriterionResult]
    search: SearchOutcome | None
    courses: Sequence[Course]
    scale_name: str
    weights: Mapping[str, float] | None
    drives: int | None  # with the data
    is_quick: bool = False  # a subset, which compares with no published or stored value
    replay: ReplayedRun | None = None  # of workloads that replayed traces


def mixed_run(recorded: RecordedRun, *, drives: int | None = None) -> WorkloadsShown | None:
    """Return the simultaneous workloads of a run. Returns None if there were none and no criterion was judged.

    ``drives`` is the number of drives with the data.
    """
    results = [result for result in recorded.results if result.application and not result.is_load]
    criteria = recorded.criteria
    if not results and not criteria:
        return None
    run = recorded.run
    scenario = json.loads(run.scenario_json)
    intervals = recorded.intervals
    positions = sorted({result.position for result in results})
    return WorkloadsShown(
        results=results,
        criteria=criteria,
        search=recorded.search,
        courses=[
            course(
                [result for result in results if result.position == position],
                intervals.get(position, []),
                run.interval_ns,
            )
            for position in positions
        ],
        scale_name=scenario.get("scale", {}).get("name", ""),
        weights=scenario.get("weights") or None,
        drives=drives,
        is_quick=_is_quick(run.request),
        replay=replay_run(recorded, results),
    )


def _is_quick(request: str | None) -> bool:
    """Return whether the stored request of a run asks for the quick subset of its scenario."""
    scenario = json.loads(request or "{}").get("scenario")  # a replay has none
    return scenario is not None and bool(scenario["quick"])


def mixed_tables(run: WorkloadsShown) -> list[Table]:
    """Return every table for which the run has data, in the order of the report."""
    scales = tile_scales(phases_of(run.results, run.criteria))
    tables = replay_tables(run.replay) if run.replay is not None else []
    if scales:
        tables += tile_tables(scales, [] if run.is_quick else [ds5020(), storwize_v7000()])
        withheld = QUICK_HAS_NO_SCORE if run.is_quick else ""
        tables.append(score_table(scales, stored_reference(), run.weights, withheld))
        if run.drives is not None:
            tables.append(drives_table(scales, run.drives))
    tables += characterization_tables(run.results, run.criteria, published_peaks())
    tables += capacity_tables(run.results, run.criteria)
    tables.append(workloads_table(run.results, run.scale_name))
    if run.replay is None or len(run.replay.trials) > 1:  # the passing detail of a single phase has them
        tables.append(criteria_table(run.criteria, run.results, run.scale_name))
    if run.search is not None:
        found = search_table(run.search)
        tables.append(replace(found, caption=f"{found.caption} {capacity_sentence(run.results)}".strip()))
    tables += programme_tables(run.courses, run.scale_name, published_peaks() if scales else ())
    return [table for table in tables if table.rows]


def mixed_figures(run: WorkloadsShown, caption: Caption) -> dict[str, Figure]:
    """Return every figure for which the run has data, by the stem of its file name."""
    from results.mixed.figures import tile_figures
    from results.mixed.replay.figures import replay_figures

    scales = tile_scales(phases_of(run.results, run.criteria))
    figures = replay_figures(run.replay, caption) if run.replay is not None else {}
    if scales:
        figures |= tile_figures(run.results, scales, run.courses, caption, run.scale_name)
    return figures
