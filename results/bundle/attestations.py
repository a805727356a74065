"""Attestations of a bundle: a signature and a timestamp of its manifest.

Both cover exactly the bytes whose SHA-256 is published. A signature proves who vouches for the contents. A timestamp
proves that they existed at that time. Neither proves that the measurement was honest. One file is enough for
verification, and the published hash is the same with and without them. ssh-keygen and rfc3161-client do the
cryptography.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from archiver.values.errors import ResultsError
from results.bundle.signature import sign, signer_of

BYTES_MAX = 64 << 10  # of a signature, and of a timestamp


@dataclass(frozen=True, slots=True)
class Attestations:
    """A signature in OpenSSH's armoured form, and a response of a time-stamping authority. None: missing."""

    signature: bytes | None = None
    timestamp: bytes | None = None


@dataclass(frozen=True, slots=True)
class Trusted:
    """The files that the reader trusts. Each given file requires its attestation.

    ``signer`` has public keys or allowed signers. ``authority`` has root certificates of a time-stamping authority.
    """

    signer: Path | None = None
    authority: Path | None = None


@dataclass(frozen=True, slots=True)
class AttestationFindings:
    """The result of checking attestations, in sentences."""

    wrong: tuple[str, ...]
    confirmed: tuple[str, ...]
    not_checked: tuple[str, ...]  # attestations for which the reader gave no trusted file


def attest(manifest: bytes, *, key: Path | None = None, authority_url: str | None = None) -> Attestations:
    """Sign a manifest with ``key`` and have it time-stamped at ``authority_url``, each if it is given.

    Raises UsageError and PlatformError.
    """
    timestamp = None
    if authority_url is not None:
        from results.bundle.timestamp import request_timestamp

        timestamp = request_timestamp(manifest, authority_url, BYTES_MAX)
    return Attestations(sign(manifest, key) if key is not None else None, timestamp)


def check_attestations(manifest: bytes, attested: Attestations, trusted: Trusted) -> AttestationFindings:
    """Check the attestations of a manifest. A missing required attestation is an error. Raises UsageError."""
    checks: tuple[tuple[str, str, bytes | None, Path | None, Callable[[bytes, bytes, Path], str]], ...] = (
        ("signature", "--signer", attested.signature, trusted.signer, _signed),
        ("timestamp", "--timestamp-certificate", attested.timestamp, trusted.authority, _stamped),
    )
    wrong, confirmed, not_checked = [], [], []
    for name, option, content, trust, check in checks:
        if trust is None:
            not_checked += [] if content is None else [f"its {name}, which proves nothing without {option} FILE"]
        elif content is None:
            wrong.append(f"it has no {name}, and {option} requires one")
        else:
            try:
                confirmed.append(check(manifest, content, trust))
            except ResultsError as error:
                wrong.append(f"its {name} {error}")
    return AttestationFindings(tuple(wrong), tuple(confirmed), tuple(not_checked))


def _signed(manifest: bytes, signature: bytes, signers: Path) -> str:
    return f"signed by {signer_of(manifest, signature, signers)}, whose owner vouches for these contents"


def _stamped(manifest: bytes, timestamp: bytes, certificate: Path) -> str:
    from results.bundle.timestamp import stamped_at

    instant = f"{stamped_at(manifest, timestamp, certificate):%Y-%m-%dT%H:%M:%SZ}"
    return f"existed at {instant} by the clock of an authority of {certificate.name}, and is unchanged since"
