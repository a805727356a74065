"""A fixture of synthetic application sets with given response times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.results.mixed.replay.replayed_sets import MakeResult, ReplayedSets


@pytest.fixture
def sets(make_result: MakeResult, tmp_path: Path) -> Iterator[ReplayedSets]:
    made = ReplayedSets(make_result, tmp_path)
    yield made
    made.close()
