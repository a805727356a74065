"""Every exception of Archiver, so that the whole tree is visible at once.

Grouped by what the caller can do about it, because that is what the exit status tells: change the command (2),
mend the platform or its address (3), look at what was measured (1). A platform's answer to one operation is never
an exception: it is a recorded row with a reason.
"""

from __future__ import annotations


class ArchiverError(Exception):
    """Base of all. ``str()`` says what happened, to which thing, and what to do."""

    exit_status = 1


class UsageError(ArchiverError):
    """The command, an option or a scenario is wrong; nothing was touched."""

    exit_status = 2


class ScenarioError(UsageError):
    """A scenario file or a ``--set`` override is wrong: names the file, the key and the remedy."""


class SafetyRefused(UsageError):
    """A guard refused to lock data that long, that much, or in that mode."""


class NotEnoughSpace(UsageError):
    """The run's upper bound of bytes does not fit where the store keeps its data."""


class PlatformError(ArchiverError):
    """The platform could not be reached or refused the set-up."""

    exit_status = 3


class RunFailed(ArchiverError):
    """The run ended early; what finished is saved."""


class ResultsError(ArchiverError):
    """A results database is missing, damaged, of another version, or lacks what was asked for."""


class StoreError(ArchiverError):
    """The embedded store cannot start or go on."""

    exit_status = 3


class Damaged(StoreError):
    """Stored bytes no longer match their checksum; they are never served."""
