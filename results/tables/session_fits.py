"""The table of session times: T = a + b n per operation and object size, measured and published, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from archiver.values.errors import ResultsError
from archiver.values.sizes import format_size
from results.document.table import Cell, Column, Table, TableSpec, number
from results.measures.session_time import RESIDUAL_MAX_PERCENT, SessionTimeBounds, SessionTimeFit, fit_session_time
from results.measures.statistics import RelativeError
from results.measures.units import Unit, single_cells
from results.recorded.model import Result
from results.reference.published import NAME, dr550

OPERATIONS = ("archive", "retrieve")
PUBLISHED = "published"

_SETUP_AT_ZERO = "set-up held at 0: the free fit was negative"
_TWO_POINTS = "only two columns: the line passes through both, so there is no residual"
_LAW_FAILS = f"the law does not apply here: a session time is more than {RESIDUAL_MAX_PERCENT}% off the line"
_P_MIN = 0.001  # smaller p values are not distinguished


@dataclass(frozen=True, slots=True)
class FittedTimes:
    """The session times of one operation and size, measured or published, and their fit."""

    operation: str
    object_bytes: int
    whose: str  # measured, published
    rates: Mapping[int, float]  # by objects per session
    errors: Mapping[int, RelativeError | None]
    cells: Sequence[Unit]  # empty: published
    fit: SessionTimeFit | str  # or the reason for its absence

    @property
    def is_measured(self) -> bool:
        return self.whose != PUBLISHED

    @property
    def results(self) -> list[Result]:
        return [result for cell in self.cells for result in cell.results]

    @property
    def doubts(self) -> tuple[str, ...]:
        """Warnings about the cells, each once."""
        return tuple(dict.fromkeys(doubt for cell in self.cells for doubt in cell.doubts))


def session_fits(results: Sequence[Result]) -> list[FittedTimes]:
    """Return the fit of every operation and size with one client, each followed by that of the paper's row."""
    plain = [cell for cell in single_cells(results).values() if cell.key.operation in OPERATIONS]
    found = []
    for (operation, size), group in groupby(plain, key=lambda cell: cell.key[:2]):
        cells = list(group)
        rates = {cell.key.objects_per_session: cell.objects_per_second for cell in cells}
        errors = {cell.key.objects_per_session: cell.relative_error for cell in cells}
        found.append(FittedTimes(operation, size, "measured", rates, errors, cells, _fit(rates, errors)))
        if published := dr550().rates(operation, size):
            found.append(FittedTimes(operation, size, PUBLISHED, published, {}, (), _fit(published, {})))
    return found


def measured_laws(results: Sequence[Result]) -> Iterator[tuple[FittedTimes, SessionTimeFit]]:
    """Yield the measured session times that follow T = a + b n, with their fits."""
    for fitted in session_fits(results):
        if fitted.is_measured and isinstance(fitted.fit, SessionTimeFit) and fitted.fit.law_holds:
            yield fitted, fitted.fit


def session_time_table(results: Sequence[Result]) -> Table:
    """Return T = a + b n per operation and size, with the fit of the paper's row for comparison."""
    return _SESSION_TIME.table(row for fitted in session_fits(results) for row in _rows(fitted))


def _fit(rates: Mapping[int, float], errors: Mapping[int, RelativeError | None]) -> SessionTimeFit | str:
    try:
        fit = fit_session_time(rates)
    except ResultsError as error:
        return str(error)
    from results.measures.session_bootstrap import with_intervals  # numpy, which most commands do not need

    return with_intervals(fit, errors)


class _FitRow(NamedTuple):
    """The values of a fit, or one end of their intervals."""

    fitted: FittedTimes
    label: str
    values: SessionTimeFit | SessionTimeBounds | None  # None: no line describes the sessions
    fit: SessionTimeFit | None  # of the first row of a fit only
    note: str = ""


def _rows(fitted: FittedTimes) -> Iterator[_FitRow]:
    fit = fitted.fit
    if isinstance(fit, str):
        yield _FitRow(fitted, fitted.whose, None, None, fit)
        return
    if not fit.law_holds:
        yield _FitRow(fitted, fitted.whose, None, fit, _LAW_FAILS)
        return
    yield _FitRow(fitted, fitted.whose, fit, fit, _SETUP_AT_ZERO if fit.setup_at_zero else "")
    if fit.low is not None and fit.high is not None:
        yield _FitRow(fitted, "95% from", fit.low, None)
        yield _FitRow(fitted, "95% to", fit.high, None)


def _marks(row: _FitRow) -> tuple[str, ...]:
    return tuple(f"of cells in this fit: {doubt}" for doubt in row.fitted.doubts) if row.fit else ()


def _value(name: str, digits: int) -> Callable[[_FitRow], Cell]:
    def read(row: _FitRow) -> Cell:
        return number(None if row.values is None else getattr(row.values, name), digits)

    return read


def _residual(row: _FitRow) -> Cell:
    if row.fit is None:
        return Cell("")
    if len(row.fit.residuals_percent) > 2:
        return number(row.fit.worst_residual_percent, 1)
    return number(None, 1, (_TWO_POINTS,))


def _lack_of_fit(row: _FitRow) -> Cell:
    if row.fit is None:
        return Cell("")
    p = row.fit.lack_of_fit_p
    return Cell(f"<{_P_MIN}", p) if p is not None and p < _P_MIN else number(p, 3)


_SESSION_TIME = TableSpec(
    "session-time",
    "Session time: T = a + b x objects",
    (
        Column("operation", of=lambda row: row.fitted.operation, label=True),
        Column("object size", of=lambda row: format_size(row.fitted.object_bytes), label=True),
        Column("", of=lambda row: row.label, notes=_marks, label=True),
        Column(
            "set-up a",
            "ms",
            lambda row: number(row.values.setup_ms if row.values else None, 2, (row.note,) if row.note else ()),
        ),
        Column("marginal b", "ms/object", _value("marginal_ms", 3)),
        Column("half ceiling at a/b", "objects/session", _value("objects_for_half_the_ceiling_rate", 1)),
        Column("ceiling 1/b", "objects/s", _value("ceiling_objects_per_second", 1)),
        Column("worst residual", "%", _residual),
        Column("lack of fit", "p", _lack_of_fit),
    ),
    "One client. Least squares over the measured columns, weighted by 1/T². Residuals are relative to the session time."
    " Sessions of a/b objects reach half the ceiling rate. 95% from, to: parametric bootstrap with the standard error"
    " of each cell's mean session time (with repetitions, of their rates). Lack of fit: the probability of such large"
    f" residuals if the law is true. Published: {NAME}, the same fit over its seven columns.",
)
