"""The memory into which the network writes what clients of the TSM door send.

One idea: new memory costs more than what is done with it, because the system clears every page of it first. So a
buffer is used again as soon as nobody looks at its bytes any more.
"""

from __future__ import annotations

import sys

BUFFER_BYTES = 1 << 20  # more than the longest frame that is parsed in one piece, and room for more to come
_KEPT_MAX = 48


class ReceiveBuffers:
    """The buffers of all sessions."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self) -> bytearray:
        """A buffer that nobody uses; what it holds means nothing."""
        for buffer in self._kept:
            # Held by the list, by the loop's name and by the call: no session is filling it, and no view of an object
            # in it is left.
            if sys.getrefcount(buffer) == 3:
                return buffer
        buffer = bytearray(BUFFER_BYTES)
        if len(self._kept) < _KEPT_MAX:
            self._kept.append(buffer)
        return buffer
