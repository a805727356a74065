"""A file of several loads, NEED.toml: each is written with the options of its ``archiver plan`` command.

The commands read the options themselves. So a file and a command line mean the same and are refused with equal words.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from archiver.values.errors import UsageError
from results.planning.combined import CombinedRequest
from results.planning.loads import PlanRequest

_OF_ALL_LOADS = ("years", "headroom", "usable", "redundancy", "objects-max", "prices")
_OF_THE_PURCHASE = ("purchase", "budget", "budget-per-tb", "must")
_OF_OUTPUT = ("json", "out", "from", "what-if")
_FILES = ("prices", "size-histogram")  # relative to the folder of NEED.toml


def read_need(
    path: Path,
    commands: Mapping[str, click.Command],
    request_of: Callable[[str, Mapping[str, Any]], PlanRequest],
) -> CombinedRequest:
    """Return the request in a TOML file. Raises UsageError naming the file, the load and the key.

    ``commands``: the command of each kind of load. ``request_of``: the request for a kind and its parameters.
    """
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # RecursionError: too deeply nested
        raise UsageError(f"{path}: not TOML: {error}") from error
    loads = document.pop("load", [])
    if not isinstance(loads, list) or not loads or not all(isinstance(load, dict) for load in loads):
        raise UsageError(f'{path}: write each load as a table [[load]], with kind = "mail" and the options of its plan')
    unknown = [key for key in document if key not in (*_OF_ALL_LOADS, *_OF_THE_PURCHASE)]
    if unknown:
        known = ", ".join((*_OF_ALL_LOADS, *_OF_THE_PURCHASE))
        raise UsageError(f"{path}: unknown key {unknown[0]!r}; above the loads there are: {known}")
    shared = _options(path, {key: value for key, value in document.items() if key in _OF_ALL_LOADS})
    requests: dict[str, PlanRequest] = {}
    for number, load in enumerate(loads, 1):
        kind = load.pop("kind", None)
        name = str(load.pop("name", kind))
        where = f"{path}: load {number} ({name})"
        if kind not in commands:
            raise UsageError(f"{where}: kind: {kind!r} is not one of {', '.join(commands)}")
        if name in requests:
            raise UsageError(f"{where}: two loads have this name; give each a name")
        misplaced = [key for key in load if key in (*_OF_ALL_LOADS, *_OF_THE_PURCHASE, *_OF_OUTPUT)]
        if misplaced:
            raise UsageError(f"{where}: {misplaced[0]} is not a key of a load; what all loads share is above [[load]]")
        try:
            context = commands[kind].make_context(kind, [*shared, *_options(path, load)])
            requests[name] = request_of(kind, context.params)
        except click.ClickException as error:
            raise UsageError(f"{where}: {error.format_message()}") from error
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
    return CombinedRequest(
        requests=tuple(requests.items()),
        purchase_years=_purchase(path, document.get("purchase", [1])),
        prices=next(iter(requests.values())).prices,
        budget=_amount(path, "budget", document),
        budget_per_tb=_amount(path, "budget-per-tb", document),
        musts=_musts(path, document.get("must", [])),
    )


def _options(path: Path, table: Mapping[str, Any]) -> list[str]:
    """Return a table as options of a command line. A list is an option that is given several times."""
    return [
        f"--{key}={path.parent / str(each) if key in _FILES else each}"
        for key, value in table.items()
        for each in (value if isinstance(value, list) else [value])
    ]


def _purchase(path: Path, years: Any) -> tuple[int, ...]:
    if not isinstance(years, list) or not all(isinstance(year, int) for year in years):
        raise UsageError(f"{path}: purchase: {years!r}; write a list of years, such as [1, 4]")
    return tuple(years)


def _musts(path: Path, texts: Any) -> tuple[str, ...]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f'{path}: must: {texts!r}; write a list of phrases, such as ["no S1", "within budget"]')
    return tuple(texts)


def _amount(path: Path, key: str, document: Mapping[str, Any]) -> float | None:
    amount = document.get(key)
    if amount is not None and not (isinstance(amount, int | float) and 0 < amount < float("inf")):
        raise UsageError(f"{path}: {key}: {amount!r}; write an amount above 0")
    return amount
