"""What one session of the TSM door may read, and what it makes of another node's rules.

One idea: reading is asked here and nowhere else. A session sees its own objects; where it reads from another node
or owner it sees what a rule opens to it and not a trace of anything else. Changes never pass here: they are the
node's own.
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
    """Whose objects a session reads instead of its own; `owner` empty: of all owners there."""

    node: str
    owner: bytes


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: `owner` empty acts for all of the node's owners."""

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
        """What an owner may do in its node, whoever acts for all owners of that node may, too."""
        return self.source is not None and (self.source.node != self.node or bool(self.owner))


def sight(store: Store, caller: Caller, space: Space) -> Sight | None:
    """What the caller sees of a file space, by the rules of now; None where it is nothing."""
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
    """Whether there is a rule for the caller at all, where it needs one."""
    if not caller.needs_rules:
        return True
    return any(_giver(store, rule) == caller.reads_node and _is_for(rule, caller) for rule in store.access_rules)


def seen_space(store: Store, caller: Caller, name: bytes) -> Space | None:
    """A file space by its name, where the caller may see anything of it."""
    space = find_space(store.spaces.values(), caller.reads_node, name)
    return None if space is None or sight(store, caller, space) is None else space


def seen_spaces(store: Store, caller: Caller) -> Iterable[Space]:
    return (space for space in store.spaces.values() if sight(store, caller, space) is not None)


def own_rules(store: Store, caller: Caller) -> Sequence[AccessRule]:
    """The rules that the caller has made, or that it may take back for acting for all owners, in order of age."""
    return [
        rule
        for rule in store.access_rules
        if _giver(store, rule) == caller.node and (not caller.owner or rule.giver == caller.owner)
    ]


def _giver(store: Store, rule: AccessRule) -> str | None:
    """The node whose objects it opens; None where its file space has just been deleted, and the rule with it."""
    space = store.spaces.get(rule.space)
    return None if space is None else space.node


def _is_for(rule: AccessRule, caller: Caller) -> bool:
    # Whoever acts for all owners of the node could sign on as any of them.
    return matches(rule.node, caller.node.encode()) and (not caller.owner or matches(rule.owner, caller.owner))


def _opens(rule: AccessRule, archive: Archive) -> bool:
    by_name = matches(rule.hl, archive.hl) and matches(rule.ll, archive.ll)
    return by_name and (not rule.giver or archive.owner == rule.giver)
