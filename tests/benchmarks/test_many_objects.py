"""The benchmark of many objects runs small, and what it says of each size is whole."""

from __future__ import annotations

import pytest

from benchmarks import many_objects


@pytest.mark.long
def test_every_size_has_every_value_and_its_ratio_to_the_smallest() -> None:
    document = many_objects.measure(small=True)
    few, many = document["sizes"].values()
    assert set(few) == set(many)
    assert {f"{name}_per_second" for name in many_objects.RATES} < set(few)
    assert all(value > 0 for value in (*few.values(), *many.values()))
    assert set(document["ratios"]["100"].values()) == {1.0}
    assert document["ratios"]["1000"]["head_per_second"] == many["head_per_second"] / few["head_per_second"]
    text = many_objects.text(document)
    assert "remove per second" in text
    assert "1,000" in text
