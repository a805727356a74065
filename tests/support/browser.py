"""The system's Chromium, headless, for tests with the marker `browser`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a running browser. Skip the test if no browser is installed.

    If ARCHIVER_NEEDS_BROWSER is set, a missing browser fails the test instead.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        missing = "Chromium is not installed: make browser"
        if os.environ.get("ARCHIVER_NEEDS_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # In a container the tests run as root, where Chromium's sandbox does not start. All pages are our own.
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()
