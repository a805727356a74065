"""Small JSON files in a store's folder, some with secrets. Writes are atomic and durable; only the owner can read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from archiver.values.errors import StoreError

from ..rules.refusals import WriteFailed
from .segments import sync_folder

Entry = TypeVar("Entry")


def read_entries(path: Path, list_name: str, entry_of: Callable[[Any], Entry]) -> list[Entry]:
    """Return the entries of the document's one list; empty if the file does not exist. Raises StoreError."""
    try:
        return [entry_of(each) for each in json.loads(path.read_text("utf-8"))[list_name]]
    except FileNotFoundError:
        return []
    except OSError as failed:
        raise StoreError(f"{path} cannot be read: {failed.strerror}") from failed
    except (ValueError, KeyError, TypeError):
        # The parser's own message could quote a secret.
        raise StoreError(f"{path} is not a {list_name} file; restore it, or delete it to get new {list_name}") from None


def write_for_owner(path: Path, document: dict[str, Any]) -> None:
    """Replace a JSON file atomically: after a crash the old document or the new one exists, whole.

    Raises WriteFailed, and then the old document is unchanged.
    """
    try:
        _write(path, document)
    except OSError as failed:
        raise WriteFailed(f"{path} cannot be written: {failed}") from failed


def _write(path: Path, document: dict[str, Any]) -> None:
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)
