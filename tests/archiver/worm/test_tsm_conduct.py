"""A TSM conformance run leaves no file space behind, however it ends."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from archiver.ledger.ledger import Ledger
from archiver.values.errors import PlatformError
from archiver.worm import tsm_conduct
from archiver.worm.suite import CheckResult
from archiver.worm.tsm.calls import CallResult, RecordingSession
from backends.embedded import process
from backends.tsm.library import api
from backends.tsm.library.codes import Code

pytestmark = pytest.mark.skipif(not api.OWN_LIBRARY.exists(), reason="our TSM library was not built: no C compiler")


def test_interrupted_run_removes_its_file_spaces(tmp_path: Path) -> None:
    ended: list[str] = []

    def interrupt(result: CheckResult) -> None:
        ended.append(result.id)
        raise KeyboardInterrupt

    with (
        process.start(
            tmp_path / "store", management_classes=tsm_conduct.CLASSES, nodes=(tsm_conduct.OTHER_NODE,)
        ) as store,
        closing(Ledger(tmp_path / "ledger.db")) as ledger,
    ):
        with pytest.raises(KeyboardInterrupt):
            tsm_conduct.conduct_tsm(store, "run-1", ["TSM-01"], ledger, interrupt)
        assert ended == ["TSM-01"]
        assert ledger.knows("run-1")
        assert ledger.placements() == []


def test_server_that_registers_no_file_space_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = CallResult("dsmRegisterFS", Code.ABORT_INVALID_OPERATION)
    monkeypatch.setattr(RecordingSession, "register_space", lambda session, space: refused)
    with (
        process.start(tmp_path / "store", nodes=(tsm_conduct.OTHER_NODE,)) as store,
        closing(Ledger(tmp_path / "ledger.db")) as ledger,
        pytest.raises(PlatformError, match=r"tsm://.*: the file space /worm-run-1-\w+ could not be registered: dsmReg"),
    ):
        tsm_conduct.conduct_tsm(store, "run-1", ["TSM-01"], ledger, lambda result: None)
