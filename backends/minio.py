"""MinioBackend: S3 plus the health and the drives of MinIO.

One idea: sessions are those of S3; before a run MinIO is queried for more. A server that could not store the run's
objects is refused before anything is changed, and the protection of its objects is recorded with the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import requests

from archiver.values.errors import PlatformError, UsageError
from archiver.values.platform import PlatformProfile
from backends.exposition import MetricsAddress, ScrapeError, Series, failure, session_to
from backends.s3.backend import S3Backend, S3Options

_LIVE, _READY, _CLUSTER = "/minio/health/live", "/minio/health/ready", "/minio/health/cluster"
_STATUS_HEADER = "X-Minio-Server-Status"  # present while a server is starting: offline, iam-offline ...
_QUORUM_HEADER = "X-Minio-Write-Quorum"
_NODE_PATH = "/minio/v2/metrics/node"
_PARITY = "minio_node_storage_class_standard_parity"
_VERSION = "minio_software_version_info"


class _ProfileForm(NamedTuple):
    """Where one form of MinIO's metrics has the values of the profile."""

    paths: tuple[str, ...]
    wholes: Mapping[str, str]  # detail -> metric of the whole cluster
    online: str  # drives of each erasure set
    write_quorum: str
    read_quorum: str


_FORMS = (
    _ProfileForm(
        ("/minio/metrics/v3/cluster/health", "/minio/metrics/v3/cluster/erasure-set"),
        {
            "nodes_online": "minio_cluster_health_nodes_online_count",
            "drives": "minio_cluster_health_drives_count",
            "drives_online": "minio_cluster_health_drives_online_count",
            "usable_capacity_bytes": "minio_cluster_health_capacity_usable_total_bytes",
            "usable_free_bytes": "minio_cluster_health_capacity_usable_free_bytes",
        },
        "minio_cluster_erasure_set_online_drives_count",
        "minio_cluster_erasure_set_write_quorum",
        "minio_cluster_erasure_set_read_quorum",
    ),
    _ProfileForm(
        ("/minio/v2/metrics/cluster",),
        {
            "nodes_online": "minio_cluster_nodes_online_total",
            "drives": "minio_cluster_drive_total",
            "drives_online": "minio_cluster_drive_online_total",
            "usable_capacity_bytes": "minio_cluster_capacity_usable_total_bytes",
            "usable_free_bytes": "minio_cluster_capacity_usable_free_bytes",
        },
        "minio_cluster_health_erasure_set_online_drives",
        "minio_cluster_health_erasure_set_write_quorum",
        "minio_cluster_health_erasure_set_read_quorum",
    ),
)


