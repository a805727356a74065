"""Published results of other studies, as data (JSON), and the study that every report shows."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def published_data(name: str) -> dict[str, Any]:
    """Return the data of one file of this folder, such as ``dr550``. Callers share it and do not alter it."""
    text = resources.files("results").joinpath("reference", f"{name}.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data
