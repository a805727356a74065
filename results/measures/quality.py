"""What makes a measurement doubtful, and when it makes a number over several repetitions doubtful.

How well a number is known is its grade, which comes from its interval; see ``Unit.grade``. A doubt is something else:
the number may be known well and still say little about the platform, for example because the client limited it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from results.recorded.model import FAILURES, Result

SECONDS_MIN = 3.0  # of simultaneous work, which has no interval within one repetition
CLIENT_SHARE_MAX = 0.10  # of an object's time
REPETITIONS_MIN = 3  # without doubt, for a verdict over repetitions of which some are doubtful


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason to doubt a measurement: in a few words, as a sentence for a footnote, and when it applies."""

    words: str  # "": only a footnote, and no caution beside a headline
    sentence: str
    applies: Callable[[Result], bool]
    is_of_repetition: bool = False  # a repetition with it is left out if enough others remain

    def is_in(self, repetitions: Sequence[Sequence[Result]]) -> bool:
        """Return whether it applies to the results of repetitions together."""
        doubtful = sum(any(map(self.applies, results)) for results in repetitions)
        if not self.is_of_repetition:
            return doubtful > 0
        return doubtful > 0 and not is_enough(len(repetitions) - doubtful, len(repetitions))


INCOMPLETE = Doubt(
    "incomplete",
    "incomplete: workers were lost or suspended, so the rate means nothing; see the warnings",
    lambda result: result.incomplete is not None,
)
FAILURES_LIMITED = Doubt(
    "limited by failures",
    "limited by failures, of more than 10% of the attempts or the time: the platform may be faster than this",
    lambda result: result.limited_by == FAILURES,
)
UNSTEADY = Doubt(
    "unsteady",
    "unsteady: the rate changed while it was measured, so its grade is C at best",
    lambda result: result.unsteady is not None,
    is_of_repetition=True,
)
CLIENT_LIMITED = Doubt(
    "limited by the client",
    "limited by the client: the platform may be faster than this",
    lambda result: result.limited_by == "client",
    is_of_repetition=True,
)
HOST_LIMITED = Doubt(
    "limited by the host's processor",
    "every core of the machine was busy: whatever ran there shares this number",
    lambda result: result.limited_by == "host cpu",
    is_of_repetition=True,
)
ERRORS = Doubt(
    "disturbed by errors",
    "some operations failed (see the table of errors); failed attempts are in no rate",
    lambda result: result.errors > 0,
)
RETRIED = Doubt(
    "with retries",
    "some attempts failed and were sent again (see the table of errors): their waiting time is in this rate",
    lambda result: result.retries > 0,
)
CLIENT_SHARE = Doubt(
    "",
    "the client itself takes more than 10% of an object's time: see its share in the table of resource usage",
    lambda result: (result.client.object_time_share or 0.0) > CLIENT_SHARE_MAX,
    is_of_repetition=True,
)
CONNECTIONS_ENDED = Doubt(
    "",
    "the platform ended connections within sessions: opening others is in this rate; see the warnings",
    lambda result: result.requests_per_connection is not None,
)
MEANINGLESS = (INCOMPLETE, FAILURES_LIMITED)
_DOUBTS = (FAILURES_LIMITED, ERRORS, RETRIED, INCOMPLETE, CLIENT_LIMITED, CLIENT_SHARE, HOST_LIMITED, CONNECTIONS_ENDED)


def is_enough(good: int, repetitions: int) -> bool:
    """Return whether the good repetitions decide, and the others are left out: all, or three and two thirds of all."""
    return good == repetitions or (good >= REPETITIONS_MIN and good * 3 >= repetitions * 2)


def doubts_of(repetitions: Sequence[Sequence[Result]]) -> tuple[Doubt, ...]:
    """Return the doubts about a number that comes from the results of these repetitions together."""
    return tuple(doubt for doubt in _DOUBTS if doubt.is_in(repetitions))


def cautions(results: Iterable[Result]) -> tuple[str, ...]:
    """Return what to mind about these results in a few words each: their doubts, and a short time of simultaneous work.

    Simultaneous work has no interval within one repetition, so its measured time stands for its precision.
    """
    in_order = sorted(results, key=lambda result: result.repetition)
    repetitions = [tuple(group) for _, group in groupby(in_order, lambda result: result.repetition)]
    words = tuple(doubt.words for doubt in doubts_of(repetitions) if doubt.words)
    shortest = min((result.seconds for result in in_order if result.application), default=SECONDS_MIN)
    return words if shortest >= SECONDS_MIN else (*words, f"measured for {shortest:.2f} s")


def in_brackets(words: Sequence[str]) -> str:
    """Return cautions to append to a number; empty if there are none."""
    return f" ({', '.join(words)})" if words else ""
