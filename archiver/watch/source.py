"""The interface of a source of server resource usage.

One idea: a source returns all its values at one instant, or a message of one sentence why it cannot. The sampler
repeats reads, records the times and keeps the samples.
"""

from __future__ import annotations

from typing import Protocol

from results.recorded.resources import Reading


class WatchError(Exception):
    """A source could not be read. The message names the source, the reason, and what to do."""


class Source(Protocol):
    """One source, read about once a second from one thread at a time. Subclasses inherit the common defaults."""

    name: str  # as the user names it: local, pid:123, name:minio, minio, prometheus:http://...

    @property
    def counts_late_seconds(self) -> float:
        """Return the maximum age of its counters, as far as it is known."""
        return 0.0

    def read(self) -> Reading:
        """Read all values, by names of results.recorded.resources.QUANTITIES. Raises WatchError."""
