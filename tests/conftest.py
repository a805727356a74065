"""Fixtures of all tests. Each test has its own ARCHIVER_HOME, so that no test changes the user's."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from backends.embedded.process import StoreProcess, start
from tests.support import forks
from tests.support.examples import ALL

# The tests start hundreds of processes. Without bytecode files each of them would compile all of its modules.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

forks.fork_from_now_on()

# Examples have no deadline: how long one takes depends on the load of the machine.
settings.register_profile("all", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("share", settings.get_profile("all"), max_examples=ALL // 8)
settings.load_profile(os.environ.get("ARCHIVER_EXAMPLES", "share"))

PLATFORM_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION",
    "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_DEFAULT_PROFILE", "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "DSMI_DIR", "DSMI_CONFIG", "DSMI_LOG",
)  # fmt: skip

LONGEST_FIRST = (
    "test_lies.py", "test_rounds.py", "test_examples.py", "test_run.py", "test_event_hold_operations.py",
    "test_lock_cost.py", "test_mixed_runs.py", "test_dask_runs.py", "test_interruption.py", "test_program.py",
    "test_kills.py", "test_resume.py", "test_reproductions.py", "test_lock_safety.py", "test_package.py", "test_tsm.py",
    "test_clock_jumps.py", "test_agreement.py", "test_audit.py", "test_report.py", "test_faults.py",
    "test_capacity_scenarios.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first, so that no worker still runs one after all others have ended."""
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def pytest_collection_finish() -> None:
    """Exclude the modules of the tests from later garbage collections, which would examine all of their objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def what_is_kept() -> Iterator[None]:
    """Exclude what the tests of a file leave in memory from later garbage collections, to keep them short."""
    yield
    gc.collect()
    gc.freeze()


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an ARCHIVER_HOME for this test that does not exist yet, and hide the user's AWS and TSM settings.

    The folder is not created here: most tests need none, and creating one in a folder of thousands takes 2 ms.
    """
    base = tmp_path_factory.getbasetemp()
    folder = base / f"archiver-home-{next(_numbers)}"
    monkeypatch.setenv("ARCHIVER_HOME", str(folder))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(base / "no-aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(base / "no-aws-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in PLATFORM_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreProcess]:
    """A running embedded store of this test. For the tested commands it is a store of another owner."""
    with start(tmp_path / "store") as running:
        yield running
