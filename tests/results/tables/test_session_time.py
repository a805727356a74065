"""The fit of session time: the published answers, exact data, and what cannot be fitted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import ResultsError
from results.reference.published import dr550
from results.tables.session_time import fit_session_time

COLUMNS = (1, 2, 10, 25, 100, 250, 500)


@pytest.mark.parametrize(
    ("kibibytes", "setup_ms", "marginal_ms", "half_ceiling"),
    [(8, 37, 1.15, 33), (1024, 165, 28.0, 6)],
)
def test_the_published_archive_table_gives_the_known_answers(
    kibibytes: int, setup_ms: float, marginal_ms: float, half_ceiling: float
) -> None:
    fit = fit_session_time(dr550().rates("archive", kibibytes * 1024))
    assert fit.setup_ms == pytest.approx(setup_ms, rel=0.05)
    assert fit.marginal_ms == pytest.approx(marginal_ms, rel=0.05)
    assert fit.objects_for_half_the_ceiling_rate == pytest.approx(half_ceiling, rel=0.05)


def test_all_56_published_archive_cells_lie_within_nine_percent_of_their_fit() -> None:
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


def test_a_negative_set_up_is_held_at_zero_and_said_so() -> None:
    rates = {n: n / (n * 2 + n * n * 0.01) * 1000 for n in COLUMNS}  # slows down as it goes on
    fit = fit_session_time(rates)
    assert (fit.setup_ms, fit.setup_at_zero) == (0, True)
    assert fit.objects_for_half_the_ceiling_rate == 0
    # b is the best that is left: its residuals are orthogonal to n / T, which is the rate.
    assert sum(fit.residuals_percent[n] * rates[n] for n in COLUMNS) == pytest.approx(0, abs=1e-6)
    assert not fit_session_time({1: 10, 10: 50}).setup_at_zero


def test_a_residual_is_a_share_of_its_own_session_time() -> None:
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
def test_what_cannot_be_fitted_is_refused(rates: dict[int, float], message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        fit_session_time(rates)
