"""A bundle: one JSON file with everything a conformance run saw, and the hash of each part.

One idea: whoever receives it can check, years later and without us, that nothing in it was changed: the manifest names
every part with its SHA-256, and the bundle's own hash is of the manifest alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archiver.errors import ResultsError
from results.database import RunDatabase
from results.worm import DISCLAIMER, worm_document

FORMAT = "archiver-bundle-1"


def make_bundle(database: RunDatabase) -> dict[str, Any]:
    """The bundle of a conformance run. Raises ResultsError for a run that checked nothing."""
    run, checks = database.run(), database.checks()
    if not checks:
        raise ResultsError(f"{database.path}: this run made no conformance checks; make one with: archiver worm")
    parts: dict[str, Any] = {
        "run": {name: run[name] for name in ("id", "started_at", "ended_at", "command_line", "backend", "host")},
        "summary": worm_document(run["platform"], run["id"], checks, database.rounds()),
    }
    for check in checks:
        parts[f"checks/{check.name}"] = {"check": asdict(check), "exchanges": database.exchanges(check)}
    manifest = {name: _hash_of(part) for name, part in parts.items()}
    return {
        "format": FORMAT,
        "disclaimer": DISCLAIMER,
        "sha256": _hash_of(manifest),
        "manifest": manifest,
        "parts": parts,
    }


def write_bundle(bundle: Mapping[str, Any], path: Path) -> None:
    """Write it, never over another. Raises ResultsError."""
    try:
        with path.open("x", encoding="utf-8") as file:
            json.dump(bundle, file, indent=1, ensure_ascii=False)
            file.write("\n")
    except FileExistsError as there:
        raise ResultsError(f"{path} is there already; name another file") from there
    except OSError as failed:
        raise ResultsError(f"{path}: cannot be written: {failed.strerror}") from failed


def verify_bundle(path: Path) -> dict[str, Any]:
    """The bundle in a file, every hash checked again. Raises ResultsError naming each part that is not as it was."""
    try:
        bundle = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failed:
        raise ResultsError(f"{path}: is no readable bundle: {failed}") from failed
    if not isinstance(bundle, dict) or bundle.get("format") != FORMAT:
        raise ResultsError(f"{path}: is no bundle of the form {FORMAT}")
    manifest, parts = bundle.get("manifest"), bundle.get("parts")
    if not isinstance(manifest, dict) or not isinstance(parts, dict):
        raise ResultsError(f"{path}: has no manifest or no parts")
    wrong = [f"{name} was changed" for name in manifest if name in parts and _hash_of(parts[name]) != manifest[name]]
    wrong += [f"{name} is missing" for name in manifest.keys() - parts.keys()]
    wrong += [f"{name} is not in the manifest" for name in parts.keys() - manifest.keys()]
    if _hash_of(manifest) != bundle.get("sha256"):
        wrong.append("the manifest was changed")
    if wrong:
        raise ResultsError(f"{path}: is not what was written: {'; '.join(sorted(wrong))}")
    return bundle


def _hash_of(value: Any) -> str:
    """SHA-256 of the value's JSON with sorted keys and no spaces (as RFC 8785 orders it, for what is in here)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
