"""docs/reference/json.md as data: the fields of each document, to compare real documents with the page.

One idea: where the kind of a field links to another heading, the values of the field have the fields of that table.
The comparison follows these links and returns all fields that it found, so that a test can also find rows of the page
that no document has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from archiver.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
_SECTION = re.compile(r"^#{2,3} ([^\n]+)\n(.*?)(?=^#{2,3} |\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `([\w.]+)` \| (.*?) \| .*\|$", re.MULTILINE)
_LINK = re.compile(r"\[(\w+)\]\(#\w+\)")

Met = set[tuple[str, str]]


def tables() -> dict[str, dict[str, str]]:
    """Return {heading: {field: kind}}. A heading that includes the fields of another heading has those as well."""
    found, more = {}, {}
    for heading, text in _SECTION.findall(PAGE.read_text()):
        found[heading] = dict(_ROW.findall(text))
        more[heading] = re.findall(r"^(?:A|and the fields of) \[(\w+)\]\(#", text, re.MULTILINE)
    return {
        heading: {field: kind for each in (*more[heading], heading) for field, kind in found[each].items()}
        for heading in found
        if found[heading]
    }


def generated() -> set[str]:
    """Return the headings whose tables are generated from the code and therefore complete."""
    marked = re.findall(r"<!-- begin fields .*?-->(.*?)<!-- end -->", PAGE.read_text(), re.DOTALL)
    return {heading for part in marked for heading in re.findall(r"^### (\w+)", part, re.MULTILINE)}


def compare(document: Mapping[str, Any], heading: str) -> Met:
    """Assert that the page has every field of a document and its kind. Return (heading, field) of all fields found."""
    fields = tables()[heading]
    unknown = set(document) - set(fields)
    assert not unknown, f"{heading}: the page does not have {sorted(unknown)}"
    met = {(heading, field) for field in document}
    for field, value in document.items():
        for kind, each in _values(f"{heading}.{field}", fields[field], value):
            met |= compare(each, kind)
    return met


def _values(what: str, kind: str, value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Check the kind of a value; yield (heading, value) for each value in it that has its own table."""
    linked = _LINK.search(kind)
    if value is None:
        assert "null" in kind or kind == "anything", f"{what} is null; the page says {kind}"
    elif kind.endswith(" by name"):
        assert isinstance(value, dict), f"{what} is {value!r:.60}; the page says {kind}"
        for each in value.values():
            yield from _values(what, kind.removesuffix(" by name"), each)
    elif kind.startswith("list of "):
        assert isinstance(value, list | tuple), f"{what} is {value!r:.60}; the page says {kind}"
        for each in value:
            yield from _values(what, kind.removeprefix("list of ").removesuffix(" or null"), each)
    elif linked:
        assert isinstance(value, dict), f"{what} is {value!r:.60}; the page says {kind}"
        yield linked[1], value
    else:
        assert _is_of_kind(kind, value), f"{what} is {value!r:.60}; the page says {kind}"


def _is_of_kind(kind: str, value: Any) -> bool:
    if "anything" in kind or kind.startswith("pair of "):
        return True
    if isinstance(value, bool):
        return "true or false" in kind
    if isinstance(value, int):
        return "number" in kind
    if isinstance(value, float):
        return bool(re.search(r"(?<!whole )number", kind))
    return isinstance(value, str) and "text" in kind


def printed(*arguments: str) -> dict[str, Any]:
    """Run a command in this process; return the JSON document that it prints."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document
