"""Endpoints: URLs as users write them, host ranges, addresses and TLS."""

from __future__ import annotations

import re
import socket
import ssl
from urllib.parse import urlsplit

from archiver.errors import PlatformError, UsageError
from backends.addresses import is_own_address
from backends.s3.connection import Endpoint

_RANGE = re.compile(r"\{(\d+)\.\.\.(\d+)\}")


def expand(url: str, origin: str = "--endpoint") -> list[str]:
    """``http://host{1...4}:9000`` as four URLs; any other URL as itself. Raises UsageError, naming the ``origin``, for
    what is no URL."""
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
    """The TLS settings of every HTTPS endpoint: verified unless the user said --insecure."""
    if insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        return ssl.create_default_context(cafile=ca_bundle)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--ca-bundle {ca_bundle}: cannot be read as PEM certificates: {error}") from error


def is_this_host(url: str) -> bool:
    """True where the endpoint is an address of this machine. Raises PlatformError for an unknown host."""
    return is_own_address(resolve(url, None).address)


def resolve(url: str, tls: ssl.SSLContext | None) -> Endpoint:
    """Look the host up once, so that no session pays for it. Raises PlatformError for an unknown host."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:  # the second: a label that is empty or too long
        raise PlatformError(f"{url}: the host name is unknown ({error}); check --endpoint") from error
    # Sessions connect to one address, without falling back to others; IPv4 is the one that is served where a name like
    # localhost has both.
    first = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return Endpoint(url, parts.hostname, str(first[4][0]), port, tls if secure else None)
