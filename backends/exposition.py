"""Metrics that a server exposes as Prometheus text, read from one address.

One idea: a read ends within SECONDS_MAX whatever the server does, and either gives the series asked for by their names
on the wire or says in one sentence why not. What a name means is the caller's business: the types that a page declares
are not looked at, because servers get them wrong (MinIO declares its distributions gauges and some counters without
the suffix of one).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from threading import Thread
from urllib.parse import urlsplit

import requests
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from archiver.values.errors import UsageError
from backends.proxies import is_loopback_host
from backends.s3.endpoints import tls_context

WAIT_SECONDS = 2.0  # to connect, and between two pieces of an answer
SECONDS_MAX = 4.0  # for a whole read: a server that sends a byte now and then is not waited for
PAGE_BYTES_MAX = 16 << 20
_PIECE_BYTES = 1 << 16
_SHOWN_CHARACTERS = 40
_TIMED_OUT = "timed out; is the server overloaded, or the address that of another service?"
_LATE = (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?=[{ \t])")

Labels = Mapping[str, str]
Series = Mapping[str, Sequence[tuple[Labels, float]]]  # metric name -> its series
Authorise = Callable[[requests.PreparedRequest], requests.PreparedRequest]


class ScrapeError(Exception):
    """The address gave no metrics; the message, one sentence, says which address, why and what to do."""

    def __init__(self, url: str, reason: str, status: int | None = None) -> None:
        super().__init__(f"{url}: {reason}")
        self.reason = reason  # and what to do, without the address
        self.status = status  # of the HTTP answer, where that was the reason


class MetricsAddress:
    """One page of metrics. Its connection is kept from read to read."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        ca_bundle: str | None = None,
        insecure: bool = False,
        direct: bool = False,
    ) -> None:
        """``direct``: whatever proxies the environment names. Raises UsageError for what is no address of metrics."""
        self.url = _checked(url)
        if url.startswith("https") and ca_bundle and not insecure:
            tls_context(ca_bundle, insecure)  # a bundle that cannot be read is refused here, by name
        self._verify: bool | str = False if insecure else (ca_bundle or True)
        self._session = session_to(self.url, insecure=insecure, direct=direct)
        self._session.auth = _bearer(token)
        self._token = token
        self._asked: Future[bytes] | None = None  # what the last read gets, by now or some time

    def scrape(self, names: Collection[str]) -> Series:
        """The series of these names that are there now. Raises ScrapeError."""
        text = self._page().decode("utf-8", "replace")
        try:
            found = _series(line for line in text.split("\n") if _name(line) in names)
            if not found:
                _series(text.split("\n"))  # other metrics, or none at all?
            found = {name: series for name, series in found.items() if name in names}  # it takes blanks for names, too
        except (ValueError, IndexError) as error:
            raise ScrapeError(
                self.url,
                f"what came back is not Prometheus text but {self._shown(text)}; is this the address of the metrics?",
            ) from error
        return found

    def _page(self) -> bytes:
        # In a thread of its own, because nothing else bounds how long a name server or an answer's head may take. One
        # that hangs on is left alone, but not joined by another.
        if self._asked is not None and not self._asked.done():
            raise ScrapeError(self.url, "the server is still sending its previous answer; is it overloaded?")
        page: Future[bytes] = Future()
        self._asked = page

        def ask() -> None:
            try:
                page.set_result(self._fetch())
            except BaseException as error:  # noqa: BLE001 - raised below
                page.set_exception(error)

        Thread(target=ask, name="metrics", daemon=True).start()
        try:
            return page.result(SECONDS_MAX)
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
        """The first characters, without the token, which a server may echo."""
        return repr((text.replace(self._token, "...") if self._token else text)[:_SHOWN_CHARACTERS])


def session_to(url: str, *, insecure: bool, direct: bool) -> requests.Session:
    """A session without the proxies that the environment names where it is ``direct``, or asks what is on this host."""
    session = requests.Session()
    session.trust_env = not (direct or is_loopback_host(urlsplit(url).hostname or ""))
    session.auth = _bearer(None)  # else the environment's netrc would be asked
    session.headers.update({"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"})
    if insecure:  # the user has said so; to be told at each request is no help
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return session


def failure(error: BaseException) -> str:
    """Why a request got no answer, from what lies at the bottom of the exceptions of three libraries."""
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
    """The address, with the path /metrics where it has none, as Prometheus does."""
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
    """The exception that began it."""
    while True:
        below = error.__cause__ or error.__context__
        if below is None:
            return error
        error = below


def _name(line: str) -> str:
    """Of the metric; none for a comment, so that the parser believes no type."""
    match = _NAME.match(line)
    return match[0] if match else ""


def _series(lines: Iterable[str]) -> dict[str, list[tuple[Labels, float]]]:
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families("\n".join(lines)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, float(sample.value)))
    return found
