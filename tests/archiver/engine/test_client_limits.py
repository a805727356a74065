"""Test how many clients a machine supports, and the message if a run requests more."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archiver.engine.client_limits import DESCRIPTORS_BESIDE, ClientLimits, limits_here, make_room, port_warning
from archiver.engine.worker.client import RECORDER_ROWS, rows_each
from archiver.values.errors import UsageError
from scenarios.model import Phase, Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Arrivals, Mix, Transaction
from scenarios.work.sessions import InWindow, Sessions, StopRule, UntilPrecise

PLENTY = ClientLimits(1 << 20, None, None)


@pytest.fixture
def soft_limit() -> Iterator[int]:
    """Set a low soft limit, as a login does, and restore it afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(512, before[0])
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, before[1]))
    yield low
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_soft_limit_is_raised_only_as_far_as_clients_need(soft_limit: int) -> None:
    make_room(10, 1, 1, threads=False)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == soft_limit
    make_room(2 * soft_limit, 2, 1, threads=False)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == soft_limit + DESCRIPTORS_BESIDE
    make_room(10, 1, 1, threads=False)  # the limit is not lowered again
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == soft_limit + DESCRIPTORS_BESIDE


@pytest.mark.parametrize(
    ("clients", "endpoints", "threads", "limits", "words"),
    [
        (5000, 1, False, ClientLimits(900, None, None),
         "5,000 clients: each of 2 workers needs 2,756 open files, and this system allows 900; 1,288 clients fit: use "
         "more --workers, or raise the limit (ulimit -Hn 2756)"),
        (5000, 2, False, ClientLimits(1 << 20, 1000, None),
         "5,000 clients: this system has 1,000 ports to connect from, for each address of the platform, so 2,000 "
         "clients fit; name more of its addresses (--endpoint), or widen net.ipv4.ip_local_port_range"),
        (5000, 1, True, ClientLimits(1 << 20, None, 4999),
         "5,000 clients: through TSM each is a thread, and this system allows 4,999 more; raise the limit (ulimit -u, "
         "or the service's TasksMax), or take fewer"),
    ],
)  # fmt: skip
def test_too_many_clients_are_refused_with_the_number_that_fits(
    clients: int, endpoints: int, threads: bool, limits: ClientLimits, words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        make_room(clients, 2, endpoints, threads=threads, limits=limits)
    assert str(refused.value) == words
    fit = limits.most(2, endpoints, threads=threads)
    make_room(fit, 2, endpoints, threads=threads, limits=ClientLimits(*([1 << 20] * 3)))
    with pytest.raises(UsageError):
        make_room(fit + 2, 2, endpoints, threads=threads, limits=limits)


def test_clients_without_endpoints_need_no_limits() -> None:
    make_room(1 << 30, 1, 0, threads=False, limits=ClientLimits(10, 1, 1))


def sweep(objects_max: int, clients: int = 1, warm_up_seconds: float = 0.0) -> Phase:
    """Return a phase whose sessions have one object each."""
    stop: StopRule = UntilPrecise(1.0, 10.0, objects_max, precision=0.05, warm_up_seconds=warm_up_seconds)
    if clients > 1:
        stop = InWindow(1.0, objects_max // clients)
    return Phase("archive", 1, 1, (Workload("archive", Sessions("archive", 1, stop), clients),))


def open_loop(sessions_per_second: float, seconds: float) -> Phase:
    arrivals = Arrivals("constant", sessions_per_second)
    mix = Mix((Transaction(("retrieve",), 1.0),), "all", Sizes.constant(1), arrivals=arrivals, planned_seconds=seconds)
    return Phase("shift", 1, 1, (Workload("web", mix, clients=4),))


FAR = ("http://192.0.2.1:9000",)


@pytest.mark.parametrize(
    ("phase", "endpoints", "limits", "sessions"),
    [
        (sweep(1000), FAR, ClientLimits(1 << 20, 1000, None), None),
        (sweep(1001), FAR, ClientLimits(1 << 20, 1000, None), "1,001 sessions within 60 s"),
        (sweep(9000), ("http://127.0.0.1:9000",), ClientLimits(1 << 20, 1000, None), "5,000 sessions within 1 s"),
        (sweep(90_000), FAR, ClientLimits(1 << 20, 1000, None), "50,000 sessions within 60 s"),  # the phase takes 10 s
        (sweep(90_000, warm_up_seconds=2.0), FAR, ClientLimits(1 << 20, 1000, None), "60,000 sessions within 60 s"),
        (sweep(4000, clients=4), (*FAR, "http://192.0.2.2:9000"), ClientLimits(1 << 20, 1000, None), "2,000 sessions"),
        (sweep(1800), (*FAR, "http://192.0.2.2:9000"), ClientLimits(1 << 20, 1000, None), "1,800 sessions"),
        (open_loop(17, 3600), FAR, ClientLimits(1 << 20, 1000, None), "1,020 sessions within 60 s"),
        (open_loop(17, 50), FAR, ClientLimits(1 << 20, 1000, None), None),  # the phase ends earlier
        (open_loop(17, 3600), FAR, ClientLimits(1 << 20, 1000, None, port_seconds=1.0), None),
        (open_loop(17, 3600), ("http://127.0.0.1:9000",), ClientLimits(1 << 20, 1000, None), None),
        (open_loop(1001, 9), ("http://[::1]:9", "tsm://n@localhost:1"), ClientLimits(1 << 20, 1000, None), None),
        (open_loop(2002, 9), ("http://[::1]:9", "tsm://n@localhost:1"), ClientLimits(1 << 20, 1000, None),
         "1,001 sessions within 1 s"),
        (sweep(9000), FAR, ClientLimits(1 << 20, 1000, None, time_wait_max=1000), None),  # the kernel keeps no more
        (sweep(9000), FAR, ClientLimits(1 << 20, None, None), None),
        (sweep(9000), (), ClientLimits(1 << 20, 1000, None), None),
    ],
)  # fmt: skip
def test_sessions_that_may_exhaust_ports_give_a_warning(
    phase: Phase, endpoints: tuple[str, ...], limits: ClientLimits, sessions: str | None
) -> None:
    found = port_warning([sweep(1), phase], endpoints, limits)
    assert (found is None) == (sessions is None)
    if found is not None:
        assert found.startswith(f"{phase.label}: up to {sessions}")
        assert "this system has 1,000 ports" in found


def test_limits_of_this_machine_match_the_kernel_settings() -> None:
    found = limits_here()
    assert found.descriptors_per_worker >= resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found.ports_per_endpoint is None or 0 <= found.ports_per_endpoint < 65536
    reuse = Path("/proc/sys/net/ipv4/tcp_tw_reuse").read_text().strip()
    assert (found.port_seconds < 60) == (reuse == "1")
    assert (found.loopback_port_seconds < 60) == (reuse in ("1", "2"))
    assert found.most(1, 1, threads=True) <= found.most(1, 1, threads=False) <= PLENTY.most(1, 1, threads=False)


def test_recorder_memory_for_10000_clients_is_bounded() -> None:
    assert rows_each(1) == rows_each(400) == RECORDER_ROWS
    assert 10_000 * rows_each(10_000) < 2000 * RECORDER_ROWS
    assert all(rows_each(clients) >= rows_each(clients + 1) for clients in range(1, 20_000, 97))


def test_run_with_too_many_clients_is_refused_before_start(home: Path, tmp_path: Path) -> None:
    """Uses a real process with a real limit."""
    limited = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
from archiver.cli import main
main(sys.argv[1:])
"""

    done = subprocess.run(
        [sys.executable, "-c", limited, "run", "dr550", "--platform", "embedded", "--quick", "--workers", "2",
         "--quiet", "--set", "clients=200", "--set", "object_sizes=8KiB", "--max-locked-bytes", "1TB"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "archiver: 200 clients: each of 2 workers needs 356 open files, and this system allows 300; 88 clients fit: "
        "use more --workers, or raise the limit (ulimit -Hn 356)"
    )
    assert not (home / "ledger.db").exists() or not list(home.glob("runs/*"))
