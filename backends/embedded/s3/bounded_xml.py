"""XML from strangers: parsed as long as it stays a small, plain document.

One idea: a document is judged while it is parsed, whatever its encoding. What bytes look like says nothing of what they
come to: a document type in UTF-16 is invisible to a search for its name, and a megabyte can be a million elements.
"""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

ELEMENTS_MAX = 60_000  # 10,000 parts with their numbers, ETags and checksums fit
DEPTH_MAX = 16


class NotPlain(Exception):
    """It is no XML, has a document type, or has too many elements or too deep ones."""


def parse(body: bytes) -> Element:
    """The root element. Raises NotPlain."""
    parser = ElementTree.XMLParser(target=_Builder())
    try:
        parser.feed(body)
        root: Element = parser.close()
    except (ElementTree.ParseError, LookupError, ValueError) as failed:  # the latter two: an encoding that is none
        raise NotPlain from failed
    return root


class _Builder(ElementTree.TreeBuilder):
    def __init__(self) -> None:
        super().__init__()
        self._elements = self._depth = 0

    def doctype(self, *_: object) -> None:
        raise NotPlain  # entities in one can only do harm

    def start(self, tag: str, attributes: dict[str, str], /) -> Element:
        self._elements += 1
        self._depth += 1
        if self._elements > ELEMENTS_MAX or self._depth > DEPTH_MAX:
            raise NotPlain
        return super().start(tag, attributes)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)
