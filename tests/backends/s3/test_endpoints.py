"""Endpoints as users write them: ranges, refusals with remedies, addresses and TLS."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.cli.runs.run import run as run_command
from archiver.values.errors import PlatformError, UsageError
from backends.embedded import process as embedded
from backends.s3.endpoints import Addresses, expand, find_addresses, resolve, tls_context
from tests.backends.s3.s3_sessions import data_plane
from tests.support.runs import TINY


@pytest.mark.parametrize(
    ("url", "expanded"),
    [
        ("http://127.0.0.1:9000", ["http://127.0.0.1:9000"]),
        ("http://127.0.0.1:9000/", ["http://127.0.0.1:9000"]),
        ("https://s3.eu-central-1.amazonaws.com", ["https://s3.eu-central-1.amazonaws.com"]),
        ("http://[::1]:9000", ["http://[::1]:9000"]),
        ("http://host{1...3}:9000", ["http://host1:9000", "http://host2:9000", "http://host3:9000"]),
        ("http://host{7...7}", ["http://host7"]),
        ("http://host:900{0...2}", ["http://host:9000", "http://host:9001", "http://host:9002"]),
        ("http://r{1...2}n{1...2}", ["http://r1n1", "http://r1n2", "http://r2n1", "http://r2n2"]),
    ],
)
def test_an_endpoint_is_one_url_or_a_range_of_them(url: str, expanded: list[str]) -> None:
    assert expand(url) == expanded


@given(st.integers(0, 5000), st.integers(0, 1000))
def test_a_range_names_every_host_once_in_order(first: int, more: int) -> None:
    expanded = expand(f"http://host{{{first}...{first + more}}}:9000")
    assert expanded == [f"http://host{number}:9000" for number in range(first, first + more + 1)]


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("", "write it like http://127.0.0.1:9000"),
        ("127.0.0.1:9000", "write it like http://127.0.0.1:9000"),
        ("localhost", "write it like http://127.0.0.1:9000"),
        ("ftp://host", "write it like http://127.0.0.1:9000"),
        ("http://", "write it like http://127.0.0.1:9000"),
        ("http://:9000", "write it like http://127.0.0.1:9000"),
        ("http://host:0", "write it like http://127.0.0.1:9000"),
        ("http://host:65536", "write it like http://127.0.0.1:9000"),
        ("http://host:port", "write it like http://127.0.0.1:9000"),
        ("http://[::1", "write it like http://127.0.0.1:9000"),
        ("http://host/bucket", "name the bucket with --bucket"),
        ("http://host?region=eu", "an endpoint has no path"),
        ("http://host{3...1}", r"the range \{3...1\} must rise"),
        ("http://host{1...1002}", "at most 1000 hosts"),
    ],
)
def test_bad_endpoint_is_refused_with_remedy(url: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=remedy) as caught:
        expand(url)
    assert f"--endpoint {url}" in str(caught.value)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("content", [None, "", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_bad_bundle_of_certificates_is_refused(tmp_path: Path, content: str | None) -> None:
    bundle = tmp_path / "ca.pem"
    if content is not None:
        bundle.write_text(content)
    with pytest.raises(UsageError, match=r"--ca-bundle .*ca\.pem: cannot be read as PEM certificates"):
        tls_context(str(bundle), insecure=False)


def test_certificates_are_verified_unless_insecure_is_set() -> None:
    verified, insecure = tls_context(None, insecure=False), tls_context(None, insecure=True)
    assert (verified.verify_mode, verified.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (insecure.verify_mode, insecure.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("url", "host", "port", "secure"),
    [
        ("http://127.0.0.1", "127.0.0.1", 80, False),
        ("https://127.0.0.1", "127.0.0.1", 443, True),
        ("http://127.0.0.1:9000", "127.0.0.1", 9000, False),
        ("https://[::1]:9443", "::1", 9443, True),
    ],
)
def test_an_endpoint_is_resolved_to_an_address_and_keeps_its_name(url: str, host: str, port: int, secure: bool) -> None:
    tls = tls_context(None, insecure=True)
    (endpoint,) = resolve(url, tls)
    assert (endpoint.url, endpoint.host, endpoint.address, endpoint.port) == (url, host, host, port)
    assert endpoint.tls is (tls if secure else None)


def test_resolved_endpoint_keeps_its_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 9000))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    (endpoint,) = resolve("https://store.example:9000", tls_context(None, insecure=True))
    assert (endpoint.host, endpoint.address) == ("store.example", "192.0.2.7")


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("no-such-host.example", socket.gaierror(socket.EAI_NONAME, "Name or service not known")),
        ("a..b", None),
        ("a" * 64 + ".example", None),  # a label has 63 characters at most
    ],
)
def test_an_unknown_host_is_a_platform_error(
    monkeypatch: pytest.MonkeyPatch, host: str, answer: OSError | None
) -> None:
    if answer is not None:  # as a name server reports it
        monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=answer))
    with pytest.raises(PlatformError, match=f"http://{host}:9000: the host name is unknown .*check --endpoint"):
        resolve(f"http://{host}:9000", tls_context(None, insecure=True))


NAME = "store.example"


def names(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Make the resolver return these addresses for NAME."""
    resolved = socket.getaddrinfo

    def answer(host: Any, *arguments: Any, **named: Any) -> Any:
        wanted = addresses if host == NAME else (host,)
        return [entry for address in wanted for entry in resolved(address, *arguments, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


@pytest.fixture
def listeners() -> Iterator[Callable[..., int]]:
    """Opens listening sockets on these addresses, at one port, which it returns."""
    opened: list[socket.socket] = []

    def listen(*addresses: str) -> int:
        port = 0
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            opened.append(socket.create_server((address, port), family=family))
            port = opened[-1].getsockname()[1]
        return port

    yield listen
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    ("known", "listening", "answering", "silent"),
    [
        (("127.0.0.2", "127.0.0.1"), ("127.0.0.1",), ("127.0.0.1",), ("127.0.0.2",)),
        (("127.0.0.3", "127.0.0.2", "127.0.0.1"), ("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1"),
         ("127.0.0.3",)),
        (("127.0.0.2",), (), ("127.0.0.2",), ()),  # the only one is not tried
        (("127.0.0.2", "127.0.0.3"), (), ("127.0.0.2", "127.0.0.3"), ()),  # none answers, so all are kept
        (("127.0.0.1", "127.0.0.1"), (), ("127.0.0.1",), ()),
    ],
)  # fmt: skip
def test_addresses_without_a_listener_are_reported_as_silent(
    monkeypatch: pytest.MonkeyPatch,
    listeners: Callable[..., int],
    known: tuple[str, ...],
    listening: tuple[str, ...],
    answering: tuple[str, ...],
    silent: tuple[str, ...],
) -> None:
    port = listeners(*listening) or 1
    names(monkeypatch, *known)
    url = f"http://{NAME}:{port}"
    assert find_addresses([url], 5.0) == {url: Addresses(answering, silent)}


def test_ipv6_is_used_only_where_no_ipv4_address_answers(
    monkeypatch: pytest.MonkeyPatch, listeners: Callable[..., int]
) -> None:
    try:
        port = listeners("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    names(monkeypatch, "::1", "127.0.0.1")
    url = f"http://{NAME}:{port}"
    with socket.socket() as mine:
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            mine.bind(("127.0.0.1", port))  # not listening: it refuses, and keeps the port
        except OSError:
            pytest.skip("another process has the same port of IPv4")
        assert find_addresses([url], 5.0) == {url: Addresses(("::1",), ("127.0.0.1",))}
        mine.listen()
        assert find_addresses([url], 5.0) == {url: Addresses(("127.0.0.1",))}


def test_clients_take_endpoints_in_turn_and_then_their_addresses() -> None:
    given = {"http://a:9000": ("127.0.0.1", "127.0.0.2"), "http://b:9000": ("127.0.0.3",)}
    plane = data_plane(*given, addresses=given)

    def used(client: int) -> tuple[str, str]:
        endpoint = plane.endpoint(plane.session(client)._endpoint_index)
        return endpoint.url, endpoint.address

    assert [used(client) for client in range(6)] == [
        ("http://a:9000", "127.0.0.1"), ("http://b:9000", "127.0.0.3"),
        ("http://a:9000", "127.0.0.2"), ("http://b:9000", "127.0.0.3"),
        ("http://a:9000", "127.0.0.1"), ("http://b:9000", "127.0.0.3"),
    ]  # fmt: skip


def test_run_skips_dead_address_with_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names(monkeypatch, "127.0.0.2", "127.0.0.1")
    with embedded.start(tmp_path / "store") as store:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", store.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", store.secret_key)
        url = store.endpoint.replace("127.0.0.1", NAME)
        with pytest.raises(SystemExit) as ended:
            run_command.main(["dr550", *TINY, "--endpoint", url, "--json"], standalone_mode=False)
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert all(result["errors"] == 0 for result in document["results"])
    assert document["platform"]["details"]["addresses"] == {url: ["127.0.0.1"]}
    assert document["platform"]["details"]["silent_addresses"] == {url: ["127.0.0.2"]}
    (doubt,) = [each for each in document["doubts"] if "accepted no connection" in each]
    assert doubt.startswith(
        f"127.0.0.2 of {url} accepted no connection when the run began, so all clients used 127.0.0.1"
    )
