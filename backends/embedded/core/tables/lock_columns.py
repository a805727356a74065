"""Locks as columns of the catalogue: the retention of versions and uploads, and the default of buckets."""

from __future__ import annotations

from typing import NamedTuple

from ..rules.locks import RELEASED, DefaultRetention, EventHold, Mode, Period, VersionRetention

_OFF = "OFF"


class RetentionColumns(NamedTuple):
    """The three columns of a retention (see `catalogue.sql`); all None for no retention."""

    mode: str | None = None
    until_ms: int | None = None
    event_hold: str | None = None

    @property
    def retention(self) -> VersionRetention | None:
        if self.mode is None or self.until_ms is None:
            return None
        return VersionRetention(Mode(self.mode), self.until_ms, _event_hold(self.event_hold))


def columns_of(retention: VersionRetention | None) -> RetentionColumns:
    if retention is None:
        return RetentionColumns()
    hold = retention.event_hold
    text = None if hold is None else _OFF if hold.period is None else _text(hold.period)
    return RetentionColumns(retention.mode, retention.until_ms, text)


def default_columns(default: DefaultRetention | None) -> tuple[str | None, int | None, int | None, str | None]:
    """Return mode, days, years and event hold of a bucket's default."""
    if default is None:
        return None, None, None, None
    period = default.period or Period()
    return default.mode, period.days, period.years, None if default.held_for is None else _text(default.held_for)


def default_of(mode: str | None, days: int | None, years: int | None, held: str | None) -> DefaultRetention | None:
    if mode is None:
        return None
    period = None if days is years is None else Period(days, years)
    return DefaultRetention(Mode(mode), period, None if held is None else _period(held))


def _event_hold(text: str | None) -> EventHold | None:
    if text is None:
        return None
    return RELEASED if text == _OFF else EventHold(_period(text))


def _text(period: Period) -> str:
    return f"P{period.days}D" if period.days is not None else f"P{period.years}Y"


def _period(text: str) -> Period:
    number = int(text[1:-1])
    return Period(days=number) if text.endswith("D") else Period(years=number)
