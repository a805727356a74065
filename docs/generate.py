"""Write what the reference pages say of the code: commands, database tables, the fields of JSON documents.

One idea: a page is prose with marked places, ``<!-- begin WHAT -->`` to ``<!-- end -->``, and what stands between them
is made from the code itself, so it cannot say anything else. ``python -m docs.generate`` writes all pages anew.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import cleandoc
from pathlib import Path

import click

from archiver.cli import main
from archiver.cli.runs.run import MeasuringCommand, options_under_headings

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs"
_MARKED = re.compile(r"(<!-- begin (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_WORDS = {
    "int": "whole number",
    "float": "number",
    "str": "text",
    "bool": "true or false",
    "None": "null",
    "Any": "anything",
    "Kind": "text",
}
_SQL_COLUMN = re.compile(r"^ {4}(\w+) +(INTEGER|REAL|TEXT|BLOB)\b([^-]*)(?:-- (.*))?$")


def generated(text: str) -> str:
    """A page with every marked place filled anew."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{_part(found[2])}\n{found[3]}", text)


def _part(what: str) -> str:
    kind, *names = what.split()
    return "\n".join(_KINDS[kind](*names))


def all_commands(group: click.Group = main, prefix: str = "archiver") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its full name, by name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        full = f"{prefix} {name}"
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield full, command
        if isinstance(command, click.Group):
            yield from all_commands(command, full)


def _commands() -> Iterator[str]:
    for name, command in all_commands():
        context = click.Context(command, info_name=name)
        yield f"## {name}\n"
        yield "    " + " ".join([name, *command.collect_usage_pieces(context)]) + "\n"
        for block in re.split(r"\n{2,}", cleandoc(command.help or "")):
            yield _block(block) + "\n"
        for heading, options in _sections(command):
            if rows := [record for each in options if (record := each.get_help_record(context))]:
                yield f"| {heading} | |\n| --- | --- |"
                for flags, text in rows:
                    yield f"| `{_cell(flags)}` | {_cell(_plain(text))} |"
                yield ""


def _sections(command: click.Command) -> Iterable[tuple[str, Sequence[click.Option]]]:
    """The headings of a command's help, each with its options."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    return options_under_headings(options) if isinstance(command, MeasuringCommand) else [("Options", options)]


def _command_list() -> Iterator[str]:
    """A row for each command: a link to its options, and the first sentence of its help."""
    yield "| command | |\n| --- | --- |"
    for name, command in all_commands():
        anchor = name.replace(" ", "-")
        yield f"| [`{name}`](reference/commands.md#{anchor}) | {_cell(_plain(command.get_short_help_str(120)))} |"


def _block(block: str) -> str:
    """A paragraph, or what stands as it is: lines behind a ``\\b``."""
    if not block.startswith("\b\n"):
        return _wrapped(block)
    lines = block.removeprefix("\b").strip("\n").splitlines()
    return "\n".join(["```text", *(line.replace("\b", "") for line in lines), "```"])


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, but for what stands in backticks."""
    parts = text.replace("``", "`").split("`")
    parts[::2] = [re.sub(r"([*_<\[])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _wrapped(text: str) -> str:
    return textwrap.fill(_plain(text), 120, break_long_words=False, break_on_hyphens=False)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _schema(path: str) -> Iterator[str]:
    """The tables of an SQL file: the comment above each, its columns with theirs, its constraints."""
    for paragraph in (ROOT / path).read_text().split("\n\n"):
        above, begins, body = paragraph.partition("CREATE TABLE ")
        if not begins:
            continue
        head, *lines = body.removeprefix("IF NOT EXISTS ").splitlines()
        yield f"### {head.removesuffix(' (')}\n"
        told = " ".join(re.findall(r"^-- (.*)", above, re.MULTILINE))
        if told:
            yield f"{_wrapped(told)}\n"
        yield "| column | type | |\n| --- | --- | --- |"
        for column in filter(None, map(_SQL_COLUMN.match, lines)):
            kind = column[2].lower() + (", never null" if re.search("NOT NULL|PRIMARY KEY", column[3]) else "")
            yield f"| `{column[1]}` | {kind} | {_cell(_plain(column[4] or ''))} |"
        for key in re.findall(r"^ {4}((?:PRIMARY|FOREIGN) KEY .*?),?$", "\n".join(lines), re.MULTILINE):
            yield f"\n`{key}`"
        yield ""


def _fields(path: str, *names: str) -> Iterator[str]:
    """The fields of dataclasses of one module: name, kind, and the comment beside each."""
    lines = (ROOT / path).read_text().splitlines()
    classes = {each.name: each for each in ast.parse("\n".join(lines)).body if isinstance(each, ast.ClassDef)}
    for name in names:
        yield f"### {name}\n"
        told = _null(ast.get_docstring(classes[name]) or "")
        yield _wrapped(told) + "\n"
        yield "| field | type | meaning |\n| --- | --- | --- |"
        for each in classes[name].body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                comment = _null(lines[each.lineno - 1].partition("  # ")[2])
                yield f"| `{each.target.id}` | {_kind(each.annotation)} | {_cell(_plain(comment))} |"
        yield ""


def _null(text: str) -> str:
    """As JSON calls it."""
    return re.sub(r"\bNone\b", "null", text)


def _kind(annotation: ast.expr) -> str:
    """A field's kind in words; of another value, its place on the page."""
    if isinstance(annotation, ast.BinOp):
        return f"{_kind(annotation.left)} or {_kind(annotation.right)}"
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        first, second = annotation.slice.elts
        if ast.unparse(annotation.value) == "dict":
            return f"{_kind(second)} by name"
        last = isinstance(second, ast.Constant)  # tuple[X, ...]
        return f"list of {_kind(first)}" if last else f"pair of {_kind(first)} and {_kind(second)}"
    word = ast.unparse(annotation)
    return _WORDS.get(word) or f"[{word}](#{word.lower()})"


_KINDS: dict[str, Callable[..., Iterator[str]]] = {
    "commands": _commands,
    "command-list": _command_list,
    "schema": _schema,
    "fields": _fields,
}


if __name__ == "__main__":
    for page in sorted(PAGES.rglob("*.md")):
        before = page.read_text()
        if (after := generated(before)) != before:
            page.write_text(after)
            print(f"{page.relative_to(ROOT)} written anew")
