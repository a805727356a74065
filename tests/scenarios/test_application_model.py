"""Models of applications: valid tables, and invalid ones with their error messages."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from archiver.values.errors import ScenarioError
from scenarios.notation.distribution import Sizes
from scenarios.notation.units import decode
from scenarios.work.application_model import ApplicationModel, ModelTable, application_model, model_of

PLAIN = {"streams": 4, "per_second": 20, "operations": {"archive": 1, "retrieve": 3}, "sizes": "8KiB"}
SESSIONS = {"busy_share": 0.5, "busy": "2s", "objects_per_session": 5, "gap": "10ms"}


def model(**keys: Any) -> ApplicationModel:
    table = msgspec.convert({**PLAIN, **keys}, ModelTable, dec_hook=decode)
    return application_model(table, "the mail server")


def test_default_model_is_always_busy_with_one_object_per_session() -> None:
    made = model()
    assert (made.busy_share, made.objects_per_session, made.gap_seconds, made.recent_share) == (1.0, 1.0, 0.0, 0.0)
    assert made.operations == (("archive", 0.25), ("retrieve", 0.75))
    assert made.sizes == Sizes.constant(8192)
    assert made.silence_seconds == pytest.approx(4 / 20)


def test_silence_is_busy_time_left_by_sessions() -> None:
    made = model(**SESSIONS)
    # 4 streams do 40 operations/s while busy: each has a session of 5 every 0.5 s, with 4 gaps of 10 ms.
    assert made.silence_seconds == pytest.approx(0.5 - 0.04)
    assert (made.busy_seconds, made.gap_seconds) == (2.0, 0.01)


def test_operation_with_share_zero_is_left_out() -> None:
    assert model(operations={"archive": 0, "head": 2}).operations == (("head", 1.0),)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"streams": 0}, "streams: 0 is not possible; write 1 to 10,000"),
        ({"per_second": -1}, "per_second: -1 is not possible; write more than 0, at most 100,000"),
        ({"per_second": float("nan")}, "per_second: nan"),
        ({"per_second": float("inf")}, "per_second: inf"),
        ({"busy_share": 0.0}, "busy_share: 0 is not possible; write more than 0, at most 1"),
        ({"busy_share": 1.5, "busy": "1s"}, "busy_share: 1.5"),
        ({"busy_share": 0.5}, "busy, the mean duration of a busy time"),
        ({"busy": "1s"}, "is for a busy_share below 1"),
        ({"busy_share": 0.5, "busy": "0s"}, "busy: 0s is not possible; write more than 0s, at most 24h"),
        ({"objects_per_session": 0.5}, "objects_per_session: 0.5"),
        ({"objects_per_session": 5}, "gap, the time between the operations of a session"),
        ({"gap": "1s"}, "is for objects_per_session above 1"),
        ({"objects_per_session": 5, "gap": "2d"}, "gap: 172800s is not possible; write 0s to 24h"),
        ({"objects_per_session": 5, "gap": "1s"}, "4 streams with gaps of 1s cannot do 20 operations/s in 100%"),
        ({"operations": {}}, "their sum is 0"),
        ({"operations": {"archive": 0}}, "their sum is 0"),
        ({"operations": {"archive": -1, "head": 3}}, "archive: a share of -1"),
        ({"operations": {"head": float("nan")}}, "head: a share of nan"),
        ({"operations": {"delete": 1}}, "a model has no 'delete'; it has archive, new-version, retrieve"),
        ({"operations": {"retrieve": 1, "new-version": 1}}, "new-version and recent_share need archive"),
        ({"operations": {"retrieve": 1}, "recent_share": 0.5}, "new-version and recent_share need archive"),
        ({"operations": {"range-retrieve": 1}}, "range, the length that a range-retrieve reads"),
        ({"operations": {"range-retrieve": 1}, "range": 0}, "range: 0 is not possible; write at least 1B"),
        ({"range": "4KiB"}, "is for range-retrieve among the operations"),
        ({"recent_share": 1.1}, "recent_share: 1.1"),
        ({"zipf_exponent": -0.1}, "zipf_exponent: -0.1 is not possible; write 0 to 5"),
        ({"sizes": 0}, "an object must have at least 1 byte"),
        ({"sizes": {}}, "sizes is one size, or a table"),
    ],
)
def test_invalid_model_values_are_refused_with_their_place(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        model(**keys)
    assert str(caught.value).startswith("the mail server: ")
    assert says in str(caught.value)


FILE = """
[[phase]]
name = "sets"
seconds = "1h"
[[phase.replay]]
name = "mail server"
capacity = "80GB"
model = { streams = 4, per_second = 20, operations = { head = 1 }, sizes = "8KiB" }
[[phase.replay]]
name = "captured"
trace = "mail.parquet"
"""


def test_model_of_application_is_read_from_scenario() -> None:
    made, seconds, capacity_bytes = model_of(FILE, "sets.toml", "mail server")
    assert (made.streams, seconds, capacity_bytes) == (4, 3600.0, 80 * 10**9)
    assert model_of(FILE.replace('seconds = "1h"', ""), "sets.toml", "mail server")[1] is None


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        (FILE, "web", "sets.toml: it has no application 'web'; it has mail server, captured"),
        (FILE, "captured", "application 'captured': it has no model, because it replays 'mail.parquet'"),
        ("", "web", "none of its phases has [[phase.replay]]"),
        ("phase = 3", "web", "none of its phases has [[phase.replay]]"),
        ("[[phase]]\nreplay = [1]", "web", "none of its phases has [[phase.replay]]"),
        ("[[phase", "web", "sets.toml: not TOML"),
        (FILE.replace("streams", "clients"), "mail server", "application 'mail server': Object contains unknown field"),
        (FILE.replace("80GB", "80 apples"), "mail server", "unknown size unit 'apples'"),
        (FILE.replace('capacity = "80GB"', ""), "mail server", "a model needs a capacity"),
        (FILE.replace("1h", "1"), "mail server", "a duration needs a unit"),
        (FILE.replace("streams = 4", "streams = 0"), "mail server", "application 'mail server': model: streams: 0"),
    ],
)
def test_missing_or_invalid_model_in_scenario_is_refused(text: str, name: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=r"sets\.toml") as caught:
        model_of(text, "sets.toml", name)
    assert says in str(caught.value)


def test_application_sets_have_eight_applications_of_table_10() -> None:
    text = files("scenarios").joinpath("application-sets.toml").read_text()
    gigabytes = {
        "mail server": 80,
        "Olio database": 14,
        "Olio web server": 80,
        "idle Windows server": 10,
        "DVD Store database": 45,
        "DVD Store web server 1": 10,
        "DVD Store web server 2": 10,
        "DVD Store web server 3": 10,
    }
    models = {name: model_of(text, "application-sets", name) for name in gigabytes}
    assert {name: capacity for name, (_, _, capacity) in models.items()} == {
        name: each * 10**9 for name, each in gigabytes.items()
    }
    assert 30 <= sum(made.per_second for made, _, _ in models.values()) <= 60


def test_application_sets_page_has_every_model() -> None:
    text = files("scenarios").joinpath("application-sets.toml").read_text()
    page = (Path(__file__).parents[2] / "docs" / "application-sets.md").read_text()
    replays = [replay for phase in tomllib.loads(text)["phase"] for replay in phase["replay"]]
    assert len(replays) == 8
    for replay in replays:
        said = replay["model"]
        made, _, capacity_bytes = model_of(text, "application-sets", replay["name"])
        cells = (
            replay["name"],
            f"{capacity_bytes / 1e9:g}",
            f"{made.per_second:g}",
            f"{made.streams}",
            f"{made.busy_share:.0%}, {made.busy_seconds:g} s" if made.busy_seconds else "always",
            f"{made.objects_per_session:g}" + (f", {made.gap_seconds * 1e3:g} ms" if made.gap_seconds else ""),
            ", ".join(f"{name} {share:g}" for name, share in said["operations"].items()),
            f"{made.sizes.mean / 1024:.1f} KiB",
            said.get("range", ""),
            f"{made.recent_share:g}",
            f"{made.zipf_exponent:g}",
        )
        assert f"| {' | '.join(cells)} |".replace("|  |", "| |") in page
    for name in ModelTable.__struct_fields__:
        assert re.search(rf"^    {name} = ", page, re.MULTILINE), name
