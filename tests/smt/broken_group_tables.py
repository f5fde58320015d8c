"""Hybrid groups over one pool with one thing wrong each (H8, P13): what `prove` must refute, and `explore` find."""

from __future__ import annotations

from kvproof.machine import Bool, Int, Machine
from kvproof.spec.hybrid.group_tables import GroupTables
from kvproof.spec.pool import Hash, Position, Request


class KeysWithoutATag(GroupTables):
    """A group stores under a key that is another group's: the tokens are the same."""

    def _is_of_group(self, r: Request, h: Hash) -> Bool:
        return self.tag[h] == self.tag[h]


class AsksForAnyGroup(GroupTables):
    """A table is looked up under the keys of another group."""

    def a_table_asks_for_keys_of_its_group(self, r: Request, i: Position) -> Bool:
        """Nothing is known of what is asked for."""
        return self.tag[self.prompt[r, i]] == self.tag[self.prompt[r, i]]


class TakesWithItsKeys(GroupTables):
    """A block that is taken can still be found for the group that had it."""

    def _take(self, r: Request, n: Int) -> None:
        with self.loop(n, facts=lambda i, entry: self._while_taking(entry, r, i)):
            self._hold(r, self._take_head())


BROKEN: list[tuple[type[Machine], str, str, str]] = [
    (KeysWithoutATag, "register", "a_table_holds_blocks_of_its_group", "H8"),
    (AsksForAnyGroup, "hit", "no_block_is_in_two_groups", "H8"),
    (TakesWithItsKeys, "allocate", "a_table_holds_blocks_of_its_group", "H8"),
]
"""Machine, the action that goes wrong, the property that it breaks, and the rule."""
