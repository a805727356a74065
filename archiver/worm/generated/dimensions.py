"""The dimensions of a record's life as data: each value is an enumeration member whose value is its words.

One idea: the first value of a dimension is the plainest. A failing combination is simplified towards it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Writing(Enum):
    """How the record was written."""

    PUT = "a PUT with Content-MD5"
    CRC32 = "a PUT with a CRC32"
    CRC32C = "a PUT with a CRC32C"
    CRC64NVME = "a PUT with a CRC64NVME"
    SHA1 = "a PUT with a SHA-1"
    SHA256 = "a PUT with a SHA-256"
    CHUNKS = "a PUT in signed chunks"
    TRAILER = "a PUT in chunks with a trailing checksum"
    CONDITIONAL = "a conditional PUT"
    TAGS = "a PUT with tags"
    METADATA = "a PUT with user metadata"
    ENCODING = "a PUT with a content encoding"
    STORAGE_CLASS = "a PUT with a storage class"
    EXPECT = "a PUT that expects 100-continue"
    EMPTY = "a PUT of no bytes"
    ONE_BYTE = "a PUT of one byte"
    OVER_128_KIB = "a PUT of 128 KiB and a byte"
    OVER_1_MIB = "a PUT of 1 MiB and a byte"
    OVER_8_MIB = "a PUT of 8 MiB and a byte"
    ONE_PART = "a multipart upload of one part"
    TWO_PARTS = "a multipart upload of two parts"
    COPIED_PART = "a multipart upload of a copied part"
    COPY = "a copy within the bucket"
    COPY_ACROSS = "a copy from another bucket"
    COPY_ONTO_ITSELF = "a copy onto itself"
    FORM = "a browser's form"
    PRESIGNED = "a presigned PUT"


class Locking(Enum):
    """How the record got its lock."""

    GOVERNANCE = "headers, GOVERNANCE"
    COMPLIANCE = "headers, COMPLIANCE"
    HOLD = "a header, legal hold"
    DEFAULT = "the bucket's default rule, GOVERNANCE"
    SET_LATER = "a separate request, GOVERNANCE"
    COMPLIANCE_SET_LATER = "a separate request, COMPLIANCE"
    HOLD_SET_LATER = "a separate request, legal hold"
    WITH_HOLD = "headers, GOVERNANCE and legal hold"
    DEFAULT_WITH_HOLD = "the bucket's default rule and a header, legal hold"
    TO_2039 = "headers, GOVERNANCE until 2039"
    TO_2107 = "headers, GOVERNANCE until 2107"
    IN_A_ZONE = "headers, GOVERNANCE with a date in zone +02:00"
    WHOLE_SECONDS = "headers, GOVERNANCE with a date of whole seconds"


class Naming(Enum):
    """The record's name."""

    PLAIN = "a plain name"
    MIXED_CASE = "a name in mixed case"
    COMPOSED = "a composed ä (NFC)"
    DECOMPOSED = "a decomposed ä (NFD)"
    DOT_SEGMENT = "a segment ."
    PARENT_SEGMENT = "a segment .."
    DOUBLE_SLASH = "two slashes"
    ENCODED_SLASH = "the characters %2F"
    SPACE_AND_PLUS = "a space and a plus sign"
    TRAILING_SLASH = "a slash at the end"
    TRAILING_DOT = "a dot at the end"
    TRAILING_SPACE = "a space at the end"
    LONGEST = "1,024 bytes"
    BEYOND_BMP = "a character beyond the BMP"
    MARKUP = "characters of XML"
    QUERY_LIKE = "a question mark and an ampersand"
    BACKSLASH = "a backslash"
    HIDDEN = "a dot at the start"


