"""Test which resource is named as the limit: the paper's own conclusion, and the pitfalls of each measure."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from archiver.measure.bottleneck import Verdict, failures_of, judge
from archiver.values.record import NO_LOCAL_PORT_REASON
from results.recorded.model import ClientUsage, DiskUsage, FirstError, LinkUsage, ServerUsage

IDLE = ClientUsage(10.0, 10.0, 10.0, 1.0)


def disk(
    busy: float, *, queue: float | None = 0.1, role: str = "object", speed_share: float | None = None
) -> DiskUsage:
    return DiskUsage("vda", role, busy, 0.0, 1e6, queue, 1.0, speed_share)


def server(
    cpu: float | None = 10.0,
    *,
    limit: float | None = 200.0,
    thread: float | None = 5.0,
    core: float | None = 20.0,
    whole: float | None = 15.0,
    disks: tuple[DiskUsage, ...] = (),
    links: tuple[LinkUsage, ...] = (),
    overlap: float = 0.9,
) -> ServerUsage:
    empty = ServerUsage(cpu, whole, core, None, 0, 0, None)
    return replace(
        empty, cpu_limit_percent=limit, busiest_thread_percent=thread, disks=disks, links=links, overlap=overlap
    )


def verdict(usage: ServerUsage | None, client: ClientUsage = IDLE, *, shares_host: bool = False) -> Verdict:
    return judge(client, usage, shares_host=shares_host)


def test_the_papers_own_figures_give_the_papers_own_conclusion() -> None:
    study = json.loads(files("results").joinpath("reference/dr550.json").read_text())["resource_usage"]
    used, of = (
        float(word) for word in study["known_answer"][1].split(" MB/s")[0].removeprefix("Ethernet ").split(" of ")
    )
    objects = study["per_hdisk_busy_percent_below"] - 1
    database = study["database_disks_busy_percent_total_of_3"]
    found = verdict(
        server(
            95.0,  # "near saturation", one processor
            limit=100.0, thread=None, core=95.0, whole=95.0,
            links=(LinkUsage("ethernet", used, 1.0, of),),
            disks=(
                *(replace(disk(objects), device=f"hdisk{n}") for n in range(8)),
                *(replace(disk(database / 3, role="catalogue"), device=f"db{n}") for n in range(3)),
            ),
        )
    )  # fmt: skip
    assert found.limited_by == "server cpu"
    assert found.confidence == "high"
    shares = {each.resource: each.share for each in found.utilisations}
    assert list(shares)[:2] == ["server cpu", "network ethernet"]
    assert shares["network ethernet"] == pytest.approx(0.5292)
    assert max(share for name, share in shares.items() if name.startswith("object disk")) == pytest.approx(0.31)
    assert sum(share for name, share in shares.items() if name.startswith("catalogue disk")) == pytest.approx(0.022)


@pytest.mark.parametrize(
    ("busiest_worker", "late_share", "limit"),
    [
        (84.9, 0.09, "server cpu"),
        (85, None, "client"),
        (50, 0.1, "client"),
        (49.9, 1.0, "server cpu"),  # late timers of idle workers do not limit
    ],
)
def test_the_client_comes_first_because_then_the_server_was_not_measured(
    busiest_worker: float, late_share: float | None, limit: str
) -> None:
    busy = server(200.0)
    assert verdict(busy, ClientUsage(10.0, busiest_worker, 10.0, 900.0, late_share)).limited_by == limit


def test_missing_local_port_makes_client_the_limit_despite_full_server() -> None:
    found = verdict(server(200.0), ClientUsage(10.0, 100.0, 10.0, 900.0, sessions_without_port=1))
    assert found.limited_by == "client"
    (client,) = [each for each in found.utilisations if each.resource == "client"]
    assert client.by == "no local port free"


@pytest.mark.parametrize(
    ("usage", "by"),
    [
        ({"links": (LinkUsage("lo", 0.0, 900.0, None), LinkUsage("eth0", 113.0, 3.0, 125.0))}, "its network eth0"),
        ({"links": (LinkUsage("eth0", 3.0, 112.5, 125.0),)}, "its network eth0"),
        ({"links": (LinkUsage("eth0", 112.0, 112.0, 125.0),)}, None),
        ({"links": (LinkUsage("eth0", 9000.0, 9000.0, None),)}, None),  # unknown speed
        ({"swap_in_megabytes_per_second": 0.06, "swap_out_megabytes_per_second": 0.04}, "its memory: it swapped"),
        ({"swap_in_megabytes_per_second": 0.09, "swap_out_megabytes_per_second": None}, None),
    ],
)
def test_client_with_full_link_or_swapping_is_the_limit(usage: dict[str, Any], by: str | None) -> None:
    found = verdict(server(200.0), replace(IDLE, **usage))
    assert found.limited_by == ("client" if by is not None else "server cpu")
    (client,) = [each for each in found.utilisations if each.resource == "client"]
    assert by is None or client.by == by


def test_client_is_named_as_limit_without_server_usage() -> None:
    found = verdict(None, ClientUsage(110.0, 100.0, 10.0, 0.0))
    assert (found.limited_by, found.confidence) == ("client", None)
    assert verdict(None).limited_by is None


def test_no_resource_near_saturation_means_no_limit() -> None:
    found = verdict(server(disks=(disk(30),), links=(LinkUsage("eth0", 5, 5, 125),)))
    assert (found.limited_by, found.confidence) == (None, "high")
    assert [each.resource for each in found.utilisations] == ["object disk vda", "server cpu", "client", "network eth0"]


@pytest.mark.parametrize(
    ("usage", "share", "by"),
    [
        (server(190.0), 0.95, "its processes, of 2 cores"),
        (server(95.0, limit=100.0), 0.95, "its processes, of 1 core"),
        (server(48.0, limit=50.0), 0.96, "its processes, of 0.5 cores"),  # quota of half a core
        (server(99.0, thread=97.0, core=60.0), 0.97, "busiest thread"),  # one thread that migrates between two cores
        (server(None, limit=None, thread=None, core=99.0, whole=52.0), 0.99, "busiest core"),  # only core usage known
        (server(None, limit=None, thread=None, core=95.0, whole=95.0), 0.95, "all cores"),
    ],
)
def test_server_cpu_is_full_by_any_cpu_measure(usage: ServerUsage, share: float, by: str) -> None:
    found = verdict(usage)
    assert found.limited_by == "server cpu"
    (cpu,) = [each for each in found.utilisations if each.resource == "server cpu"]
    assert cpu.share == pytest.approx(share)
    assert (cpu.by, cpu.decisive) == (by, True)


def test_full_core_is_no_limit_when_server_threads_are_not_busy() -> None:
    assert verdict(server(100.0, thread=30.0, core=99.0)).limited_by is None


def test_full_shared_host_is_reported_as_host_cpu() -> None:
    assert verdict(server(20.0, whole=100.0), shares_host=True).limited_by == "host cpu"
    assert verdict(server(195.0, whole=96.0), shares_host=True).limited_by == "server cpu"
    assert verdict(server(20.0, whole=100.0), shares_host=False).limited_by == "server cpu"


@pytest.mark.parametrize(
    ("server_percent", "client_percent", "limit", "by"),
    [
        (
            100.0,
            90.0,
            "shared cpu",
            "all cores, 3% for other programs, busy",
        ),  # of 200% they use 190%, and the host 196%
        (90.0, 77.0, "shared cpu", "all cores, 14% for other programs, busy"),
        (90.0, 76.0, "host cpu", "all cores, 15% for other programs, busy"),
        (20.0, 10.0, "host cpu", "all cores, 83% for other programs, busy"),
        (None, 90.0, "host cpu", "all cores"),  # the server's processes are not known
    ],
)
def test_only_other_programs_make_a_full_host_the_limit(
    server_percent: float | None, client_percent: float, limit: str, by: str
) -> None:
    usage = replace(server(server_percent, thread=60.0, whole=98.0), host_cores=2)
    found = verdict(usage, ClientUsage(client_percent, 60.0, 10.0, 1.0), shares_host=True)
    assert found.limited_by == limit
    assert found.utilisations[0].by == by


def test_throttled_server_is_limited_by_its_cpu() -> None:
    held = replace(server(30.0, limit=400.0), throttled_percent=92.0)
    assert verdict(held).limited_by == "server cpu"


@pytest.mark.parametrize(
    ("usage", "limit"),
    [
        (disk(100, queue=1.0), None),  # one writer that waits for each write: latency, not saturation
        (disk(100, queue=3.9), None),
        (disk(100, queue=4.0), "server disk"),
        (disk(89, queue=30.0), None),
        (disk(100, queue=None), None),  # busy time alone never decides
        (disk(100, queue=1.0, speed_share=0.5), None),
        (disk(100, queue=30.0, speed_share=0.04), "server disk"),  # small requests saturate it far below its speed
        (disk(20, queue=0.1, speed_share=0.93), "server disk"),
    ],
)
def test_busy_time_alone_does_not_make_a_disk_full(usage: DiskUsage, limit: str | None) -> None:
    assert verdict(server(disks=(usage,))).limited_by == limit


def test_fullest_disk_decides_instead_of_their_mean() -> None:
    full = replace(disk(100, queue=9.0, role=""), device="sdh")
    found = verdict(server(disks=(disk(5), disk(5), full)))
    assert found.limited_by == "server disk"
    assert found.utilisations[0].resource == "disk sdh"


def test_link_is_full_if_its_busier_direction_is() -> None:
    assert verdict(server(links=(LinkUsage("eth0", 3.0, 115.0, 125.0),))).limited_by == "network"
    assert verdict(server(links=(LinkUsage("eth0", 65.0, 65.0, 125.0),))).limited_by is None
    assert verdict(server(links=(LinkUsage("eth0", 900.0, 900.0, None),))).limited_by is None  # unknown speed


@pytest.mark.parametrize(
    ("usage", "shares_host", "confidence"),
    [
        (server(), False, "high"),
        (server(), True, "medium: client and server share this host"),
        (server(disks=(disk(99, queue=1.0),)), False, "medium: a disk was busy nearly all the time"),
        (server(overlap=0.69), False, "low: only 69%"),
        (replace(server(), steal_percent=7.0), False, "low: 7% of the host's time was stolen"),
        (server(None, limit=None, thread=None, core=None, whole=None), False, "low: the server's processor"),
    ],
)
def test_confidence_of_verdict_states_its_reason(usage: ServerUsage, shares_host: bool, confidence: str) -> None:
    found = verdict(usage, shares_host=shares_host).confidence
    assert found is not None
    assert found.startswith(confidence)


def test_client_with_late_timers_is_the_limit() -> None:
    found = verdict(server(), ClientUsage(10.0, 52.0, 10.0, 41.0, late_share=0.3))
    assert found.limited_by == "client"
    assert (found.utilisations[0].resource, found.utilisations[0].by) == (
        "client",
        "its timers came late 30% of the time",
    )


def errors(reason: str, count: int, retried: int = 0) -> FirstError:
    return FirstError("archive", reason, count, "", "", "", retried)


@pytest.mark.parametrize(
    ("objects", "kinds", "time_share", "expected"),
    [
        (0, [errors("503 SlowDown", 6)], 0.0, "503 SlowDown"),
        (85, [errors("503 SlowDown", 4), errors("connect failed", 11)], 0.0, "connect failed"),
        (100, [errors("503 SlowDown", 0, retried=100)], 0.0, "503 SlowDown"),
        (1000, [errors("read timeout", 2)], 0.9, "read timeout"),
        (95, [errors("503 SlowDown", 5)], 0.0, None),
        (10, [errors(NO_LOCAL_PORT_REASON, 90)], 0.9, None),
        (100, [], 0.0, None),
    ],
)
def test_failures_above_their_share_limit_before_client_and_server(
    objects: int, kinds: list[FirstError], time_share: float, expected: str | None
) -> None:
    failures = failures_of(objects, sum(kind.count for kind in kinds), kinds, time_share)
    busy = replace(IDLE, busiest_worker_percent=99.0)
    for found in (
        judge(busy, server(199.0), failures, shares_host=False),
        judge(IDLE, server(199.0, whole=100.0), failures, shares_host=True),
        judge(IDLE, None, failures, shares_host=False),
    ):
        assert (found.limited_by == "failures") is (expected is not None)
        assert [each.by for each in found.utilisations if each.resource == "failures"] == [expected] * bool(expected)
