"""OpenSSH signatures of a bundle's manifest, made and checked by ssh-keygen of OpenSSH 8.2 or later.

OpenSSH's PROTOCOL.sshsig defines the format. Archiver reads no private key: ssh-keygen asks for the passphrase itself,
or uses the agent.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from archiver.values.errors import ResultsError, UsageError

NAMESPACE = "archiver-bundle"  # a signature for another purpose, such as a commit, does not sign a bundle
_MESSAGE, _SIGNATURE, _SIGNERS = "manifest.json", "manifest.json.sig", "signers"
_UNNAMED = "public-key"  # the principal of a key that --signer names without one
_GOOD = re.compile(r'Good "[^"]*" signature (?:for (?P<principal>.+) )?with (?P<key>\S+ key \S+)\s*')


def sign(manifest: bytes, key: Path) -> bytes:
    """Return the signature of a manifest.

    ``key`` is a private key, or a public key whose private key the agent has. Raises UsageError.
    """
    with TemporaryDirectory() as folder:
        (Path(folder) / _MESSAGE).write_bytes(manifest)
        words = ("-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key.absolute()), _MESSAGE)
        done = _ssh_keygen(words, folder, stderr=None)  # ssh-keygen asks there for a passphrase, or a touch of the key
        if done.returncode:
            raise UsageError(f"--sign {key}: ssh-keygen made no signature; the line above states the reason")
        return (Path(folder) / _SIGNATURE).read_bytes()


def signer_of(manifest: bytes, signature: bytes, signers: Path) -> str:
    """Return who signed a manifest: the principal, and the type and fingerprint of the key.

    ``signers`` is an allowed-signers file as in ssh-keygen(1), or public keys. Raises ResultsError if the signature is
    not of this manifest, or by a key that ``signers`` does not allow. Raises UsageError if ``signers`` is unreadable.
    """
    allowed = _allowed_signers(signers)
    with TemporaryDirectory() as folder:
        (Path(folder) / _SIGNATURE).write_bytes(signature)
        (Path(folder) / _SIGNERS).write_text(allowed)
        checked = ("-n", NAMESPACE, "-s", _SIGNATURE)
        whole = _ssh_keygen(("-Y", "check-novalidate", *checked), folder, manifest)
        good = _GOOD.fullmatch(whole.stdout.decode())
        if whole.returncode or good is None:
            raise ResultsError(f"is not of this bundle's manifest: {_reason(whole)}")
        found = _ssh_keygen(("-Y", "find-principals", "-s", _SIGNATURE, "-f", _SIGNERS), folder)
        for principal in found.stdout.decode().splitlines():
            found = _ssh_keygen(("-Y", "verify", *checked, "-I", principal, "-f", _SIGNERS), folder, manifest)
            if not found.returncode:
                return good["key"] if principal == _UNNAMED else f"{principal} with {good['key']}"
        raise ResultsError(f"is by {good['key']}, which {signers} does not allow: {_reason(found)}")


def _allowed_signers(path: Path) -> str:
    """Return the allowed-signers file, with a principal in front of each public key that has none."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--signer {path}: is not readable text: {error}") from error
    return "".join(f"{_UNNAMED} {line}\n" if re.match(r"\S+\s+AAAA", line) else f"{line}\n" for line in lines)


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    return "; ".join(done.stderr.decode(errors="replace").splitlines())


def _ssh_keygen(
    words: tuple[str, ...], folder: str, message: bytes | None = None, stderr: int | None = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen in ``folder``, with ``message`` as its standard input."""
    try:
        return subprocess.run(
            ("ssh-keygen", *words), cwd=folder, input=message, stdout=subprocess.PIPE, stderr=stderr, check=False
        )
    except FileNotFoundError as missing:
        raise UsageError("signatures need ssh-keygen, which is not installed; install OpenSSH's client") from missing
