"""Endpoints: URLs, host ranges, addresses and TLS."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from archiver.values.errors import PlatformError, PlatformGone, UsageError
from backends.addresses import is_own_address
from backends.s3.wire.connection import Endpoint

PROBES_AT_ONCE = 32  # endpoints whose addresses are tried concurrently
_RANGE = re.compile(r"\{(\d+)\.\.\.(\d+)\}")


def expand(url: str, origin: str = "--endpoint") -> list[str]:
    """Return the four URLs of ``http://host{1...4}:9000``, or any other URL itself.

    Raises UsageError with the ``origin`` for an invalid URL.
    """
    if "@" in url:
        raise UsageError(f"{origin}: credentials do not belong in an endpoint; use AWS_ACCESS_KEY_ID or a profile")
    match = _RANGE.search(url)
    if match is not None:
        first, last = int(match[1]), int(match[2])
        if last < first or last - first > 1000:
            raise UsageError(f"{origin} {url}: the range {match[0]} must rise and span at most 1000 hosts")
        return [
            expanded
            for number in range(first, last + 1)
            for expanded in expand(url[: match.start()] + str(number) + url[match.end() :], origin)
        ]
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port beyond 65535, an unclosed bracket
        good = False
    if not good:
        raise UsageError(f"{origin} {url}: not an endpoint; write it like http://127.0.0.1:9000")
    if parts.path.strip("/") or parts.query:
        raise UsageError(f"{origin} {url}: an endpoint has no path; name the bucket with --bucket")
    return [url.rstrip("/")]


def tls_context(ca_bundle: str | None, insecure: bool) -> ssl.SSLContext:
    """Return the TLS settings of every HTTPS endpoint: verified, unless the user chose --insecure."""
    if insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        return ssl.create_default_context(cafile=ca_bundle)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--ca-bundle {ca_bundle}: cannot be read as PEM certificates: {error}") from error


def tls_of(urls: Iterable[str], ca_bundle: str | None, insecure: bool) -> ssl.SSLContext | None:
    """Return the TLS settings of these endpoints; None if all are HTTP: loading the system's certificates takes 30 ms.

    Raises UsageError, as ``tls_context`` does.
    """
    return tls_context(ca_bundle, insecure) if any(map(_is_https, urls)) else None


class Addresses(NamedTuple):
    """The addresses of an endpoint's name: those that accept connections, and the others."""

    answering: tuple[str, ...]
    silent: tuple[str, ...] = ()


def is_this_host(addresses: Iterable[str]) -> bool:
    """Return whether one of an endpoint's addresses is this machine's."""
    return any(map(is_own_address, addresses))


def find_addresses(urls: Sequence[str], timeout_seconds: float, bucket: str | None = None) -> dict[str, Addresses]:
    """Look up each endpoint's name, and test which of its addresses accept connections if it has several.

    With ``bucket``, the name is that of the bucket's host. IPv6 addresses are tried if no IPv4 address answers: names
    like localhost have both, and often only IPv4 is served. If no address answers, all of the first kind are returned
    as answering, so that their users get the error. Raises PlatformError for an unknown host.
    """
    with ThreadPoolExecutor(PROBES_AT_ONCE) as probes:
        return dict(zip(urls, probes.map(lambda url: _find(url, timeout_seconds, bucket), urls), strict=True))


def _find(url: str, timeout_seconds: float, bucket: str | None) -> Addresses:
    kinds, port = _look_up(url, bucket), _port(url)
    if len(kinds) == 1 and len(kinds[0]) == 1:
        return Addresses(kinds[0])
    silent: list[str] = []
    for kind in kinds:
        with ThreadPoolExecutor(len(kind)) as probes:
            taken = list(probes.map(lambda address: _answers(address, port, timeout_seconds), kind))
        silent += [address for address, answers in zip(kind, taken, strict=True) if not answers]
        if any(taken):
            answering = [address for address, answers in zip(kind, taken, strict=True) if answers]
            return Addresses(tuple(answering), tuple(silent))
    return Addresses(kinds[0])


def _answers(address: str, port: int, timeout_seconds: float) -> bool:
    try:
        with socket.create_connection((address, port), timeout_seconds):
            return True
    except OSError:
        return False


def check_name(url: str) -> None:
    """Raise PlatformGone if the host name of an endpoint is unknown."""
    _look_up(url, None)


def _look_up(url: str, bucket: str | None) -> list[tuple[str, ...]]:
    """Return the addresses of an endpoint's name in the resolver's order: IPv4, then IPv6, without empty kinds."""
    host = _host(url, bucket)
    try:
        found = socket.getaddrinfo(host, _port(url), type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:  # UnicodeError: a label is empty or too long
        if bucket is not None:
            raise PlatformError(
                f"{url}: the host name {host} of a bucket is unknown ({error}); have every name under it resolved, or "
                "name buckets in the path: --addressing path"
            ) from error
        raise PlatformGone(f"{url}: the host name is unknown ({error}); check --endpoint") from error
    kinds = ([entry for entry in found if (entry[0] == socket.AF_INET) is wanted] for wanted in (True, False))
    return [tuple(dict.fromkeys(str(entry[4][0]) for entry in kind)) for kind in kinds if kind]


def _host(url: str, bucket: str | None) -> str:
    host = urlsplit(url).hostname
    assert host is not None
    return host if bucket is None else f"{bucket}.{host}"


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _is_https(url: str) -> bool:
    return urlsplit(url).scheme == "https"


def resolve(
    url: str, tls: ssl.SSLContext | None, addresses: Sequence[str] = (), bucket: str | None = None
) -> list[Endpoint]:
    """Return where sessions connect: one endpoint for each address. Without addresses the name is looked up once.

    ``bucket`` is given if the host names it. Raises PlatformError for an unknown host.
    """
    own_tls = tls if _is_https(url) else None
    return [
        Endpoint(url, _host(url, bucket), address, _port(url), own_tls)
        for address in addresses or _look_up(url, bucket)[0]
    ]
