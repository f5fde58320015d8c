"""The machine of hash keys: what makes two hashes equal (P13).

Machine P takes hashes as given: a hash names the tokens of a block and all before. Here they are made. The key of a
block is the digest of an encoding, in which stand the key of the block before, the tokens of the block, and whatever
else changes KV or keeps tenants apart: the adapter, the salt of the tenant, the prompt embeddings, and the multimodal
items that begin in the block, each with its offset.

Proved, for any number of prompts of any length: two prompts have the same key at a position exactly when they agree on
everything up to there. The digest itself is trusted (different encodings have different digests); what is proved is
that no two different inputs have one encoding, along the whole chain. It hangs on one byte: every string is written
behind a tag of its kind.

`UntaggedKeys` leaves the tags out, as vLLM did before 0.32 (fault B5). It is not part of what is proved: it must be
refuted.
"""

from __future__ import annotations

from typing import TypeVar

from ...machine import (
    Bool,
    Index,
    Machine,
    Map,
    Param,
    Sort,
    action,
    all_of,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    none,
    optional,
    otherwise,
    sometimes,
    step,
    when,
)

__all__ = ["Key", "Keys", "Offset", "Place", "Position", "Prompt", "Tag", "Text", "Tokens", "UntaggedKeys"]


class Prompt(Sort):
    """What a request brings along, cut into blocks."""


class Tokens(Sort):
    """The token ids of one block."""


class Text(Sort):
    """A string. Adapters, salts, items and embeddings are told apart by strings, and nothing keeps these different."""


class Tag(Sort, extra=("ADAPTER", "SALT", "EMBEDS")):
    """What kind of string follows."""


class Key(Sort):
    """A digest."""


class Position(Index):
    """The place of a block in its prompt, counted from 0."""


class Offset(Index):
    """The place of a token in its block, counted from 0."""


class Place(Sort, extra=("FIRST", "SECOND", "THIRD")):
    """The place of a string in the list that an encoding ends with.

    There stand the adapter, the salt and the embeddings, in this order, each only if there is one.
    """


ADAPTER, SALT, EMBEDS = Tag.named("ADAPTER"), Tag.named("SALT"), Tag.named("EMBEDS")

PLACES = (Place.named("FIRST"), Place.named("SECOND"), Place.named("THIRD"))

T = TypeVar("T", Tag, Text)


