"""What a source of server resource usage is.

One idea: a source is asked for everything it knows at one instant and either answers or says in one sentence why it
cannot. Asking again and again, clocks and keeping are the sampler's business.
"""

from __future__ import annotations

from typing import Protocol

from results.resources import Reading


class WatchError(Exception):
    """A source could not be read; the message says which, why, and what to do."""


class Source(Protocol):
    """One source, asked about once a second from one thread at a time. Inherited from, for what is the same in most."""

    name: str  # as it was chosen: local, pid:123, name:minio, minio, prometheus:http://...

    @property
    def counts_late_seconds(self) -> float:
        """How old what it counts may be, as far as is known by now."""
        return 0.0

    def read(self) -> Reading:
        """Everything it knows now, under names of results.resources.QUANTITIES. Raises WatchError."""
