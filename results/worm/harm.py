"""The harm of a violation in plain words, and which violation is the gravest.

One idea: severity says what kind of harm a finding is. What is lost, who can cause it, and whether that needs a race
decide between findings of one severity.
"""

from __future__ import annotations

from collections.abc import Mapping

from results.recorded.model import CheckRecord, Harm

# What can be lost, the gravest first. A check whose finding is of another severity than usual loses what UNUSUAL says.
LOST: Mapping[str, str] = {
    "record": "a locked record can be deleted or replaced before its date",
    "metadata": "the metadata of a locked record can be altered; its bytes stay",
    "second": "a locked record can be deleted less than a second before its date",
    "lock": "a lock can be removed, shortened or weakened, so that the record can be deleted",
    "missing lock": "a record is stored without the lock that was asked for, although the platform reports success",
}
UNUSUAL: Mapping[str, str] = {"S1": "record", "S2": "lock"}
# Who can cause it, those with the fewest rights first.
WHO: Mapping[str, str] = {
    "nobody": "it happens without any client's doing",
    "anyone": "anyone who reaches the endpoint, without a right to the record",
    "writer": "any client that may write objects",
    "deleter": "any client that may delete versions",
    "proxy": "whoever holds a presigned URL, or can add headers to a signed request on its way",
    "author": "any client that archives, by a mistake or only by trusting the answer",
    "locker": "any client that may set retention or holds",
    "bypasser": "only a client with the right to bypass GOVERNANCE",
    "administrator": "only a client that may configure or delete buckets",
}


def lost_by(check: CheckRecord) -> str:
    """Return what a violation loses, a key of LOST."""
    assert check.harm is not None
    return check.harm.lost if check.severity == check.harm.severity else UNUSUAL[check.severity]


def harm_words(check: CheckRecord) -> str:
    """Return the harm of a violation in plain words; empty if the check is none, or its run recorded no harm."""
    return " ".join(filter(None, (loss_words(check), remedy_words(check))))


def loss_words(check: CheckRecord) -> str:
    """Return what a violation loses, who can cause it and which clients send such requests; empty likewise."""
    if not check.is_violation or check.harm is None:
        return ""
    race = ", with two requests at the same time" if check.harm.in_race else ""
    return f"{LOST[lost_by(check)].capitalize()}. Who: {WHO[check.harm.who]}{race}. Sent by: {check.harm.clients}."


def remedy_words(check: CheckRecord) -> str:
    """Return the workaround against a violation; empty likewise."""
    if not check.is_violation or check.harm is None:
        return ""
    return f"Workaround: {check.harm.workaround}." if check.harm.workaround else "No workaround is known."


def gravity(check: CheckRecord) -> tuple[str, int, int, bool]:
    """Return a key that sorts the gravest of several findings first: severity, what is lost, who, without a race."""
    severity = check.severity.replace("-", "S9")
    if not check.is_violation or check.harm is None:
        return severity, len(LOST), len(WHO), True
    harm: Harm = check.harm
    return severity, list(LOST).index(lost_by(check)), list(WHO).index(harm.who), harm.in_race
