"""The ratio of two sides of one unit that both measured, from pairs of repetitions, and its verdict.

Each side of a unit, a cell or a workload, is a list of samples, one for each repetition. Only samples of the same
repetition are a pair. A verdict needs three pairs or more. The test is over all units that are compared in one
quantity. Units without a verdict are shown with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, get_args

from results.comparison.power import detectable
from results.measures import Measure
from results.statistics import (
    PAIRS_MIN,
    REPETITIONS_MAX,
    PairedRatio,
    benjamini_hochberg,
    paired_ratio,
    pairs_needed,
)
from results.units import Sample, UnitKey

Verdict = Literal["better", "worse", "no difference shown", "no verdict"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

FALSE_DISCOVERY_RATE = 0.05
WORTH_SHOWING_SHARE = 0.05  # the difference for computing the necessary repetitions if none was shown
LEVEL = 0.05  # of a single test, as for the overall ratio
UNLIKE = "unlike runs"
_LOGARITHM_MAX = 100.0  # an unlimited spread detects nothing; JSON cannot express infinity


@dataclass(frozen=True, slots=True)
class Needed:
    """The repetitions needed for a 95% interval of the observed spread to exclude ratio 1, given this difference."""

    repetitions: int | None  # None: more than REPETITIONS_MAX
    difference_percent: float
    seen: bool  # the difference is the observed one; else 5%, because none was shown

    def __str__(self) -> str:
        return f"more than {REPETITIONS_MAX}" if self.repetitions is None else f"{self.repetitions}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Other / first, from pairs of repetitions. Above 1, the other has the higher rate, or the longer latency."""

    ratio: float | None  # geometric mean over the pairs; None: no pair has two rates above zero
    low: float | None
    high: float | None
    p: float | None  # None: not tested
    adjusted_p: float | None  # over all units compared in one measure and side; for the overall ratio, p itself
    pairs: int
    verdict: Verdict
    because: str = ""  # why there is no verdict
    needed: Needed | None = None
    notes: tuple[str, ...] = ()
    detectable_percent: float | None = None  # the test finds a true difference of this size in four of five cases

    @property
    def words(self) -> str:
        return f"{self.verdict} ({self.because})" if self.because else self.verdict


@dataclass(frozen=True, slots=True)
class Evidence:
    """The pairs of one unit."""

    log_ratios: Mapping[int, float]  # by repetition; empty if no ratio is possible
    pairs: int
    unfit: str  # why it proves nothing about the platforms; empty if valid
    notes: tuple[str, ...] = ()


def paired(ours: Iterable[Sample], theirs: Iterable[Sample], measure: Measure, notes: tuple[str, ...] = ()) -> Evidence:
    """Return the pairs of one unit in one measure: samples of the same repetition."""
    beside = {sample.repetition: sample for sample in theirs}
    pairs = {each.repetition: (each, beside[each.repetition]) for each in ours if each.repetition in beside}
    both = [sample for pair in pairs.values() for sample in pair]
    name = measure.name
    values = {number: (our.values.get(name), their.values.get(name)) for number, (our, their) in pairs.items()}
    logs = {number: math.log(their / our) for number, (our, their) in values.items() if our and their}
    unmeasured = "a rate of zero" if measure.more_is_better else f"no {measure.words} time measured"
    unmeasured = next((sample.why_none for sample in both if sample.why_none), unmeasured)
    reasons = (
        ("no pair", not pairs),
        ("errors", any(sample.errors for sample in both)),
        (unmeasured, len(logs) < len(pairs)),
        ("limited by the client", any("client" in sample.limits for sample in both)),
        ("limited by the machine", any("host cpu" in sample.limits for sample in both)),
        (f"fewer than {measure.objects_min} objects", any(sample.objects < measure.objects_min for sample in both)),
    )
    unfit = next((reason for reason, applies in reasons if applies), "")
    return Evidence(logs if len(logs) == len(pairs) else {}, len(pairs), unfit, notes)


