"""The changes of access rules. The node whose objects a rule opens makes them.

One idea: a rule is a row like any other, so creating and deleting one is durable before the server answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..rules.refusals import NoSuchRule, NoSuchSpace, RuleExists, TooManyRules
from ..tables.archives import AccessRule
from .objects import ChangeGroup

RULES_MAX = 1000  # of one node: every read by a rule scans them


@dataclass(slots=True)
class SetAccess:
    """Open the caller's own objects to other nodes or owners."""

    caller_node: str
    rule: AccessRule  # without its number

    def apply(self, group: ChangeGroup) -> int:
        """Return the rule's number. Raises NoSuchSpace, RuleExists or TooManyRules."""
        archives = group.catalogue.archives
        space = archives.spaces.get(self.rule.space)
        if space is None or space.node != self.caller_node:
            raise NoSuchSpace
        own_rules = [rule for rule in archives.rules.values() if archives.spaces[rule.space].node == self.caller_node]
        if any(rule[1:] == self.rule[1:] for rule in own_rules):
            raise RuleExists
        if len(own_rules) >= RULES_MAX:
            raise TooManyRules(RULES_MAX)
        return archives.add_rule(self.rule).id


@dataclass(slots=True)
class DeleteAccess:
    """Delete a rule. `owner` empty: a rule of any owner of the node."""

    node: str
    owner: bytes
    number: int

    def apply(self, group: ChangeGroup) -> None:
        archives = group.catalogue.archives
        rule = archives.rules.get(self.number)
        if rule is None or archives.spaces[rule.space].node != self.node or (self.owner and rule.giver != self.owner):
            raise NoSuchRule(self.number)
        archives.remove_rule(rule)
