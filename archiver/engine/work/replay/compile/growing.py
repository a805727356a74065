"""Arrays that grow and lie in files, so that what is known of a long trace takes disk, not memory."""

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
    """One of them. Its pages are the kernel's to take back."""

    def __init__(self, file: IO[bytes], dtype: DTypeLike) -> None:
        self.values: NDArray[Any] = np.zeros(0, dtype=dtype)
        self._file = file

    def reach(self, count: int) -> None:
        """Have at least ``count`` places, with zeros in those that are new. Raises OSError where the disk is full."""
        if len(self.values) >= count:
            return
        places = max(count, 2 * len(self.values))
        size_bytes = places * self.values.itemsize
        os.posix_fallocate(self._file.fileno(), 0, size_bytes)  # else a full disk would end the process later
        self.values = np.frombuffer(mmap.mmap(self._file.fileno(), size_bytes), dtype=self.values.dtype)


class GrowingArrays(ExitStack):
    """Those of one task, in files without names that are gone after it. A context."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def of(self, dtype: DTypeLike) -> GrowingArray:
        """An array without places yet. Raises OSError where nothing can be made in the folder."""
        return GrowingArray(self.enter_context(tempfile.TemporaryFile(dir=self._folder)), dtype)
