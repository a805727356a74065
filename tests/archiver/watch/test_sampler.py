"""Test the sampler: sources are independent, failures are reported once, and phase edges are always sampled."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import archiver.watch.sampler as sampler_module
from archiver.watch.sampler import ResourceSampler
from archiver.watch.source import Source, WatchError
from results.recorded.resources import Reading

QUICKLY, NEVER = 0.01, 3600.0


class Scripted(Source):
    """A source that returns scripted readings and counts its reads."""

    def __init__(self, name: str, say: Callable[[int], Reading]) -> None:
        self.name = name
        self.asked = 0
        self.enough = threading.Event()
        self._say = say

    def read(self) -> Reading:
        self.asked += 1
        if self.asked >= 3:
            self.enough.set()
        return self._say(self.asked)


def counting(asked: int) -> Reading:
    return {"requests": {"PutObject": float(asked)}}


def failing_first(asked: int) -> Reading:
    if asked <= 1:
        raise WatchError("prometheus:http://server:9100 refused the connection; is node_exporter running there?")
    return counting(asked)


def test_source_is_read_from_start_on_and_each_sample_is_returned_once() -> None:
    source = Scripted("one", counting)
    sampler = ResourceSampler([source], QUICKLY)
    sampler.start()
    assert source.asked >= 1  # start() reads once; on a busy machine a second read may have happened
    assert source.enough.wait(30)
    sampler.stop()
    asked = source.asked
    line = sampler.timelines()["one"]
    assert len(line) == asked
    assert [sample.reading["requests"]["PutObject"] for sample in sampler.take_unstored()] == [
        float(n) for n in range(1, asked + 1)
    ]
    assert sampler.take_unstored() == []


def test_stored_samples_are_dropped_except_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "KEPT_SECONDS", 0.0)
    source = Scripted("one", counting)
    sampler = ResourceSampler([source], NEVER)
    sampler.start()
    sampler.take()
    sampler.take()
    assert len(sampler.timelines()["one"]) == 3  # no sample is dropped before it is stored
    assert len(sampler.take_unstored()) == 3
    assert len(sampler.timelines()["one"]) == 1
    sampler.take()
    (fresh,) = sampler.take_unstored()  # no sample is returned twice or left out
    assert fresh.reading == counting(4)
    sampler.stop()


def test_phase_edge_is_sampled_at_once_on_request() -> None:
    source = Scripted("one", counting)
    sampler = ResourceSampler([source], NEVER)
    sampler.start()
    sampler.take()
    first, second = sampler.take_unstored()
    assert first.monotonic_ns < second.monotonic_ns
    assert first.at < second.at
    sampler.stop()
    assert source.asked == 3


def test_failing_source_is_reported_once_and_read_again() -> None:
    bad, good = Scripted("bad", failing_first), Scripted("good", counting)
    sampler = ResourceSampler([bad, good], QUICKLY)
    sampler.start()
    (problem,) = sampler.take_problems()
    assert (problem.source, "node_exporter" in problem.problem) == ("bad", True)
    assert bad.enough.wait(30)  # its thread continues to read
    sampler.stop()
    assert sampler.take_problems() == []
    assert len(sampler.timelines()["bad"]) == bad.asked - 1
    assert len(sampler.timelines()["good"]) == good.asked


def test_failing_source_is_not_read_at_phase_edges() -> None:
    def always(asked: int) -> Reading:
        raise WatchError(f"refused {asked} times")

    bad, good = Scripted("bad", always), Scripted("good", counting)
    sampler = ResourceSampler([bad, good], NEVER)
    sampler.start()
    sampler.take()
    sampler.take()
    assert (bad.asked, good.asked) == (1, 3)
    sampler.stop()


def test_hanging_source_does_not_delay_others() -> None:
    release, hangs = threading.Event(), threading.Event()

    def hang(asked: int) -> Reading:
        if asked > 1:
            hangs.set()
            release.wait(30)
        return {}

    slow, quick = Scripted("slow", hang), Scripted("quick", counting)
    sampler = ResourceSampler([slow, quick], QUICKLY)
    sampler.start()
    assert hangs.wait(30)
    assert quick.enough.wait(30)
    sampler.take()  # waits only a moment for the slow source
    assert len(sampler.take_unstored()) >= 3
    release.set()
    sampler.stop()


def test_unexpected_exception_is_a_problem_of_its_source_only() -> None:
    def broken(asked: int) -> Reading:
        return {"requests": {"PutObject": float("1.0s")}}

    bad, good = Scripted("bad", broken), Scripted("good", counting)
    sampler = ResourceSampler([bad, good], QUICKLY)
    sampler.start()
    sampler.take()
    (problem,) = sampler.take_problems()
    assert problem.problem.startswith("bad: the answer cannot be understood (ValueError: could not convert")
    assert good.enough.wait(30)
    sampler.stop()


def test_a_sampler_that_never_started_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "LAST_SECONDS_MAX", 0.0)
    ResourceSampler([Scripted("one", counting)], NEVER).stop()
