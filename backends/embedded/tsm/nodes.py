"""The nodes that may sign on at the TSM server, and the keys derived from their passwords.

One idea: the server needs a node's key only, never its password. The store keeps the password of a node that it created
next to the key, in a file that only the store's owner can read, so that the owner can use it. For a node that
changed its password the store has only the key. Keys serve one purpose: to authenticate nodes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from archiver.values.errors import UsageError

from ..core.files.owner_file import read_document, write_for_owner
from ..core.rules.refusals import WriteFailed

FILE_NAME = "nodes.json"
DEFAULT_NAME = "ARCHIVER"
ITERATIONS_MAX = 100_000
SALT_BYTES = 16
PASSWORD_LENGTH_MIN = 8  # of passwords that people choose
_ITERATIONS_OF_CHOSEN_PASSWORDS = 20_000
# Key stretching adds nothing to a random password of 160 bits and would slow every session down.
_ITERATIONS_OF_RANDOM_PASSWORDS = 1
_NAME = re.compile(r"[A-Z0-9_.+&-]{1,64}")


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `password` is None if a client or the store's owner chose it. In the file, bytes are base64."""

    name: str
    salt: bytes
    iterations: int
    key: bytes = field(repr=False)
    password: str | None = field(repr=False)
    password_set_ms: int = 0


@dataclass(frozen=True, slots=True)
class _NodesFile:
    nodes: list[Node]


_NO_FILE = "is not a nodes file; restore it, or delete it to get new nodes"


def key_of(password: str, salt: bytes, iterations: int) -> bytes:
    """Return the key that both sides share. Passwords are case-insensitive in the protocol."""
    return hashlib.pbkdf2_hmac("sha256", password.upper().encode(), salt, iterations)


def mac(key: bytes, purpose: str, *parts: bytes) -> bytes:
    """Return the HMAC-SHA256 of a purpose and its data."""
    return hmac.digest(key, b"archiver-tsm " + purpose.encode() + b"".join(parts), "sha256")


class Nodes:
    """The nodes of one store."""

    def __init__(
        self, folder: Path, requests: Iterable[str] = (), passwords: Mapping[str, str] | None = None, now_ms: int = 0
    ) -> None:
        """Load the nodes and create the default one and the requested ones if they are missing.

        `passwords` has the passwords that requested nodes get, by name. Raises UsageError if one is too short.
        """
        self._folder = folder
        before = load(folder)
        self._nodes = dict(before)
        for name in (DEFAULT_NAME, *map(parse_name, requests)):
            self._nodes.setdefault(name, _invented(name, now_ms))
        for name, password in (passwords or {}).items():
            name = parse_name(name)
            if not _is_password(self._nodes[name], password):
                self._nodes[name] = _chosen(name, password, now_ms)
        if self._nodes != before:
            self._write()

    def get(self, name: bytes) -> Node | None:
        """Return a node by its name, which is case-insensitive."""
        return self._nodes.get(name.decode("ascii", "replace").upper())

    def change_key(self, name: str, salt: bytes, iterations: int, key: bytes, *, now_ms: int) -> None:
        """Set the key of the node's new password. The change is durable when this returns.

        Raises WriteFailed, and then nothing has changed.
        """
        before = self._nodes[name]
        self._nodes[name] = Node(name, salt, iterations, key, None, now_ms)
        try:
            self._write()
        except WriteFailed:
            self._nodes[name] = before
            raise

    def _write(self) -> None:
        write_for_owner(self._folder / FILE_NAME, _NodesFile([*self._nodes.values()]))


def parse_name(text: str) -> str:
    """Return a node's name in upper case. Raises UsageError."""
    name = text.upper()
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"--node {text!r}: a name has 1 to 64 letters, digits or _ - . + &")
    return name


def _is_password(node: Node, password: str) -> bool:
    return hmac.compare_digest(node.key, key_of(password, node.salt, node.iterations))


def _chosen(name: str, password: str, now_ms: int) -> Node:
    if len(password) < PASSWORD_LENGTH_MIN:
        raise UsageError(f"the password of node {name}: it must have at least {PASSWORD_LENGTH_MIN} characters")
    salt = secrets.token_bytes(SALT_BYTES)
    key = key_of(password, salt, _ITERATIONS_OF_CHOSEN_PASSWORDS)
    return Node(name, salt, _ITERATIONS_OF_CHOSEN_PASSWORDS, key, None, now_ms)


def _invented(name: str, now_ms: int) -> Node:
    password = secrets.token_hex(20).upper()
    salt = secrets.token_bytes(SALT_BYTES)
    key = key_of(password, salt, _ITERATIONS_OF_RANDOM_PASSWORDS)
    return Node(name, salt, _ITERATIONS_OF_RANDOM_PASSWORDS, key, password, now_ms)


def load(folder: Path) -> dict[str, Node]:
    """Return the nodes in a store's folder by name; none if the file does not exist. Raises StoreError."""
    found = read_document(folder / FILE_NAME, _NodesFile, _NO_FILE)
    return {each.name: each for each in found.nodes} if found is not None else {}