class MinioBackend(S3Backend):
    """S3 with Object Lock on MinIO."""

    name = "minio"

    def __init__(self, options: S3Options, metrics_token: str | None = None) -> None:
        super().__init__(options)
        self._metrics_token = metrics_token

    def profile(self) -> PlatformProfile:
        """Return MinIO's health and profile. Raises PlatformError if it is not MinIO, or has too few drives."""
        for endpoint in self._endpoints:
            self._check_up(endpoint)
        health = self._cluster_health(self._endpoints[0])
        profile = super().profile()
        version, cluster = self._metrics_details()
        return replace(
            profile,
            name=self.options.platform_name or "minio",
            version=self.options.platform_version or version or profile.version,
            details={**profile.details, **health, **cluster},
        )

    def _check_up(self, endpoint: str) -> None:
        for path in (_LIVE, _READY):
            with self._answer_to(endpoint, path) as answer:
                if _STATUS_HEADER in answer.headers or answer.status_code == 503:
                    raise _not_up(endpoint, answer)
                if answer.status_code != 200:
                    raise _not_minio(endpoint, path, answer)

    def _cluster_health(self, endpoint: str) -> dict[str, Any]:
        with self._answer_to(endpoint, _CLUSTER) as answer:
            if _STATUS_HEADER in answer.headers:
                raise _not_up(endpoint, answer)
            quorum = answer.headers.get(_QUORUM_HEADER, "")
            if answer.status_code == 503 and quorum:
                raise PlatformError(
                    f"{endpoint}: MinIO cannot write now: fewer drives than its write quorum ({quorum} of each erasure "
                    "set) are online; mend the cluster first (mc admin info shows its drives)"
                )
            if answer.status_code != 200 or not quorum.isdigit():
                raise _not_minio(endpoint, _CLUSTER, answer)
        return {"write_quorum_drives": int(quorum)}

    @contextmanager
    def _answer_to(self, endpoint: str, path: str) -> Iterator[requests.Response]:
        """Yield an answer without reading its body. Raises PlatformError if none comes."""
        try:
            with (
                session_to(endpoint, insecure=self.options.insecure, direct=True) as session,
                session.get(
                    endpoint + path,
                    stream=True,
                    allow_redirects=False,
                    verify=False if self.options.insecure else (self._ca_bundle or True),
                    timeout=(self.options.connect_timeout_seconds, self.options.read_timeout_seconds),
                ) as answer,
            ):
                yield answer
        except requests.RequestException as error:
            raise PlatformError(f"{endpoint}: {failure(error)}") from error

    def _metrics_details(self) -> tuple[str | None, dict[str, Any]]:
        """Return the version if it is known, and details; with the reason if the metrics cannot be read."""
        version: str | None = None
        details: dict[str, Any] = {}
        try:
            details.update(self._cluster())
            node = self._scraped(_NODE_PATH, {_PARITY, _VERSION})
            version = next((labels["version"] for labels, _ in node.get(_VERSION, ()) if labels.get("version")), None)
            if _PARITY in node and isfinite(node[_PARITY][0][1]):
                details["parity_drives"] = int(node[_PARITY][0][1])
        except ScrapeError as error:
            details["metrics"] = str(error)
        return version, details

    def _cluster(self) -> dict[str, int]:
        """Return details from the newest form that the server has. Raises ScrapeError."""
        for form in _FORMS:
            names = {*form.wholes.values(), form.online, form.write_quorum, form.read_quorum}
            try:
                series = {name: rows for path in form.paths for name, rows in self._scraped(path, names).items()}
            except ScrapeError as error:
                # MinIO answers 403 for a missing page as for a missing token: the older form decides which it is.
                if error.status not in (401, 403, 404) or form is _FORMS[-1]:
                    raise
                continue
            return _details(form, series)
        raise AssertionError("the last form returns or raises")

    def _scraped(self, path: str, names: set[str]) -> Series:
        return MetricsAddress(
            self._endpoints[0] + path,
            self._metrics_token,
            ca_bundle=self._ca_bundle,
            insecure=self.options.insecure,
            direct=True,
        ).scrape(names)


def read_token(path: Path) -> str:
    """Read the bearer token in the only line of a file. Raises UsageError."""
    try:
        token = path.read_text("ascii").strip()
    except OSError as error:
        raise UsageError(f"--metrics-token-file {path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--metrics-token-file {path}: this is no token: it has other than ASCII characters"
        ) from error
    if not token:
        raise UsageError(f"--metrics-token-file {path}: the file is empty; write the token into it, in one line")
    if len(token.split()) > 1:
        raise UsageError(
            f"--metrics-token-file {path}: a token has no spaces and one line only; keep nothing else in it"
        )
    return token


def _details(form: _ProfileForm, series: Series) -> dict[str, int]:
    details = {
        detail: int(value)
        for detail, metric in form.wholes.items()
        for _, value in series.get(metric, ())
        if isfinite(value)
    }
    online = _by_set(series, form.online)
    if online:
        details["erasure_sets"] = len(online)
    for doing, metric in (("writing", form.write_quorum), ("reading", form.read_quorum)):
        quorum = _by_set(series, metric)
        spare = [drives - quorum[each] for each, drives in online.items() if each in quorum]
        if spare:
            details[f"drive_failures_tolerated_{doing}"] = int(min(spare))
    return details


def _by_set(series: Series, metric: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by pool and set."""
    return {
        tuple(value for label, value in sorted(labels.items()) if label != "server"): value
        for labels, value in series.get(metric, ())
    }


def _not_up(endpoint: str, answer: requests.Response) -> PlatformError:
    status = answer.headers.get(_STATUS_HEADER, f"status {answer.status_code}")
    return PlatformError(f"{endpoint}: MinIO is not ready ({status}); wait until it is, or look into its log")


def _not_minio(endpoint: str, path: str, answer: requests.Response) -> PlatformError:
    return PlatformError(
        f"{endpoint}: not a MinIO server: it does not answer {path} as MinIO does (status {answer.status_code}); "
        "use --backend s3"
    )
