"""The memory into which the network writes what clients of the TSM door send.

One idea: new memory costs more than what is done with it, because the system clears every page of it first. So a
buffer is used again as soon as nobody looks at its bytes any more.
"""

from __future__ import annotations

BUFFER_BYTES = 1 << 20  # more than the longest frame that is parsed in one piece, and room for more to come
_KEPT_MAX = 48


class ReceiveBuffers:
    """The buffers of all sessions."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self) -> bytearray:
        """A buffer that nobody uses; what it holds means nothing."""
        for buffer in self._kept:
            if _is_free(buffer):
                return buffer
        buffer = bytearray(BUFFER_BYTES)
        if len(self._kept) < _KEPT_MAX:
            self._kept.append(buffer)
        return buffer


def _is_free(buffer: bytearray) -> bool:
    """Whether no view is left of it, neither a session's that fills it nor an object's that lies in it."""
    try:
        buffer.append(0)  # what is looked at cannot change its length
    except BufferError:
        return False
    buffer.pop()
    return True
