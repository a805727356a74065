"""ESG Lab's published results of tiles on two block storage systems, for comparison with an object store.

The numbers are of another kind of storage. The module reads them from ``reference/mixed_workload.json`` and never
alters them. No table computes a ratio to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from results.reference import published_data

MIB = 1 << 20
KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class PublishedEmail:
    """One line of the DS5020 report's Table 2, the sum of all tiles. None: not printed."""

    tiles: int
    operations_per_second: float | None
    mailboxes: int
    retrieve_ms: float | None


@dataclass(frozen=True, slots=True)
class PublishedDatabase:
    """One line of its Table 3. The latency is the minimum, with 1 outstanding request; the rates are the maxima."""

    tile: int | None  # None: all
    small_per_second: float
    large_megabytes_per_second: float  # as printed; the report does not say whether they are 10^6 or 2^20 bytes
    latency_ms: float | None


@dataclass(frozen=True, slots=True)
class PublishedWebScan:
    """One line of its Table 4."""

    tile: int | None  # None: all
    web_per_second: float
    web_mebibytes_per_second: float | None
    scan_mebibytes_per_second: float | None  # Iometer prints MiB as MB


@dataclass(frozen=True, slots=True)
class PublishedTiles:
    """One ESG Lab report. ``tiles``: the number for the database, web and scan lines."""

    name: str
    source: str
    tiles: int
    small_outstanding: int | None  # outstanding requests at the maximum rate of small operations
    large_outstanding: int | None
    email: tuple[PublishedEmail, ...]
    database: tuple[PublishedDatabase, ...]
    web_scan: tuple[PublishedWebScan, ...]


@dataclass(frozen=True, slots=True)
class SizingClass:
    """Rates that a database of this class requires of its storage."""

    name: str
    small_per_second: float
    large_megabytes_per_second: float


@dataclass(frozen=True, slots=True)
class Guideline:
    """The planned rate of a disk, and the rate of ESG's tiles."""

    per_disk: float
    measured_per_drive: float | None
    drives: int | None


@dataclass(frozen=True, slots=True)
class Guidelines:
    """Per disk: e-mail and database operations per second, and MB/s of large operations."""

    email: Guideline
    database_small: Guideline
    database_large: Guideline


@cache
def mailbox_rates() -> dict[int, float]:
    """Return database operations per second of one mailbox, by page size in bytes: Jetstress 2007 and 2010."""
    data = published_data("mixed_workload")
    pages = data["ds5020"]["email"]["page_kib"]
    return {
        pages["2007"] * KIB: data["ds5020"]["email"]["iops_per_mailbox"],
        pages["2010"] * KIB: data["storwize_v7000"]["email"]["iops_per_mailbox"],
    }


@cache
def email_limits_ms() -> tuple[float, float]:
    """Return the limits of Jetstress for the mean retrieve and the mean log archive, in milliseconds."""
    limits = published_data("mixed_workload")["ds5020"]["email"]["pass"]
    return limits["database_read_ms"], limits["log_write_ms"]


@cache
def small_latency_limit_ms() -> float:
    """Return the limit for the mean of small database operations, in milliseconds."""
    highest: float = published_data("mixed_workload")["ds5020"]["database"]["guideline_small_latency_ms"][1]
    return highest


@cache
def sizing_classes() -> tuple[SizingClass, ...]:
    """Return the classes of the guideline for databases, the lowest first: low, medium, high."""
    classes = published_data("mixed_workload")["ds5020"]["database"]["sizing_guideline"]
    return tuple(SizingClass(name, each["iops"], each["megabytes_per_second"]) for name, each in classes.items())


def sizing_class(small_per_second: float | None, large_megabytes_per_second: float | None) -> str:
    """Return the highest class whose two rates are both reached, or ``below low``; empty if a rate is missing."""
    if small_per_second is None or large_megabytes_per_second is None:
        return ""
    reached = [
        each.name
        for each in sizing_classes()
        if small_per_second >= each.small_per_second and large_megabytes_per_second >= each.large_megabytes_per_second
    ]
    return reached[-1] if reached else f"below {sizing_classes()[0].name}"


@cache
def guidelines() -> Guidelines:
    """Return the guideline rates per disk, with those that ESG measured on the DS5020."""
    data = published_data("mixed_workload")["ds5020"]["per_device_guidelines"]
    measured = data["measured"]
    return Guidelines(
        Guideline(data["email_iops_per_disk"], measured["email_iops_per_drive"], measured["email_drives"]),
        Guideline(data["oltp_iops_per_disk"], measured["oltp_iops_per_drive"], measured["oltp_drives"]),
        Guideline(data["dss_megabytes_per_second_per_disk"], None, None),
    )


@cache
def ds5020() -> PublishedTiles:
    """Return the report on the IBM DS5020 of May 2010: Tables 2, 3 and 4."""
    data = published_data("mixed_workload")["ds5020"]
    totals = data["database"]["printed_totals"]
    web, scan = data["web_server"], data["scan_read"]
    per_tile = zip(web["iops_per_tile"], scan["mebibytes_per_second_per_tile"], strict=True)
    lines = [
        PublishedEmail(row["tiles"], row["achieved_iops"], row["users"], row["database_read_s"] * 1000)
        for row in data["email"]["table_2"]
    ]
    database = [
        PublishedDatabase(row["tile"], row["small_iops"], row["large_mbps"], row["small_latency_ms"])
        for row in data["database"]["table_3"]
    ]
    return PublishedTiles(
        name="ESG: DS5020",
        source=data["source"],
        tiles=len(database),
        small_outstanding=data["database"]["max_small_at_outstanding"],
        large_outstanding=data["database"]["max_large_at_outstanding"],
        email=tuple(lines),
        database=(
            *database,
            PublishedDatabase(None, totals["small_iops"], totals["large_mbps"], totals["small_latency_ms"]),
        ),
        web_scan=(
            *(PublishedWebScan(tile, rate, None, mebibytes) for tile, (rate, mebibytes) in enumerate(per_tile, 1)),
            PublishedWebScan(
                None, web["iops_total"], web["mebibytes_per_second_total"], scan["mebibytes_per_second_total"]
            ),
        ),
    )


@cache
def storwize_v7000() -> PublishedTiles:
    """Return the report on the IBM Storwize V7000 of February 2011: the values that it prints as numbers."""
    data = published_data("mixed_workload")["storwize_v7000"]
    email = data["email"]
    return PublishedTiles(
        name="ESG: V7000",
        source=data["source"],
        tiles=data["tiles"],
        small_outstanding=None,
        large_outstanding=None,
        email=(
            PublishedEmail(1, None, email["users_one_tile"], email["database_read_ms_one_tile"]),
            PublishedEmail(4, None, email["users_four_tiles"], None),
        ),
        database=(
            PublishedDatabase(None, data["database"]["small_iops"], data["database"]["large_mbps"], None),
        ),
        web_scan=(PublishedWebScan(None, data["web_server_iops"], None, data["backup_megabytes_per_second"]),),
    )  # fmt: skip
