"""Signatures and timestamps of a bundle: real programs make them, and a changed bundle is refused."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from rfc3161_client import decode_timestamp_response

from archiver.values.errors import ArchiverError, PlatformError, ResultsError, UsageError
from results.bundle.attestations import AttestationFindings, Attestations, Trusted, attest, check_attestations
from results.bundle.audit import SIGNATURE, TIMESTAMP, read_audit_bundle, write_audit_bundle
from results.bundle.signature import NAMESPACE
from results.bundle.timestamp import stamped_at
from tests.results.bundle.audit_bundles import flipped, packed, unpacked, with_manifest
from tests.support.servers.time_stamping import TimeStampingAuthority, time_stamping_authority

pytestmark = [
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

CONTENTS = {"run.db": b"pages" * 20, "results.json": b'{"a": 1}'}
MANIFEST = b"a manifest"


@dataclass(frozen=True, slots=True)
class Attested:
    """Two signed and time-stamped bundles of the same author, and the key and certificate that a reader trusts."""

    bundle: Path
    other: Path
    key: Path
    trusted: Trusted
    authority: TimeStampingAuthority


def new_key(path: Path, passphrase: str = "") -> Path:
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "a", "-f", path), check=True)
    return path


def public_key(key: Path) -> Path:
    return key.with_suffix(".pub")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TimeStampingAuthority]:
    with time_stamping_authority(tmp_path_factory.mktemp("authority") / "a") as served:
        yield served


@pytest.fixture(scope="module")
def attested(tmp_path_factory: pytest.TempPathFactory, authority: TimeStampingAuthority) -> Attested:
    folder = tmp_path_factory.mktemp("attested")
    key = new_key(folder / "key")
    attesting = partial(attest, key=key, authority_url=authority.url)
    write_audit_bundle(folder / "audit.zip", "run-1", CONTENTS, attesting)
    write_audit_bundle(folder / "other.zip", "run-2", CONTENTS, attesting)
    trusted = Trusted(public_key(key), authority.root)
    return Attested(folder / "audit.zip", folder / "other.zip", key, trusted, authority)


@pytest.fixture(autouse=True)
def honest_again(authority: TimeStampingAuthority) -> Iterator[None]:
    yield
    authority.change, authority.status = bytes, 200


def findings(bundle: Path, trusted: Trusted, folder: Path) -> AttestationFindings:
    read = read_audit_bundle(bundle, folder)
    assert not read.wrong
    return check_attestations(read.manifest, read.attested, trusted)


def fingerprint(key: Path) -> str:
    words = ("ssh-keygen", "-l", "-f", public_key(key))
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1]


def test_signature_and_timestamp_are_confirmed(attested: Attested, tmp_path: Path) -> None:
    found = findings(attested.bundle, attested.trusted, tmp_path)
    assert (found.wrong, found.not_checked) == ((), ())
    signed, stamped = found.confirmed
    assert signed == f"signed by ED25519 key {fingerprint(attested.key)}, whose owner vouches for these contents"
    assert stamped.endswith("by the clock of an authority of root.pem, and is unchanged since")
    at = datetime.strptime(stamped.split()[2], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs(at.timestamp() - attested.bundle.stat().st_mtime) < 120


def test_other_programs_confirm_signature_and_timestamp(attested: Attested, tmp_path: Path) -> None:
    for name, content in unpacked(attested.bundle).items():
        if name.startswith("manifest.json"):
            (tmp_path / name).write_bytes(content)
    (tmp_path / "signers").write_text(f"alice {public_key(attested.key).read_text()}")
    ssh = ("ssh-keygen", "-Y", "verify", "-f", "signers", "-I", "alice", "-n", NAMESPACE, "-s", SIGNATURE)
    manifest = (tmp_path / "manifest.json").read_bytes()
    subprocess.run(ssh, cwd=tmp_path, input=manifest, check=True, capture_output=True)
    tsa = ("openssl", "ts", "-verify", "-data", "manifest.json", "-in", TIMESTAMP, "-CAfile", attested.authority.root)
    subprocess.run(tsa, cwd=tmp_path, check=True, capture_output=True)


def test_repacked_bundle_keeps_valid_attestations(attested: Attested, tmp_path: Path) -> None:
    again = packed(tmp_path / "again.zip", dict(reversed(unpacked(attested.bundle).items())))
    assert len(findings(again, attested.trusted, tmp_path).confirmed) == 2


def test_attestations_are_not_checked_without_trusted_files(attested: Attested, tmp_path: Path) -> None:
    found = findings(attested.bundle, Trusted(), tmp_path)
    assert (found.wrong, found.confirmed) == ((), ())
    assert found.not_checked == (
        "its signature, which proves nothing without --signer FILE",
        "its timestamp, which proves nothing without --timestamp-certificate FILE",
    )


Change = Callable[[dict[str, bytes], dict[str, bytes]], Mapping[str, bytes]]


def changed_and_listed(held: dict[str, bytes], _: dict[str, bytes]) -> dict[str, bytes]:
    """Change the contents and the manifest consistently, as a forger does who knows the format but has no key."""
    seals = {name: held.pop(name) for name in (SIGNATURE, TIMESTAMP)}
    return with_manifest(held | {"results.json": b'{"a": 2}'}) | seals


REFUSED: dict[str, tuple[Change, tuple[str, ...]]] = {
    "packed with other contents": (
        changed_and_listed,
        (
            "its signature is not of this bundle's manifest: Signature verification failed: incorrect signature",
            "its timestamp is not of this bundle's manifest by an authority of",
        ),
    ),
    "signature of another bundle": (
        lambda held, other: held | {SIGNATURE: other[SIGNATURE]},
        ("its signature is not of this bundle's manifest: Signature verification failed: incorrect signature",),
    ),
    "timestamp of another bundle": (
        lambda held, other: held | {TIMESTAMP: other[TIMESTAMP]},
        ("its timestamp is not of this bundle's manifest by an authority of",),
    ),
    "both of another bundle": (
        lambda held, other: held | {name: other[name] for name in (SIGNATURE, TIMESTAMP)},
        ("its signature is not of", "its timestamp is not of"),
    ),
    "cut signature": (
        lambda held, _: held | {SIGNATURE: held[SIGNATURE][:100]},
        ("its signature is not of this bundle's manifest: ",),
    ),
    "empty signature": (lambda held, _: held | {SIGNATURE: b""}, ("its signature is not of this bundle's manifest: ",)),
    "cut timestamp": (
        lambda held, _: held | {TIMESTAMP: held[TIMESTAMP][:-1]},
        ("its timestamp is not an RFC 3161 timestamp: ",),
    ),
    "exchanged": (
        lambda held, _: held | {SIGNATURE: held[TIMESTAMP], TIMESTAMP: held[SIGNATURE]},
        ("its signature is not of this bundle's manifest: ", "its timestamp is not an RFC 3161 timestamp: "),
    ),
    "no signature": (
        lambda held, _: {name: content for name, content in held.items() if name != SIGNATURE},
        ("it has no signature, and --signer requires one",),
    ),
    "no timestamp": (
        lambda held, _: {name: content for name, content in held.items() if name != TIMESTAMP},
        ("it has no timestamp, and --timestamp-certificate requires one",),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_forged_swapped_cut_or_removed_attestation_is_refused(attested: Attested, tmp_path: Path, name: str) -> None:
    change, sentences = REFUSED[name]
    bundle = packed(tmp_path / "forged.zip", change(unpacked(attested.bundle), unpacked(attested.other)))
    found = findings(bundle, attested.trusted, tmp_path)
    assert len(found.wrong) == len(sentences)
    for wrong, sentence in zip(found.wrong, sentences, strict=True):
        assert wrong.startswith(sentence)
        assert "\n" not in wrong
    assert len(found.confirmed) == 2 - len(sentences)


def test_changed_contents_under_unchanged_signature_are_found(attested: Attested, tmp_path: Path) -> None:
    held = unpacked(attested.bundle)
    changed = packed(tmp_path / "changed.zip", held | {"results.json": b'{"a": 2}'})
    assert read_audit_bundle(changed, tmp_path).wrong == ("results.json was changed",)
    listed = packed(tmp_path / "listed.zip", with_manifest(held))
    assert read_audit_bundle(listed, tmp_path).wrong == (f"{SIGNATURE} is missing", f"{TIMESTAMP} is missing")
    long = packed(tmp_path / "long.zip", held | {SIGNATURE: bytes(65_537)})
    assert read_audit_bundle(long, tmp_path).wrong == (f"'{SIGNATURE}': 65,537 bytes are more than its limit",)


def test_flipped_bit_never_changes_time_of_accepted_timestamp(attested: Attested) -> None:
    held = unpacked(attested.bundle)
    at = stamped_at(held["manifest.json"], held[TIMESTAMP], attested.authority.root)
    refused = 0
    for place in range(len(held[TIMESTAMP])):
        try:
            found = stamped_at(held["manifest.json"], flipped(held[TIMESTAMP], place), attested.authority.root)
        except ResultsError:
            refused += 1
        else:
            assert found == at, place
    assert refused > 0.9 * len(held[TIMESTAMP])


def test_signature_by_another_key_is_refused(attested: Attested, tmp_path: Path) -> None:
    signers = public_key(new_key(tmp_path / "stranger"))
    (wrong,) = findings(attested.bundle, Trusted(signers), tmp_path).wrong
    key = f"ED25519 key {fingerprint(attested.key)}"
    assert wrong == f"its signature is by {key}, which {signers} does not allow: No principal matched."


def test_signature_for_another_namespace_is_refused(attested: Attested, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(MANIFEST)
    subprocess.run(("ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", attested.key, tmp_path / "m"), check=True)
    signature = (tmp_path / "m.sig").read_bytes()
    (wrong,) = check_attestations(MANIFEST, Attestations(signature), Trusted(attested.trusted.signer)).wrong
    assert "namespace does not match" in wrong


@pytest.mark.parametrize(
    ("principals", "sentence"),
    [
        ("alice@example.com", "signed by alice@example.com with ED25519 key SHA256:"),
        (f'alice,bob namespaces="{NAMESPACE}"', "signed by alice with ED25519 key SHA256:"),
        ('alice namespaces="git"', "key is not permitted for use in signature namespace"),
        ('alice valid-before="20200101"', "key has expired"),
    ],
)
def test_allowed_signers_file_restricts_namespace_and_date(
    attested: Attested, tmp_path: Path, principals: str, sentence: str
) -> None:
    signers = tmp_path / "signers"
    signers.write_text(f"# those who may\n{principals} {public_key(attested.key).read_text()}")
    found = findings(attested.bundle, Trusted(signers), tmp_path)
    assert sentence in "".join((*found.wrong, *found.confirmed))
    assert bool(found.confirmed) == sentence.startswith("signed")


def test_timestamp_by_another_authority_is_refused(attested: Attested, tmp_path: Path) -> None:
    with time_stamping_authority(tmp_path / "other") as other:
        (wrong,) = findings(attested.bundle, Trusted(authority=other.root), tmp_path).wrong
        assert wrong.startswith(f"its timestamp is not of this bundle's manifest by an authority of {other.root}: ")
        both = tmp_path / "both.pem"
        both.write_bytes(other.root.read_bytes() + attested.authority.root.read_bytes())
    assert len(findings(attested.bundle, Trusted(authority=both), tmp_path).confirmed) == 1


def test_ssh_keygen_asks_for_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, asks = new_key(tmp_path / "key", passphrase="planted"), tmp_path / "asks"
    monkeypatch.setenv("SSH_ASKPASS", str(asks))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    asks.touch(mode=0o755)
    asks.write_text("#!/bin/sh\necho wrong\n")
    with pytest.raises(UsageError, match="ssh-keygen made no signature"):
        attest(MANIFEST, key=key)
    asks.write_text("#!/bin/sh\necho planted\n")
    made = attest(MANIFEST, key=key)
    assert check_attestations(MANIFEST, made, Trusted(public_key(key))).confirmed


def test_missing_ssh_keygen_is_reported_on_signing_and_checking(
    attested: Attested, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"^signatures need ssh-keygen, which is not installed; install "):
        attest(MANIFEST, key=attested.key)
    with pytest.raises(UsageError, match=r"^signatures need ssh-keygen"):
        findings(attested.bundle, attested.trusted, tmp_path)


@pytest.mark.parametrize(
    ("trusted", "words"),
    [
        (lambda file: Trusted(signer=file), "--signer .* is not readable text"),
        (lambda file: Trusted(authority=file), "--timestamp-certificate .* is not a PEM certificate"),
    ],
)
def test_unreadable_signer_or_certificate_file_is_usage_error(
    attested: Attested, tmp_path: Path, trusted: Callable[[Path], Trusted], words: str
) -> None:
    (tmp_path / "file").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=words):
        findings(attested.bundle, trusted(tmp_path / "file"), tmp_path)


def test_timestamp_request_contains_only_manifest_hash(authority: TimeStampingAuthority) -> None:
    attest(MANIFEST, authority_url=authority.url)
    request = (authority.folder / "request").read_bytes()
    assert hashlib.sha256(MANIFEST).digest() in request
    assert MANIFEST not in request


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        (lambda _: b"<html>", 200, "did not answer with an RFC 3161 timestamp"),
        (lambda answer: answer[:-1], 200, "did not answer with an RFC 3161 timestamp"),
        (lambda _: bytes(65_537), 200, "answered with more than 65,536 bytes"),
        (bytes, 503, "sent no timestamp: 503"),
    ],
)
def test_authority_answer_that_is_no_timestamp_is_refused(
    authority: TimeStampingAuthority, change: Callable[[bytes], bytes], status: int, sentence: str
) -> None:
    authority.change, authority.status = change, status
    with pytest.raises(PlatformError, match=sentence) as refused:
        attest(MANIFEST, authority_url=authority.url)
    assert str(refused.value).startswith(f"--timestamp {authority.url}: ")


def test_timestamp_of_another_request_is_refused(authority: TimeStampingAuthority) -> None:
    for other in (MANIFEST, b"another"):  # the same contents with another nonce, and other contents
        old = attest(other, authority_url=authority.url).timestamp
        assert old is not None
        authority.change = partial(lambda answer, _: answer, old)
        with pytest.raises(PlatformError, match="answered with the timestamp of another request"):
            attest(MANIFEST, authority_url=authority.url)
        authority.change = bytes


def test_refusal_by_authority_is_reported_with_its_reason(tmp_path: Path) -> None:
    with time_stamping_authority(tmp_path / "strict", digest="sha512") as strict:
        with pytest.raises(PlatformError, match=r"refused: .*not supported"):
            attest(MANIFEST, authority_url=strict.url)
        answer = strict.answer((strict.folder / "request").read_bytes())
    assert decode_timestamp_response(answer).status == 2
    refused = check_attestations(MANIFEST, Attestations(timestamp=answer), Trusted(authority=strict.root))
    assert refused.wrong[0].startswith("its timestamp is not an RFC 3161 timestamp: ")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "ftp://127.0.0.1/", "no address"])
def test_unreachable_timestamp_authority_is_reported(url: str) -> None:
    with pytest.raises(ArchiverError, match=r"^--timestamp .*: sent no timestamp: "):
        attest(MANIFEST, authority_url=url)
