"""Values with types from documents without: JSON, TOML.

msgspec makes its table of a type at the first document of that type. While one thread makes it, a second thread may
read it half made, which ends the process (seen with msgspec 0.22 in `archiver web`, whose threads read databases). So
only these functions convert, and a lock lets them convert one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar

import msgspec

from archiver.values.errors import ResultsError

_Value = TypeVar("_Value")
Decode = Callable[[type, Any], Any]

_lock = RLock()  # of one thread again, where a decoding function itself converts


def typed(document: Any, kind: type[_Value], decode: Decode | None = None) -> _Value:
    """Return the value of this kind from a document. ``decode`` makes the types that msgspec does not know.

    Raises msgspec.ValidationError naming the place, and what is wrong there.
    """
    with _lock:
        return msgspec.convert(document, kind, dec_hook=decode)


def typed_json(text: bytes | str, kind: type[_Value], decode: Decode | None = None) -> _Value:
    """Return the value of this kind from JSON. Raises msgspec.DecodeError for other text, too."""
    with _lock:
        return msgspec.json.decode(text, type=kind, dec_hook=decode)


def undamaged(kind: type[_Value], document: Any) -> _Value:
    """Return the value of a recorded document. Raises ResultsError naming what is missing or of another kind."""
    try:
        return typed(document, kind)
    except msgspec.ValidationError as error:
        raise ResultsError(f"{kind.__name__}: {error}; the document is damaged or not Archiver's") from error
