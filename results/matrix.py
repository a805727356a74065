"""The matrix: what a run measured, as one cell per operation, object size, objects per session and clients.

One idea: a cell is all repetitions of one thing, and its value is their median. Of each repetition one result
counts, the earliest: the first cell of a phase is measured again at its end, and that shows drift. A phase
with several numbers of clients answers another question and stays out of the matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

from archiver.values.errors import ResultsError
from results.model import Result
from results.statistics import Estimate, estimate

Quantity = Literal["objects_per_second", "megabytes_per_second"]

ERRORS = "some operations failed (see the table of errors); failed attempts are in no rate"
INCOMPLETE = "incomplete: workers were lost, so the rate means nothing; see the doubts"
UNSETTLED = "unsettled: the limits of the cell came before its mean session time was known within 5%"
UNSTEADY = "unsteady: the rate changed while it was measured; see the doubts"
CLIENT_LIMITED = "limited by the client: the platform may be faster than this"
HOST_LIMITED = "every core of the machine was busy: whatever ran there shares this number"
CONNECTIONS_ENDED = "the platform ended connections within sessions: opening others is in this rate; see the doubts"


class CellKey(NamedTuple):
    operation: str  # with its variant, where it has one: archive, lock header
    object_bytes: int
    objects_per_session: int
    clients: int


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """All repetitions of one cell, in order."""

    key: CellKey
    repetitions: tuple[Result, ...]

    @property
    def objects_per_second(self) -> float:
        return self.estimate.median

    @property
    def estimate(self) -> Estimate:
        """Of objects/s: its relative interval is that of MB/s, too."""
        return estimate([result.objects_per_second for result in self.repetitions])

    @property
    def megabytes_per_second(self) -> float:
        """10^6 bytes per second."""
        return median(result.megabytes_per_second for result in self.repetitions)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why this cell is to be read with care; each is a sentence for a footnote."""
        found = (
            (ERRORS, any(result.errors for result in self.repetitions)),
            (INCOMPLETE, any(result.incomplete for result in self.repetitions)),
            (UNSETTLED, not all(result.settled for result in self.repetitions)),
            (UNSTEADY, any(result.unsteady for result in self.repetitions)),
            (CLIENT_LIMITED, any(result.limited_by == "client" for result in self.repetitions)),
            (HOST_LIMITED, any(result.limited_by == "host cpu" for result in self.repetitions)),
            (CONNECTIONS_ENDED, any(result.requests_per_connection is not None for result in self.repetitions)),
        )
        return tuple(doubt for doubt, present in found if present)


def matrix_cells(results: Sequence[Result]) -> dict[CellKey, MatrixCell]:
    """The cells of one client, in the order operation, size, objects per session.

    They come from the phases that measured one client only, or, where there are none, from the others. Raises
    ResultsError if there are no results, or if two results of one cell and repetition were measured under
    different settings: one number cannot stand for both.
    """
    if not results:
        raise ResultsError("this run holds no results: no phase finished")
    results = _sweeps(results)
    parallel = {result.phase for result in results if result.clients > 1}
    alone = [result for result in _in_order(results) if result.clients == 1]
    return _collect([result for result in alone if result.phase not in parallel] or alone)


def parallel_cells(results: Sequence[Result]) -> dict[CellKey, MatrixCell]:
    """The cells measured with several numbers of clients, one client among them; empty if there are none.

    One client is that of the same phase; failing that, the matrix lends its own.
    """
    results = _sweeps(results)
    parallel = {result.phase for result in results if result.clients > 1}
    measured = {_series(result) for result in results if result.clients > 1}
    chosen = [result for result in _in_order(results) if _series(result) in measured]
    return _collect(sorted(chosen, key=lambda result: result.phase not in parallel))


def sizes(cells: Iterable[CellKey]) -> list[int]:
    """The object sizes measured, in bytes, smallest first."""
    return sorted({key.object_bytes for key in cells})


def columns(cells: Iterable[CellKey]) -> list[int]:
    """The objects per session measured, fewest first."""
    return sorted({key.objects_per_session for key in cells})


def temperature(cells: Iterable[MatrixCell]) -> str:
    """``cold`` if all that was retrieved had left the platform's memory, or a list: ``cold or unknown``."""
    return " or ".join(sorted({result.temperature or "unknown" for cell in cells for result in cell.repetitions}))


def connections_per_session(results: Iterable[Result]) -> float:
    """The median of these results; 1 for those of which it is not known that the platform ended connections."""
    return median(result.connections_per_session or 1.0 for result in results)


def _sweeps(results: Sequence[Result]) -> list[Result]:
    """Those that are cells: workloads that ran beside others are none."""
    return [result for result in results if not result.application]


def _collect(results: Sequence[Result]) -> dict[CellKey, MatrixCell]:
    """Group by cell and repetition; where there are several results, the first of them counts."""
    chosen: dict[CellKey, dict[int, Result]] = {}
    for result in results:
        first = chosen.setdefault(_key(result), {}).setdefault(result.repetition, result)
        if _settings(first) != _settings(result):
            raise ResultsError(
                f"{result.operation} of {result.object_bytes} bytes x {result.objects_per_session} was"
                f" measured with {_settings(first)} and with {_settings(result)};"
                " tabulate different settings apart"
            )
    return {key: MatrixCell(key, tuple(result for _, result in sorted(chosen[key].items()))) for key in sorted(chosen)}


def _in_order(results: Iterable[Result]) -> list[Result]:
    return sorted(results, key=lambda result: result.position)


def _key(result: Result) -> CellKey:
    return CellKey(*_series(result), result.clients)


def _series(result: Result) -> tuple[str, int, int]:
    """Its operation, with what sets it apart from others of the same sizes: variants are cells of their own."""
    operation = f"{result.operation}, {result.variant}" if result.variant else result.operation
    return operation, result.object_bytes, result.objects_per_session


def _settings(result: Result) -> tuple[str, str, str, bool, str, bool, str, int | None]:
    return (
        result.session_kind,
        result.session_open,
        result.checksum,
        result.payload_signing,
        result.retention_mode,
        result.legal_hold,
        result.verified,
        result.objects_per_transaction,
    )
