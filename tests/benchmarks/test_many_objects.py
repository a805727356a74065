"""The small version of the many-objects benchmark runs and reports every value of each size."""

from __future__ import annotations

import pytest

from benchmarks import many_objects, page


@pytest.mark.long
def test_every_size_has_all_values_and_ratios_to_smallest_size() -> None:
    document = many_objects.measure(small=True)
    few, many = document["sizes"].values()
    assert set(few) == set(many)
    assert {f"{name}_per_second" for name in many_objects.RATES} < set(few)
    assert all(value > 0 for value in (*few.values(), *many.values()))
    assert set(document["ratios"]["100"].values()) == {1.0}
    assert document["ratios"]["1000"]["head_per_second"] == many["head_per_second"] / few["head_per_second"]
    text = page.text(many_objects, document)
    assert "remove per second" in text
    assert "1,000" in text
    assert "goal: every rate" in text
