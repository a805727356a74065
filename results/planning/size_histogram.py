"""Size distribution of a load's objects, from a CSV or TOML file.

A share is a part of the objects, not of the bytes. Shares that do not sum to 1 (or 100%) are an error. They are not
scaled.
"""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archiver.values.errors import UsageError
from archiver.values.sizes import parse_size

_ROUNDING = 0.005  # rounding error allowed in the sum of the shares


def read_size_histogram(path: Path) -> list[tuple[int, float]]:
    """Return (object bytes, share of the objects), smallest first; the shares sum to 1.

    A file that ends in ``.toml`` has tables ``[[size]]`` with ``size`` and ``share``. Any other is CSV with a first
    line ``size,share``. Write a size as 8KiB, a share as 0.25 or 25%. Raises UsageError naming file and line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    rows = _toml_rows(path, text) if path.suffix == ".toml" else _csv_rows(path, text)
    shares: dict[int, float] = {}
    for where, size_text, share_text in rows:
        size = _size(where, size_text)
        if size in shares:
            raise UsageError(f"{where}: size {size_text} occurs twice; write it once, with the sum of its shares")
        shares[size] = _share(where, share_text)
    total = sum(shares.values())
    if not shares:
        raise UsageError(
            f"{path}: there are no sizes; each line has a size and its share of the objects, such as 8KiB,0.25"
        )
    if abs(total - 1) > _ROUNDING:
        raise UsageError(
            f"{path}: the shares sum to {total:.4g}, not to 1 (100%); give the share of all objects for each size"
        )
    return [(size, share / total) for size, share in sorted(shares.items())]


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, str, str]]:
    lines = [(number, row) for number, row in enumerate(csv.reader(text.splitlines()), 1) if any(map(str.strip, row))]
    if not lines or [name.strip() for name in lines[0][1]] != ["size", "share"]:
        raise UsageError(f"{path}: the first line must be size,share, and each further line such as 8KiB,0.25")
    for number, row in lines[1:]:
        if len(row) != 2:
            raise UsageError(f"{path}, line {number}: {len(row)} fields; write a size and a share, such as 8KiB,0.25")
        yield f"{path}, line {number}", row[0].strip(), row[1].strip()


def _toml_rows(path: Path, text: str) -> Iterator[tuple[str, str, str]]:
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: too deeply nested
        raise UsageError(f"{path}: not TOML: {error}") from error
    tables = document.get("size", [])
    if set(document) - {"size"} or not isinstance(tables, list):
        raise UsageError(f"{path}: the file may contain only [[size]] tables")
    for number, table in enumerate(tables, 1):
        where = f"{path}, [[size]] {number}"
        if not isinstance(table, dict) or set(table) != {"size", "share"}:
            raise UsageError(f'{where}: write size and share, such as size = "8KiB" and share = 0.25')
        yield where, str(table["size"]), str(table["share"])


def _size(where: str, text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error
    if not size:
        raise UsageError(f"{where}: an object of 0 bytes cannot be planned; leave it out or give it a size")
    return size


def _share(where: str, text: str) -> float:
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        raise UsageError(f"{where}: {text!r} is not a share; write it as 0.25 or 25%") from None
    if not (math.isfinite(share) and 0 < share <= 1):
        raise UsageError(f"{where}: {text} is not a share; it must be above 0, and at most 1 (100%)")
    return share
