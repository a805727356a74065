"""Every exception of Archiver.

They are grouped by what the caller can do, like the exit status: change the command (2), repair the platform or its
address (3), look at the results (1). A platform's answer to one operation is never an exception: it is a recorded row
with a reason.
"""

from __future__ import annotations


class ArchiverError(Exception):
    """Base class. ``str()`` gives what happened, to which thing, and what to do."""

    exit_status = 1


class UsageError(ArchiverError):
    """The command, an option or a scenario is wrong; nothing was changed."""

    exit_status = 2


class ScenarioError(UsageError):
    """A scenario file or a ``--set`` override is wrong; the message names the file, the key and the remedy."""


class SafetyRefused(UsageError):
    """A guard refused a lock that is too long, of too much data, or of a forbidden mode."""


class NotEnoughSpace(UsageError):
    """The run's upper bound of bytes exceeds the free space of the store."""


class PlatformError(ArchiverError):
    """The platform could not be reached, or refused the set-up."""

    exit_status = 3


class PlatformGone(PlatformError):
    """The platform does not answer, or has nothing of a run whose objects are locked: its data may be gone."""


class RunFailed(ArchiverError):
    """The run ended early; finished results are saved."""


class ResultsError(ArchiverError):
    """A results database is missing, damaged, of another version, or lacks what the user requested."""


class StoreError(ArchiverError):
    """The embedded store cannot start or continue."""

    exit_status = 3


class Damaged(StoreError):
    """Stored bytes do not match their checksum; they are never served."""


def other_version(file: object, found: object, known: int) -> str:
    """Return the message about a file whose format has another version than this Archiver reads."""
    return f"{file}: has format version {found}, and this Archiver reads only {known}; use the Archiver that wrote it"
