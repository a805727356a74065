"""Mailboxes: the number that a tile's e-mail supports, or the reason for none.

The number is database operations per second divided by the rate of one mailbox. It counts only if every criterion is
met. A tile that misses a criterion supports no mailboxes, whatever its rate. In a void phase the number is unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from archiver.values.sizes import format_size
from results.measures.quality import cautions
from results.measures.verdict import NOT_THE_PLATFORM
from results.mixed.published import email_limits_ms, mailbox_rates
from results.mixed.tiles import LOG, RETRIEVE, Scale, Tile, mean_ms, part_of
from results.recorded.model import CriterionResult, Result

VOID = {limit: f"void: {words}" for limit, words in NOT_THE_PLATFORM.items()}


@dataclass(frozen=True, slots=True)
class Mailboxes:
    """The mailboxes that one tile, or all tiles, support.

    ``reasons``: why there are none. ``possible``: the number from the rate alone.
    """

    supported: int | None
    reasons: tuple[str, ...] = ()
    possible: int | None = None
    cautions: tuple[str, ...] = ()  # about the measurements

    @property
    def is_void(self) -> bool:
        """Whether the number is unknown because the client, or other programs on its machine, were the limit."""
        return self.supported is None and bool(self.reasons) and set(self.reasons) <= set(VOID.values())


def page_bytes(email: Result) -> int:
    """Return the bytes of a database page: the mean size that e-mail retrieves, or else its configured size."""
    retrieved = part_of(email, RETRIEVE)
    return round(retrieved.bytes / retrieved.objects) if retrieved and retrieved.objects else email.object_bytes


def limit_ms(part: str, tile: Tile) -> float:
    """Return the limit of a part's mean response time: the scenario's limit if there is one, else Jetstress's."""
    default = dict(zip((RETRIEVE, LOG), email_limits_ms(), strict=True))[part]
    return next((criterion.limit for criterion in _email_criteria(tile) if _limits(criterion, part)), default)


def tile_mailboxes(scale: Scale, number: int) -> Mailboxes:
    """Return the mailboxes of one tile, from its median rate, if every trial met every criterion."""
    rate = scale.middle(number, lambda tile: tile.email_rate)
    tiles = scale.all_of(number)
    known = [tile.email for tile in tiles if tile.email is not None]
    if rate is None or not known:
        return Mailboxes(None, ("no e-mail was measured",))
    per_mailbox = mailbox_rates().get(page_bytes(known[0]))
    if per_mailbox is None:
        sizes = " and ".join(f"{format_size(page)} ({each:g}/s)" for page, each in mailbox_rates().items())
        return Mailboxes(
            None,
            (f"the rate of a mailbox is known for pages of {sizes}, not of {format_size(page_bytes(known[0]))}",),
        )
    possible = math.floor(rate / per_mailbox + 1e-9)
    reasons = [reason for tile in tiles for reason in _reasons(tile)]
    return Mailboxes(None if reasons else possible, tuple(dict.fromkeys(reasons)), possible, cautions(known))


def all_mailboxes(scale: Scale) -> Mailboxes:
    """Return the mailboxes that all tiles support together: none if one tile supports none."""
    each = {number: tile_mailboxes(scale, number) for number in scale.numbers}
    failed = [number for number, mailboxes in each.items() if mailboxes.supported is None]
    void = [number for number in failed if each[number].is_void]
    known = [mailboxes.possible for mailboxes in each.values() if mailboxes.possible is not None]
    possible = sum(known) if len(known) == len(each) else None
    if void and void == failed:
        return Mailboxes(None, each[void[0]].reasons, possible)
    if failed:
        others = f"; and {len(failed) - 1} more of {len(each)} tiles support none" if len(failed) > 1 else ""
        return Mailboxes(None, (f"tile {failed[0]}: {each[failed[0]].reasons[0]}{others}",), possible)
    return Mailboxes(possible, (), possible, tuple(dict.fromkeys(c for found in each.values() for c in found.cautions)))


def highest_limit_ms(part: str, scale: Scale) -> float:
    """Return the highest of a part's limits over tiles and trials. They are equal unless a scenario sets several."""
    return max(limit_ms(part, tile) for tile in scale.all_tiles if tile.email is not None)


def _reasons(tile: Tile) -> list[str]:
    """Return why a tile's e-mail does not count in one trial.

    The limits of Jetstress need not be criteria of the scenario, so a valid phase may exceed one. As for criteria, a
    missed limit proves nothing if the client was the limit, or other programs on its machine were.
    """
    found, results = _failures(tile), tile.phase.results
    void = [VOID[limit] for limit in VOID if any(result.limited_by == limit for result in results)]
    return void[:1] if found and void and not any(result.platform_errors for result in results) else found


def _failures(tile: Tile) -> list[str]:
    """Return why a tile's e-mail did not pass in one trial, the scenario's criteria first."""
    if tile.email is None:
        return ["no e-mail was measured in one of its trials"]
    criteria = _email_criteria(tile)
    found = [_told(each) for each in criteria if not each.passed]
    for part in (RETRIEVE, LOG):
        if any(_limits(criterion, part) for criterion in criteria):
            continue
        mean, limit = mean_ms(part_of(tile.email, part)), limit_ms(part, tile)
        what = f"mean {'log archive' if part == LOG else part}"
        if mean is None:
            found.append(f"{what}: not measured")
        elif mean > limit:
            found.append(f"{what} {mean:,.1f} ms > {limit:g} ms")
    if tile.email_check is not None and tile.email_check.errors:
        found.append(f"reading its data again found {tile.email_check.errors:,} errors")
    return found


def _email_criteria(tile: Tile) -> list[CriterionResult]:
    return [each for each in tile.phase.criteria if tile.email is not None and each.workload == tile.email.workload]


def _limits(criterion: CriterionResult, part: str) -> bool:
    """Return whether it sets an upper limit to the mean response time of this part: ``object_ms.mean <= 5 (log)``."""
    condition = criterion.condition
    return (condition.left, condition.operator[0], criterion.part) == ("object_ms.mean", "<", part)


def _told(criterion: CriterionResult) -> str:
    measured = "nothing was measured" if criterion.measured is None else f"it was {criterion.measured:,.4g}"
    return f"failed: {criterion.name}: {measured}"
