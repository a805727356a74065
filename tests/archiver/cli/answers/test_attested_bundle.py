"""Test `archiver bundle make --sign --timestamp` and `archiver bundle verify` of the bundles it writes."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from archiver.cli import main
from results.recorded.database import RunDatabase, RunRecord
from results.recorded.model import CheckRecord
from tests.results.bundle.audit_bundles import packed, unpacked
from tests.results.watched_run import PLATFORM, RECORD
from tests.support.commands import archiver
from tests.support.runs import TINY
from tests.support.servers.time_stamping import time_stamping_authority

pytestmark = [
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]


@dataclass(frozen=True, slots=True)
class Made:
    """A run with its attested bundle, a conformance run with its attested evidence, and the keys to trust."""

    run: Path
    bundle: Path
    evidence: Path
    attesting: tuple[str, ...]
    trusting: tuple[str, ...]
    printed: str

    def file(self, suffix: str) -> Path:
        return self.bundle if suffix == ".zip" else self.evidence


def bundle(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["bundle", *map(str, words)])


def conformance_run(path: Path) -> Path:
    """Create a run with one check and return its folder."""
    record = RunRecord(**{**RECORD, "platform": replace(PLATFORM, name="minio", version="1")})
    with closing(RunDatabase.create(path / "run.db", record)) as database:
        check = CheckRecord(
            "DEL-02", "Delete", "delete it", "refuse", "403", ("R1",), "S1", "PASS", "refused", 1.0, 0.1, "alone"
        )
        database.add_check(check, [{"method": "DELETE", "status": 403}])
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("runs")
    words = ("dr550", *TINY, "--backend", "null", "--quiet", "--out", str(folder))
    done = archiver("run", *words, ARCHIVER_HOME=str(folder / "home"))
    assert done.returncode == 0, done.stderr
    (run,) = (path.parent for path in folder.glob("*/run.db"))
    key = folder / "key"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key), check=True)
    with time_stamping_authority(folder / "authority") as authority:
        attesting = ("--sign", str(key), "--timestamp", authority.url)
        trusting = ("--signer", f"{key}.pub", "--timestamp-certificate", str(authority.root))
        zipped = bundle("make", run, folder / "audit.zip", *attesting)
        evidence = bundle("make", conformance_run(folder / "worm"), folder / "evidence.json", *attesting)
        assert (zipped.exit_code, evidence.exit_code) == (0, 0), zipped.output + evidence.output
        yield Made(run, folder / "audit.zip", folder / "evidence.json", attesting, trusting, zipped.output)


@pytest.mark.parametrize("suffix", [".zip", ".json"])
def test_bundle_and_evidence_are_confirmed_with_trusted_signer_and_authority(made: Made, suffix: str) -> None:
    done = bundle("verify", made.file(suffix), *made.trusting)
    assert done.exit_code == 0, done.output
    assert "  confirmed: signed by ED25519 key SHA256:" in done.output
    assert "  confirmed: existed at 2" in done.output
    assert "not checked" not in done.output
    found = json.loads(bundle("verify", made.file(suffix), *made.trusting, "--json").output)
    assert (found["wrong"], found["not_checked"]) == ([], [])
    assert [each.split()[0] for each in found["confirmed"]][1:3] == ["signed", "existed"]


@pytest.mark.parametrize("suffix", [".zip", ".json"])
def test_bundle_verified_without_trusted_keys_is_not_reported_as_signed(made: Made, suffix: str) -> None:
    done = bundle("verify", made.file(suffix))
    assert done.exit_code == 0, done.output
    assert done.output.count("  not checked: its ") == 2
    assert "signed by" not in done.output
    assert len(json.loads(bundle("verify", made.file(suffix), "--json").output)["not_checked"]) == 2


def test_signed_bundle_reports_that_honest_measurement_cannot_be_confirmed(made: Made) -> None:
    words = "cannot be confirmed: that the measurement was honest: a signature proves who vouches for it"
    assert words in bundle("verify", made.bundle, *made.trusting).output


def test_the_published_hash_is_the_same_with_and_without_attestations(made: Made, tmp_path: Path) -> None:
    plain = bundle("make", made.run, tmp_path / "plain.zip")
    assert plain.output.splitlines()[-1] == made.printed.splitlines()[-1]
    held = unpacked(made.bundle)
    assert unpacked(tmp_path / "plain.zip") == {
        name: content for name, content in held.items() if name not in ("manifest.json.sig", "manifest.json.tsr")
    }


def test_a_bundle_without_attestations_fails_when_they_are_required(made: Made, tmp_path: Path) -> None:
    assert bundle("make", made.run, tmp_path / "plain.zip").exit_code == 0
    evidence = json.loads(made.evidence.read_text())
    plain = {name: value for name, value in evidence.items() if name not in ("signature", "timestamp")}
    (tmp_path / "plain.json").write_text(json.dumps(plain))
    for file in (tmp_path / "plain.zip", tmp_path / "plain.json"):
        assert bundle("verify", file).exit_code == 0
        done = bundle("verify", file, *made.trusting)
        assert done.exit_code == 1
        assert "it has no signature, and --signer requires one" in done.output
        assert "it has no timestamp, and --timestamp-certificate requires one" in done.output
        done = bundle("verify", file, *made.trusting, "--json")
        assert (done.exit_code, len(json.loads(done.output)["wrong"])) == (1, 2)


def refuses_both(file: Path, made: Made) -> bool:
    """Return whether a bundle is valid by itself but its signature and timestamp belong to another bundle."""
    assert bundle("verify", file).exit_code == 0
    done = bundle("verify", file, *made.trusting)
    assert done.exit_code == 1
    return "its signature is not of" in done.output and "its timestamp is not of" in done.output


def test_signature_and_timestamp_of_another_bundle_are_refused(made: Made, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('currency = "EUR"\n[[part]]\nitem = "node"\nquantity = 2\nlist_price = 1\n')
    other = tmp_path / "other.zip"
    assert bundle("make", made.run, other, "--prices", tmp_path / "prices.toml").exit_code == 0
    signed = unpacked(made.bundle)
    swapped = {name: signed[name] for name in ("manifest.json.sig", "manifest.json.tsr")}
    assert refuses_both(packed(tmp_path / "swapped.zip", unpacked(other) | swapped), made)


def test_signature_of_evidence_changed_with_its_hashes_is_refused(made: Made, tmp_path: Path) -> None:
    evidence = json.loads(made.evidence.read_text())
    evidence["parts"]["run"]["backend"] = "other"
    evidence["manifest"]["run"] = canonical_sha256(evidence["parts"]["run"])
    evidence["sha256"] = canonical_sha256(evidence["manifest"])
    (tmp_path / "forged.json").write_text(json.dumps(evidence))
    assert refuses_both(tmp_path / "forged.json", made)


def canonical_sha256(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(("name", "value"), [("signature", 1), ("timestamp", "="), ("timestamp", [])])
def test_evidence_with_unreadable_signature_or_timestamp_is_refused(
    made: Made, tmp_path: Path, name: str, value: object
) -> None:
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(json.loads(made.evidence.read_text()) | {name: value}))
    for words in ((), ("--json",)):
        done = bundle("verify", path, *words)
        assert done.exit_code == 1
        assert "its signature or timestamp is unreadable" in done.output


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("--sign", "KEY"), 2, "ssh-keygen made no signature"),
        (("--sign", "missing"), 2, "does not exist"),
        (("--timestamp", "http://127.0.0.1:1/"), 3, "sent no timestamp"),
    ],
)
@pytest.mark.parametrize("suffix", [".zip", ".json"])
def test_failed_attestation_writes_no_bundle(
    made: Made, tmp_path: Path, suffix: str, words: tuple[str, ...], status: int, sentence: str
) -> None:
    (tmp_path / "no-key").write_text("no key")
    given = [str(tmp_path / "no-key") if word == "KEY" else word for word in words]
    run = made.run if suffix == ".zip" else conformance_run(tmp_path / "worm")
    done = bundle("make", run, tmp_path / f"out{suffix}", *given)
    assert done.exit_code == status, done.output
    assert sentence in done.output
    assert not (tmp_path / f"out{suffix}").exists()
