"""A form with the options of one command: its fields, and the command's arguments from a query string."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from archiver.values.errors import UsageError


class FieldKind(StrEnum):
    """Kind of input that a field accepts."""

    TEXT = "text"
    WHOLE_NUMBER = "number"
    CHOICE = "choice"
    FLAG = "flag"
    FILE = "file"  # the text of a file
    RUN = "run"  # a run's id, or a reference


@dataclass(frozen=True, slots=True)
class FormField:
    """One option of a command."""

    name: str  # without its dashes
    kind: FieldKind
    help: str
    required: bool
    default: str  # empty: none
    choices: tuple[str, ...]  # of a choice; for a run, the sources that need no run


@dataclass(frozen=True, slots=True)
class CommandForm:
    """The form of one command."""

    words: tuple[str, ...]  # of the command, such as plan, mail
    about: str
    fields: tuple[FormField, ...]

    @property
    def name(self) -> str:
        return self.words[-1]


def command_arguments(
    form: CommandForm, given: Sequence[tuple[str, str]], runs: Collection[str], folder: Path
) -> list[str]:
    """Return the command's arguments for the filled fields. The text of files is written into ``folder``.

    A run is one of ``runs`` and never a path, so that the form opens no file of this machine. Raises UsageError for an
    unknown field, a field that is given twice, or a run that is not listed.
    """
    fields = {field.name: field for field in form.fields}
    names = [name for name, _ in given]
    for name in names:
        if name not in fields:
            raise UsageError(f"{form.name} has no input {name}; its inputs are {', '.join(fields)}")
        if names.count(name) > 1:
            raise UsageError(f"{name} is given twice; give each input once")
    arguments = list(form.words)
    for name, text in given:
        field, value = fields[name], text.strip()
        if not value:
            continue
        if field.kind is FieldKind.FLAG:
            arguments.append(f"--{name}")
            continue
        if field.kind is FieldKind.RUN and value not in (*runs, *field.choices):
            raise UsageError(f"{name} {value}: there is no such run here; choose one of the list")
        if field.kind is FieldKind.FILE:
            path = folder / f"{name}.{'toml' if '=' in value else 'csv'}"
            path.write_text(value + "\n", encoding="utf-8")
            value = str(path)
        arguments.append(f"--{name}={value}")
    return arguments
