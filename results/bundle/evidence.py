"""Evidence: one JSON file with every observation of a conformance run, and the hash of each part.

A recipient can check years later, without this project, that nothing in it was changed. The manifest names every part
with its SHA-256. The evidence's hash, its signature and its timestamp cover the manifest.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archiver.values.errors import ResultsError
from archiver.values.platform import PlatformProfile
from results.bundle.attestations import Attestations
from results.recorded.run import RecordedRun
from results.worm.findings import DISCLAIMER, worm_document

FORMAT = "archiver-bundle-1"


def make_evidence(recorded: RecordedRun) -> dict[str, Any]:
    """Return the evidence of a conformance run. Raises ResultsError for a run without checks."""
    run, checks = recorded.run, recorded.checks
    if not checks:
        raise ResultsError(f"{recorded.path}: this run made no conformance checks; make one with: archiver worm")
    parts: dict[str, Any] = {
        "run": {
            name: getattr(run, name) for name in ("id", "started_at", "ended_at", "command_line", "backend", "host")
        },
        "summary": worm_document(run.platform, run.id, checks, recorded.rounds),
    }
    for check in checks:
        parts[f"checks/{check.name}"] = {"check": asdict(check), "exchanges": recorded.exchanges(check)}
    manifest = {name: _hash_of(part) for name, part in parts.items()}
    return {
        "format": FORMAT,
        "disclaimer": DISCLAIMER,
        "sha256": _hash_of(manifest),
        "manifest": manifest,
        "parts": parts,
    }


def attested(evidence: Mapping[str, Any], attest: Callable[[bytes], Attestations]) -> dict[str, Any]:
    """Return the evidence with the attestations that ``attest`` makes of its manifest."""
    made = attest(manifest_text(evidence))
    found = dict(evidence)
    if made.signature is not None:
        found["signature"] = made.signature.decode()
    if made.timestamp is not None:
        found["timestamp"] = base64.b64encode(made.timestamp).decode()
    return found


def attestations_of(evidence: Mapping[str, Any]) -> Attestations:
    """Return the attestations in an evidence, not checked. Raises ResultsError for unreadable ones."""
    signature, timestamp = evidence.get("signature"), evidence.get("timestamp")
    try:
        return Attestations(
            None if signature is None else signature.encode(),
            None if timestamp is None else base64.b64decode(timestamp, validate=True),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise ResultsError(f"its signature or timestamp is unreadable: {error}") from error


def manifest_text(evidence: Mapping[str, Any]) -> bytes:
    """Return the bytes that the evidence's hash, signature and timestamp cover."""
    return _canonical(evidence["manifest"])


def evidence_text(evidence: Mapping[str, Any]) -> str:
    """Return the evidence as the text of its file."""
    return json.dumps(evidence, indent=1, ensure_ascii=False) + "\n"


def write_evidence(evidence: Mapping[str, Any], path: Path) -> None:
    """Write the evidence, never over another file. Raises ResultsError."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(evidence_text(evidence))
    except FileExistsError as there:
        raise ResultsError(f"{path} already exists; name another file") from there
    except OSError as failed:
        raise ResultsError(f"{path}: cannot be written: {failed.strerror}") from failed


def verify_evidence(path: Path) -> dict[str, Any]:
    """Return the evidence in a file after checking every hash. Raises ResultsError naming each changed part."""
    try:
        return whole_evidence(path.read_bytes(), str(path))
    except OSError as failed:
        raise ResultsError(f"{path}: cannot be read: {failed.strerror}") from failed


def whole_evidence(content: bytes, where: str) -> dict[str, Any]:
    """Return the evidence in these bytes after checking every hash.

    ``where`` is their source, for messages. Raises ResultsError naming each changed part.
    """
    try:
        evidence = json.loads(content)
    except (ValueError, RecursionError) as failed:
        raise ResultsError(f"{where}: is not readable evidence: {failed}") from failed
    if not isinstance(evidence, dict) or evidence.get("format") != FORMAT:
        raise ResultsError(f"{where}: is not evidence in the format {FORMAT}")
    manifest, parts = evidence.get("manifest"), evidence.get("parts")
    if not isinstance(manifest, dict) or not isinstance(parts, dict):
        raise ResultsError(f"{where}: has no manifest or no parts")
    wrong = [f"{name} was changed" for name in manifest if name in parts and _hash_of(parts[name]) != manifest[name]]
    wrong += [f"{name} is missing" for name in manifest.keys() - parts.keys()]
    wrong += [f"{name} is not in the manifest" for name in parts.keys() - manifest.keys()]
    if _hash_of(manifest) != evidence.get("sha256"):
        wrong.append("the manifest was changed")
    if wrong:
        raise ResultsError(f"{where}: was changed since it was written: {'; '.join(sorted(wrong))}")
    return evidence


def check_same_platform(platform: PlatformProfile, evidence: Mapping[str, Any]) -> None:
    """Raise ResultsError if conformance evidence is for another platform than the run's."""
    try:
        checked = evidence["parts"]["summary"]["platform"]
        seen = checked["name"], checked.get("version")
    except (KeyError, TypeError, AttributeError) as missing:
        raise ResultsError("the conformance evidence does not name its platform") from missing
    measured = platform.name, platform.version
    if measured != seen:
        raise ResultsError(
            f"the conformance evidence is of {_named(*seen)}, but the run measured {_named(*measured)}: the evidence "
            "proves nothing about that platform"
        )


def _named(name: str, version: str | None) -> str:
    return f"{name} {version}" if version is not None else f"{name} (version unknown)"


def _hash_of(value: Any) -> str:
    return hashlib.sha256(_canonical(value)).hexdigest()


def _canonical(value: Any) -> bytes:
    """Return the value's JSON with sorted keys and no spaces. RFC 8785 orders these values in the same way."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