class Keys(Machine):
    """Prompts, the keys of their blocks, and what was digested for each key."""

    # -------------------------------------------------------------------------------- parameters: the prompts

    tokens = Param(Prompt, Position, to=Tokens)
    """The tokens of each block."""

    item = Param(Prompt, Position, Offset, to=optional(Text))
    """The multimodal item that begins at this token."""

    adapter = Param(Prompt, to=optional(Text))
    """The adapter under which the prompt is computed."""

    salt = Param(Prompt, to=optional(Text))
    """A secret of the tenant: only prompts of one salt share blocks."""

    embeds = Param(Prompt, to=optional(Text))
    """The prompt embeddings, where the prompt came as vectors."""

    # -------------------------------------------------------------------------------- state

    key = Map(Prompt, Position, to=optional(Key))
    """The keys of the blocks that were hashed."""

    is_used = Map(Key, to=Bool)
    """The key is the digest of something that was hashed."""

    # What was digested for a key that is used.

    parent = Map(Key, to=optional(Key))
    """The key of the block before; none in the first block of a prompt."""

    digested = Map(Key, to=optional(Tokens))
    """The tokens."""

    begins = Map(Key, Offset, to=optional(Text))
    """The items, each written with its offset."""

    tag = Map(Key, Place, to=optional(Tag))
    """The tags of the strings at the end."""

    string = Map(Key, Place, to=optional(Text))
    """These strings."""

    # -------------------------------------------------------------------------------- actions

    @action("P13")
    def hash(self, p: Prompt, i: Position, k: Key) -> None:
        """Compute the key of the next block of a prompt.

        A digest is a function, and has no collisions: of all used keys, k is the one that stands for this very
        encoding; if there is none, k is a new key.
        """
        self.require(self.key[p, i] == none)
        self.require((i == 0) | exists(Position, lambda j: (j + 1 == i) & (self.key[p, j] != none)))
        self.require(forall(Key, lambda c: implies(self.is_used[c], iff(c == k, self._stands_for(c, p, i)))))
        self.key[p, i] = k
        self.is_used[k] = True
        self.digested[k] = self.tokens[p, i]
        with when(i > 0):
            self.parent[k] = self.key[p, i - 1]
        with otherwise():
            self.parent[k] = none
        with self.each(Offset) as o:
            self.begins[k, o] = self.item[p, i, o]
        for place, tag, string in zip(PLACES, self._tags(p, i), self._strings(p, i), strict=True):
            self.tag[k, place] = tag
            self.string[k, place] = string

    # -------------------------------------------------------------------------------- the encoding

    def _stands_for(self, k: Key, p: Prompt, i: Position) -> Bool:
        """What was digested for the key is the encoding of this block."""
        return all_of(
            self.digested[k] == self.tokens[p, i],
            implies(i == 0, self.parent[k] == none),
            implies(i > 0, (self.parent[k] != none) & (self.parent[k] == self.key[p, i - 1])),
            forall(Offset, lambda o: self.begins[k, o] == self.item[p, i, o]),
            *(self.tag[k, place] == tag for place, tag in zip(PLACES, self._tags(p, i), strict=True)),
            *(self.string[k, place] == string for place, string in zip(PLACES, self._strings(p, i), strict=True)),
        )

    def _tags(self, p: Prompt, i: Position) -> tuple[Tag, Tag, Tag]:
        """The tag of each string."""
        return self._listed(p, i, ADAPTER, SALT, ite(self.embeds[p] != none, EMBEDS, none))

    def _strings(self, p: Prompt, i: Position) -> tuple[Text, Text, Text]:
        """The strings themselves."""
        return self._listed(p, i, self.adapter[p], self.salt[p], self.embeds[p])

    def _listed(self, p: Prompt, i: Position, adapter: T, salt: T, embeds: T) -> tuple[T, T, T]:
        """Those of the three that the prompt has, one after another, in its first block. Later blocks have none."""
        has_adapter, has_salt = self.adapter[p] != none, self.salt[p] != none
        first = ite(has_adapter, adapter, ite(has_salt, salt, embeds))
        second = ite(has_adapter, ite(has_salt, salt, embeds), ite(has_salt, embeds, none))
        third = ite(has_adapter & has_salt, embeds, none)
        return ite(i == 0, first, none), ite(i == 0, second, none), ite(i == 0, third, none)

    # -------------------------------------------------------------------------------- invariants

    @invariant("P13")
    def prompts_are_hashed_from_the_front(self, p: Prompt, i: Position, j: Position) -> Bool:
        """The key of a block needs that of the block before."""
        return implies((self.key[p, i] != none) & (j <= i), self.key[p, j] != none)

    @invariant("P13")
    def a_key_stands_for_its_block(self, p: Prompt, i: Position, k: Key) -> Bool:
        """What was digested for a key is the encoding of every block that has it."""
        return implies(self.key[p, i] == k, self.is_used[k] & self._stands_for(k, p, i))

    @invariant("P13")
    def an_encoding_has_one_key(self, p: Prompt, i: Position, k: Key, c: Key) -> Bool:
        """No other key stands for a block that has one."""
        return implies((self.key[p, i] == k) & self.is_used[c] & self._stands_for(c, p, i), c == k)

    @invariant("P13")
    def a_key_tells_its_position(self, p: Prompt, q: Prompt, i: Position, j: Position) -> Bool:
        """Blocks at different positions have different keys."""
        return implies((self.key[p, i] != none) & (self.key[p, i] == self.key[q, j]), i == j)

    @invariant("P13, P6")
    def equal_keys_mean_equal_prefixes(self, p: Prompt, q: Prompt, i: Position, j: Position, o: Offset) -> Bool:
        """Who finds a block under a key agrees with who filed it there, on every token and item from the first on."""
        is_shared = (self.key[p, i] != none) & (self.key[p, i] == self.key[q, i])
        return implies(is_shared & (j <= i), self._same_block(p, q, j, o))

    @invariant("P13, P6")
    def equal_keys_mean_one_tenant(self, p: Prompt, q: Prompt, i: Position) -> Bool:
        """They agree on what covers the whole prompt, too."""
        is_shared = (self.key[p, i] != none) & (self.key[p, i] == self.key[q, i])
        return implies(is_shared, self._same_tenant(p, q))

    @invariant("P13")
    def equal_prefixes_mean_equal_keys(self, p: Prompt, q: Prompt, i: Position) -> Bool:
        """What can be shared is found."""
        is_hashed = (self.key[p, i] != none) & (self.key[q, i] != none)
        agree = forall(Position, Offset, lambda j, o: implies(j <= i, self._same_block(p, q, j, o)))
        return implies(is_hashed & self._same_tenant(p, q) & agree, self.key[p, i] == self.key[q, i])

    def _same_block(self, p: Prompt, q: Prompt, j: Position, o: Offset) -> Bool:
        """The prompts have the same tokens at this position, and the same item, if any, at this offset."""
        return (self.tokens[p, j] == self.tokens[q, j]) & (self.item[p, j, o] == self.item[q, j, o])

    def _same_tenant(self, p: Prompt, q: Prompt) -> Bool:
        """The prompts have the same adapter, salt and embeddings."""
        return all_of(
            self.adapter[p] == self.adapter[q],
            self.salt[p] == self.salt[q],
            self.embeds[p] == self.embeds[q],
        )

    @invariant("P13")
    def an_adapter_is_no_salt(self, p: Prompt, q: Prompt, i: Position, t: Text) -> Bool:
        """One tenant's salt never opens what was computed under an adapter of that name (B5)."""
        adapter_only = (self.adapter[p] == t) & (self.salt[p] == none)
        salt_only = (self.salt[q] == t) & (self.adapter[q] == none)
        return implies((self.key[p, i] != none) & adapter_only & salt_only, self.key[p, i] != self.key[q, i])

    @corollary("P13")
    def prompts_are_hashed_block_by_block(self, p: Prompt, i: Position, k: Key) -> Bool:
        """Each block once, after the one before; by the key that stands for it, or by one that stands for nothing."""
        follows = forall(Position, lambda j: implies(j + 1 == i, self.key[p, j] != none))
        is_right = forall(Key, lambda c: implies(self.is_used[c], iff(self._stands_for(c, p, i), c == k)))
        return iff(can(self.hash, p, i, k), (self.key[p, i] == none) & follows & is_right)

    # -------------------------------------------------------------------------------- steps

    @step("P13", of="hash")
    def a_block_gets_its_key(self, before: Keys, p: Prompt, i: Position, k: Key, q: Prompt, j: Position) -> Bool:
        """And no other block gets or loses one."""
        return self.key[q, j] == ite((q == p) & (j == i), k, before.key[q, j])

    @step("P13", of="hash")
    def what_was_digested_stays(self, before: Keys, k: Key, c: Key, o: Offset, x: Place) -> Bool:
        """One key more is used, if it is new; what others stand for is as it was."""
        is_same = all_of(
            self.parent[c] == before.parent[c],
            self.digested[c] == before.digested[c],
            self.begins[c, o] == before.begins[c, o],
            self.tag[c, x] == before.tag[c, x],
            self.string[c, x] == before.string[c, x],
        )
        return iff(self.is_used[c], before.is_used[c] | (c == k)) & implies(before.is_used[c] | (c != k), is_same)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("P13")
    def a_block_behind_the_first_is_shared(self, p: Prompt, q: Prompt) -> Bool:
        """Two prompts have a key in common, and not only the first."""
        return exists(
            Position, lambda i: (p != q) & (i > 0) & (self.key[p, i] != none) & (self.key[p, i] == self.key[q, i])
        )


class UntaggedKeys(Keys):
    """To be refuted: strings are written without tags, so that an adapter X and a salt X look alike (fault B5)."""

    def _tags(self, p: Prompt, i: Position) -> tuple[Tag, Tag, Tag]:  # noqa: ARG002
        """There are none."""
        return none, none, none
