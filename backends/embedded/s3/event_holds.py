"""Event holds in requests: what a client may combine, and the values of the core.

One idea: headers and documents have the same rules, those that Amazon's user guide lists under "Troubleshooting
variable retention". A request that breaks one is refused (400).
"""

from __future__ import annotations

from ..core.rules.locks import LONGEST_RETENTION_DAYS, LONGEST_RETENTION_YEARS, RELEASED, EventHold, Period
from .errors import S3Error, invalid_argument, number_in


def parse(status: str | None, days: str | None, years: str | None, *, has_mode: bool) -> EventHold | None:
    """Return the event hold that a request places (ON) or releases (OFF); None if it names none. Raises S3Error."""
    if status is None:
        if days is None and years is None:
            return None
        raise S3Error("InvalidRequest", "An event hold duration needs an event hold that is ON")
    if not has_mode:
        raise S3Error("InvalidRequest", "An event hold needs a retention mode, GOVERNANCE or COMPLIANCE")
    if status == "OFF":
        if days is not None or years is not None:
            raise S3Error("InvalidRequest", "The release of an event hold takes no duration: the hold has one already")
        return RELEASED
    if status != "ON":
        raise invalid_argument("Event hold must be either of 'ON' or 'OFF'", "EventHold", status)
    return EventHold(parse_period(days, years))


def parse_period(days: str | None, years: str | None) -> Period:
    """Return the period of an event hold. Raises S3Error."""
    if (days is None) == (years is None):
        raise S3Error("InvalidRequest", "An event hold needs one duration, in days or in years")
    if days is not None:
        return Period(days=_number(days, "Days", LONGEST_RETENTION_DAYS))
    return Period(years=_number(years or "", "Years", LONGEST_RETENTION_YEARS))


def _number(text: str, name: str, most: int) -> int:
    return number_in(text, name, f"An event hold lasts from 1 to {most} {name.lower()} after its release", 1, most)
