"""Strategies that make hostile input, and settings for how much of it a test tries.

One idea: input that is nearly valid reaches most code. So most inputs are valid ones with a few faults; few are noise.

By default each test tries a few inputs, the same in each run. With FUZZ_TIMES=100 it tries a hundred times as many,
different in each run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))


def tries(count: int) -> settings:
    """Return the Hypothesis settings of a test that tries ``count`` inputs, times FUZZ_TIMES."""
    return settings(
        max_examples=count * TIMES,
        derandomize=TIMES == 1,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )


def tried(refusal: type[Exception], work: Callable[..., Any], *what: Any, **how: Any) -> tuple[Any, str]:
    """Call ``work``; return (result, "") or, if it raised ``refusal``, (None, message). Other exceptions propagate."""
    try:
        return work(*what, **how), ""
    except refusal as error:
        return None, str(error) or "(no words)"


@st.composite
def damaged(draw: st.DrawFn, good: bytes, *, faults_max: int = 3) -> bytes:
    """Draw these bytes with up to ``faults_max`` faults: bytes changed, removed, inserted, repeated or truncated."""
    data = bytearray(good)
    for _ in range(draw(st.integers(0, faults_max))):
        at = draw(st.integers(0, len(data)))
        fault = draw(st.sampled_from(["flip", "set", "leave out", "put in", "repeat", "cut off"]))
        if fault == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif fault == "set" and at < len(data):
            data[at] = draw(st.sampled_from([0, 0xFF, 0x7F, 0x80, 0x30, 0x0A, 0x22]))
        elif fault == "leave out":
            del data[at : at + draw(st.integers(1, 8))]
        elif fault == "put in":
            data[at:at] = draw(st.binary(min_size=1, max_size=6))
        elif fault == "repeat":
            data[at:at] = data[at : at + draw(st.integers(1, 64))]
        elif fault == "cut off":
            del data[at:]
    return bytes(data)


@st.composite
def damaged_text(draw: st.DrawFn, good: str, *, faults_max: int = 3) -> str:
    """Draw this text with up to ``faults_max`` faults in its lines, words and values."""
    lines = good.splitlines()
    for _ in range(draw(st.integers(0, faults_max))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        fault = draw(st.sampled_from(["leave out", "repeat", "move", "value", "value", "word", "noise", "cut off"]))
        if not lines:
            break
        line = lines[at]
        if fault == "leave out":
            del lines[at]
        elif fault == "repeat":
            lines.insert(at, line)
        elif fault == "move":
            lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
        elif fault == "value" and "=" in line:
            lines[at] = f"{line.partition('=')[0]}= {draw(VALUES)}"
        elif fault == "word" and line.split():
            words = line.split(" ")
            words[draw(st.integers(0, len(words) - 1))] = draw(st.text(max_size=8) | VALUES)
            lines[at] = " ".join(words)
        elif fault == "noise":
            lines.insert(at, draw(st.text(max_size=20)))
        elif fault == "cut off":
            lines[at] = line[: draw(st.integers(0, len(line)))]
            del lines[at + 1 :]
    return "\n".join(lines) + "\n"


# Values in place of a number, a name or a list.
VALUES = st.sampled_from(
    ["0", "-1", "1", "2", "1e308", "-0.0", "nan", "inf", "-inf", "true", '""', '"\\u0000"', "[]", "[[]]", "{}",
     "[1, 2]", '["a"]', '"1 GiB"', '"999999999 TiB"', '"1e400 s"', '"1 d"', "9223372036854775807",
     "9223372036854775808", "-9223372036854775809", "1" * 30, "0.1", "1979-05-27", '"archive"', '"100 %"',
     "{ a = 1 }", '"\u0663"', '"x" * 3']
) | st.integers().map(str)  # fmt: skip
