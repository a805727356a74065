"""The fit of session time: published values, exact data, intervals, and data that cannot be fitted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import ResultsError
from results.measures.session_bootstrap import with_intervals
from results.measures.session_time import SessionTimeFit, fit_session_time
from results.measures.statistics import RelativeError, relative_half_width, t_quantile
from results.reference.published import dr550

COLUMNS = (1, 2, 10, 25, 100, 250, 500)


@pytest.mark.parametrize(
    ("kibibytes", "setup_ms", "marginal_ms", "half_ceiling"), [(8, 37, 1.15, 33), (1024, 165, 28.0, 6)]
)
def test_the_published_archive_table_gives_the_known_answers(
    kibibytes: int, setup_ms: float, marginal_ms: float, half_ceiling: float
) -> None:
    fit = fit_session_time(dr550().rates("archive", kibibytes * 1024))
    assert fit.setup_ms == pytest.approx(setup_ms, rel=0.05)
    assert fit.marginal_ms == pytest.approx(marginal_ms, rel=0.05)
    assert fit.objects_for_half_the_ceiling_rate == pytest.approx(half_ceiling, rel=0.05)


def test_all_56_published_archive_cells_fit_within_nine_percent() -> None:
    fits = [fit_session_time(dr550().rates("archive", 1024 << power)) for power in range(3, 11)]
    residuals = [residual for fit in fits for residual in fit.residuals_percent.values()]
    assert len(residuals) == 56
    assert max(map(abs, residuals)) < 9


@given(
    setup_ms=st.floats(0.01, 10_000),
    marginal_ms=st.floats(0.01, 1_000),
    columns=st.sets(st.sampled_from(COLUMNS), min_size=2),
)
def test_exact_times_are_recovered_exactly(setup_ms: float, marginal_ms: float, columns: set[int]) -> None:
    fit = fit_session_time({n: n / (setup_ms + marginal_ms * n) * 1000 for n in columns})
    assert fit.setup_ms == pytest.approx(setup_ms, rel=1e-4, abs=1e-4 * marginal_ms)
    assert fit.marginal_ms == pytest.approx(marginal_ms, rel=1e-4, abs=1e-4 * setup_ms)
    assert fit.worst_residual_percent < 0.01
    assert set(fit.residuals_percent) == columns


@given(rates=st.dictionaries(st.sampled_from(COLUMNS), st.floats(1, 10_000), min_size=3))
def test_no_other_line_has_smaller_relative_residuals(rates: dict[int, float]) -> None:
    def squares(setup_ms: float, marginal_ms: float) -> float:
        return sum((1 - (setup_ms + marginal_ms * n) * rate / n / 1000) ** 2 for n, rate in rates.items())

    try:
        fit = fit_session_time(rates)
    except ResultsError:
        return
    best = squares(fit.setup_ms, fit.marginal_ms)
    for setup_factor, marginal_factor in ((1.01, 1), (0.99, 1), (1, 1.01), (1, 0.99)):
        assert squares(fit.setup_ms * setup_factor, fit.marginal_ms * marginal_factor) >= best - 1e-9


def test_half_the_ceiling_rate_is_reached_at_a_over_b() -> None:
    fit = fit_session_time({n: n / (40 + 2 * n) * 1000 for n in COLUMNS})
    assert fit.objects_for_half_the_ceiling_rate == pytest.approx(20)
    assert fit.ceiling_objects_per_second / 2 == pytest.approx(20 / (40 + 2 * 20) * 1000)


def test_negative_set_up_is_clamped_to_zero_and_flagged() -> None:
    rates = {n: n / (n * 2 + n * n * 0.01) * 1000 for n in COLUMNS}  # later objects of a session are slower
    fit = fit_session_time(rates)
    assert (fit.setup_ms, fit.setup_at_zero) == (0, True)
    assert fit.objects_for_half_the_ceiling_rate == 0
    # b is the least-squares slope with a = 0: its residuals are orthogonal to n / T, which is the rate.
    assert sum(fit.residuals_percent[n] * rates[n] for n in COLUMNS) == pytest.approx(0, abs=1e-6)
    assert not fit_session_time({1: 10, 10: 50}).setup_at_zero


def test_residual_is_relative_to_measured_session_time() -> None:
    rates = {n: n / (40 + 2 * n) * 1000 for n in COLUMNS}
    fit = fit_session_time({**rates, 10: rates[10] / 1.3})
    fitted_ms = fit.setup_ms + fit.marginal_ms * 10
    measured_ms = 60 * 1.3
    assert fit.residuals_percent[10] == pytest.approx((measured_ms - fitted_ms) / measured_ms * 100)
    assert fit.worst_residual_percent == pytest.approx(fit.residuals_percent[10])


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({}, "two different objects per session"),
        ({25: 300.0}, "two different objects per session"),
        ({25: 300.0, 100: 0.0}, "two different objects per session"),
        ({1: 10.0, 100: 2000.0}, "does not grow"),  # 100 objects in less time than one
    ],
)
def test_rates_that_cannot_be_fitted_are_refused(rates: dict[int, float], message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        fit_session_time(rates)


SETUP_MS, MARGINAL_MS = 37.0, 1.15  # the paper's archive of 8 KiB
SESSIONS = dict(zip(COLUMNS, (200, 150, 60, 30, 20, 12, 10), strict=True))


def measured_fit(random: np.random.Generator, law: dict[int, float]) -> SessionTimeFit:
    """Return the fit of sessions whose times scatter around this law: short ones by 30%, long ones by 3%."""
    rates, errors = {}, {}
    for n, mean_ms in law.items():
        spread = 0.03 + 0.3 / n**0.5
        times = random.gamma(spread**-2, mean_ms * spread**2, size=SESSIONS[n])
        rates[n] = n / float(times.mean()) * 1000
        errors[n] = RelativeError(relative_half_width(times.tolist()) / t_quantile(0.975, 9), 9)  # ten batches
    return with_intervals(fit_session_time(rates), errors)


def test_intervals_cover_truth_in_95_percent_without_misfit() -> None:
    random = np.random.default_rng(1)
    law = {n: SETUP_MS + MARGINAL_MS * n for n in COLUMNS}
    truth = (SETUP_MS, MARGINAL_MS, SETUP_MS / MARGINAL_MS, 1000 / MARGINAL_MS)
    within, misfits, experiments = np.zeros(4), 0, 300
    for _ in range(experiments):
        fit = measured_fit(random, law)
        assert fit.low is not None
        assert fit.high is not None
        assert fit.lack_of_fit_p is not None
        within += [low <= value <= high for low, value, high in zip(fit.low, truth, fit.high, strict=True)]
        misfits += fit.lack_of_fit_p < 0.05
    assert min(within) >= 0.92 * experiments
    assert max(within) < experiments  # intervals that always contain the truth are too wide
    assert misfits <= 0.07 * experiments


def test_the_lack_of_fit_test_finds_a_law_that_bends() -> None:
    random = np.random.default_rng(2)
    law = {n: SETUP_MS + MARGINAL_MS * n + 0.002 * n * n for n in COLUMNS}  # 500 objects take 80% longer
    fits = [measured_fit(random, law) for _ in range(30)]
    assert sum((fit.lack_of_fit_p or 0) < 0.05 for fit in fits) >= 29
    assert not any(fit.law_holds for fit in fits)


def test_fit_of_two_columns_has_intervals_and_no_lack_of_fit_test() -> None:
    errors: dict[int, RelativeError | None] = {n: RelativeError(0.01, 20) for n in (1, 100)}
    rates = {n: n / (40 + 2 * n) * 1000 for n in (1, 100)}
    fit = with_intervals(fit_session_time(rates), errors)
    assert fit.low is not None
    assert fit.high is not None
    # b is (T(100) - T(1)) / 99, with 1% error of each time.
    half_width_ms = t_quantile(0.975, 20) * 0.01 * (240**2 + 42**2) ** 0.5 / 99
    assert (fit.high.marginal_ms - fit.low.marginal_ms) / 2 == pytest.approx(half_width_ms, rel=0.1)
    assert fit.lack_of_fit_p is None
    assert with_intervals(fit_session_time(rates), {**errors, 100: None}).low is None


def test_ceiling_has_no_upper_bound_with_one_degree_of_freedom() -> None:
    """With one degree of freedom a marginal time of zero is possible, so the ceiling has no upper bound."""
    fit = with_intervals(fit_session_time({1: 20.0, 2: 30.0}), {n: RelativeError(0.05, 1) for n in (1, 2)})
    assert fit.high is not None
    assert fit.high.ceiling_objects_per_second == float("inf")
