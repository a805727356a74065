"""The changes of access rules, by the node whose objects they open.

One idea: a rule is a row like any other, so making one and taking it back are durable before they are answered.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..rules.refusals import NoSuchRule, NoSuchSpace, RuleExists, TooManyRules
from ..tables.archives import AccessRule
from .objects import ChangeGroup

RULES_MAX = 1000  # of one node: every reading by a rule looks through them


@dataclass(slots=True)
class SetAccess:
    """Open objects of one's own to others. Answers with the rule's number."""

    caller_node: str
    rule: AccessRule  # without its number

    def apply(self, group: ChangeGroup) -> int:
        archives = group.catalogue.archives
        space = archives.spaces.get(self.rule.space)
        if space is None or space.node != self.caller_node:
            raise NoSuchSpace
        mine = [rule for rule in archives.rules.values() if archives.spaces[rule.space].node == self.caller_node]
        if any(rule[1:] == self.rule[1:] for rule in mine):
            raise RuleExists
        if len(mine) >= RULES_MAX:
            raise TooManyRules(RULES_MAX)
        return archives.add_rule(self.rule).id


@dataclass(slots=True)
class DeleteAccess:
    """Take a rule back; `owner` empty: whoever made it."""

    node: str
    owner: bytes
    number: int

    def apply(self, group: ChangeGroup) -> None:
        archives = group.catalogue.archives
        rule = archives.rules.get(self.number)
        if rule is None or archives.spaces[rule.space].node != self.node or (self.owner and rule.giver != self.owner):
            raise NoSuchRule(self.number)
        archives.remove_rule(rule)
