"""IBM's published results: the DR550 tables of 14 February 2005, for comparison with today's measurements.

These are another owner's numbers. The module reads them from ``reference/dr550.json`` and never alters them. If the
paper contradicts itself, or our copy of it cannot be read, the cell records that with the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from results.reference import published_data

NAME = "IBM DR550, 2005"


@dataclass(frozen=True, slots=True)
class PublishedCell:
    """One cell of the paper's Figures 9 and 10: one client, one operation."""

    operation: str
    object_bytes: int
    objects_per_session: int
    objects_per_second: float  # if the paper contradicts itself: the value that its MB/s and time grid support
    megabytes_per_second: float  # as printed: objects/s x KiB / 1000, which is neither MB/s nor MiB/s
    derived_from: str  # what objects/s follow from if our copy cannot be read there: MB/s; empty: as printed
    contradicted_objects_per_second: float | None  # printed value if objects/s and MB/s do not agree

    @property
    def unreadable(self) -> str:
        """Return a note if objects/s are not readable in our copy of the paper; empty otherwise."""
        return f"not readable in our copy; follows from its {self.derived_from}" if self.derived_from else ""


@dataclass(frozen=True, slots=True)
class PublishedResources:
    """The study's conclusions about the server's resources (Figures 6 to 8 and text), in its words and numbers."""

    server_cpu: str
    conclusions: tuple[str, ...]  # the resource with the highest utilisation first

    @property
    def of_database_disks(self) -> str:
        return self._about("database disks")

    @property
    def of_object_disks(self) -> str:
        return self._about("object disks")

    @property
    def of_network(self) -> str:
        return self._about("Ethernet")

    def _about(self, resource: str) -> str:
        return next(each for each in self.conclusions if resource in each)


@dataclass(frozen=True, slots=True)
class PublishedStudy:
    """The paper's numbers. ``cells`` is keyed by (operation, object bytes, objects per session)."""

    source: str
    cells: Mapping[tuple[str, int, int], PublishedCell]
    parallel_operation: str
    parallel_objects_per_session: int
    improvements: Mapping[tuple[int, int], float]  # (object bytes, clients) -> rate relative to one client
    resources: PublishedResources

    def rates(self, operation: str, object_bytes: int) -> dict[int, float]:
        """Return objects per second by objects per session; empty for a size that the paper did not measure."""
        return {
            cell.objects_per_session: cell.objects_per_second
            for cell in self.cells.values()
            if (cell.operation, cell.object_bytes) == (operation, object_bytes)
        }

    def improvement(self, operation: str, object_bytes: int, objects_per_session: int, clients: int) -> float | None:
        """Return Figure 5: the rate with ``clients`` relative to one client. Returns None if the paper quotes none."""
        if (operation, objects_per_session) != (self.parallel_operation, self.parallel_objects_per_session):
            return None
        return self.improvements.get((object_bytes, clients))


def megabytes_in_the_papers_unit(objects_per_second: float, object_bytes: int) -> float:
    """Return the paper's "MB/s", objects/s x KiB / 1000: 2.3% below 10^6 bytes per second, 2.3% above 2^20."""
    return objects_per_second * (object_bytes / 1024) / 1000


@cache
def dr550() -> PublishedStudy:
    """Return the DR550 study: 56 archive and 56 retrieve cells, and the quoted gains of 2 and 4 parallel clients."""
    data = published_data("dr550")
    contradicted = {
        (cell["operation"], cell["object_kib"] * 1024, cell["objects_per_session"]): cell["objects_per_second"]
        for cell in data["inconsistent_cells"]
    }
    cells = {}
    for operation in ("archive", "retrieve"):
        for cell in data[operation]:
            key = (operation, cell["object_kib"] * 1024, cell["objects_per_session"])
            cells[key] = PublishedCell(
                *key,
                objects_per_second=cell["objects_per_second"],
                megabytes_per_second=cell["megabytes_per_second"],
                derived_from=_derived_from(cell["objects_per_second_source"]),
                contradicted_objects_per_second=contradicted.get(key),
            )
    parallel = data["parallel_clients"]
    return PublishedStudy(
        source=data["source"],
        cells=cells,
        parallel_operation=parallel["operation"],
        parallel_objects_per_session=parallel["objects_per_session"],
        improvements={
            (int(size.removesuffix("KiB")) * 1024, int(clients)): gain
            for size, gains in parallel["improvement_over_one_client"].items()
            for clients, gain in gains.items()
        },
        resources=PublishedResources(
            data["resource_usage"]["server_cpu"], tuple(data["resource_usage"]["known_answer"])
        ),
    )


def _derived_from(source: str) -> str:
    """Return ``MB/s`` of ``derived from MB/s (why)``, and an empty text of ``printed``."""
    _, _, basis = source.partition("derived from ")
    return basis.partition(" (")[0]
