"""The audit bundle as a file: it is reproducible, and a reader finds every change without trusting the bundle."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile

import pytest

from archiver.values.errors import ResultsError
from results.bundle import audit
from results.bundle.audit import ReadBundle, read_audit_bundle, write_audit_bundle
from tests.results.bundle.audit_bundles import flipped, packed, unpacked, with_manifest

TRACE = b"a trace" * 3
HELD = {"run.db": b"pages" * 20, "results.json": b'{"a": 1}', f"traces/{hashlib.sha256(TRACE).hexdigest()}": TRACE}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "audit.zip"
    write_audit_bundle(path, "run-1", HELD)
    return path


def read(path: Path, folder: Path) -> ReadBundle:
    folder.mkdir(exist_ok=True)
    return read_audit_bundle(path, folder)


def wrong(path: Path, folder: Path) -> str:
    return "; ".join(read(path, folder).wrong)


def test_written_bundle_reads_back_complete(bundle: Path, tmp_path: Path) -> None:
    found = read(bundle, tmp_path / "into")
    assert found.wrong == ()
    assert found.run == "run-1"
    assert found.documents == {"results.json": HELD["results.json"]}
    assert (tmp_path / "into" / "run.db").read_bytes() == HELD["run.db"]
    assert list(found.traces.values()) == [hashlib.sha256(TRACE).hexdigest()]
    assert found.files == 3


def test_bundle_bytes_do_not_depend_on_order_or_source_of_contents(bundle: Path, tmp_path: Path) -> None:
    other, database = tmp_path / "other.zip", tmp_path / "database"
    database.write_bytes(HELD["run.db"])
    contents: dict[str, bytes | Path] = {**dict(reversed(HELD.items())), "run.db": database}
    sha256 = write_audit_bundle(other, "run-1", contents)
    assert other.read_bytes() == bundle.read_bytes()
    assert sha256 == read(bundle, tmp_path).sha256


def test_bundle_hash_is_plain_sha256_of_canonical_manifest(bundle: Path, tmp_path: Path) -> None:
    with ZipFile(bundle) as plain:
        assert plain.testzip() is None
        manifest = plain.read("manifest.json")
    assert hashlib.sha256(manifest).hexdigest() == read(bundle, tmp_path).sha256
    assert manifest == json.dumps(json.loads(manifest), sort_keys=True, separators=(",", ":")).encode()


def test_existing_bundle_is_not_overwritten(bundle: Path) -> None:
    with pytest.raises(ResultsError, match="already exists"):
        write_audit_bundle(bundle, "run-1", HELD)


@pytest.mark.parametrize("name", HELD)
def test_one_bit_of_any_file_is_found(bundle: Path, tmp_path: Path, name: str) -> None:
    contents = unpacked(bundle)
    for place in (0, len(contents[name]) // 2, len(contents[name]) - 1):
        changed = packed(tmp_path / "changed.zip", contents | {name: flipped(contents[name], place)})
        assert wrong(changed, tmp_path) == f"{name} was changed"


def test_flipped_bit_in_manifest_is_found_or_changes_bundle_hash(bundle: Path, tmp_path: Path) -> None:
    contents = unpacked(bundle)
    published = read(bundle, tmp_path).sha256
    for place in range(len(contents["manifest.json"])):
        manifest = flipped(contents["manifest.json"], place)
        found = read(packed(tmp_path / "changed.zip", contents | {"manifest.json": manifest}), tmp_path)
        assert found.wrong or found.sha256 != published, manifest


def test_flipped_bit_or_truncation_never_changes_contents_unnoticed(bundle: Path, tmp_path: Path) -> None:
    content, whole = bundle.read_bytes(), read(bundle, tmp_path)
    changed = tmp_path / "changed.zip"
    for place in range(len(content)):
        changed.write_bytes(flipped(content, place))
        found = read(changed, tmp_path)
        assert found.wrong or found == whole, place
    for length in range(0, len(content), 7):
        changed.write_bytes(content[:length])
        assert wrong(changed, tmp_path), length


Change = Callable[[dict[str, bytes]], Mapping[str, bytes]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda held: {n: c for n, c in held.items() if n != "results.json"}, "results.json is missing"),
        (lambda held: {n: c for n, c in held.items() if n != "run.db"}, "run.db is missing"),
        (lambda held: {n: c for n, c in held.items() if n != "manifest.json"}, "manifest.json is missing"),
        (lambda held: held | {"more.json": b"{}"}, "more.json is not in the manifest"),
        (lambda held: held | {"../../escaped": b""}, "'../../escaped' is not a file name of a bundle"),
        (lambda held: held | {"/etc/passwd": b""}, "'/etc/passwd' is not a file name"),
        (lambda held: held | {"traces/..\\x": b""}, "is not a file name"),
        (lambda held: held | {"folder/": b""}, "'folder/' is not a file name"),
        (lambda held: held | {"manifest.json": b"[]"}, "manifest.json was changed"),
        (lambda held: held | {"manifest.json": b"\xff"}, "manifest.json was changed"),
        (lambda held: held | {"manifest.json": held["manifest.json"] + b" "}, "not in its canonical form"),
        (
            lambda held: held | {"manifest.json": held["manifest.json"].replace(b"bundle-1", b"bundle-2")},
            "its format is 'archiver-audit-bundle-2', not archiver-audit-bundle-1",
        ),
        (lambda held: with_manifest({n: c for n, c in held.items() if n != "run.db"}), "run.db is missing"),
    ],
)  # fmt: skip
def test_changed_bundle_is_reported_with_its_fault(bundle: Path, tmp_path: Path, change: Change, words: str) -> None:
    assert words in wrong(packed(tmp_path / "changed.zip", change(unpacked(bundle))), tmp_path / "into")
    assert not (tmp_path.parent / "escaped").exists()


def test_duplicate_file_name_is_reported(bundle: Path, tmp_path: Path) -> None:
    contents = [*unpacked(bundle).items(), ("results.json", b'{"a": 2}')]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # zipfile warns about a duplicate name
        twice = packed(tmp_path / "twice.zip", contents)
    assert wrong(twice, tmp_path) == "'results.json' occurs 2 times"


def test_manifest_listing_duplicate_name_or_itself_is_refused(bundle: Path, tmp_path: Path) -> None:
    contents = unpacked(bundle)
    manifest = json.loads(contents["manifest.json"])
    itself = {"bytes": 1, "name": "manifest.json", "sha256": "0" * 64}
    for files in ([*manifest["files"], manifest["files"][-1]], sorted([*manifest["files"], itself], key=str)):
        text = json.dumps(manifest | {"files": files}, sort_keys=True, separators=(",", ":")).encode()
        assert wrong(packed(tmp_path / "changed.zip", contents | {"manifest.json": text}), tmp_path)


def test_bundle_beyond_size_or_file_limits_is_not_unpacked(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = tmp_path / "bomb.zip"
    with ZipFile(bomb, "w", ZIP_DEFLATED) as file:
        for name, content in unpacked(bundle).items():
            file.writestr(name, content)
        file.writestr("more.json", bytes(2 << 20))
    assert bomb.stat().st_size < 10_000
    monkeypatch.setattr(audit, "DOCUMENT_BYTES_MAX", 1 << 20)
    assert wrong(bomb, tmp_path / "into") == "'more.json': 2,097,152 bytes are more than its limit"
    monkeypatch.setattr(audit, "DOCUMENT_BYTES_MAX", 4 << 20)
    monkeypatch.setattr(audit, "BYTES_MAX", 1 << 20)
    assert "all files together have more bytes" in wrong(bomb, tmp_path / "into")
    monkeypatch.setattr(audit, "FILES_MAX", 3)
    assert "5 files are more than a bundle may have (3)" in wrong(bomb, tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


def test_small_bundle_is_not_unpacked_into_gigabytes(bundle: Path, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.zip"
    with ZipFile(bomb, "w", ZIP_DEFLATED) as file:
        for name, content in (unpacked(bundle) | {"run.db": bytes(64 << 20)}).items():
            file.writestr(name, content)
    assert "all files together have more bytes than a bundle of this size" in wrong(bomb, tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


def test_documents_together_are_limited(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "DOCUMENTS_BYTES_MAX", 10)
    assert "its documents together have more bytes" in wrong(bundle, tmp_path / "into")


def test_manifest_longer_than_its_zip_header_takes_no_memory(bundle: Path, tmp_path: Path) -> None:
    lying = tmp_path / "lying.zip"
    with ZipFile(lying, "w", ZIP_DEFLATED) as file:
        for name, content in (unpacked(bundle) | {"manifest.json": bytes(64 << 20)}).items():
            file.writestr(name, content)
    length, said = (64 << 20).to_bytes(4, "little"), (8).to_bytes(4, "little")
    lying.write_bytes(lying.read_bytes().replace(length, said))
    tracemalloc.start()
    try:
        assert "the ZIP file is damaged" in wrong(lying, tmp_path / "into")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_file_longer_than_its_zip_header_is_reported_as_changed(bundle: Path, tmp_path: Path) -> None:
    """The ZIP's directory states 8 bytes; the compressed data would expand to 2 MiB."""
    lying = tmp_path / "lying.zip"
    with ZipFile(lying, "w", ZIP_DEFLATED) as file:
        for name, content in (unpacked(bundle) | {"results.json": bytes(2 << 20)}).items():
            file.writestr(name, content)
    length, said = (2 << 20).to_bytes(4, "little"), (8).to_bytes(4, "little")
    lying.write_bytes(lying.read_bytes().replace(length, said))
    assert wrong(lying, tmp_path) == "results.json was changed"


def test_other_compression_methods_are_refused(bundle: Path, tmp_path: Path) -> None:
    with ZipFile(tmp_path / "other.zip", "w", ZIP_BZIP2) as file:
        for name, content in unpacked(bundle).items():
            file.writestr(name, content)
    assert "compressed by another method" in wrong(tmp_path / "other.zip", tmp_path)
