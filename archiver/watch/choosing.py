"""Choice of a run's sources of server resource usage: the default ones, and those that the user names.

One idea: Archiver watches the server and the client on this host by default. If the server is elsewhere, the client's
host has its own name in the results. A source that would show the wrong machine is refused: the client's processor in
place of the server's is worse than no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from archiver.values.errors import UsageError
from archiver.watch.embedded import EmbeddedSource
from archiver.watch.host import HostSource
from archiver.watch.minio import MinioSource
from archiver.watch.process import ProcessSource
from archiver.watch.prometheus import PrometheusSource
from archiver.watch.source import Source
from results.recorded.resources import CLIENT

KINDS = "local, pid:N, name:PROGRAM, prometheus:URL or minio"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The user's choices."""

    sources: tuple[str, ...] = ()  # in addition to the default ones
    metric_names: Path | None = None  # for prometheus sources; None: node_exporter's
    metrics_token: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None  # for metrics over TLS
    insecure: bool = False
    direct: bool = False  # ignore proxies of the environment


@dataclass(frozen=True, slots=True)
class WatchedPlatform:
    """Facts about the platform that the choice needs."""

    endpoints: tuple[str, ...]  # URLs of its S3 server; empty if it has none
    is_minio: bool
    shares_host: bool
    pid: int | None  # process of the server that Archiver started
    platform: str | None  # its name
    is_one_of_several: bool = False  # the options are for several platforms
    client_is_here: bool = True  # the workers run on this host


def watch_sources(options: WatchOptions, watched: WatchedPlatform) -> list[Source]:
    """Return every source once. Raises UsageError for an unknown source, or one that would show another machine."""
    _refuse_what_would_be_ignored(options, watched)
    found: dict[str, Source] = {}
    # With several platforms, only a MinIO can be watched by endpoint.
    words = [word for word in options.sources if word != "minio" or watched.is_minio or not watched.is_one_of_several]
    for source in [*_default_sources(options, watched), *(_named(word, options, watched) for word in words)]:
        found.setdefault(source.name, source)
    return list(found.values())


def _refuse_what_would_be_ignored(options: WatchOptions, watched: WatchedPlatform) -> None:
    pages = [word for word in options.sources if word.startswith("prometheus:")]
    if options.metric_names is not None and not pages:
        raise UsageError(
            f"--metric-names {options.metric_names}: it needs --watch prometheus:URL; add that, or leave it out"
        )
    is_requested = bool(pages) or _reads_minio(options, watched) or watched.is_one_of_several
    if options.metrics_token is not None and not is_requested:
        raise UsageError(
            "--metrics-token-file: this run reads no metrics of a MinIO or of a --watch prometheus:URL; leave it out"
        )


def _reads_minio(options: WatchOptions, watched: WatchedPlatform) -> bool:
    return watched.is_minio or "minio" in options.sources


def _default_sources(options: WatchOptions, watched: WatchedPlatform) -> Iterator[Source]:
    if watched.shares_host:
        yield HostSource()
    elif watched.client_is_here:
        yield HostSource(CLIENT)
    if watched.pid is not None:
        yield ProcessSource.of_pid(watched.pid)
    if watched.platform == "embedded":
        yield EmbeddedSource(watched.endpoints[0])
    if watched.is_minio:
        yield _named("minio", options, watched)


def _named(word: str, options: WatchOptions, watched: WatchedPlatform) -> Source:
    kind, _, value = word.partition(":")
    if kind in ("local", "pid", "name") and not watched.shares_host:
        raise UsageError(
            f"--watch {word}: the platform is not on this machine, so this would show the "
            "client's resources as the server's; watch it with --watch prometheus:URL"
        )
    if word == "local":
        return HostSource()
    if kind == "pid" and value.isascii() and value.isdigit():
        return ProcessSource.of_pid(int(value))
    if kind == "name" and value:
        return ProcessSource.of_name(value)
    if kind == "prometheus" and value:
        # A MinIO token is only for MinIO.
        token = None if _reads_minio(options, watched) else options.metrics_token
        return PrometheusSource(
            value,
            options.metric_names,
            token,
            ca_bundle=options.ca_bundle,
            insecure=options.insecure,
            direct=options.direct,
        )
    if word == "minio":
        if not watched.endpoints:
            raise UsageError("--watch minio: this run has no S3 endpoint; leave it out")
        return MinioSource(
            watched.endpoints, options.metrics_token, ca_bundle=options.ca_bundle, insecure=options.insecure
        )
    raise UsageError(f"--watch {word}: there is no such source; use {KINDS}")
