"""Reading a metrics page: the series it contains, and every way in which a server can fail."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from archiver.values import threads
from archiver.values.errors import UsageError
from backends import exposition
from backends.exposition import PAGE_BYTES_MAX, MetricsAddress, ScrapeError
from tests.support.servers.scripted import Conversation, Request, ScriptedServer, Step, close, read, send, serve
from tests.support.waiting import SECONDS_MAX, wait_until

Start = Callable[..., ScriptedServer]
TOKEN = "the-secret-token"
PAGE = b'# HELP reads Reads\n# TYPE reads counter\nreads{disk="a"} 3\nreads{disk="b"} 4\nwrites 5\n'


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limits so that no read fails on a slow machine."""
    monkeypatch.setattr(exposition, "WAIT_SECONDS", SECONDS_MAX)
    monkeypatch.setattr(exposition, "SECONDS_MAX", SECONDS_MAX)


@pytest.fixture
def scripted() -> Iterator[Start]:
    """Start servers that play one script for each connection, and ``then`` for every later connection."""
    with ExitStack() as running:

        def start(*scripts: Sequence[Step], then: Sequence[Step] = ()) -> ScriptedServer:
            server = ScriptedServer(scripts, then)
            server.start()
            running.callback(server.stop)
            return server

        yield start


def reply(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def pages(body: bytes, status: str = "200 OK", *headers: str) -> list[Step]:
    return [serve(lambda _: reply(body, status, *headers))]


def address(server: ScriptedServer, token: str | None = None) -> MetricsAddress:
    return MetricsAddress(f"{server.url}/metrics", token)


def test_requested_series_are_returned_with_labels_and_values(scripted: Start) -> None:
    assert address(scripted(pages(PAGE))).scrape(["reads", "absent"]) == {
        "reads": [({"disk": "a"}, 3.0), ({"disk": "b"}, 4.0)]
    }


@pytest.mark.parametrize(
    ("page", "name", "labels", "value"),
    [
        ("# TYPE io_bytes counter\nio_bytes 7", "io_bytes", {}, 7.0),  # a counter without the suffix _total
        (
            '# TYPE ttfb gauge\nttfb{le="0.050",name="PutObject"} 2',
            "ttfb",
            {"le": "0.050", "name": "PutObject"},
            2.0,
        ),  # a histogram that is declared a gauge
        ('# TYPE wait histogram\nwait_bucket{le="+Inf"} 2', "wait_bucket", {"le": "+Inf"}, 2.0),
        ('info{version="DEVELOPMENT.GOGET"} 0', "info", {"version": "DEVELOPMENT.GOGET"}, 0.0),
        ('path{drive="C:\\\\a \\"b\\"\\n}"} 1.5e+3', "path", {"drive": 'C:\\a "b"\n}'}, 1500.0),
        ("up 1 1700000000000", "up", {}, 1.0),
        ("up 1\r", "up", {}, 1.0),
    ],
)
def test_series_names_match_the_wire_regardless_of_declared_type(
    scripted: Start, page: str, name: str, labels: dict[str, str], value: float
) -> None:
    assert address(scripted(pages(page.encode()))).scrape([name]) == {name: [(labels, value)]}


@pytest.mark.parametrize("page", [b"", b"# nothing yet\n", b"other 1\n"])
def test_page_without_requested_series_returns_nothing(scripted: Start, page: bytes) -> None:
    assert address(scripted(pages(page))).scrape(["reads"]) == {}


def test_chunked_page_is_read_whole(scripted: Start) -> None:
    chunked = b"".join(b"%x\r\n%s\r\n" % (1, PAGE[i : i + 1]) for i in range(len(PAGE))) + b"0\r\n\r\n"
    server = scripted([read, send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked)])
    assert address(server).scrape(["writes"]) == {"writes": [({}, 5.0)]}


def test_connection_is_reused_between_scrapes(scripted: Start) -> None:
    server = scripted(pages(PAGE))
    metrics = address(server)
    for _ in range(3):
        metrics.scrape(["writes"])
    assert (server.connections, len(server.requests)) == (1, 3)


@pytest.mark.parametrize(("token", "header"), [(TOKEN, f"Bearer {TOKEN}"), (None, None)])
def test_token_is_sent_and_netrc_and_proxies_are_ignored(
    scripted: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token: str | None, header: str | None
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    server = scripted(pages(PAGE))
    address(server, token).scrape(["writes"])
    assert server.requests[0].headers.get("authorization") == header
    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_url_without_a_path_requests_the_metrics_path(scripted: Start) -> None:
    server = scripted(pages(PAGE))
    MetricsAddress(server.url).scrape(["writes"])
    assert server.requests[0].target == "/metrics"


def refusal(metrics: MetricsAddress) -> ScrapeError:
    with pytest.raises(ScrapeError) as refused:
        metrics.scrape(["reads"])
    text = str(refused.value)
    assert text == f"{metrics.url}: {refused.value.reason}"
    assert TOKEN not in text
    assert "\n" not in text
    return refused.value


@pytest.mark.parametrize(
    ("status", "token", "said"),
    [
        ("401 Unauthorized", None, "was refused (401); give a token with --metrics-token-file"),
        ("403 Forbidden", None, "was refused (403); give a token with --metrics-token-file"),
        ("403 Forbidden", TOKEN, "is the token of --metrics-token-file meant for this server, and not expired?"),
        ("404 Not Found", TOKEN, "there is no such page (404); check the address"),
        ("500 Oh No", None, "status 500, not metrics"),
        ("302 Found", TOKEN, "status 302, not metrics"),
    ],
)
def test_http_error_is_reported_and_redirect_is_not_followed(
    scripted: Start, status: str, token: str | None, said: str
) -> None:
    elsewhere = scripted(pages(PAGE))
    server = scripted(pages(PAGE, status, f"Location: {elsewhere.url}/metrics"))
    error = refusal(address(server, token))
    assert said in error.reason
    assert error.status == int(status.split()[0])
    assert elsewhere.connections == 0, "a redirect was followed"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"<!DOCTYPE html><html><head><title>Console</title>", "'<!DOCTYPE html><html><head><title>Consol'"),
        (b'{"status": "ok"}', '\'{"status": "ok"}\''),
        (b"\x00\x01\xff\xfe binary", "'\\x00\\x01\ufffd\ufffd binary'"),
        (b"reads{disk=a} 3", "'reads{disk=a} 3'"),  # the requested series, malformed
        (f"your header was Bearer {TOKEN}".encode(), "'your header was Bearer ...'"),
    ],
)
def test_page_that_is_not_prometheus_text_is_quoted_in_error(scripted: Start, body: bytes, shown: str) -> None:
    said = refusal(address(scripted(pages(body)), TOKEN)).reason
    assert said == f"what came back is not Prometheus text but {shown}; is this the address of the metrics?"


