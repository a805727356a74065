"""The values read from the published study, including its contradictory cells."""

from __future__ import annotations

import pytest

from results.reference.published import dr550, megabytes_in_the_papers_unit

KIB = 1024


@pytest.mark.parametrize(
    ("operation", "kibibytes", "count", "objects_per_second", "megabytes_per_second"),
    [
        ("archive", 8, 1, 27.03, 0.22),
        ("archive", 8, 500, 833.33, 6.67),
        ("archive", 1024, 500, 35.34, 36.18),
        ("retrieve", 8, 1, 12.99, 0.10),
        ("retrieve", 1024, 500, 43.67, 44.72),
    ],
)
def test_published_cells_equal_those_of_paper(
    operation: str, kibibytes: int, count: int, objects_per_second: float, megabytes_per_second: float
) -> None:
    cell = dr550().cells[operation, kibibytes * KIB, count]
    assert (cell.objects_per_second, cell.megabytes_per_second) == (objects_per_second, megabytes_per_second)


def test_both_operations_have_eight_sizes_by_seven_columns() -> None:
    for operation in ("archive", "retrieve"):
        keys = [key for key in dr550().cells if key[0] == operation]
        assert len(keys) == 56
        assert {key[1] for key in keys} == {KIB << power for power in range(3, 11)}
        assert {key[2] for key in keys} == {1, 2, 10, 25, 100, 250, 500}


def test_three_contradicted_cells_keep_printed_and_corrected_rates() -> None:
    contradicted = {
        key: (cell.contradicted_objects_per_second, cell.objects_per_second)
        for key, cell in dr550().cells.items()
        if cell.contradicted_objects_per_second is not None
    }
    assert contradicted == {
        ("retrieve", 8 * KIB, 250): (526.32, 833.33),
        ("retrieve", 16 * KIB, 250): (400.0, 625.0),
        ("retrieve", 32 * KIB, 250): (303.03, 333.33),
    }


def test_every_cell_rate_agrees_with_its_megabytes_per_second() -> None:
    for (_, object_bytes, _), cell in dr550().cells.items():
        megabytes = megabytes_in_the_papers_unit(cell.objects_per_second, object_bytes)
        rounding = 0.005 + megabytes_in_the_papers_unit(0.005, object_bytes)  # both are printed with two decimals
        assert megabytes == pytest.approx(cell.megabytes_per_second, abs=rounding + 1e-9)


@pytest.mark.parametrize(
    ("operation", "kibibytes", "count", "clients", "gain"),
    [
        ("archive", 1024, 250, 2, 1.26),
        ("archive", 1024, 250, 4, 1.5),
        ("archive", 8, 250, 2, 1.33),
        ("archive", 8, 250, 4, 1.21),
        ("archive", 8, 250, 1, None),
        ("archive", 64, 250, 4, None),  # IBM measured it, but the paper gives no number
        ("archive", 8, 100, 4, None),
        ("retrieve", 8, 250, 4, None),
    ],
)
def test_parallel_gains_exist_only_where_paper_gives_them(
    operation: str, kibibytes: int, count: int, clients: int, gain: float | None
) -> None:
    assert dr550().improvement(operation, kibibytes * KIB, count, clients) == gain


def test_published_resource_conclusions_quote_the_study() -> None:
    resources = dr550().resources
    assert resources.conclusions[0] == "processor first"
    assert "near saturation" in resources.server_cpu
    assert resources.of_network == "Ethernet 52.92 of 100 MB/s = 53%"
    assert resources.of_object_disks == "object disks at most 31% each (sum 250% over 8)"
    assert resources.of_database_disks == "database disks 2.2% in total over 3"
