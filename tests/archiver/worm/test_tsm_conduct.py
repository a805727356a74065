"""A TSM conformance run leaves no file space behind, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from archiver.ledger.ledger import Ledger
from archiver.values.errors import PlatformError
from archiver.values.platform import PlatformProfile
from archiver.worm.conduct import WormOptions, conduct
from archiver.worm.platforms.tsm import CLASSES, OTHER_NODE, TsmUnderTest
from archiver.worm.platforms.under_test import WormRun
from archiver.worm.suite import CheckResult, OnResult
from archiver.worm.tsm.calls import CallResult, RecordingSession
from backends.embedded import process
from backends.tsm.library import api
from backends.tsm.library.codes import Code

pytestmark = pytest.mark.skipif(not api.OWN_LIBRARY.exists(), reason="our TSM library was not built: no C compiler")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[process.StoreProcess]:
    with process.start(tmp_path / "store", management_classes=CLASSES, nodes=(OTHER_NODE,)) as running:
        yield running


@pytest.fixture
def run(store: process.StoreProcess, tmp_path: Path) -> Iterator[WormRun]:
    profile = PlatformProfile("embedded", "s3", (store.endpoint,), None, False, True, "unknown", 0.0)
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        yield WormRun("run-1", ledger, profile, "embedded")


def conducted(run: WormRun, store: process.StoreProcess, folder: Path, on_check: OnResult) -> None:
    conduct(run, [TsmUnderTest(run, store)], WormOptions(["TSM-01"], False, folder, ["archiver", "worm"]), on_check)


def test_interrupted_run_removes_its_file_spaces(run: WormRun, store: process.StoreProcess, tmp_path: Path) -> None:
    ended: list[str] = []

    def interrupt(result: CheckResult) -> None:
        ended.append(result.id)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        conducted(run, store, tmp_path, interrupt)
    assert ended == ["TSM-01"]
    assert run.ledger.knows("run-1")
    assert run.ledger.placements() == []


def test_server_that_registers_no_file_space_is_reported(
    run: WormRun, store: process.StoreProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = CallResult("dsmRegisterFS", Code.ABORT_INVALID_OPERATION)
    monkeypatch.setattr(RecordingSession, "register_space", lambda session, space: refused)
    with pytest.raises(
        PlatformError, match=r"tsm://.*: the file space /worm-run-1-\w+ could not be registered: dsmReg"
    ):
        conducted(run, store, tmp_path, lambda result: None)