def judged_together(evidence: Mapping[UnitKey, Evidence], measure: Measure, *, forced: bool) -> dict[UnitKey, Ratio]:
    """Return every ratio of one measure with its verdict, tested together.

    If forced, the ratios have no verdicts.
    """
    if forced:
        evidence = {key: replace(each, unfit=each.unfit or UNLIKE) for key, each in evidence.items()}
    estimates = {key: paired_ratio(list(each.log_ratios.values())) for key, each in evidence.items() if each.log_ratios}
    p_values = {key: found.p for key, found in estimates.items() if found.p is not None and not evidence[key].unfit}
    adjusted = dict(zip(p_values, benjamini_hochberg(list(p_values.values())), strict=True))
    levels = _levels(adjusted)
    return {
        key: _judged(each, estimates.get(key), adjusted.get(key), levels.get(key), measure)
        for key, each in evidence.items()
    }


def judged_as_a_whole(evidence: Mapping[UnitKey, Evidence], measure: Measure, *, forced: bool) -> Ratio:
    """Return the geometric mean over all valid units, from the pairs that all of these have."""
    fit = [each.log_ratios for each in evidence.values() if not each.unfit]
    numbers = sorted(set[int].intersection(*(set(logs) for logs in fit))) if fit else []
    means = [fmean(logs[number] for logs in fit) for number in numbers]
    if not means:
        unfit = "no pair that all of them have" if fit else "nothing to judge by"
        return _judged(Evidence({}, 0, unfit), None, None, None, measure)
    estimated = paired_ratio(means)
    if forced:
        return _judged(Evidence({}, len(means), UNLIKE), estimated, None, None, measure)
    level = None if estimated.p is None else LEVEL
    return _judged(Evidence({}, len(means), ""), estimated, estimated.p, level, measure)


def _levels(adjusted: Mapping[UnitKey, float]) -> dict[UnitKey, float]:
    """Return the p value below which each would have a difference, given the others."""
    called = [key for key, p in adjusted.items() if p < FALSE_DISCOVERY_RATE]
    share = FALSE_DISCOVERY_RATE / len(adjusted) if adjusted else 0.0
    return {key: share * (len(called) if key in called else len(called) + 1) for key in adjusted}


def _judged(
    evidence: Evidence, estimated: PairedRatio | None, adjusted_p: float | None, level: float | None, measure: Measure
) -> Ratio:
    """Return the ratio with its verdict, by rule."""
    if estimated is None:
        return Ratio(None, None, None, None, None, evidence.pairs, "no verdict", evidence.unfit, None, evidence.notes)
    verdict, because, needed = _verdict(evidence.unfit, estimated, adjusted_p, measure)
    return Ratio(
        ratio=estimated.ratio,
        low=estimated.low,
        high=estimated.high,
        p=estimated.p if adjusted_p is not None else None,
        adjusted_p=adjusted_p,
        pairs=estimated.pairs,
        verdict=verdict,
        because=because,
        needed=needed,
        notes=evidence.notes,
        detectable_percent=_detectable_percent(estimated, level),
    )


def _verdict(
    unfit: str, estimated: PairedRatio, adjusted_p: float | None, measure: Measure
) -> tuple[Verdict, str, Needed | None]:
    """Return the verdict, the reason if there is none, and the repetitions needed."""
    if unfit:
        return "no verdict", unfit, None
    if adjusted_p is None or estimated.pairs < PAIRS_MIN:
        return "no verdict", "1 pair" if estimated.pairs == 1 else f"{estimated.pairs} pairs", _needed(estimated)
    if adjusted_p >= FALSE_DISCOVERY_RATE:
        return "no difference shown", "", _needed(estimated)
    return "better" if (estimated.ratio > 1) == measure.more_is_better else "worse", "", _needed(estimated, seen=True)


def _needed(estimated: PairedRatio, *, seen: bool = False) -> Needed | None:
    """Return the repetitions for the observed difference, or for the standard one.

    Returns None if one pair shows no spread.
    """
    if estimated.spread is None:
        return None
    ratio = estimated.ratio if seen else 1 + WORTH_SHOWING_SHARE
    return Needed(pairs_needed(estimated.spread, math.log(ratio)), (ratio - 1) * 100, seen)


def _detectable_percent(estimated: PairedRatio, level: float | None) -> float | None:
    """Return the smallest true difference that these pairs show at this level with a power of 80%.

    It assumes that the observed spread is the true one. The value is the higher rate or latency in percent of the
    lower. Returns None if nothing was tested.
    """
    if level is None or estimated.spread is None:
        return None
    errors = detectable(estimated.pairs, level)
    return math.expm1(min(errors * estimated.spread / math.sqrt(estimated.pairs), _LOGARITHM_MAX)) * 100
