"""Test access to the pages of `archiver web`: wrong tokens, foreign Hosts and cross-site requests are refused."""

from __future__ import annotations

import socket
import subprocess

import pytest
from aiohttp.test_utils import TestClient

from archiver.web.guard import is_loopback, new_token
from tests.archiver.web.served import TOKEN, client, started_web, text
from tests.support.commands import archiver

PATHS = (
    "",
    "events",
    "runs/x",
    "runs/x/report",
    "compare?run=a&run=b",
    "plan",
    "plan/mail",
    "ledger",
    "page.css",
    "nothing",
)


async def status_and_text(served: TestClient, path: str, **headers: str) -> tuple[int, str]:  # type: ignore[type-arg]
    async with served.get(path, headers=headers) as response:
        return response.status, await response.text()


@pytest.mark.parametrize("path", PATHS)
async def test_a_wrong_or_missing_token_is_refused(path: str) -> None:
    async with client() as served:
        for first in ("", "x/", f"{TOKEN}x/", f"{TOKEN[:-1]}/", f"{TOKEN.upper()}/", "%00/", "é/"):
            status, words = await status_and_text(served, f"/{first}{path}")
            assert status == 403, first
            assert "token" in words
            assert TOKEN not in words


async def test_each_token_is_new_and_at_least_32_characters() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 32


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:1", "", "["]
)
async def test_a_foreign_host_is_refused(host: str) -> None:
    async with client() as served:
        status, words = await status_and_text(served, f"/{TOKEN}/", Host=host)
        assert status == 403
        assert "Host" in words


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "LOCALHOST:9999", "[::1]:8765", "127.0.0.2"])
async def test_loopback_hosts_are_accepted_with_any_port(host: str) -> None:
    async with client() as served:
        assert (await status_and_text(served, f"/{TOKEN}/", Host=host))[0] == 200


async def test_server_on_all_addresses_accepts_only_its_name_and_any_ip_as_host() -> None:
    async with client(host="0.0.0.0") as served:
        for host in (f"{socket.gethostname()}:8765", "192.0.2.7:8765", "localhost"):
            assert (await status_and_text(served, f"/{TOKEN}/", Host=host))[0] == 200, host
        assert (await status_and_text(served, f"/{TOKEN}/", Host="rebound.example:8765"))[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},  # another port of the same machine
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
@pytest.mark.parametrize("path", ["", "events", "ledger"])
async def test_a_request_from_another_site_is_refused(path: str, headers: dict[str, str]) -> None:
    async with client() as served:
        status, words = await status_and_text(served, f"/{TOKEN}/{path}", **headers)
        assert status == 403
        assert "Another site" in words


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_same_origin_and_address_bar_requests_are_answered(site: str) -> None:
    async with client() as served:
        own = f"http://127.0.0.1:{served.port}"
        assert (await status_and_text(served, f"/{TOKEN}/", **{"Sec-Fetch-Site": site, "Origin": own}))[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_methods_other_than_get_are_refused(method: str) -> None:
    async with client() as served:
        for path in ("", "ledger", "plan/mail"):
            async with served.request(method, f"/{TOKEN}/{path}") as response:
                assert response.status == 405


async def test_every_answer_has_strict_headers_and_no_token() -> None:
    async with client() as served:
        for path in ("", "plan", "plan/mail", "ledger", "runs/x", "page.css", "web.js"):
            async with served.get(f"/{TOKEN}/{path}") as response:
                policy = response.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert response.headers["Referrer-Policy"] == "no-referrer"
                assert response.headers["Cache-Control"] == "no-store"
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                page = await response.text()
                assert TOKEN not in page
                assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
                assert " style=" not in page
                assert "<script>" not in page


async def test_refusals_have_strict_headers() -> None:
    async with client() as served, served.get("/x/") as response:
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert response.headers["Cache-Control"] == "no-store"


async def test_root_without_a_slash_redirects_to_the_run_list() -> None:
    async with client() as served:
        async with served.get(f"/{TOKEN}") as response:
            assert response.url.path == f"/{TOKEN}/"
        assert "<h1>Runs</h1>" in await text(served)


def test_is_loopback_distinguishes_loopback_from_other_addresses() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.8.0.1")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.0.2.1", "example.com", "")] == [False] * 5


def test_web_on_all_addresses_prints_a_warning_and_its_host_name() -> None:
    with started_web("--host", "0.0.0.0", "--port", "0", stderr=subprocess.PIPE) as (process, address):
        assert address.startswith(f"http://{socket.gethostname()}:")
        process.terminate()
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "warning: 0.0.0.0 can be reached from other machines" in errors


def test_web_port_in_use_is_refused_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = archiver("web", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "choose another port with --port" in done.stderr
