"""The audit bundle: a ZIP of a run's database, the files that follow from it, and a manifest with their hashes.

manifest.json names every other file with its length and SHA-256 in a canonical form. The SHA-256 of manifest.json
therefore identifies all contents. It is the published value, and any program can recompute it. Only the signature and
the timestamp of the manifest have no entry in it, because they are made from it.

The maker of a bundle may be hostile to its reader. The reader therefore writes no file under a name from it, bounds
every length before reading, and reads at most that length.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec

from archiver.values.errors import ResultsError
from archiver.values.typed import typed_json
from results.bundle import attestations
from results.bundle.attestations import Attestations

FORMAT = "archiver-audit-bundle-1"
MANIFEST = "manifest.json"
SIGNATURE = f"{MANIFEST}.sig"  # in OpenSSH's armoured form
TIMESTAMP = f"{MANIFEST}.tsr"  # a TimeStampResp of RFC 3161
DATABASE = "run.db"
TRACES = "traces/"
BEGINS_WITH = b"PK"
FILES_MAX = 10_000
BYTES_MAX = 16 << 30  # of all files, unpacked
DATABASE_BYTES_MAX = 4 << 30
DOCUMENT_BYTES_MAX = 64 << 20  # of any other file except traces, which are read in pieces
DOCUMENTS_BYTES_MAX = 256 << 20  # of all these files: they are kept in memory
MANIFEST_BYTES_MAX = 4 << 20
# A small file cannot unpack into gigabytes: results compress to about a tenth.
_UNPACKED_MAX = 100
_UNPACKED_BYTES_MIN = 16 << 20
_PIECE_BYTES = 1 << 20
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*/)*[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_NAME_LENGTH_MAX = 200
_UNREADABLE = (
    BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, NotImplementedError, OverflowError,
)  # fmt: skip


class FileEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The entry of a file in the manifest."""

    name: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """manifest.json: ``files`` by name, ascending."""

    format: str
    run: str
    files: tuple[FileEntry, ...]

    def text(self) -> bytes:
        """Return its canonical form: keys sorted, no spaces."""
        return msgspec.json.encode(self, order="sorted")


@dataclass(frozen=True, slots=True)
class ReadBundle:
    """A bundle with checked hashes. ``wrong`` names all differences from the manifest.

    The other values are reliable only if ``wrong`` is empty.
    """

    wrong: tuple[str, ...]
    sha256: str = ""  # of manifest.json: the published hash
    run: str = ""
    documents: Mapping[str, bytes] = field(default_factory=dict)  # all files except the database and traces
    traces: Mapping[str, str] = field(default_factory=dict)  # name -> SHA-256
    manifest: bytes = b""
    attested: Attestations = field(default_factory=Attestations)  # not checked

    @property
    def files(self) -> int:
        """The number of files in the manifest."""
        return len(self.documents) + len(self.traces) + 1


def sha256_of(content: bytes | Path) -> str:
    """Return the hash of these bytes, or of a file. Raises OSError."""
    with _opened(content) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def write_audit_bundle(
    path: Path,
    run: str,
    contents: Mapping[str, bytes | Path],
    attest: Callable[[bytes], Attestations] = attestations.attest,
) -> str:
    """Write the contents by name, never over another file, and return the SHA-256 that identifies them.

    ``attest`` makes the attestations of the manifest, none by default. The same contents without attestations give the
    same bytes. Raises ResultsError.
    """
    entries = []
    for name, content in sorted(contents.items()):
        length = content.stat().st_size if isinstance(content, Path) else len(content)
        entries.append(FileEntry(name=name, bytes=length, sha256=sha256_of(content)))
    manifest = Manifest(format=FORMAT, run=run, files=tuple(entries)).text()
    attested = attest(manifest)
    try:
        with path.open("xb") as file, ZipFile(file, "w") as bundle:
            _add(bundle, MANIFEST, manifest)
            if attested.signature is not None:
                _add(bundle, SIGNATURE, attested.signature)
            if attested.timestamp is not None:
                _add(bundle, TIMESTAMP, attested.timestamp)
            for name, content in sorted(contents.items()):
                _add(bundle, name, content)
    except FileExistsError as there:
        raise ResultsError(f"{path} already exists; name another file") from there
    except OSError as failed:
        raise ResultsError(f"{path}: cannot be written: {failed.strerror}; name another file") from failed
    return hashlib.sha256(manifest).hexdigest()


def read_audit_bundle(path: Path, folder: Path) -> ReadBundle:
    """Read a bundle and compare it with its manifest. The function copies the database into ``folder``, as run.db.

    The return value reports all errors, including those of the ZIP itself.
    """
    try:
        with ZipFile(path) as bundle:
            wrong = list(_misshapen(bundle.infolist(), path.stat().st_size))
            return ReadBundle(tuple(wrong)) if wrong else _read(bundle, folder)
    except _UNREADABLE as error:
        return ReadBundle((f"the ZIP file is damaged: {error}",))


def _add(bundle: ZipFile, name: str, content: bytes | Path) -> None:
    """Add a file without a time, an owner, or other variable data. Traces are already compressed."""
    info = ZipInfo(name)
    info.compress_type = ZIP_STORED if name.startswith(TRACES) else ZIP_DEFLATED
    info.create_system = 3
    info.external_attr = 0o644 << 16
    with _opened(content) as source:
        info.file_size = source.seek(0, 2)
        source.seek(0)
        with bundle.open(info, "w") as target:
            shutil.copyfileobj(source, target, _PIECE_BYTES)


