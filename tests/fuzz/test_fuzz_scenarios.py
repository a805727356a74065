"""Damaged scenario files and overrides are read or refused, and nothing else happens."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import UsageError
from scenarios.reading.reader import builtin_names, read_scenario
from tests.fuzz.hostile import VALUES, damaged, damaged_text, tried, tries

PHASES_MAX = 2_000_000  # far more than a file of these lengths may have


def read_or_refused(path: Path, overrides: list[str], quick: bool) -> None:
    scenario, words = tried(UsageError, read_scenario, str(path), overrides=overrides, quick=quick)
    if scenario is None:
        assert len(words) < 2_000
    else:
        assert len(scenario.phases) < PHASES_MAX
        if not scenario.has("replay"):
            scenario.archived_max()


@pytest.mark.parametrize("name", builtin_names())
def test_damaged_scenario_is_read_or_refused(name: str, tmp_path: Path) -> None:
    text = files("scenarios").joinpath(f"{name}.toml").read_text()
    path = tmp_path / "damaged.toml"

    @tries(8)
    @given(damaged_text(text), st.booleans())
    def of_lines(changed: str, quick: bool) -> None:
        path.write_text(changed, encoding="utf-8", errors="surrogatepass")
        read_or_refused(path, [], quick)

    @tries(3)
    @given(damaged(text.encode()), st.booleans())
    def of_bytes(changed: bytes, quick: bool) -> None:
        path.write_bytes(changed)
        read_or_refused(path, [], quick)

    of_lines()
    of_bytes()


KEYS = st.sampled_from(
    ["clients", "object_sizes", "objects_per_session", "archive.clients", "stop.seconds_max", "stop.precision", "name",
     "archive.stop.bytes_max", "locks", "weights", "scale.values", "search.last", "phase", "sweep", "", ".", "a.b.c"]
)  # fmt: skip


@tries(25)
@given(
    st.sampled_from(builtin_names()),
    st.lists(st.builds("{}={}".format, KEYS, VALUES) | st.text(max_size=12), min_size=1, max_size=3),
    st.booleans(),
)
def test_any_override_is_applied_or_refused(name: str, overrides: list[str], quick: bool) -> None:
    read_or_refused(Path(name), overrides, quick)
