"""Proxies that the environment names: a proxied endpoint is refused, and no measurement uses a proxy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from archiver.values.errors import UsageError
from archiver.values.retention import Retention, RetentionMode
from backends.embedded import process as embedded
from backends.exposition import MetricsAddress
from backends.proxies import proxy_variable
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from tests.backends.s3.s3_sessions import archives, data_plane, record_of_sessions
from tests.support.commands import archiver
from tests.support.runs import TINY

NAME = "store.example"  # resolves to this host, but is not a loopback name


class Proxy(BaseHTTPRequestHandler):
    """Records every requested path, and refuses the request."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(502)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_CONNECT = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths requested of the proxy that the environment names."""
    asked: list[str] = []
    handler = type("Handler", (Proxy,), {"asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.StoreProcess]:
    with embedded.start(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture(autouse=True)
def name_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = socket.getaddrinfo

    def resolve(host: Any, *arguments: Any, **named: Any) -> Any:
        return resolved("127.0.0.1" if host == NAME else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def options(store: embedded.StoreProcess, host: str, direct: bool = False) -> S3Options:
    url = f"http://{host}:{urlsplit(store.endpoint).port}"
    return S3Options((url,), credentials=Credentials(store.access_key, store.secret_key, None), direct=direct)


def use_both_planes(given: S3Options) -> None:
    """Send a request by boto3 and one by a session, and read a metrics page."""
    backend = S3Backend(given)
    assert backend.profile().server_clock_offset_seconds is not None
    setting = backend.setting_for("absent", "run/", Retention(RetentionMode.NONE, None))
    plane = data_plane(
        *setting.endpoints, access_key=setting.access_key, secret_key=setting.secret_key, bucket="absent"
    )
    record = record_of_sessions(plane, archives(1))
    assert record.status[1] == 404  # as the store answers
    page = MetricsAddress(f"{given.endpoints[0]}/-/metrics", direct=given.direct)
    assert page.scrape(["archiver_store_objects"]) is not None


def test_proxied_endpoint_is_refused_before_any_request(store: embedded.StoreProcess, asked: list[str]) -> None:
    with pytest.raises(UsageError, match=rf"http_proxy names a proxy .*; add {NAME} to NO_PROXY, or .* --direct"):
        S3Backend(options(store, NAME))
    assert asked == []
    assert requests.get(f"http://{NAME}/", timeout=60).status_code == 502  # the proxy is there
    assert asked == [f"http://{NAME}/"]


@pytest.mark.parametrize("no_proxy", [NAME, ".example", "other.example,store.example", "*"])
def test_host_in_no_proxy_is_reached_directly(
    store: embedded.StoreProcess, asked: list[str], monkeypatch: pytest.MonkeyPatch, no_proxy: str
) -> None:
    monkeypatch.setenv("NO_PROXY", no_proxy)
    use_both_planes(options(store, NAME))
    assert asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_host_is_reached_directly(store: embedded.StoreProcess, asked: list[str], host: str) -> None:
    use_both_planes(options(store, host))
    assert asked == []


def test_direct_ignores_proxies(store: embedded.StoreProcess, asked: list[str]) -> None:
    use_both_planes(options(store, NAME, direct=True))
    assert asked == []


def test_variable_is_named_by_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert proxy_variable("https://store.example") == "HTTPS_PROXY"
    assert proxy_variable("http://store.example") is None
    monkeypatch.setenv("ALL_PROXY", "http://proxy:3128")
    assert proxy_variable("http://store.example") == "ALL_PROXY"
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    assert proxy_variable("http://10.1.2.3:9000") is None
    assert proxy_variable("http://11.1.2.3:9000") == "ALL_PROXY"


def test_commands_refuse_a_proxy_unless_the_store_is_embedded(
    home: Path, asked: list[str], store: embedded.StoreProcess
) -> None:
    keys = {"AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key}
    for command in (("run", "dr550"), ("worm", "--check", "DEL-02")):
        refused = archiver(*command, "--endpoint", "http://store.example:9000", **keys)
        assert refused.returncode == 2, refused.stderr
        assert "http_proxy names a proxy for this endpoint" in refused.stderr
        assert not home.exists()
    done = archiver("run", "dr550", *TINY, "--platform", "embedded")
    assert done.returncode == 0, done.stderr
    assert asked == []
