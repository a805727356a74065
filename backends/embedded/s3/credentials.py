"""Credentials of the S3 server: access keys, their secrets, and the rights that some of them lack.

One idea: the store creates its own credentials on first use and keeps them in one file that only its owner can read. A
secret is used for two purposes only: to check a signature and to write that file. It is never printed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from archiver.values.errors import UsageError

from ..core.files.owner_file import read_document, write_for_owner

FILE_NAME = "credentials.json"
DEFAULT_NAME = "default"

# The rights that a credential may lack: the word on the command line, and Amazon's names of the permissions.
RIGHTS = {
    "bypass": "s3:BypassGovernanceRetention",
    "retention": "s3:PutObjectRetention",
    "hold": "s3:PutObjectLegalHold",
    "delete": "s3:DeleteObject, s3:DeleteObjectVersion",
}


@dataclass(frozen=True, slots=True)
class Credential:
    name: str
    access_key: str
    secret_key: str = field(repr=False)
    without: frozenset[str]  # required in the file, so that a misspelt name grants no right

    def may(self, right: str) -> bool:
        return right not in self.without


@dataclass(frozen=True, slots=True)
class _CredentialsFile:
    credentials: list[Credential]


_NO_FILE = "is not a credentials file; restore it, or delete it to get new credentials"


def parse_request(text: str) -> tuple[str, frozenset[str]]:
    """Parse the name and the missing rights of `NAME[:without=bypass,retention,hold,delete]`. Raises UsageError."""
    name, colon, rest = text.partition(":")
    option, _, values = rest.partition("=")
    without = frozenset(value.strip() for value in values.split(",") if value.strip())
    if not name or not name.isprintable() or (colon and (option != "without" or not without)):
        raise UsageError(f"--credential {text!r}: write NAME or NAME:without=bypass,retention,hold,delete")
    unknown = without - RIGHTS.keys()
    if unknown:
        raise UsageError(f"--credential {text!r}: no right is called {min(unknown)!r}; there are: {', '.join(RIGHTS)}")
    return name, without


def load(folder: Path) -> dict[str, Credential]:
    """Return the credentials in a store's folder by name; none if the file does not exist. Raises StoreError."""
    found = read_document(folder / FILE_NAME, _CredentialsFile, _NO_FILE)
    return {each.name: each for each in found.credentials} if found is not None else {}


def ensure(folder: Path, requests: Iterable[str] = ()) -> dict[str, Credential]:
    """Load the credentials and create the default one and the requested ones if they are missing.

    A request for an existing name keeps its keys and replaces its rights. Raises UsageError, StoreError or WriteFailed.
    """
    wanted: Mapping[str, frozenset[str]] = dict(map(parse_request, requests))
    existing = load(folder)
    changed = dict(existing)
    for name, without in {**({} if DEFAULT_NAME in existing else {DEFAULT_NAME: frozenset()}), **wanted}.items():
        old = existing.get(name)
        changed[name] = Credential(
            name,
            old.access_key if old else "ARCH" + secrets.token_hex(8).upper(),
            old.secret_key if old else secrets.token_urlsafe(30),
            without,
        )
    if changed != existing:
        write_for_owner(folder / FILE_NAME, _CredentialsFile([*changed.values()]))
    return changed
