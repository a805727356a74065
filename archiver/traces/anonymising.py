"""Anonymise keys: without the secret, names cannot be recovered, but the folder structure remains.

One idea: every part of a path is replaced by a keyed hash (BLAKE2b, 64 bits in hexadecimal) of the path up to the end
of that part. Two keys are therefore equal, or share a prefix of whole parts, exactly if they did before. A name that
occurs in two folders gets two hashes. These facts remain visible: the depth of keys, the number of keys in a folder,
empty parts ("a//b", a slash at the end), sizes, times, retention, and which client requested what how often. Lengths
and extensions of names do not.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from archiver.traces.changing import rewrite
from archiver.traces.format import Origin, Trace, TraceInfo, replaced
from archiver.values.errors import UsageError

KEY_BYTES_MIN = 16
KEY_BYTES_MAX = 1 << 20
# Sixty parts of 16 digits with slashes fill the 1,024 bytes of an S3 key; all deeper parts become one hash.
PARTS_MAX = 60
_DIGEST_BYTES = 8
_FOLDERS_CACHED = 65_536


def anonymise(out: Path, path: Path, key_file: Path, *, overwrite: bool = False) -> TraceInfo:
    """Write a trace with anonymised keys and without the names of the logs that it came from.

    The secret is read from ``key_file`` and written nowhere. Raises UsageError.
    """
    trace = Trace.open(path)
    name_of = anonymiser(read_secret(key_file))

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        return replaced(batch, {name: _renamed(batch.column(name), name_of) for name in ("key", "source")})

    info = replace(
        trace.info,
        origins=tuple(dict.fromkeys(Origin(origin.kind, "") for origin in trace.info.origins)),
        changes=(*trace.info.changes, "anonymised"),
        anonymised=True,
    )
    return rewrite(out, trace, info, change, overwrite=overwrite)


def read_secret(path: Path) -> bytes:
    """Read a key file. Raises UsageError if it is missing, short or readable by others."""
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            secret = file.read(KEY_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(
            f"--key-file {path}: {error.strerror}; make one: (umask 077; head -c 32 /dev/urandom > {path})"
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"--key-file {path}: users other than its owner may read it; run: chmod 600 {path}")
    if not KEY_BYTES_MIN <= len(secret) <= KEY_BYTES_MAX:
        raise UsageError(
            f"--key-file {path}: has {len(secret):,} bytes; a secret has at least {KEY_BYTES_MIN}:"
            " head -c 32 /dev/urandom"
        )
    return secret


def anonymiser(secret: bytes) -> Callable[[str], str]:
    """Return a function that anonymises a key; it depends only on the secret."""
    hashed = hashlib.blake2b(secret, digest_size=32, person=b"archiver trace").digest()

    def digest(path: str) -> str:
        return hashlib.blake2b(path.encode(), key=hashed, digest_size=_DIGEST_BYTES).hexdigest()

    @lru_cache(_FOLDERS_CACHED)
    def folder(path: str) -> str:
        return joined(path)

    def joined(path: str) -> str:
        above, slash, name = path.rpartition("/")
        part = digest(path) if name else ""
        return f"{folder(above)}/{part}" if slash else part

    def name_of(key: str) -> str:
        parts = key.split("/", PARTS_MAX - 1)
        if len(parts) == PARTS_MAX and "/" in parts[-1]:
            return joined("/".join(parts[:-1])) + "/" + digest(key)
        return joined(key)

    return name_of


def _renamed(keys: pa.Array, name_of: Callable[[str], str]) -> pa.Array:
    if keys.null_count == len(keys):
        return keys
    coded = keys.dictionary_encode()
    names = pa.array([name_of(key) for key in coded.dictionary.to_pylist()], pa.string())
    return names.take(coded.indices)
