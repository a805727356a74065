"""What one session of the TSM server may read, by its node and owner and by the access rules of other nodes.

One idea: all read access is decided here. A session sees its own objects. If it reads from another node or owner, it
sees the objects that a rule opens to it and no sign of others. Changes do not use this module: a session changes
objects of its own node only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..core.store import Store
from ..core.tables.archives import AccessRule, Archive, Space, find_space
from .patterns import matches

Sight = Callable[[Archive], bool]


@dataclass(frozen=True, slots=True)
class ReadSource:
    """The node and owner whose objects a session reads instead of its own; `owner` empty: all owners of the node."""

    node: str
    owner: bytes


@dataclass(frozen=True, slots=True)
class Caller:
    """The node and owner of a session. `owner` empty: the session acts for all owners of the node."""

    node: str
    owner: bytes
    source: ReadSource | None = None

    @property
    def reads_node(self) -> str:
        return self.node if self.source is None else self.source.node

    @property
    def reads_owner(self) -> bytes:
        return self.owner if self.source is None else self.source.owner

    @property
    def needs_rules(self) -> bool:
        """Whether access rules apply. They do not if the session acts for all owners of the node that it reads."""
        return self.source is not None and (self.source.node != self.node or bool(self.owner))


def sight(store: Store, caller: Caller, space: Space) -> Sight | None:
    """Return the test of which archives of a file space the caller may see, by the current rules; None: none of
    them.
    """
    if space.node != caller.reads_node:
        return None
    only = caller.reads_owner
    if not caller.needs_rules:
        return lambda archive: not only or archive.owner == only
    rules = [rule for rule in store.access_rules if rule.space == space.id and _is_for(rule, caller)]
    if not rules:
        return None
    return lambda archive: (not only or archive.owner == only) and any(_opens(rule, archive) for rule in rules)


def may_read_any(store: Store, caller: Caller) -> bool:
    """Return whether the caller needs no rule, or any rule is for it."""
    if not caller.needs_rules:
        return True
    return any(_giver(store, rule) == caller.reads_node and _is_for(rule, caller) for rule in store.access_rules)


def seen_space(store: Store, caller: Caller, name: bytes) -> Space | None:
    """Return a file space by its name if the caller may see any of it."""
    space = find_space(store.spaces.values(), caller.reads_node, name)
    return None if space is None or sight(store, caller, space) is None else space


def seen_spaces(store: Store, caller: Caller) -> Iterable[Space]:
    return (space for space in store.spaces.values() if sight(store, caller, space) is not None)


def own_rules(store: Store, caller: Caller) -> Sequence[AccessRule]:
    """Return the rules that the caller may delete, oldest first: its own, or all of the node if it acts for all
    owners.
    """
    return [
        rule
        for rule in store.access_rules
        if _giver(store, rule) == caller.node and (not caller.owner or rule.giver == caller.owner)
    ]


def _giver(store: Store, rule: AccessRule) -> str | None:
    """Return the node whose objects the rule opens; None if its file space, and so the rule, was just deleted."""
    space = store.spaces.get(rule.space)
    return None if space is None else space.node


def _is_for(rule: AccessRule, caller: Caller) -> bool:
    # A client that acts for all owners of the node could sign on as any of them.
    return matches(rule.node, caller.node.encode()) and (not caller.owner or matches(rule.owner, caller.owner))


def _opens(rule: AccessRule, archive: Archive) -> bool:
    by_name = matches(rule.hl, archive.hl) and matches(rule.ll, archive.ll)
    return by_name and (not rule.giver or archive.owner == rule.giver)
