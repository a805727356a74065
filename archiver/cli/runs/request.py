"""Convert a command line to a RunRequest. Only this module reads the parameters of run, bench and replay by name.

Click parses each option, and this module only assigns the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from archiver.engine.request import (
    Devices,
    ReplayRequest,
    RunRequest,
    S3Request,
    ScenarioRequest,
    TsmRequest,
    WatchRequest,
)
from archiver.values.errors import UsageError
from archiver.values.retention import Guards, RetentionMode, RetentionWish
from archiver.values.sizes import parse_size
from results.prices.disclosure import read_disclosure
from scenarios.ad_hoc import AdHoc, ad_hoc_text

_Value = TypeVar("_Value")
_EXAMPLES = {"--disk-role": "object", "--disk-speed": "450MB"}


def scenario_request(given: Mapping[str, Any]) -> ScenarioRequest:
    """Return the scenario of ``archiver run``, and its settings."""
    return ScenarioRequest(
        source=given["scenario"],
        overrides=given["overrides"],
        quick=given["quick"],
        order=given["order"],
        order_seed=given["seed"],
        allow_large_sessions=given["allow_large_sessions"],
        searches=given["searches"],
        criteria=given["criteria"],
    )


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
    of_each = given["max_locked_bytes"] // (given["repeat"] * max(1, len(given["platforms"])))
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
    return ReplayRequest(
        traces=given["traces"],
        speed=given["speed"],
        sets=given["sets"],
        shift_seconds=given["shift"],
        tolerance_seconds=given["tolerance"],
        criteria=given["criteria"],
    )


def run_request(
    given: Mapping[str, Any], *, scenario: ScenarioRequest | None = None, replay: ReplayRequest | None = None
) -> RunRequest:
    """Return the request to carry out a scenario or traces.

    Raises UsageError for an invalid DEVICE=VALUE, or for a disclosure that cannot be read.
    """
    mode = given["retention_mode"]
    return RunRequest(
        scenario=scenario,
        replay=replay,
        repetitions=given["repeat"],
        objects_from=given.get("objects_from"),  # replay does not have this option
        backend=given["backend"],
        platforms=given["platforms"],
        s3=S3Request(
            endpoints=given["endpoints"],
            bucket=given["bucket"],
            region=given["region"],
            platform_name=given["platform_name"],
            platform_version=given["platform_version"],
            profile=given["profile"],
            ca_bundle=given["ca_bundle"],
            insecure=given["insecure"],
            addressing=given["addressing"],
            direct=given["direct"],
            connect_timeout_seconds=given["connect_timeout"],
            read_timeout_seconds=given["read_timeout"],
            checksum=given["checksum"],
            payload_signing=given["payload_signing"],
            session_open=given["session_open"],
            keep_sessions_open=given["keep_sessions_open"],
            retries=given["retries"],
            on_close=given["on_close"],
        ),
        tsm=TsmRequest(
            library=given["tsm_library"],
            server=given["tsm_server"],
            node=given["tsm_node"],
            password_file=given["tsm_password_file"],
            management_class=given["management_class"],
            space=given["filespace"],
            objects_per_transaction=given["objects_per_transaction"],
        ),
        catalogue_dir=given["catalogue_dir"],
        retention=RetentionWish(
            mode=RetentionMode(mode) if mode is not None else None,
            retain_for_seconds=given["retain_for"],
            retain_until=given["retain_until"],
            legal_hold=given["legal_hold"],
            event_hold_days=given["event_hold"],
        ),
        guards=Guards(
            max_retain_seconds=given["max_retain"],
            max_locked_bytes=given["max_locked_bytes"],
            accept_locked_until=given["accept_locked_until"],
        ),
        accepts_server_clock=given["accept_server_clock"],
        verify=given["verify"],
        watch=WatchRequest(
            sources=given["sources"],
            metric_names=given["metric_names"],
            metrics_token_file=given["metrics_token_file"],
        ),
        devices=Devices(
            disk_roles=_by_device("--disk-role", given["disk_roles"], str),
            disk_speeds=_by_device("--disk-speed", given["disk_speeds"], parse_size),
            link_speed_bytes_per_second=given["link_speed"],
        ),
        workers=given["workers"],
        poll=given["poll"],
        dask=given["dask"],
        if_worker_lost=given["if_worker_lost"],
        out_dir=given["out"],
        op_log_dir=given["op_log"],
        metrics_port=given["metrics_port"],
        disclosure=None if given["disclose"] is None else read_disclosure(given["disclose"]).document,
        dry_run=given["dry_run"],
        as_json=given["as_json"],
        tables=given["tables"],
        quiet=given["quiet"],
    )


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
