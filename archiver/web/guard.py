"""Access to the pages: a request needs the token in its path and this server's Host, and no other site sent it.

One idea: the token is in the path and not in a cookie. Browsers send cookies to every port of a host, so other servers
of this machine would receive a cookie. No other server receives the path, and without it no other site can form an
address.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

TOKEN_BYTES = 24  # 192 random bits
_OWN_SITE = ("same-origin", "none")  # Sec-Fetch-Site of links in the pages, and of an address that the user types
_LOOPBACK_NAMES = ("localhost",)

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# A page that a command made as one file, including its style and script. The sandbox gives it an origin of its own,
# from which it can read no other page and send nothing.
DOCUMENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": PAGE_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the path has the token
    "X-Content-Type-Options": "nosniff",
}


def new_token() -> str:
    """Return a random token for one start of the server."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address to listen on."""
    if host in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def guard(token: str, host: str) -> Middleware:
    """Return the middleware that refuses every request that may not read the pages of a server on ``host``."""
    names = _LOOPBACK_NAMES if is_loopback(host) else (*_LOOPBACK_NAMES, host, socket.gethostname(), socket.getfqdn())

    def refusal(request: web.Request) -> str | None:
        if not _is_own_host(request.headers.get("Host", ""), names, only_loopback=is_loopback(host)):
            return "The Host header names another server. Use the address that archiver web printed."
        if not _is_own_site(request):
            return "Another site sent this request. Copy the address into the address bar."
        given = request.path.split("/", 2)[1]
        if not hmac.compare_digest(given.encode(), token.encode()):
            return "The token in the address is missing or wrong. Use the address that archiver web printed."
        return None

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not request.raw_path.startswith("/"):  # of OPTIONS *, CONNECT, or a request to a proxy
            raise web.HTTPBadRequest(text="The target of the request is not a path of this server.\n")
        reason = refusal(request)
        if reason is not None:
            raise web.HTTPForbidden(text=f"{reason}\n")
        return await handler(request)

    return check


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Add the default headers to a page, without replacing its own."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _is_own_host(header: str, names: tuple[str, ...], *, only_loopback: bool) -> bool:
    """Return whether a Host header names this server, with any port: an SSH tunnel has a port of its own.

    Another site can make a name that it owns point here (DNS rebinding), but not a numeric address.
    """
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(name).is_loopback or not only_loopback
    except ValueError:
        return name in {each.lower() for each in names}


def _is_own_site(request: web.Request) -> bool:
    """Return whether no other site sent the request, as far as the browser reports it."""
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{request.headers.get('Host', '')}":
        return False
    return request.headers.get("Sec-Fetch-Site", "none") in _OWN_SITE
