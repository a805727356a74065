"""Verdicts of conformance checks.

One idea: only state decides. A check passes if the platform did what it must. It fails if a record was lost, changed or
left unprotected, or if the platform refused what it must allow. Any other verdict says why there is no conclusion. A
finding is graded by what became of the record, never worse than the catalogue's severity of its check. Two requests at
once may leave a version gone (S1), unlocked (S2) or locked with a wrong answer (S3). Each pair is counted by what it
left, and the worst is quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol


class CheckVerdict(StrEnum):
    """The verdict of one check."""

    PASS = "PASS"
    DEVIATION = "DEVIATION"  # the state is right, but the answer is not the expected one
    FAIL = "FAIL"
    NOT_OFFERED = "NOT OFFERED"  # the platform lacks the feature that the check, or a part of it, tests
    NOT_TRIED = "NOT TRIED"  # needs a credential, an operator or days that this run lacks
    INCONCLUSIVE = "INCONCLUSIVE"  # tried, but no conclusion is possible


class Answered(Protocol):
    """An answer of the platform that knows its evidence."""

    @property
    def exchange(self) -> object:
        """Return the recorded exchange; None if it is not recorded."""


class CheckEnded(Exception):
    """Ends a check; the message is its reason.

    ``severity`` is that of the finding. None: the catalogue's, which is that of the check's worst finding. ``answers``
    are those that it is about, if the state that a check read last does not show it alone.
    """

    verdict: CheckVerdict

    def __init__(self, reason: str, severity: str | None = None, answers: Sequence[Answered] = ()) -> None:
        super().__init__(reason)
        self.severity = severity
        self.answers = tuple(answers)


class Failed(CheckEnded):
    """The platform lost, changed or left unprotected a record, or refused what it must allow."""

    verdict = CheckVerdict.FAIL


class NotOffered(CheckEnded):
    """The platform lacks the feature that the check tests; the message says how that was found."""

    verdict = CheckVerdict.NOT_OFFERED


class NotTried(CheckEnded):
    """The run lacks what the check needs; the message says what."""

    verdict = CheckVerdict.NOT_TRIED


class Inconclusive(CheckEnded):
    """An error of the server or the network, a failed control, or a clock that is too far off."""

    verdict = CheckVerdict.INCONCLUSIVE
