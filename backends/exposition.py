"""Reads metrics in the Prometheus text format from one address.

One idea: a read ends within SECONDS_MAX whatever the server does. It returns the requested series by their names, or
says in one sentence why it cannot. The caller knows what a name means. Types that a page declares are ignored, because
servers get them wrong: MinIO declares its distributions as gauges, and some counters lack the suffix of one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from urllib.parse import urlsplit

import requests
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from archiver.values.errors import UsageError
from archiver.values.threads import in_thread
from backends.proxies import is_loopback_host
from backends.s3.endpoints import tls_context

WAIT_SECONDS = 2.0  # to connect, and between two reads of an answer
SECONDS_MAX = 4.0  # for a whole read, also from a server that sends slowly
PAGE_BYTES_MAX = 16 << 20
_PIECE_BYTES = 1 << 16
_SHOWN_CHARACTERS = 40
_TIMED_OUT = "timed out; is the server overloaded, or the address that of another service?"
_LATE = (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?=[{ \t])")

Labels = Mapping[str, str]
Series = Mapping[str, Sequence[tuple[Labels, float]]]  # by metric name
Authorise = Callable[[requests.PreparedRequest], requests.PreparedRequest]


class ScrapeError(Exception):
    """The address returned no metrics; the message says in one sentence which address, why and what to do."""

    def __init__(self, url: str, reason: str, status: int | None = None) -> None:
        super().__init__(f"{url}: {reason}")
        self.reason = reason  # why and what to do, without the address
        self.status = status  # HTTP status, if that was the reason


class MetricsAddress:
    """One page of metrics. Its connection is kept between reads."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        ca_bundle: str | None = None,
        insecure: bool = False,
        direct: bool = False,
    ) -> None:
        """``direct``: ignore proxies of the environment. Raises UsageError for an invalid address."""
        self.url = _checked(url)
        if url.startswith("https") and ca_bundle and not insecure:
            tls_context(ca_bundle, insecure)  # refuses an unreadable bundle here, with its name
        self._verify: bool | str = False if insecure else (ca_bundle or True)
        self._session = session_to(self.url, insecure=insecure, direct=direct)
        self._session.auth = _bearer(token)
        self._token = token
        self._pending: Future[bytes] | None = None  # the result of the last read, perhaps still pending

    def scrape(self, names: Collection[str]) -> Series:
        """Return the current series of these names. Raises ScrapeError."""
        text = self._page().decode("utf-8", "replace")
        try:
            found = _series(line for line in text.split("\n") if _name(line) in names)
            if not found:
                _series(text.split("\n"))  # are these other metrics, or no metrics?
            found = {name: series for name, series in found.items() if name in names}  # _name() accepts blanks
        except (ValueError, IndexError) as error:
            raise ScrapeError(
                self.url,
                f"what came back is not Prometheus text but {self._shown(text)}; is this the address of the metrics?",
            ) from error
        return found

    def _page(self) -> bytes:
        # In its own thread, because nothing else limits the time of a name server or of an answer's head. A thread that
        # hangs is abandoned, but no second one is started.
        if self._pending is not None and not self._pending.done():
            raise ScrapeError(self.url, "the server is still sending its previous answer; is it overloaded?")
        self._pending, _ = in_thread("metrics", self._fetch)
        try:
            return self._pending.result(SECONDS_MAX)
        except TimeoutError as late:
            raise self._late() from late

    def _fetch(self) -> bytes:
        deadline = time.monotonic() + SECONDS_MAX
        try:
            with self._session.get(
                self.url, stream=True, timeout=WAIT_SECONDS, allow_redirects=False, verify=self._verify
            ) as answer:
                self._check(answer)
                received = bytearray()
                for piece in answer.raw.stream(_PIECE_BYTES, decode_content=False):
                    received += piece
                    if len(received) > PAGE_BYTES_MAX:
                        raise ScrapeError(
                            self.url,
                            f"the page has more than {PAGE_BYTES_MAX >> 20} MiB; name an address with fewer metrics",
                        )
                    if time.monotonic() > deadline:
                        raise self._late()
                return bytes(received)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise ScrapeError(self.url, failure(error)) from error

    def _check(self, answer: requests.Response) -> None:
        status = answer.status_code
        if status == 200:
            return
        if status in (401, 403):
            remedy = (
                "is the token of --metrics-token-file meant for this server, and not expired?"
                if self._token
                else "give a token with --metrics-token-file"
            )
            raise ScrapeError(self.url, f"reading the metrics was refused ({status}); {remedy}", status)
        if status == 404:
            raise ScrapeError(self.url, "there is no such page (404); check the address", status)
        raise ScrapeError(self.url, f"the answer was status {status}, not metrics; check the address", status)

    def _late(self) -> ScrapeError:
        return ScrapeError(self.url, _TIMED_OUT)

    def _shown(self, text: str) -> str:
        """Return the first characters without the token, which a server may echo."""
        return repr((text.replace(self._token, "...") if self._token else text)[:_SHOWN_CHARACTERS])


def session_to(url: str, *, insecure: bool, direct: bool) -> requests.Session:
    """Return a session, without proxies of the environment if ``direct`` or if the URL is on this host."""
    session = requests.Session()
    session.trust_env = not (direct or is_loopback_host(urlsplit(url).hostname or ""))
    session.auth = _bearer(None)  # otherwise requests would read the netrc file
    session.headers.update({"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"})
    if insecure:  # the user chose it; a warning for each request does not help
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return session


def failure(error: BaseException) -> str:
    """Return why a request got no answer, from the innermost exception of three libraries."""
    if isinstance(error, _LATE):
        return _TIMED_OUT
    if isinstance(error, requests.exceptions.SSLError):
        return (
            f"TLS failed ({_bottom(error)}); check the host name, give the authority's certificate with --ca-bundle, "
            "or, knowing the risk, --insecure"
        )
    bottom = _bottom(error)
    if isinstance(bottom, ConnectionRefusedError):
        return "the connection was refused; is the server running, and the port right?"
    if isinstance(bottom, OSError) and bottom.strerror:
        return f"no connection ({bottom.strerror}); check the address"
    return "the connection broke off before the answer was complete; is the server overloaded?"


def _checked(url: str) -> str:
    """Return the address, with the path /metrics if it has none, as Prometheus does."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        secret = "@" in parts.netloc
    except ValueError:  # a port beyond 65535, an unclosed bracket
        good, secret = False, "@" in url
    if secret:
        raise UsageError("an address of metrics holds no credentials; give a token with --metrics-token-file")
    if not good:
        raise UsageError(f"{url}: not an address of metrics; write it like http://127.0.0.1:9100/metrics")
    return url if parts.path.strip("/") else parts._replace(path="/metrics").geturl()


def _bearer(token: str | None) -> Authorise:
    def authorise(request: requests.PreparedRequest) -> requests.PreparedRequest:
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return request

    return authorise


def _bottom(error: BaseException) -> BaseException:
    """Return the innermost exception."""
    while True:
        below = error.__cause__ or error.__context__
        if below is None:
            return error
        error = below


def _name(line: str) -> str:
    """Return the metric's name; empty for a comment, so that the parser ignores types."""
    match = _NAME.match(line)
    return match[0] if match else ""


def _series(lines: Iterable[str]) -> dict[str, list[tuple[Labels, float]]]:
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families("\n".join(lines)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, float(sample.value)))
    return found
