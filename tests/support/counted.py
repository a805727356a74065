"""The request counters of an embedded store."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from backends.embedded import process as embedded
from tests.support.waiting import SECONDS_MAX


def statistics(store: embedded.StoreProcess) -> dict[str, Any]:
    """Return the counters as the store reports them now."""
    with urllib.request.urlopen(f"{store.endpoint}/-/statistics", timeout=SECONDS_MAX) as reply:
        document: dict[str, Any] = json.load(reply)
    return document


def counted(before: dict[str, Any], after: dict[str, Any], call: str) -> int:
    """Return how many requests of this kind the store counted between two ``statistics``."""

    def total(document: dict[str, Any]) -> int:
        return sum(document["requests"].get(call, {}).values())

    return total(after) - total(before)
