"""Test which sources a run watches: the defaults on this machine and the named ones, but none of another machine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from archiver.values.errors import UsageError
from archiver.watch.choosing import WatchedPlatform, WatchOptions, watch_sources
from archiver.watch.prometheus import PrometheusSource

ELSEWHERE = WatchedPlatform(("https://worm.example:9000",), is_minio=False, shares_host=False, pid=None, platform=None)
HERE = replace(ELSEWHERE, endpoints=("http://127.0.0.1:9000",), shares_host=True)
PAGE = "prometheus:http://worm.example:9100/metrics"


def names(watched: WatchedPlatform, *words: str) -> list[str]:
    return [source.name for source in watch_sources(WatchOptions(words), watched)]


def test_sources_of_the_local_platform_are_watched_by_default() -> None:
    assert names(ELSEWHERE) == ["client"]  # a name that no source of the server has
    assert names(HERE) == ["local"]
    assert names(replace(HERE, pid=os.getpid())) == ["local", f"pid:{os.getpid()}"]
    assert names(replace(HERE, pid=os.getpid(), platform="embedded")) == ["local", f"pid:{os.getpid()}", "embedded"]
    assert names(replace(ELSEWHERE, is_minio=True)) == ["client", "minio"]


def test_named_sources_follow_the_default_ones_without_duplicates() -> None:
    assert names(HERE, "local", "name:minio", PAGE, PAGE) == ["local", "name:minio", PAGE]
    assert names(ELSEWHERE, "minio", PAGE) == ["client", "minio", PAGE]


@pytest.mark.parametrize("word", ["local", "pid:1", "name:minio"])
def test_local_sources_are_refused_for_a_remote_platform(word: str) -> None:
    with pytest.raises(UsageError, match="not on this machine"):
        names(ELSEWHERE, word)


@pytest.mark.parametrize("word", ["", "cpu", "pid:", "pid:x", "name:", "prometheus:", "minio:9000", "local:1"])
def test_unknown_source_name_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="no such source; use local, pid:N, name:PROGRAM, prometheus:URL or minio"):
        names(HERE, word)


def test_pid_of_no_running_process_is_refused() -> None:
    with pytest.raises(UsageError, match="no such process"):
        names(HERE, "pid:999999999")


def test_minio_needs_an_s3_endpoint() -> None:
    with pytest.raises(UsageError, match="no S3 endpoint"):
        names(replace(ELSEWHERE, endpoints=()), "minio")


def test_options_without_a_matching_source_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--metric-names .*needs --watch prometheus:URL"):
        watch_sources(WatchOptions(("local",), metric_names=tmp_path), HERE)
    with pytest.raises(UsageError, match="--metrics-token-file"):
        watch_sources(WatchOptions(("local",), metrics_token="secret"), HERE)


def test_metrics_token_is_not_given_to_other_pages_if_minio_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str | None] = []

    def note(self: PrometheusSource, url: str, names: Path | None, token: str | None, **_: object) -> None:
        self.name = url
        given.append(token)

    monkeypatch.setattr(PrometheusSource, "__init__", note)
    options = WatchOptions((PAGE,), metrics_token="secret")
    watch_sources(options, ELSEWHERE)
    watch_sources(options, replace(ELSEWHERE, is_minio=True))
    assert given == ["secret", None]
