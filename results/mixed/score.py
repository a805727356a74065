"""The score of a tile run, in the form of VMmark: "3.42@4 tiles".

A tile's score is the geometric mean over its applications of their throughput divided by the reference tile's. One
application that is twice as fast therefore cannot compensate for two that are half as fast. Tiles add up. If a
criterion failed, or the phase is void, there is no score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import NamedTuple

from archiver.values.errors import ScenarioError
from results.document.table import Cell, Column, Table, TableSpec, number
from results.measures.phases import MeasuredPhase
from results.measures.quality import cautions, in_brackets
from results.mixed.reference_tile import ReferenceTile
from results.mixed.tiles import APPLICATIONS, Scale, Tile

_NAMED_MAX = 2  # failed criteria that are named


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a number of tiles, or the reason for its absence."""

    tiles: float
    value: float | None
    reason: str = ""
    cautions: tuple[str, ...] = ()  # about the measurements that it comes from

    def __str__(self) -> str:
        """Return "3.42@4 tiles", with its cautions."""
        count = f"{self.tiles:g} tile{'' if self.tiles == 1 else 's'}"
        if self.value is None:
            return f"no score at {count}: {self.reason}"
        return f"{self.value:.2f}@{count}{in_brackets(self.cautions)}"


def score_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Return the weight of each application in the score; the weights sum to 1.

    None gives equal weights. Applications that are not named do not count. Raises ScenarioError for unknown
    applications, for weights that are negative or no numbers, and for weights that sum to zero.
    """
    given = dict.fromkeys(APPLICATIONS, 1.0) if weights is None else dict(weights)
    for name, weight in given.items():
        if name not in APPLICATIONS:
            raise ScenarioError(f"weights: {name}: a tile has no such application; it has {', '.join(APPLICATIONS)}")
        if not math.isfinite(weight) or weight < 0:
            raise ScenarioError(f"weights: {name}: {weight:g} is not a weight; write a number of at least 0")
    whole = sum(given.values())
    if not whole:
        raise ScenarioError("weights: their sum is 0; give at least one application a weight above 0")
    return {name: weight / whole for name, weight in given.items() if weight}


def tile_score(tile: Tile, reference: ReferenceTile, weights: Mapping[str, float]) -> float | None:
    """Return the weighted geometric mean of a tile's ratios.

    Returns None if an application with a weight did nothing.
    """
    ratios = {name: ratio for name in weights if (ratio := _ratio(tile.throughputs[name], reference, name))}
    if len(ratios) < len(weights):
        return None
    return math.exp(sum(weight * math.log(ratios[name]) for name, weight in weights.items()))


def scale_score(scale: Scale, reference: ReferenceTile, weights: Mapping[str, float]) -> Score:
    """Return the score of a number of tiles: the median over its trials, if every trial met every criterion."""
    scores = []
    for trial in scale.trials:
        own = [tile for tile in scale.all_tiles if tile.phase is trial]
        reason = _why_none(trial, own, weights)
        tiles = [tile_score(tile, reference, weights) for tile in own]
        if reason or None in tiles:
            return Score(scale.tiles, None, reason)
        scores.append(sum(score for score in tiles if score is not None))
    measured = (result for trial in scale.trials for result in trial.results if result.application in weights)
    return Score(scale.tiles, median_low(scores), cautions=cautions(measured))


def best_score(scores: Sequence[Score]) -> Score | None:
    """Return the score of the most tiles that met all criteria.

    If none did, return the score of the fewest, with its reason. Returns None if none ran.
    """
    held = [score for score in scores if score.value is not None]
    if held:
        return max(held, key=lambda score: score.tiles)
    return min(scores, key=lambda score: score.tiles, default=None)


def score_table(
    scales: Sequence[Scale],
    reference: ReferenceTile,
    weights: Mapping[str, float] | None = None,
    withheld: str = "",
) -> Table:
    """Return each tile's ratios and their mean, and the score of each number of tiles.

    ``withheld``: why no score is shown; empty: it is shown.

    Raises ScenarioError as ``score_weights``.
    """
    shares = score_weights(weights)
    scores = [
        Score(scale.tiles, None, withheld) if withheld else scale_score(scale, reference, shares) for scale in scales
    ]
    best = best_score(scores)
    best_words = f"{str(best)[0].upper()}{str(best)[1:]}." if best else ""

    def shown(row: _Scored) -> Cell:
        scale, whole, tile = row
        if tile is None:
            return (
                Cell("no score", None, (whole.reason,))
                if whole.value is None
                else number(whole.value, 2, whole.cautions)
            )
        if withheld:
            return Cell("withheld", None, (withheld,))
        means = [mean for each in scale.all_of(tile) if (mean := tile_score(each, reference, shares)) is not None]
        return number(median_low(means) if len(means) == len(scale.trials) else None, 2)

    def ratio(name: str) -> Column:
        def of(row: _Scored) -> float | None:
            return None if row.tile is None else _ratio(row.scale.throughput(row.tile, name), reference, name)

        return Column(name, "ratio", of, 2)

    return TableSpec(
        name="tiles-score",
        title="Score of the tiles",
        columns=(
            Column("tiles", of=lambda row: row.scale.tiles, label=True),
            Column("tile", of=lambda row: "all" if row.tile is None else row.tile, label=True),
            *map(ratio, APPLICATIONS),
            Column("score", of=shown),
        ),
        caption=f"{best_words} Ratio: a tile's throughput / that of the reference tile (e-mail: database operations/s"
        " without the log; database: most small operations/s, most large MB/s; web: operations/s; scan: MB/s). A tile's"
        f" score is the geometric mean of its ratios, {_weight_words(shares, weights)}. Scores of tiles add up. A score"
        " requires that every trial meets every criterion. The reference tile scores 1. Reference:"
        f" {reference.described}.",
    ).table(
        _Scored(scale, score, tile)
        for scale, score in zip(scales, scores, strict=True)
        for tile in (*scale.numbers, None)
    )


class _Scored(NamedTuple):
    """One tile of a number of tiles, or all of them."""

    scale: Scale
    score: Score
    tile: int | None


def _ratio(throughput: float | None, reference: ReferenceTile, application: str) -> float | None:
    return None if throughput is None else throughput / reference.throughputs[application]


def _why_none(trial: MeasuredPhase, tiles: Sequence[Tile], weights: Mapping[str, float]) -> str:
    """Return why a trial has no score; empty if it has one."""
    if trial.void:
        return f"void: {trial.void[0]}"
    missed = [each for each in trial.criteria if not each.passed]
    failed = [f"{each.workload}: {each.name}" if each.workload else each.name for each in missed]
    if failed:
        more = f" and {len(failed) - _NAMED_MAX} more" if len(failed) > _NAMED_MAX else ""
        return f"failed: {', '.join(failed[:_NAMED_MAX])}{more}"
    if not trial.criteria:
        return "no pass criterion was judged"
    if trial.scale is not None and len(tiles) < trial.scale:
        return f"{len(tiles)} of {trial.scale:g} tiles were measured"
    idle = [f"tile {tile.number}: {name}" for tile in tiles for name in weights if not tile.throughputs[name]]
    return f"no throughput of {', '.join(idle)}" if idle else ""


def _weight_words(shares: Mapping[str, float], given: Mapping[str, float] | None) -> str:
    if given is None:
        return "with equal weights"
    return "weighted " + ", ".join(f"{name} {share:.3g}" for name, share in shares.items())