def test_refused_connection_is_reported() -> None:
    metrics = MetricsAddress("http://127.0.0.1:1/metrics")
    assert "the connection was refused; is the server running" in refusal(metrics).reason


def test_truncated_answer_is_reported(scripted: Start) -> None:
    short = reply(PAGE).replace(b"Content-Length: ", b"Content-Length: 1")
    assert "broke off before the answer was complete" in refusal(address(scripted([read, send(short), close]))).reason


def endless(request: Request) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"100000\r\n%s\r\n" % (b"#" * (1 << 20)) * (
        (PAGE_BYTES_MAX >> 20) + 1
    )


@pytest.mark.parametrize("answer", [endless, lambda _: reply(b"#" * (PAGE_BYTES_MAX + 1))])
def test_page_above_the_size_limit_is_refused(scripted: Start, answer: Callable[[Request], bytes]) -> None:
    assert "the page has more than 16 MiB" in refusal(address(scripted([serve(answer)]))).reason


def test_page_of_the_maximum_size_is_read(scripted: Start) -> None:
    page = PAGE + b"#" * (PAGE_BYTES_MAX - len(PAGE))
    assert address(scripted(pages(page))).scrape(["writes"]) == {"writes": [({}, 5.0)]}


def test_silent_server_times_out(scripted: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "WAIT_SECONDS", 0.1)
    assert "timed out" in refusal(address(scripted([read]))).reason


def refusal_or_page(metrics: MetricsAddress) -> str:
    try:
        return str(metrics.scrape(["writes"]))
    except ScrapeError as error:
        return error.reason


def test_page_can_be_read_again_before_last_reader_thread_ends(
    scripted: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = threading.Event()

    class Lingering(threading.Thread):
        def run(self) -> None:
            super().run()
            enough.wait(SECONDS_MAX)

    monkeypatch.setattr(threads, "Thread", Lingering)
    metrics = address(scripted(then=pages(PAGE)))
    try:
        assert metrics.scrape(["writes"]) == metrics.scrape(["writes"])
    finally:
        enough.set()


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Slow: "])
def test_dripping_server_times_out_and_is_not_asked_while_sending(
    scripted: Start, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(exposition, "SECONDS_MAX", 0.2)
    enough = threading.Event()

    def drip(conversation: Conversation) -> None:
        while not enough.wait(0.02):
            conversation.sock.sendall(b"1")

    server = scripted([read, send(begun), drip, close], then=pages(PAGE))
    metrics = address(server)
    assert "timed out" in refusal(metrics).reason
    assert "still sending its previous answer" in refusal(metrics).reason
    assert server.connections == 1

    monkeypatch.setattr(exposition, "SECONDS_MAX", SECONDS_MAX)
    enough.set()  # The server ends its answer.
    wait_until(lambda: "still sending" not in refusal_or_page(metrics), "end of the answer")
    assert metrics.scrape(["writes"]) == {"writes": [({}, 5.0)]}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://me:secret@127.0.0.1:9100/metrics", "holds no credentials; give a token with --metrics-token-file"),
        ("http://secret@127.0.0.1:9100/metrics", "holds no credentials"),
        ("127.0.0.1:9100", "not an address of metrics; write it like http://127.0.0.1:9100/metrics"),
        ("ftp://127.0.0.1/metrics", "not an address of metrics"),
        ("http://:9100/metrics", "not an address of metrics"),
        ("http://127.0.0.1:99999/metrics", "not an address of metrics"),
        ("http://[::1/metrics", "not an address of metrics"),
    ],
)
def test_invalid_metrics_address_is_refused(url: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        MetricsAddress(url)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


class Page(BaseHTTPRequestHandler):
    """Answers every request with the page."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure_url(authority: trustme.CA) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # clients that do not trust it disconnect
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield f"https://localhost:{server.server_address[1]}/metrics"
        server.shutdown()
        serving.join()


def test_certificate_is_verified_against_ca_bundle_unless_insecure(
    secure_url: str, authority: trustme.CA, tmp_path: Path
) -> None:
    bundle = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(bundle)
    assert "give the authority's certificate with --ca-bundle" in refusal(MetricsAddress(secure_url)).reason
    for trusting in (MetricsAddress(secure_url, ca_bundle=str(bundle)), MetricsAddress(secure_url, insecure=True)):
        assert trusting.scrape(["writes"]) == {"writes": [({}, 5.0)]}
    with pytest.raises(UsageError, match="absent: cannot be read as PEM"):
        MetricsAddress(secure_url, ca_bundle=str(tmp_path / "absent"))
