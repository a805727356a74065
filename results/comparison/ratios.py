"""The ratio of two sides of one unit that both measured, from pairs of repetitions, and its verdict.

A unit is a cell or a workload. Each side of a unit is a list of samples, one for each repetition. Only samples of the
same repetition form a pair. A verdict needs three pairs or more. The test is over all units that are compared in one
quantity. Units without a verdict are shown with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, get_args

from results.comparison.power import REPETITIONS_MAX, detectable, pairs_needed
from results.measures.metrics import Measure
from results.measures.quality import is_enough
from results.measures.statistics import LOGARITHM_MAX, PAIRS_MIN, PairedRatio, paired_ratio, read_together
from results.measures.units import Sample, UnitKey
from results.recorded.model import FAILURES

Verdict = Literal["better", "worse", "no difference shown", "no verdict"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

WORTH_SHOWING_SHARE = 0.05  # the true difference for which the necessary repetitions are computed
UNLIKE = "unlike runs"


@dataclass(frozen=True, slots=True)
class Needed:
    """The number of repetitions that detects a true difference of 5% with a probability of 80%."""

    repetitions: int | None  # None: more than REPETITIONS_MAX

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
    unfit: str  # why the pairs are invalid for a verdict; empty if valid
    notes: tuple[str, ...] = ()


def paired(
    ours: Iterable[Sample],
    theirs: Iterable[Sample],
    measure: Measure,
    notes: tuple[str, ...] = (),
    *,
    unfit: str = "",
) -> Evidence:
    """Return the pairs of one unit in one measure: samples of the same repetition.

    ``unfit``: why the measure is not comparable between these two platforms; empty if it is.
    """
    beside = {sample.repetition: sample for sample in theirs}
    pairs = {each.repetition: (each, beside[each.repetition]) for each in ours if each.repetition in beside}
    both = [sample for pair in pairs.values() for sample in pair]
    name = measure.name
    values = {number: (our.values.get(name), their.values.get(name)) for number, (our, their) in pairs.items()}
    logs = {number: math.log(their / our) for number, (our, their) in values.items() if our and their}
    unmeasured = "a rate of zero" if measure.more_is_better else f"no {measure.words} time measured"
    unmeasured = next((sample.why_none for sample in both if sample.why_none), unmeasured)
    if not pairs or len(logs) < len(pairs):
        reason = "errors" if any(sample.errors for sample in both) else unmeasured
        return Evidence({}, len(pairs), reason if pairs else "no pair", notes)
    faults = {number: fault for number, pair in pairs.items() if (fault := _fault(pair, measure))}
    named = ", ".join(dict.fromkeys(faults.values()))
    if not is_enough(len(pairs) - len(faults), len(pairs)):
        return Evidence(logs, len(pairs), named or unfit, notes)
    if faults:
        notes = (*notes, f"{len(faults)} of {len(pairs)} pairs left out: {named}")
    good = {number: log for number, log in logs.items() if number not in faults}
    return Evidence(good, len(good), unfit, notes)


def _fault(pair: tuple[Sample, Sample], measure: Measure) -> str:
    """Return why a pair says nothing about the platforms; empty if it does."""
    limits = pair[0].limits | pair[1].limits
    faults = (
        ("errors", any(sample.errors for sample in pair)),
        ("limited by failures", FAILURES in limits),
        ("limited by the client", "client" in limits),
        ("limited by the machine", "host cpu" in limits),
        (f"fewer than {measure.objects_min} objects", any(sample.objects < measure.objects_min for sample in pair)),
    )
    return next((fault for fault, applies in faults if applies), "")


def judged_together(evidence: Mapping[UnitKey, Evidence], measure: Measure, *, forced: bool) -> dict[UnitKey, Ratio]:
    """Return every ratio of one measure with its verdict, tested together.

    If forced, the ratios have no verdicts.
    """
    if forced:
        evidence = {key: replace(each, unfit=each.unfit or UNLIKE) for key, each in evidence.items()}
    estimates = {key: paired_ratio(list(each.log_ratios.values())) for key, each in evidence.items() if each.log_ratios}
    for unfit in (False, True):
        keys = [key for key in estimates if bool(evidence[key].unfit) is unfit]
        estimates |= zip(keys, read_together([estimates[key] for key in keys]), strict=True)
    return {key: _judged(each, estimates.get(key), measure) for key, each in evidence.items()}


def judged_as_a_whole(evidence: Mapping[UnitKey, Evidence], measure: Measure, *, forced: bool) -> Ratio:
    """Return the geometric mean over all valid units, from the pairs that all of these have."""
    fit = [each.log_ratios for each in evidence.values() if not each.unfit]
    numbers = sorted(set[int].intersection(*(set(logs) for logs in fit))) if fit else []
    means = [fmean(logs[number] for logs in fit) for number in numbers]
    if not means:
        unfit = "no pair that all of them have" if fit else "nothing to judge by"
        return _judged(Evidence({}, 0, unfit), None, measure)
    (estimated,) = read_together([paired_ratio(means)])
    return _judged(Evidence({}, len(means), UNLIKE if forced else ""), estimated, measure)


def _judged(evidence: Evidence, estimated: PairedRatio | None, measure: Measure) -> Ratio:
    """Return the ratio with its verdict, by rule."""
    if estimated is None:
        return Ratio(None, None, None, None, None, evidence.pairs, "no verdict", evidence.unfit, None, evidence.notes)
    verdict, because = _verdict(evidence.unfit, estimated, measure)
    is_tested = not evidence.unfit and estimated.p is not None
    return Ratio(
        ratio=estimated.ratio,
        low=estimated.low,
        high=estimated.high,
        p=estimated.p if is_tested else None,
        adjusted_p=estimated.adjusted_p if is_tested else None,
        pairs=estimated.pairs,
        verdict=verdict,
        because=because,
        needed=None if evidence.unfit else _needed(estimated),
        notes=evidence.notes,
        detectable_percent=_detectable_percent(estimated) if is_tested else None,
    )


def _verdict(unfit: str, estimated: PairedRatio, measure: Measure) -> tuple[Verdict, str]:
    """Return the verdict, and the reason if there is none."""
    if unfit:
        return "no verdict", unfit
    if estimated.pairs < PAIRS_MIN:
        return "no verdict", "1 pair" if estimated.pairs == 1 else f"{estimated.pairs} pairs"
    if not estimated.differs:
        return "no difference shown", ""
    return "better" if (estimated.ratio > 1) == measure.more_is_better else "worse", ""


def _needed(estimated: PairedRatio) -> Needed | None:
    """Return the number of repetitions needed; None for one pair, which has no spread."""
    if estimated.spread is None:
        return None
    difference = math.log1p(WORTH_SHOWING_SHARE)
    return Needed(pairs_needed(estimated.spread, estimated.pairs, difference, estimated.level))


def _detectable_percent(estimated: PairedRatio) -> float:
    """Return the smallest true difference that these pairs show at their level with a power of 80%.

    It assumes that the observed spread is the true one. The value is the higher rate or latency in percent of the
    lower.
    """
    errors = detectable(estimated.pairs, estimated.level)
    spread = estimated.spread or 0.0
    return math.expm1(min(errors * spread / math.sqrt(estimated.pairs), LOGARITHM_MAX)) * 100
