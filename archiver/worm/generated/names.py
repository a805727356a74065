"""Names of records: the endings that stores confuse, and the twins of a name.

One idea: two names are two objects, however similar they are. A twin is a name that a store may take for the record's.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping

from archiver.worm.generated.dimensions import Naming, PriorEvent

KEY_BYTES_MAX = 1024

ENDINGS: Mapping[Naming, str] = {  # after the unique part of a key
    Naming.PLAIN: "/record",
    Naming.MIXED_CASE: "/Record",
    Naming.COMPOSED: "/rek\u00e4rd",
    Naming.DECOMPOSED: "/reka\u0308rd",
    Naming.DOT_SEGMENT: "/./record",
    Naming.PARENT_SEGMENT: "/x/../record",
    Naming.DOUBLE_SLASH: "//record",
    Naming.ENCODED_SLASH: "/a%2Frecord",
    Naming.SPACE_AND_PLUS: "/a record+1",
    Naming.TRAILING_SLASH: "/record/",
    Naming.TRAILING_DOT: "/record.",
    Naming.TRAILING_SPACE: "/record ",
    Naming.LONGEST: "/record",  # filled up
    Naming.BEYOND_BMP: "/record\U0001f5c4",
    Naming.MARKUP: "/a&b<c>'\"",
    Naming.QUERY_LIKE: "/a?versionId=1&b",
    Naming.BACKSLASH: "/a\\record",
    Naming.HIDDEN: "/.record",
}
TWINS: Mapping[PriorEvent, Callable[[str], str]] = {
    PriorEvent.TWIN_DOT: lambda key: _before_last(key, "./"),
    PriorEvent.TWIN_PARENT: lambda key: _before_last(key, "x/../"),
    PriorEvent.TWIN_SLASHES: lambda key: _before_last(key, "/"),
    PriorEvent.TWIN_DELETED: lambda key: _before_last(key, "/"),
    PriorEvent.TWIN_TRAILING_SLASH: lambda key: key + "/",
    PriorEvent.TWIN_TRAILING_SPACE: lambda key: key + " ",
    PriorEvent.TWIN_CASE: lambda key: key[:-5] + key[-5:].swapcase(),
    PriorEvent.TWIN_NORMAL_FORM: lambda key: _other_form(key),
    PriorEvent.BELOW: lambda key: key + "/below",
}


def named(unique: str, naming: Naming) -> str:
    """Return a key that begins with ``unique`` and has this kind of ending."""
    filling = ""
    if naming is Naming.LONGEST:
        free = KEY_BYTES_MAX - len((unique + ENDINGS[naming]).encode())
        filling = ("/" + "n" * 99) * (free // 100) + "n" * (free % 100)  # no segment longer than file systems allow
    return unique + filling + ENDINGS[naming]


def _before_last(key: str, inserted: str) -> str:
    """Insert text before the last segment of a key, which may end with a slash."""
    start = key.rstrip("/").rfind("/") + 1
    return key[:start] + inserted + key[start:]


def _other_form(key: str) -> str:
    """Return the key in the other Unicode form, or with a combining dot if both are the same."""
    composed, decomposed = unicodedata.normalize("NFC", key), unicodedata.normalize("NFD", key)
    if composed == decomposed:
        return key + "\u0307"
    return decomposed if key == composed else composed
