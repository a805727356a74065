"""Pages that commands make, each in a process of its own.

One idea: the page of a report, a comparison or a plan is the output of the command that a user can type. The processes
run one at a time and at the server's low priority, so that a run on the same machine keeps its cores.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS_MAX = 300.0  # maximum time of one command
_PAGES_KEPT = 16


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The output of a command. ``problem`` is its message if it failed, and empty otherwise."""

    printed: str
    problem: str


class CommandPages:
    """Execution of commands, and a cache of the latest pages that they made."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._made: OrderedDict[Hashable, CommandOutcome] = OrderedDict()

    async def page(self, key: Hashable, make: Callable[[], Awaitable[CommandOutcome]]) -> CommandOutcome:
        """Return the cached page with this key, or make it. Failed pages and pages without key are not cached."""
        async with self._one_at_a_time:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
            made = await make()
            if key is not None and not made.problem:
                self._made[key] = made
                while len(self._made) > _PAGES_KEPT:
                    self._made.popitem(last=False)
            return made


async def carry_out(arguments: Sequence[str]) -> CommandOutcome:
    """Carry out ``archiver`` with these arguments, and end it if it takes longer than five minutes."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "archiver", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    try:
        printed, errors = await asyncio.wait_for(process.communicate(), SECONDS_MAX)
    except TimeoutError:
        return CommandOutcome("", f"archiver {arguments[0]} took longer than {SECONDS_MAX:.0f} s and was ended")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    problem = _problem(process.returncode, errors.decode(errors="replace"))
    return CommandOutcome(printed.decode(errors="replace"), problem)


async def carry_out_for_page(arguments: Sequence[str], name: str) -> CommandOutcome:
    """Carry out a command that writes the page ``name`` into its --out, and return the page as its output."""
    with tempfile.TemporaryDirectory(prefix="archiver-web-") as folder:
        outcome = await carry_out([*arguments, "--out", folder])
        if outcome.problem:
            return outcome
        return CommandOutcome(await asyncio.to_thread((Path(folder) / name).read_text, "utf-8"), "")


def _problem(status: int | None, errors: str) -> str:
    """Return the message of a failed command without its usage lines."""
    if not status:
        return ""
    for mark in ("Error: ", "archiver: "):
        if mark in errors:
            return errors.rpartition(mark)[2].strip()
    return errors.strip() or f"the command ended with status {status}"
