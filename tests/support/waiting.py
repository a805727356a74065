"""Wait for a condition that another process brings about, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_MAX = 90.0  # reached only if something hangs


def wait_until(true: Callable[[], object], what: str) -> None:
    """Return as soon as ``true`` returns a true value. Fails after SECONDS_MAX with a message that names ``what``."""
    deadline = time.monotonic() + SECONDS_MAX
    while not true():
        assert time.monotonic() < deadline, f"no {what} within {SECONDS_MAX:.0f} s"
        time.sleep(0.01)
