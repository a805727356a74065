"""Files of commands: a run's database that they read, and documents that they write.

A damaged or forged file may contain anything where a number should be. Any error from that ends in one message that
names the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
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


def write_files(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder and return their paths. A name may have folders; all folders are created if necessary.

    Files of the same names are replaced. Raises ResultsError if a file cannot be written.
    """
    paths = [folder / name for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise ResultsError(f"cannot write {path}: {error.strerror}; name another folder with --out") from error
    return paths
