"""Files with secrets in a store's folder: whole, durable, and readable by their owner only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .segments import sync_folder


def write_for_owner(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON document in place of the one that is there; after a crash there is the old one or this one."""
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
