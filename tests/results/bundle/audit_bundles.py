"""Unpack audit bundles, and make changed ones from their files, with or without a matching manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from zipfile import ZipFile

from results.bundle.audit import MANIFEST


def unpacked(path: Path) -> dict[str, bytes]:
    """Return the contents of every file of a bundle, by name."""
    with ZipFile(path) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist()}


def packed(path: Path, contents: Mapping[str, bytes] | Iterable[tuple[str, bytes]]) -> Path:
    """Write a ZIP file with exactly these files."""
    with ZipFile(path, "w") as bundle:
        for name, content in contents.items() if isinstance(contents, Mapping) else contents:
            bundle.writestr(name, content)
    return path


def with_manifest(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return these files with a manifest that matches them, as a forger who knows the format would write it."""
    manifest = json.loads(contents[MANIFEST])
    others = sorted((name, content) for name, content in contents.items() if name != MANIFEST)
    manifest["files"] = [
        {"bytes": len(content), "name": name, "sha256": hashlib.sha256(content).hexdigest()} for name, content in others
    ]
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {MANIFEST: text.encode(), **dict(others)}


def flipped(content: bytes, place: int) -> bytes:
    """Return the content with one bit of the byte at ``place`` flipped."""
    changed = bytearray(content)
    changed[place] ^= 1 << place % 8
    return bytes(changed)
