"""The interface of a source of server resource usage.

One idea: a source returns all its values at one instant, or says in one sentence why it cannot. The sampler repeats
reads, takes the times and keeps the samples.
"""

from __future__ import annotations

from typing import Protocol

from results.resources import Reading


class WatchError(Exception):
    """A source could not be read; the message says which, why, and what to do."""


class Source(Protocol):
    """One source, read about once a second from one thread at a time. Subclasses inherit what most of them share."""

    name: str  # as the user names it: local, pid:123, name:minio, minio, prometheus:http://...

    @property
    def counts_late_seconds(self) -> float:
        """Maximum age of its counters, as far as is known by now."""
        return 0.0

    def read(self) -> Reading:
        """Read all values, by names of results.resources.QUANTITIES. Raises WatchError."""
