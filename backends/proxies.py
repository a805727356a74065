"""HTTP proxies of the environment: which variable would send a request through one.

One idea: measurements never use a proxy. Its caches, connections and errors would be taken for the platform's.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from urllib.parse import urlsplit

from archiver.values.errors import UsageError


def is_loopback_host(host: str) -> bool:
    """Return whether it is a loopback address or localhost, which no proxy reaches."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def proxy_variable(url: str) -> str | None:
    """Return the variable whose proxy would carry a request for this URL.

    Returns None if the request goes direct: without such a variable, by NO_PROXY, or on this host.
    """
    parts = urlsplit(url)
    names = (f"{parts.scheme}_proxy", f"{parts.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    variable = next((name for name in names if os.environ.get(name)), None)
    if variable is None or is_loopback_host(parts.hostname or ""):
        return None
    from requests.utils import should_bypass_proxies  # loading takes 0.1 s, and few environments name a proxy

    return None if should_bypass_proxies(url, no_proxy=None) else variable


def refuse_proxy(url: str) -> None:
    """Raise UsageError if a proxy would carry requests to this endpoint."""
    variable = proxy_variable(url)
    if variable is not None:
        raise UsageError(
            f"{url}: {variable} names a proxy for this endpoint, which would be measured with it; add "
            f"{urlsplit(url).hostname} to NO_PROXY, or ignore proxies with --direct"
        )
