"""Open a run's database for a command that reads it.

A damaged or forged file may contain anything where a number should be. Any error from that ends in one message that
names the file.
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
    """Yield the database and close it at the end. Raises ResultsError for any problem with the file or its contents."""
    database = RunDatabase.open(path)
    try:
        yield database
    except DAMAGES as error:
        raise ResultsError(
            f"{database.path}: damaged, and cannot be read to its end ({error!r}); read a copy of it"
        ) from error
    finally:
        database.close()