def _opened(content: bytes | Path) -> IO[bytes]:
    return content.open("rb") if isinstance(content, Path) else BytesIO(content)


def _misshapen(found: list[ZipInfo], size_bytes: int) -> Iterator[str]:
    """Yield every reason to reject a ZIP of ``size_bytes`` before reading its files.

    The lengths are those that the ZIP states. No more than these is read.
    """
    if len(found) > FILES_MAX:
        yield f"{len(found):,} files are more than a bundle may have ({FILES_MAX:,})"
        return
    for name, count in Counter(info.filename for info in found).items():
        if count > 1:
            yield f"{name!r} occurs {count} times"
        if len(name) > _NAME_LENGTH_MAX or not _NAME.fullmatch(name):
            yield f"{name[:_NAME_LENGTH_MAX]!r} is not a file name of a bundle"
    for info in found:
        if info.file_size > _bytes_max(info.filename):
            yield f"{info.filename!r}: {info.file_size:,} bytes are more than its limit"
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or info.flag_bits & 1:
            yield f"{info.filename!r} is encrypted, or compressed by another method than a bundle's files"
    bytes_max = min(BYTES_MAX, _UNPACKED_BYTES_MIN + _UNPACKED_MAX * size_bytes)
    if sum(info.file_size for info in found) > bytes_max:
        yield f"all files together have more bytes than a bundle of this size may have ({bytes_max:,})"
    documents = (info for info in found if info.filename != DATABASE and not info.filename.startswith(TRACES))
    if sum(info.file_size for info in documents) > DOCUMENTS_BYTES_MAX:
        yield f"its documents together have more bytes than a bundle's may have ({DOCUMENTS_BYTES_MAX:,})"


def _bytes_max(name: str) -> int:
    if name.startswith(TRACES):
        return BYTES_MAX
    if name == MANIFEST:
        return MANIFEST_BYTES_MAX
    if name in (SIGNATURE, TIMESTAMP):
        return attestations.BYTES_MAX
    return DATABASE_BYTES_MAX if name == DATABASE else DOCUMENT_BYTES_MAX


def _read(bundle: ZipFile, folder: Path) -> ReadBundle:
    names = {info.filename for info in bundle.infolist()}
    if MANIFEST not in names:
        return ReadBundle((f"{MANIFEST} is missing",))
    text = _content(bundle, MANIFEST)
    try:
        manifest = typed_json(text, Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return ReadBundle((f"{MANIFEST} was changed: {error}",))
    if manifest.format != FORMAT:
        return ReadBundle((f"{MANIFEST}: its format is {manifest.format[:50]!r}, not {FORMAT}",))
    listed = [entry.name for entry in manifest.files]
    if manifest.text() != text or listed != sorted(set(listed)):
        return ReadBundle((f"{MANIFEST} was changed: it is not in its canonical form",))
    unlisted = {MANIFEST, SIGNATURE, TIMESTAMP}
    wrong = [f"{name} is missing" for name in listed if name not in names or name in unlisted]
    wrong += [f"{name} is not in the manifest" for name in sorted(names - set(listed) - unlisted)]
    documents, traces = {}, {}
    for entry in manifest.files:
        if entry.name not in names:
            continue
        target: IO[bytes] | nullcontext[None] = nullcontext()
        if entry.name == DATABASE:
            target = (folder / DATABASE).open("wb")
        elif not entry.name.startswith(TRACES):
            target = BytesIO()
        with target as copy:
            if not _is_as_listed(bundle, entry, copy):
                wrong.append(f"{entry.name} was changed")
            elif isinstance(copy, BytesIO):
                documents[entry.name] = copy.getvalue()
            elif copy is None:
                traces[entry.name] = entry.sha256
    if DATABASE not in listed:
        wrong.append(f"{DATABASE} is missing")
    attested = Attestations(*(_content(bundle, name) if name in names else None for name in (SIGNATURE, TIMESTAMP)))
    sha256 = hashlib.sha256(text).hexdigest()
    return ReadBundle(tuple(wrong), sha256, manifest.run, documents, traces, text, attested)


def _content(bundle: ZipFile, name: str) -> bytes:
    """Return a short file. ``ZipFile.read`` would unpack all there is before it compares the length."""
    with bundle.open(name) as source:
        return b"".join(_pieces(source))


def _pieces(source: IO[bytes]) -> Iterator[bytes]:
    while piece := source.read(_PIECE_BYTES):
        yield piece


def _is_as_listed(bundle: ZipFile, entry: FileEntry, copy: IO[bytes] | None) -> bool:
    """Return whether a file has the length and the hash of its entry. Its bytes go into ``copy``."""
    digest, length = hashlib.sha256(), 0
    try:
        with bundle.open(entry.name) as source:
            for piece in _pieces(source):
                digest.update(piece)
                length += len(piece)
                if copy is not None:
                    copy.write(piece)
    except _UNREADABLE:
        return False
    return (length, digest.hexdigest()) == (entry.bytes, entry.sha256)
