"""Examination of a TSM server before a run: what a run would find there, and what its administrator should change.

One idea: it asks what a run asks, in the same way. A sign-on that fails raises the error that a run would raise, which
says what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archiver.values.errors import ArchiverError
from archiver.values.retention import RetentionWish
from archiver.values.sizes import format_duration
from backends.tsm.backend import TsmBackend

_ENCRYPTION = {
    True: "yes",
    False: "no: the data of objects is not encrypted on the way; SSL YES in the stanza encrypts it",
    None: "unknown: dsm.sys cannot be read",
}


@dataclass(frozen=True, slots=True)
class TsmFinding:
    """One answer. ``fix``: what to do about it, "" if nothing."""

    subject: str
    found: str
    fix: str = ""


def examine(backend: TsmBackend) -> list[TsmFinding]:
    """Sign on and return the findings. Archives nothing. Raises PlatformError if the sign-on fails."""
    profile = backend.profile()
    details = profile.details
    library = (
        f"{details['library']}, level {details['library_version']}, ObjAttr {details['library_attributes_version']}"
    )
    node = details["node"]
    return [
        TsmFinding("library", library),
        TsmFinding("server", f"{details['server_name']} {profile.version} ({details['server_type']})"),
        TsmFinding("sign-on", f"as node {node} at {profile.endpoints[0]}"),
        TsmFinding("encryption", _ENCRYPTION[profile.tls]),
        _protection(details),
        _class(backend),
        _rights(details),
        TsmFinding("transaction", f"at most {details['server_objects_per_transaction_max']:,} objects (TXNGROUPMAX)"),
        _space(backend),
    ]


def _protection(details: dict[str, Any]) -> TsmFinding:
    if details["retention_protected"]:
        return TsmFinding("protection", "archive retention protection is on: no client deletes an object early")
    return TsmFinding(
        "protection",
        "archive retention protection is off: whoever may delete archives may do so early",
        "set archiveretentionprotection on, on a server that holds no data",
    )


def _class(backend: TsmBackend) -> TsmFinding:
    try:
        retention = backend.retention_for(RetentionWish())
    except ArchiverError as refused:
        return TsmFinding("class", "no run may use it", str(refused))
    kept = format_duration(retention.retain_for_seconds or 0)
    return TsmFinding("class", f"{retention.management_class} keeps objects {kept} from archiving on")


def _rights(details: dict[str, Any]) -> TsmFinding:
    if details["may_delete_archives"]:
        return TsmFinding("rights", "the node may delete its archives")
    fix = f"update node {details['node']} archdelete=yes"
    return TsmFinding("rights", "the node may not delete archives, so clean-up cannot", fix)


def _space(backend: TsmBackend) -> TsmFinding:
    name = backend.options.space
    if name is None:
        return TsmFinding("file space", "each run makes one of its own")
    return TsmFinding("file space", f"{name} {'exists' if backend.space_exists else 'will be made by the run'}")
