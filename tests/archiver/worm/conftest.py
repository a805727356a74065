"""The store that the tests of checks share within a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from archiver.worm.requests.limited import RIGHTS
from backends.embedded import process


@pytest.fixture(scope="module")
def checked_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.StoreProcess]:
    """A running store with one credential for each right that it lacks."""
    credentials = [f"no-{right}:without={right}" for right in RIGHTS]
    with process.start(tmp_path_factory.mktemp("checked") / "store", credentials=credentials) as store:
        yield store