class PriorEvent(Enum):
    """What happened between the lock and the attack."""

    NOTHING = "nothing"
    NEWER = "a newer version was written"
    MARKER = "the key was deleted"
    MARKER_REMOVED = "the key was deleted, and its delete marker removed"
    NEWER_DELETED = "a newer version was written and deleted"
    MANY_NEWER = "twenty newer versions were written"
    NEWER_LOCKED = "a newer version was written with a hold, and released"
    REPLACED_AND_DELETED = "it was copied onto itself with new metadata, and that version deleted"
    COPIED = "it was copied to another key, and the copy deleted"
    NEIGHBOUR_DELETED = "a neighbour in its prefix was written and deleted"
    NEIGHBOURS_EMPTIED = "neighbours in its prefix were deleted in a batch"
    BELOW = "an object was written below its name"
    TWIN_DOT = "its name with a segment . was written"
    TWIN_PARENT = "its name with a segment .. was written"
    TWIN_SLASHES = "its name with two slashes was written"
    TWIN_TRAILING_SLASH = "its name with a slash at the end was written"
    TWIN_TRAILING_SPACE = "its name with a space at the end was written"
    TWIN_CASE = "its name in other case was written"
    TWIN_NORMAL_FORM = "its name in another Unicode form was written"
    TWIN_DELETED = "its name with two slashes was written and deleted"
    TAGGED = "tags were set"
    UNTAGGED = "tags were set and deleted"
    ACL = "its ACL was set"
    VERSIONING_AGAIN = "versioning was enabled again"
    SUSPENSION = "versioning was to be suspended"
    RULE_SET = "the bucket got a default rule"
    RULE_REMOVED = "the bucket's default rule was removed"
    LIFECYCLE = "the bucket got a lifecycle rule"
    BUCKET_AGAIN = "the bucket was created again"
    BUCKET_DELETION = "the bucket was to be deleted"
    UPLOAD_BEGUN = "a multipart upload of its key was begun"
    UPLOAD_ABORTED = "a multipart upload of its key was aborted"
    UPLOAD_TWICE = "a multipart upload of its key was completed twice"
    EXTENDED = "its retention was extended"
    SAME_AGAIN = "its retention was set again"
    HOLD_TOGGLED = "a hold was placed and released"
    REFUSED_WRITE = "a write of its key with a wrong Content-MD5 was refused"
    REFUSED_DELETION = "its deletion was refused"
    RESTORED = "its restoration was requested"
    RANGE_READ = "a range of it was read"


class Asking(Enum):
    """Who asks, and in which form."""

    OWNER = "the owner"
    NO_BYPASS = "a credential without the right to bypass, with the bypass header"
    NO_RETENTION = "a credential without the right to set retention"
    NO_HOLD = "a credential without the right to set holds"
    NO_DELETE = "a credential without the right to delete"
    ANONYMOUS = "a client without a credential"
    PRESIGNED = "a presigned URL"
    OLD_SIGNATURE = "the owner with a signature of version 2"
    BYPASS = "the owner with the bypass header"
    BYPASS_FALSE = "the owner with the bypass header false"
    UNSIGNED_BYPASS = "the owner with a bypass header that is not signed"
    UNSIGNED_PAYLOAD = "the owner with an unsigned payload"
    METHOD_OVERRIDE = "the owner with a method override"
    REPLICATION = "the owner with headers of replication"
    FORCE = "the owner with headers that force a deletion"
    SECOND_VERSION = "the owner with a second versionId parameter"


