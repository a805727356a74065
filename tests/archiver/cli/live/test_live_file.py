"""Test the live state of a run, which `archiver web` reads from the run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from archiver.cli.live import live_file as module
from archiver.cli.live.live_file import live_file, live_state
from archiver.web.live_state import FILE_NAME, read_live_state, write_live_state
from tests.archiver.cli.live.metered_run import Run
from tests.support.waiting import wait_until


def run_under_way() -> Run:
    """Return a run in phase 2.

    It has two workers with 10 objects per interval of 250 ms, 4 ms each, and one error per interval.
    """
    run = Run()
    run.begin(1)
    run.second((10, 4))
    run.begin(2)
    for _ in range(4):
        run.second((10, 4), (10, 4), errors=1)
    return run


def test_state_has_the_figures_of_the_current_phase() -> None:
    run = run_under_way()
    run.meter.warned("the server's disk is not visible")
    state = live_state(run.meter)
    assert state.current is not None
    assert state.current.label == run.scenario.phases[1].label
    assert state.current.position == 2
    assert state.current.objects_per_second == pytest.approx(80)
    assert state.current.megabytes_per_second == pytest.approx(80 * 8192 / 1e6)
    assert state.current.p99_milliseconds == pytest.approx(4, rel=0.01)
    assert (state.current.server_cpu_percent, state.current.disk_busy_percent) == (71.4, 88.0)
    assert state.current.errors == state.errors == 4 * 4 * 2
    assert state.phases == len(run.scenario.phases)
    assert state.seconds == 5
    assert [line.text for line in state.log] == [
        f"phase 1, {run.scenario.phases[0].label}, began",
        f"phase 2, {run.scenario.phases[1].label}, began",
        "the server's disk is not visible",
    ]


def test_a_written_state_is_read_back_equal(tmp_path: Path) -> None:
    state = live_state(run_under_way().meter)
    write_live_state([tmp_path, tmp_path / "not made yet"], state)
    assert read_live_state(tmp_path) == state
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("content", [b"", b"{", b'{"written_at": "now"}', b"[]", b"\xff\xfe"])
def test_missing_or_damaged_state_file_reads_as_none(tmp_path: Path, content: bytes) -> None:
    assert read_live_state(tmp_path) is None
    (tmp_path / FILE_NAME).write_bytes(content)
    assert read_live_state(tmp_path) is None


def test_state_file_is_updated_during_run_and_removed_at_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.001)
    run = run_under_way()

    def shown_errors() -> int:
        state = read_live_state(tmp_path)
        return -1 if state is None else state.errors

    with live_file(run.meter, [tmp_path]):
        wait_until(lambda: shown_errors() == 32, "first state")
        run.second((10, 4), errors=2)
        wait_until(lambda: shown_errors() == 40, "next state")
    assert list(tmp_path.iterdir()) == []
