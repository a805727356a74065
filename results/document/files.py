"""What commands write: files, and documents as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archiver.values.errors import ResultsError
from archiver.values.visible import visible

_TEXTS = (".csv", ".html", ".json", ".md", ".svg", ".xml")


def write_files(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder and return their paths. A name may have folders; all folders are created if necessary.

    Texts show hidden characters. Files of the same names are replaced. Raises ResultsError if a file cannot be written.
    """
    paths = [folder / name for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(visible(content.decode()).encode() if path.suffix in _TEXTS else content)
        except OSError as error:
            raise ResultsError(f"cannot write {path}: {error.strerror}; name another folder with --out") from error
    return paths


def json_text(document: Mapping[str, Any]) -> str:
    """Return a run document as text, for printing and saving.

    A NaN is a programming error, because JSON cannot express it.
    """
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
