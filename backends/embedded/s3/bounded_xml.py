"""A parser for XML from untrusted clients: it accepts small, plain documents only.

One idea: the limits apply while the document is parsed, in any encoding. The bytes alone do not show the cost: a search
for the name of a document type misses one in UTF-16, and a megabyte can contain a million elements.
"""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

ELEMENTS_MAX = 60_000  # enough for 10,000 parts with numbers, ETags and checksums
DEPTH_MAX = 16


class NotPlain(Exception):
    """The body is no XML, has a document type, has too many elements or is nested too deeply."""


def parse(body: bytes) -> Element:
    """Return the root element. Raises NotPlain."""
    parser = ElementTree.XMLParser(target=_Builder())
    try:
        parser.feed(body)
        root: Element = parser.close()
    except (ElementTree.ParseError, LookupError, ValueError) as failed:  # the latter two: an unknown encoding
        raise NotPlain from failed
    return root


class _Builder(ElementTree.TreeBuilder):
    def __init__(self) -> None:
        super().__init__()
        self._elements = self._depth = 0

    def doctype(self, *_: object) -> None:
        raise NotPlain  # S3 needs no entities, and they can do harm

    def start(self, tag: str, attributes: dict[str, str], /) -> Element:
        self._elements += 1
        self._depth += 1
        if self._elements > ELEMENTS_MAX or self._depth > DEPTH_MAX:
            raise NotPlain
        return super().start(tag, attributes)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)
