"""Figures 6 to 8 and 16: the resources of the server over the time of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from results.document.drawing import png_bytes, svg_bytes
from results.figures.phases import Caption
from results.figures.resources import (
    build_resource_figures,
    database_disk_figure,
    network_figure,
    object_disk_figure,
    processor_figure,
)
from results.measures.watched import NOTHING_WATCHED, Watched, watched
from results.recorded.model import Result
from results.recorded.resources import SampleRow
from results.recorded.run import RecordedRun
from tests.results.watched_run import phase_record, sample, ten_seconds, two_phases

MakeResult = Callable[..., Result]
MakeRun = Callable[..., RecordedRun]
WatchedRun = Callable[..., Watched]
CAPTION = Caption("run-7", "minio")


@pytest.fixture
def watched_run(make_run: MakeRun, make_result: MakeResult) -> WatchedRun:
    """Return a function that makes a run with these samples, archiving in seconds 1 to 4 and retrieving in 5 to 9."""

    def make(samples: Sequence[SampleRow], **record: Any) -> Watched:
        phases = two_phases(make_result(), make_result("retrieve", position=2))
        return watched(make_run(phases, samples, **record))

    return make


def lines(figure: Figure | None, panel: int = 0) -> dict[str, list[float]]:
    """Return the values of each line of a panel by its label, unwrapped."""
    assert figure is not None
    return {
        str(line.get_label()).replace("\n", " "): [float(y) for y in np.asarray(line.get_ydata())]
        for line in figure.axes[panel].get_lines()
    }


def said(figure: Figure | None) -> str:
    """Return the caption, unwrapped."""
    assert figure is not None
    return " ".join(text.get_text() for text in figure.texts).replace("\n", " ")


def test_watched_run_has_figures_6_to_8_and_16(watched_run: WatchedRun) -> None:
    roles = {"disk_roles": {"vda": "object", "vdb": "catalogue"}}
    figures = build_resource_figures(watched_run(ten_seconds(), settings=roles), CAPTION)
    assert list(figures) == [
        "figure-6-server-cpu", "figure-7-database-disks", "figure-8-object-disks", "figure-16-network",
    ]  # fmt: skip
    for name, again in build_resource_figures(watched_run(ten_seconds(), settings=roles), CAPTION).items():
        assert svg_bytes(figures[name]) == svg_bytes(again)
        assert png_bytes(figures[name]) == png_bytes(again)


def test_unwatched_resources_are_not_drawn(watched_run: WatchedRun) -> None:
    assert build_resource_figures(NOTHING_WATCHED, CAPTION) == {}
    assert build_resource_figures(watched_run([]), CAPTION) == {}
    only_counts = [each for each in ten_seconds() if each.source == "minio"]
    assert build_resource_figures(watched_run(only_counts), CAPTION) == {}


def test_processor_figure_shows_limit_busiest_thread_and_host(watched_run: WatchedRun) -> None:
    drawn = lines(processor_figure(watched_run(ten_seconds()), CAPTION))
    assert drawn["the store's processes"] == pytest.approx([80, 80, 80, 80, 0, 40, 40, 40, 40])
    assert drawn["their busiest thread, including waits for a core"] == pytest.approx(
        [60 + 5, 60 + 5, 60 + 5, 60 + 5, 5, 30 + 5, 30 + 5, 30 + 5, 30 + 5]
    )
    assert drawn["the host, all cores"] == pytest.approx([100, 100, 100, 100, 20, 60, 60, 60, 60])
    assert drawn["their limit: 100%"] == [100, 100]


def test_host_line_is_left_out_if_client_shares_the_host(watched_run: WatchedRun) -> None:
    drawn = lines(processor_figure(watched_run(ten_seconds(), shared_host=True), CAPTION))
    assert not any("host" in label for label in drawn)
    host_only = [each for each in ten_seconds() if each.source == "local"]
    assert list(lines(processor_figure(watched_run(host_only, shared_host=True), CAPTION))) == [
        "the host, client included"
    ]


def test_first_of_two_sources_for_same_processes_is_drawn(watched_run: WatchedRun) -> None:
    more = [sample("minio2", second, process_cpu_seconds=0.1 * second) for second in range(11)]
    drawn = lines(processor_figure(watched_run([*ten_seconds(), *more]), CAPTION))
    assert list(drawn).count("the store's processes") == 1
    assert drawn["the store's processes"][0] == pytest.approx(80)


def test_object_disk_figure_has_panels_of_busy_time_and_queue(watched_run: WatchedRun) -> None:
    figure = object_disk_figure(watched_run(ten_seconds()), CAPTION)
    busy, queues = lines(figure), lines(figure, 1)
    assert list(busy) == list(queues) == ["object disk vda", "disk vdb"]
    assert busy["object disk vda"] == pytest.approx([50, 50, 50, 50, 0, 0, 0, 0, 0])
    assert queues["object disk vda"][:2] == pytest.approx([1.5, 1.5])
    for text in ("Figure 8: object disks at most 31% each", "busy before it is full"):
        assert text in said(figure)


def test_database_disks_and_object_disks_are_separate_figures(watched_run: WatchedRun) -> None:
    run = watched_run(ten_seconds(), settings={"disk_roles": {"vda": "object", "vdb": "catalogue"}})
    database, objects = database_disk_figure(run, CAPTION), object_disk_figure(run, CAPTION)
    assert (list(lines(database)), list(lines(objects))) == (["catalogue disk vdb"], ["object disk vda"])
    assert "Figure 7: database disks 2.2% in total over 3" in said(database)
    assert "unknown" not in said(objects)


def test_disk_with_both_roles_is_in_both_figures(watched_run: WatchedRun) -> None:
    run = watched_run(ten_seconds(), settings={"disk_roles": {"vda": "object and catalogue"}})
    figures = database_disk_figure(run, CAPTION), object_disk_figure(run, CAPTION)
    assert [next(iter(lines(figure))) for figure in figures] == ["object and catalogue disk vda"] * 2
    assert all("Figures 7 and 8 both show it" in said(figure) for figure in figures)


def test_disks_of_unknown_role_are_drawn_with_object_disks(watched_run: WatchedRun) -> None:
    run = watched_run(ten_seconds(), settings={"disk_roles": {}})
    assert database_disk_figure(run, CAPTION) is None
    assert list(lines(object_disk_figure(run, CAPTION))) == ["disk vda", "disk vdb"]
    assert "name it with --disk-role" in said(object_disk_figure(run, CAPTION))


def test_disks_with_role_and_busiest_disks_are_drawn(watched_run: WatchedRun) -> None:
    samples = [
        sample("local", second, disk_busy_seconds={**{f"sd{n}": 0.1 * n * second for n in range(9)}, "vda": 0})
        for second in range(11)
    ]
    figure = object_disk_figure(watched_run(samples), CAPTION)
    assert list(lines(figure)) == ["object disk vda", *(f"disk sd{n}" for n in (8, 7, 6, 5, 4, 3))]
    assert figure is not None
    assert len(figure.axes) == 1  # their queues are unknown
    assert "7 of 10 disks: those with a role, then the busiest" in said(figure)


def test_network_figure_shows_rated_speed(watched_run: WatchedRun) -> None:
    figure = network_figure(watched_run(ten_seconds()), CAPTION)
    drawn = lines(figure)
    assert drawn["eth0 sends"] == pytest.approx([0, 0, 0, 0, 0, 8, 8, 8, 8])
    assert drawn["eth0 receives"] == pytest.approx([4, 4, 4, 4, 0, 0, 0, 0, 0])
    assert drawn["eth0's rated speed: 10 MB/s"] == [10, 10]
    assert "lo sends" not in drawn
    assert "in its text: Ethernet 52.92 of 100 MB/s = 53%" in said(figure)


def test_rated_speed_far_above_traffic_is_noted_and_not_drawn(watched_run: WatchedRun, make_run: MakeRun) -> None:
    figure = network_figure(
        watched_run(ten_seconds(), settings={"link_speed_bytes_per_second": 1.25e9, "disk_roles": {}}), CAPTION
    )
    assert not any("speed" in label for label in lines(figure))
    assert "at most 1% of eth0's rated speed: 1,250 MB/s" in said(figure)
    assert figure is not None
    assert figure.axes[0].get_ylim()[1] < 10


def test_shared_machine_shows_loopback_in_one_direction_only(watched_run: WatchedRun) -> None:
    samples = [
        sample(
            "local",
            second,
            network_send_bytes={"lo": 3e6 * second, "eth0": 9e6 * second},
            network_receive_bytes={"lo": 3e6 * second, "eth0": 0},
        )
        for second in range(11)
    ]
    drawn = lines(network_figure(watched_run(samples, shared_host=True), CAPTION))
    assert list(drawn) == ["lo sends"]
    assert drawn["lo sends"][0] == 3


def test_disks_of_several_hosts_are_labelled_by_host(watched_run: WatchedRun) -> None:
    samples = [
        sample(f"prometheus:http://node{node}", second, disk_busy_seconds={"vda": 0.1 * node * second})
        for second in range(11)
        for node in (1, 2)
    ]
    assert set(lines(object_disk_figure(watched_run(samples), CAPTION))) == {
        "object disk vda",
        "object disk vda of host 2",
    }


def test_line_has_gap_where_samples_are_missing(watched_run: WatchedRun) -> None:
    broken = [each for each in ten_seconds() if each.source != "pid:7" or each.at not in (1004, 1005, 1006)]
    values = lines(processor_figure(watched_run(broken), CAPTION))["the store's processes"]
    assert [None if np.isnan(value) else round(value) for value in values] == [80, 80, 80, None, 40, 40, 40]


def test_phases_are_shaded_and_named_by_sweep(watched_run: WatchedRun) -> None:
    figure = object_disk_figure(watched_run(ten_seconds()), CAPTION)
    assert figure is not None
    bands = [
        [patch.get_extents().transformed(axes.transData.inverted()) for patch in axes.patches] for axes in figure.axes
    ]
    for panel in bands:
        assert [(round(band.x0, 6), round(band.x1, 6)) for band in panel] == [(0, 3), (4, 8)]
    colours = {str(patch.get_facecolor()) for patch in figure.axes[0].patches}
    assert len(colours) == 2
    assert {text.get_text() for text in figure.axes[0].texts} == {"archive", "retrieve"}


def test_names_too_long_for_their_phase_are_in_legend(make_run: MakeRun, make_result: MakeResult) -> None:
    phases = [
        phase_record(1, make_result(phase="archive"), 0, 100),
        phase_record(2, make_result(phase="a-sweep-of-long-name", position=2), 100, 101),
        phase_record(3, make_result(phase="a-sweep-of-long-name", position=3), 101, 102),
    ]
    samples = [sample("local", second, disk_busy_seconds={"vda": second / 2}) for second in range(103)]
    figure = object_disk_figure(watched(make_run(phases, samples)), CAPTION)
    assert figure is not None
    assert [text.get_text() for text in figure.axes[0].texts] == ["archive"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["object disk vda", "a-sweep-of-long-name"]


@pytest.mark.parametrize(("seconds", "label"), [(300, "seconds since"), (301, "minutes since")])
def test_long_runs_are_drawn_in_minutes(make_run: MakeRun, make_result: MakeResult, seconds: int, label: str) -> None:
    samples = [sample("local", second, disk_busy_seconds={"vda": 0.1 * second}) for second in range(0, seconds + 3, 2)]
    figure = object_disk_figure(watched(make_run([phase_record(1, make_result(), 0, seconds)], samples)), CAPTION)
    assert figure is not None
    assert figure.axes[-1].get_xlabel().startswith(label)
    assert figure.axes[-1].get_xlim()[1] == pytest.approx(seconds if label.startswith("sec") else seconds / 60)
