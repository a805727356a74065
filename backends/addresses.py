"""Recognises addresses of this machine, that is, a platform on the same host."""

from __future__ import annotations

from ipaddress import ip_address

import psutil


def is_own_address(address: str) -> bool:
    """Return whether it is a loopback address or an address of one of this machine's interfaces."""
    parsed = ip_address(address)
    own = {entry.address.partition("%")[0] for entries in psutil.net_if_addrs().values() for entry in entries}
    return parsed.is_loopback or str(parsed) in own
