"""The buffers into which the network writes what clients send.

One idea: new memory is expensive, because the system clears every page of it first. So a buffer is used again as soon
as no view of it is left.
"""

from __future__ import annotations

BUFFER_BYTES = 1 << 20  # more than the longest frame that is parsed in one piece
_KEPT_MAX = 48


class ReceiveBuffers:
    """The buffers of all sessions and connections."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self) -> bytearray:
        """Return an unused buffer; its contents are undefined."""
        for buffer in self._kept:
            if _is_free(buffer):
                return buffer
        buffer = bytearray(BUFFER_BYTES)
        if len(self._kept) < _KEPT_MAX:
            self._kept.append(buffer)
        return buffer


def _is_free(buffer: bytearray) -> bool:
    """Return whether no view of the buffer is left, neither of its receiver nor of an object in it."""
    try:
        buffer.append(0)  # a bytearray with a view cannot change its length
    except BufferError:
        return False
    buffer.pop()
    return True
