"""A run's database while a command reads it.

One idea: a file that was damaged or forged may hold anything where a number should be. Whatever breaks on that ends in
one message, which names the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archiver.values.errors import ResultsError
from results.database import RunDatabase

DAMAGES = (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


@contextmanager
def opened(path: Path) -> Iterator[RunDatabase]:
    """The database, closed at the end. Raises ResultsError for whatever is wrong with it, here or within."""
    database = RunDatabase.open(path)
    try:
        yield database
    except DAMAGES as error:
        raise ResultsError(
            f"{database.path}: damaged, and cannot be read to its end ({error!r}); read a copy of it"
        ) from error
    finally:
        database.close()
