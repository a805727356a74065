"""Small JSON files in a store's folder, some with secrets. Writes are atomic and durable; only the owner can read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from archiver.values.errors import StoreError
from archiver.values.typed import typed_json

from ..rules.refusals import WriteFailed
from .segments import sync_folder

Document = TypeVar("Document")

_encoder = msgspec.json.Encoder(order="deterministic")


def read_document(path: Path, kind: type[Document], otherwise: str) -> Document | None:
    """Return a file's document; None if the file does not exist.

    Raises StoreError, with `otherwise` after the file's name if it has no document of this kind.
    """
    try:
        return typed_json(path.read_bytes(), kind)
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise StoreError(f"{path} cannot be read: {failed.strerror}") from failed
    except msgspec.MsgspecError:
        # The parser's own message could quote a secret.
        raise StoreError(f"{path} {otherwise}") from None


def write_for_owner(path: Path, document: object) -> None:
    """Replace a JSON file atomically: after a crash the old document or the new one exists, whole.

    Raises WriteFailed, and then the old document is unchanged.
    """
    try:
        _write(path, document)
    except (OSError, UnicodeError) as failed:  # UnicodeError: a path that is not UTF-8
        raise WriteFailed(f"{path} cannot be written: {failed}") from failed


def _write(path: Path, document: object) -> None:
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(msgspec.json.format(_encoder.encode(document), indent=1) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)