class Attack(Enum):
    """What is tried on the record."""

    DELETE = "to delete the version"
    DELETE_KEY = "to delete the key"
    DELETE_IF_MATCH = "to delete the version by a condition"
    DELETE_TWIN = "to delete its id under its name with two slashes"
    DELETE_DOT_TWIN = "to delete its id under its name with a segment ."
    DELETE_UPLOAD = "to delete the version as an upload"
    DELETE_PADDED_ID = "to delete the version by its id with a space"
    BATCH = "to delete the version in a batch"
    BATCH_QUIET = "to delete the version in a quiet batch"
    BATCH_TWICE = "to delete the version twice in a batch"
    BATCH_MANY = "to delete the version last in a batch of 300"
    BATCH_KEYS = "to delete the key in a batch"
    OVERWRITE = "to overwrite it by a PUT"
    OVERWRITE_VERSION = "to overwrite it by a PUT to the version"
    OVERWRITE_IF_MATCH = "to overwrite it by a conditional PUT"
    OVERWRITE_EMPTY = "to overwrite it by a PUT of no bytes"
    OVERWRITE_CHUNKS = "to overwrite it by signed chunks"
    OVERWRITE_TRAILER = "to overwrite it by chunks with a trailing checksum"
    OVERWRITE_PARTS = "to overwrite it by a multipart upload"
    OVERWRITE_COPY = "to overwrite it by a copy"
    OVERWRITE_ITSELF = "to overwrite it by a copy onto itself"
    OVERWRITE_FORM = "to overwrite it by a browser's form"
    APPEND = "to append to it"
    RENAME = "to rename it"
    SHORTEN = "to shorten its retention"
    SHORTEN_A_LITTLE = "to shorten its retention by two seconds"
    PAST_DATE = "to set its retention to the past"
    REMOVE_RETENTION = "to remove its retention"
    WEAKEN_MODE = "to change COMPLIANCE to GOVERNANCE"
    DELETE_RETENTION = "to delete its retention as a sub-resource"
    RELEASE = "to release its hold"
    DELETE_HOLD = "to delete its hold as a sub-resource"
    DELETE_TAGS = "to delete its tags"
    RESTORE = "to restore it for a day"
    ENCRYPT = "to change its encryption"
    SUSPEND = "to suspend versioning"
    DISABLE_LOCK = "to disable Object Lock"
    REMOVE_RULE = "to remove the bucket's default rule"
    EXPIRE = "to expire it by a lifecycle rule"
    DELETE_BUCKET = "to delete the bucket"
    FORCE_BUCKET = "to delete the bucket with its contents"


class AttackTiming(Enum):
    """When the attack comes."""

    AT_ONCE = "at once"
    AFTER_OTHERS = "after other sequences"
    NEAR_THE_DATE = "seconds before its date"
    AGAIN_AND_AGAIN = "thirty times"
    TOGETHER = "eight times at the same time"


@dataclass(frozen=True, slots=True)
class Combination:
    """One sequence: a value of each dimension; a random walk has several events."""

    writing: Writing = Writing.PUT
    locking: Locking = Locking.GOVERNANCE
    naming: Naming = Naming.PLAIN
    events: tuple[PriorEvent, ...] = ()  # empty: nothing happened
    asking: Asking = Asking.OWNER
    attack: Attack | None = None  # None: nothing is tried
    timing: AttackTiming = AttackTiming.AT_ONCE

    @property
    def words(self) -> str:
        """The combination in one sentence, without what is plain."""
        parts = [f"a record written by {self.writing.value}, locked by {self.locking.value}"]
        parts += [f"named with {self.naming.value}"] if self.naming is not Naming.PLAIN else []
        parts += [event.value for event in self.events]
        if self.attack is not None:
            timing = f", {self.timing.value}" if self.timing is not AttackTiming.AT_ONCE else ""
            parts.append(f"then {self.asking.value} tries {self.attack.value}{timing}")
        return "; ".join(parts)

    @property
    def values(self) -> frozenset[Enum]:
        """Its values, without those that are the plainest of their dimension."""
        every = (self.writing, self.locking, self.naming, *self.events, self.asking, self.attack, self.timing)
        return frozenset(each for each in every if each is not None and each is not plainest(type(each)))

    def digest(self, harm: str) -> str:
        """Return six characters that stay the same for the same combination and kind of harm."""
        names = [f"{type(each).__name__}.{each.name}" for each in (self.writing, self.locking, self.naming)]
        names += [each.name for each in (*self.events, self.asking, self.timing)]
        names += [self.attack.name if self.attack is not None else "", harm]
        return hashlib.sha256(" ".join(names).encode()).hexdigest()[:6]


DIMENSIONS: tuple[type[Enum], ...] = (Writing, Locking, Naming, PriorEvent, Asking, Attack, AttackTiming)


def plainest(dimension: type[Enum]) -> Enum:
    """Return the plainest value of a dimension, which is its first."""
    return next(iter(dimension))


def combination_of(row: Mapping[type[Enum], Enum]) -> Combination:
    """Return the combination of a row of the array, which has one value of each dimension."""
    event = row[PriorEvent]
    return Combination(
        row[Writing], row[Locking], row[Naming],  # type: ignore[arg-type]
        () if event is PriorEvent.NOTHING else (event,),  # type: ignore[arg-type]
        row[Asking], row[Attack], row[AttackTiming],  # type: ignore[arg-type]
    )  # fmt: skip
