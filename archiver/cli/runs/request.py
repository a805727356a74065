"""Convert a command line to a RunRequest.

One idea: an option of run, bench and replay has the name of the field that it becomes. Click parses it, and this module
only sorts the values into the parts of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from archiver.cli.parameters import part_of
from archiver.engine.request import (
    Devices,
    ReplayRequest,
    RunRequest,
    ScenarioRequest,
    WatchRequest,
)
from archiver.values.errors import UsageError
from archiver.values.retention import Guards, RetentionMode, RetentionWish
from archiver.values.sizes import parse_size
from backends.s3 import S3Request
from backends.tsm import TsmRequest
from results.prices.disclosure import read_disclosure
from scenarios.ad_hoc import AdHoc, ad_hoc_text

_Value = TypeVar("_Value")
_EXAMPLES = {"--disk-role": "object", "--disk-speed": "450MB"}


def scenario_request(given: Mapping[str, Any]) -> ScenarioRequest:
    """Return the scenario of ``archiver run``, and its settings."""
    return ScenarioRequest(**part_of(ScenarioRequest, given))


def bench_request(given: Mapping[str, Any]) -> ScenarioRequest:
    """Return the scenario that ``archiver bench`` makes."""
    is_open_loop = given["rate"] is not None
    wanted = AdHoc(
        operations=given["operations"],
        object_bytes=given["sizes"],
        objects_per_session=given["objects_per_session"] or (1 if is_open_loop else 100,),
        clients=given["clients"] or ((16,) if is_open_loop else (1, 4)),
        seconds=given["duration"],
        sessions_per_second=given["rate"],
        criteria=given["criteria"],
    )
    of_each = given["max_locked_bytes"] // (given["repetitions"] * max(1, len(given["platforms"])))
    return ScenarioRequest(
        source="archiver bench",
        text=ad_hoc_text(wanted, of_each),
        overrides=(),
        quick=False,
        order="paper",
        order_seed=0,
        allow_large_sessions=given["allow_large_sessions"],
        searches=False,
    )


def replay_request(given: Mapping[str, Any]) -> ReplayRequest:
    """Return the traces of ``archiver replay``, and their settings."""
    return ReplayRequest(**part_of(ReplayRequest, given))


def run_request(
    given: Mapping[str, Any], *, scenario: ScenarioRequest | None = None, replay: ReplayRequest | None = None
) -> RunRequest:
    """Return the request to carry out a scenario or traces.

    Raises UsageError for an invalid DEVICE=VALUE, or for a disclosure that cannot be read.
    """
    mode, disclose = given["mode"], given["disclose"]
    parts = {
        "scenario": scenario,
        "replay": replay,
        "objects_from": given.get("objects_from"),  # replay does not have these options
        "budget_seconds": given.get("budget_seconds"),
        "s3": S3Request(**part_of(S3Request, given)),
        "tsm": TsmRequest(**part_of(TsmRequest, given)),
        "retention": RetentionWish(
            **part_of(RetentionWish, given) | {"mode": RetentionMode(mode) if mode is not None else None}
        ),
        "guards": Guards(**part_of(Guards, given)),
        "watch": WatchRequest(**part_of(WatchRequest, given)),
        "devices": Devices(
            disk_roles=_by_device("--disk-role", given["disk_roles"], str),
            disk_speeds=_by_device("--disk-speed", given["disk_speeds"], parse_size),
            link_speed_bytes_per_second=given["link_speed_bytes_per_second"],
        ),
        "disclosure": None if disclose is None else read_disclosure(disclose).document,
    }
    return RunRequest(**part_of(RunRequest, given) | parts)


def _by_device(option: str, pairs: Sequence[str], read: Callable[[str], _Value]) -> dict[str, _Value]:
    """Parse DEVICE=VALUE pairs. Raises UsageError naming the invalid pair."""
    found = {}
    for pair in pairs:
        device, equals, value = pair.partition("=")
        if not (device and equals and value):
            raise UsageError(f"{option} {pair}: write DEVICE=VALUE, for example vda={_EXAMPLES[option]}")
        try:
            found[device.removeprefix("/dev/")] = read(value)
        except ValueError as wrong:
            raise UsageError(f"{option} {pair}: {wrong}") from wrong
    return found
