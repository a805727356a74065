"""Addresses of this machine: whether a platform shares it with us."""

from __future__ import annotations

from ipaddress import ip_address

import psutil


def is_own_address(address: str) -> bool:
    """True for a loopback address and for one of this machine's interfaces."""
    parsed = ip_address(address)
    own = {entry.address.partition("%")[0] for entries in psutil.net_if_addrs().values() for entry in entries}
    return parsed.is_loopback or str(parsed) in own
