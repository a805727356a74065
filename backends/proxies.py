"""HTTP proxies that the environment names: which of its variables would send a request through one.

One idea: nothing is measured through a proxy. Its caches, its connections and its errors would be taken for the
platform's.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from urllib.parse import urlsplit

from requests.utils import should_bypass_proxies

from archiver.values.errors import UsageError


def is_loopback_host(host: str) -> bool:
    """True for a loopback address and for localhost, which no proxy reaches."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def proxy_variable(url: str) -> str | None:
    """Return the variable whose proxy would carry a request for this URL; None where it goes direct: without such a
    variable, by NO_PROXY, or on this host."""
    parts = urlsplit(url)
    if is_loopback_host(parts.hostname or "") or should_bypass_proxies(url, no_proxy=None):
        return None
    names = (f"{parts.scheme}_proxy", f"{parts.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    return next((name for name in names if os.environ.get(name)), None)


def refuse_proxy(url: str) -> None:
    """Raise UsageError where a proxy would carry what is sent to this endpoint."""
    variable = proxy_variable(url)
    if variable is not None:
        raise UsageError(
            f"{url}: {variable} names a proxy for this endpoint, which would be measured with it; add "
            f"{urlsplit(url).hostname} to NO_PROXY, or ignore proxies with --direct"
        )
