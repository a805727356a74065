"""The MinIO backend: the profile of a MinIO server, and the servers it refuses before the first S3 request."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import backends
from archiver.platforms.servers import Server
from archiver.values.errors import PlatformError, UsageError
from backends.embedded.process import StoreProcess
from backends.minio import MinioBackend, read_token
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from tests.support.servers import real
from tests.support.servers.minio_variants import ACCESS_KEY, SECRET_KEY, before_third_form, guarded_minio
from tests.support.servers.scripted import Request, ScriptedServer, serve
from tests.support.waiting import wait_until

Answer = tuple[str, dict[str, str]]
OK: Answer = ("200 OK", {})
HEALTHY: dict[str, Answer] = {
    "/minio/health/live": OK,
    "/minio/health/ready": OK,
    "/minio/health/cluster": ("200 OK", {"X-Minio-Write-Quorum": "3"}),
}
NOT_MINIO = "not a MinIO server: it does not answer {} as MinIO does (status {}); use --backend s3"

Start = Callable[..., ScriptedServer]


@pytest.fixture
def answering() -> Iterator[Start]:
    """Start servers that answer from a table of paths, and answer 403 to every other path."""
    with ExitStack() as running:

        def start(answers: Mapping[str, Answer]) -> ScriptedServer:
            def answer(request: Request) -> bytes:
                status, headers = answers.get(request.target, ("403 Forbidden", {}))
                lines = [f"HTTP/1.1 {status}", "Content-Length: 0", *(f"{n}: {v}" for n, v in headers.items())]
                return "\r\n".join(lines).encode() + b"\r\n\r\n"

            server = ScriptedServer([], [serve(answer)])
            server.start()
            running.callback(server.stop)
            return server

        yield start


def backend(*endpoints: str, access: tuple[str, str] = ("a", "b"), token: str | None = None, **options: Any) -> Any:
    return MinioBackend(S3Options(endpoints, credentials=Credentials(*access, None), **options), token)


def test_minio_backend_overrides_only_init_name_and_profile() -> None:
    assert backends.load("minio") is MinioBackend
    assert MinioBackend.capabilities == S3Backend.capabilities
    inherited = set(vars(S3Backend)) - {"__init__", "__module__", "__doc__", "name", "profile"}
    assert not inherited & set(vars(MinioBackend))


def test_token_is_not_in_repr_or_worker_setting() -> None:
    made = backend("http://127.0.0.1:9000", token="the-secret-token")
    assert "the-secret-token" not in repr(made) + repr(made.setting_for("bucket", "prefix/", made.retention_for))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"/minio/health/live": ("404 Not Found", {})}, NOT_MINIO.format("/minio/health/live", 404)),
        ({"/minio/health/live": ("403 Forbidden", {})}, NOT_MINIO.format("/minio/health/live", 403)),
        ({"/minio/health/live": ("302 Found", {"Location": "/login"})}, NOT_MINIO.format("/minio/health/live", 302)),
        ({"/minio/health/ready": ("404 Not Found", {})}, NOT_MINIO.format("/minio/health/ready", 404)),
        ({"/minio/health/cluster": OK}, NOT_MINIO.format("/minio/health/cluster", 200)),  # a web console answers so
        (
            {"/minio/health/cluster": ("503 Service Unavailable", {"X-Minio-Write-Quorum": "3"})},
            "cannot write now: fewer drives than its write quorum (3 of each erasure set) are online; mend the cluster",
        ),
        (
            {"/minio/health/cluster": ("503 Service Unavailable", {"X-Minio-Server-Status": "iam-offline"})},
            "MinIO is not ready (iam-offline); wait until it is",
        ),
        ({"/minio/health/ready": ("200 OK", {"X-Minio-Server-Status": "offline"})}, "MinIO is not ready (offline)"),
        ({"/minio/health/ready": ("503 Slow Down", {})}, "MinIO is not ready (status 503)"),
        ({"/minio/health/live": ("503 Slow Down", {})}, "MinIO is not ready (status 503)"),
    ],
)
def test_non_minio_or_unhealthy_server_is_refused_before_s3_requests(
    answering: Start, changed: dict[str, Answer], said: str
) -> None:
    server = answering({**HEALTHY, **changed})
    with pytest.raises(PlatformError) as refused:
        backend(server.url).profile()
    assert str(refused.value).startswith(f"{server.url}: ")
    assert said in str(refused.value)
    assert all(request.target.startswith("/minio/health/") for request in server.requests)


def test_every_endpoint_must_be_up(answering: Start) -> None:
    whole, starting = answering(HEALTHY), answering({"/minio/health/live": ("503 Slow Down", {})})
    with pytest.raises(PlatformError, match=f"{starting.url}: MinIO is not ready"):
        backend(whole.url, starting.url).profile()


def test_refused_connection_is_platform_error() -> None:
    with pytest.raises(
        PlatformError, match=r"http://127\.0\.0\.1:1: the connection was refused; is the server running"
    ):
        backend("http://127.0.0.1:1").profile()


def test_silent_server_times_out_by_read_timeout_option() -> None:
    server = ScriptedServer([], [])  # reads, and never answers
    server.start()
    with pytest.raises(PlatformError, match=f"{server.url}: timed out"):
        backend(server.url, read_timeout_seconds=0.1).profile()
    server.stop()


def test_embedded_store_is_refused_as_not_minio(store: StoreProcess) -> None:
    with pytest.raises(PlatformError, match="not a MinIO server"):
        backend(store.endpoint).profile()


@pytest.mark.parametrize("text", ["a.token", "a.token\n", "  a.token \r\n"])
def test_token_file_is_read_without_surrounding_whitespace(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    assert read_token(tmp_path / "token") == "a.token"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "the file is empty; write the token into it, in one line"),
        (b" \n\n", "the file is empty"),
        (b"secret\nsecond\n", "a token has no spaces and one line only; keep nothing else in it"),
        (b"Bearer secret", "a token has no spaces"),
        ("sécret".encode(), "this is no token: it has other than ASCII characters"),
    ],
)
def test_invalid_token_file_is_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_token(path)
    assert str(refused.value).startswith(f"--metrics-token-file {path}: ")
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


# Real servers.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with real.real_server("minio", tmp_path_factory.mktemp("minio")) as started:
        yield started


def of(server: Server, endpoint: str | None = None, **options: Any) -> Any:
    access = (server.access.access_key, server.access.secret_key)
    return backend(endpoint or server.endpoint, access=access, **options)


@pytest.mark.platforms
def test_profile_of_single_drive_server_reports_capacity_and_drives(server: Server) -> None:
    profile = of(server).profile()
    assert (profile.name, profile.backend, profile.shares_host) == ("minio", "minio", True)
    assert profile.version == "DEVELOPMENT.GOGET"  # the version that a MinIO built from source reports
    details = profile.details
    assert details["usable_capacity_bytes"] > details["usable_free_bytes"] > 0
    expected = {
        "write_quorum_drives": 1,
        "nodes_online": 1,
        "drives": 1,
        "drives_online": 1,
        "erasure_sets": 1,
        "parity_drives": 0,
        "drive_failures_tolerated_writing": 0,
        "drive_failures_tolerated_reading": 0,
        "certificates_verified": True,  # S3's own
    }
    assert expected.items() <= details.items()
    assert "metrics" not in details


@pytest.mark.platforms
def test_older_server_yields_same_profile(server: Server) -> None:
    with before_third_form(server.endpoint) as older:
        said, before = of(server).profile(), of(server, older).profile()
    assert before.version == said.version
    assert set(before.details) == set(said.details)
    other = {"usable_free_bytes": 0, "addresses": {}}  # They differ with time and with the address.
    assert before.details | other == said.details | other


@pytest.mark.platforms
def test_another_platform_is_refused(tmp_path: Path) -> None:
    with real.real_server("versitygw", tmp_path) as other, pytest.raises(PlatformError, match="not a MinIO server"):
        of(other).profile()


def refusal_in_the_end(minio: MinioBackend) -> str:
    """Wait until the server is refused: MinIO checks its drives about once a second."""
    refusals: list[str] = []

    def is_refused() -> bool:
        try:
            minio.profile()
        except PlatformError as refused:
            refusals.append(str(refused))
        return bool(refusals)

    wait_until(is_refused, "refusal")
    return refusals[0]


@pytest.mark.platforms
def test_protected_metrics_need_a_token_and_lost_quorum_is_refused(tmp_path: Path) -> None:
    with guarded_minio(tmp_path) as minio:
        access = (ACCESS_KEY, SECRET_KEY)
        with_token = backend(minio.endpoint, access=access, token=minio.token())
        details = with_token.profile().details
        expected = {
            "write_quorum_drives": 3,
            "drives": 4,
            "drives_online": 4,
            "parity_drives": 2,
            "drive_failures_tolerated_writing": 1,
            "drive_failures_tolerated_reading": 2,
        }
        assert expected.items() <= details.items()

        for token, said in ((None, "give a token with --metrics-token-file"), ("not.a.token", "not expired?")):
            profile = backend(minio.endpoint, access=access, token=token).profile()
            assert profile.version is None  # The Server header has only a name.
            assert profile.details["write_quorum_drives"] == 3
            assert "refused (403)" in profile.details["metrics"]
            assert said in profile.details["metrics"]
            assert "parity_drives" not in profile.details

        for drive in minio.drives[:2]:
            shutil.rmtree(drive)
        assert "cannot write now: fewer drives than its write quorum (3 of each" in refusal_in_the_end(with_token)
