"""Growing arrays in files, so that the facts about a long trace take disk space instead of memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class GrowingArray:
    """One growing array. The kernel can reclaim its pages."""

    def __init__(self, file: IO[bytes], dtype: DTypeLike) -> None:
        self.values: NDArray[Any] = np.zeros(0, dtype=dtype)
        self._file = file

    def reach(self, count: int) -> None:
        """Extend the array with zeros to at least ``count`` places. Raises OSError if the disk is full."""
        if len(self.values) >= count:
            return
        places = max(count, 2 * len(self.values))
        size_bytes = places * self.values.itemsize
        os.posix_fallocate(self._file.fileno(), 0, size_bytes)  # otherwise a full disk would end the process later
        self.values = np.frombuffer(mmap.mmap(self._file.fileno(), size_bytes), dtype=self.values.dtype)


class GrowingArrays(ExitStack):
    """The growing arrays of one task, in unnamed files that vanish at the end of the context."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def of(self, dtype: DTypeLike) -> GrowingArray:
        """Return an empty array. Raises OSError if the folder is not writable."""
        return GrowingArray(self.enter_context(tempfile.TemporaryFile(dir=self._folder)), dtype)
