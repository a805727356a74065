"""What a check can come to.

One idea: only state decides. A check passes where the platform did as it must, fails where a record was lost, changed
or left unprotected, or where it refused what it must allow; everything else says why nothing is known.
"""

from __future__ import annotations

from enum import StrEnum


class CheckVerdict(StrEnum):
    """The outcome of one check."""

    PASS = "PASS"
    DEVIATION = "DEVIATION"  # the state is right, the answer is not Amazon's
    FAIL = "FAIL"
    NOT_OFFERED = "NOT OFFERED"  # the platform lacks what the check is about
    NOT_TRIED = "NOT TRIED"  # it needs what this run does not have: a credential, an operator, days
    INCONCLUSIVE = "INCONCLUSIVE"  # tried, and nothing can be concluded


class CheckEnded(Exception):
    """A check ends here; the message is its reason."""

    verdict: CheckVerdict


class Failed(CheckEnded):
    """A record was lost, changed or left unprotected, or what must be allowed was refused."""

    verdict = CheckVerdict.FAIL


class NotOffered(CheckEnded):
    """The platform lacks what the check is about; the message says how that was seen."""

    verdict = CheckVerdict.NOT_OFFERED


class NotTried(CheckEnded):
    """The check needs what this run does not have; the message says what."""

    verdict = CheckVerdict.NOT_TRIED


class Inconclusive(CheckEnded):
    """An error of the server or the network, a control that failed, a clock too far off."""

    verdict = CheckVerdict.INCONCLUSIVE
