"""Must-fail: caches of hybrid groups, each wrong in one thing (S16, H4, H8, P6, P8)."""

from kvproof.refimpl.hybrid.cache import HybridCache


class ExternalStays(HybridCache):
    """S16: with nothing left in common the computed count is zeroed, and the external one is not."""

    def settle(self, request, computed_per_group):
        length = super().settle(request, computed_per_group)
        if length == 0:
            self._inside[request].external = max(computed_per_group)
        return length


class ComputedStays(HybridCache):
    """S16: what was found counts though the load lost it."""

    def settle(self, request, computed_per_group):
        before = self._inside[request].computed
        length = super().settle(request, computed_per_group)
        self._inside[request].external = max(0, length - before)
        self._inside[request].computed = before
        return length


class CountsTheMost(HybridCache):
    """H4: after a load what counts is what the best group has."""

    def settle(self, request, computed_per_group):
        return super().settle(request, [max(computed_per_group)] * len(self.groups))


class MinimumOfTheFirstGroup(HybridCache):
    """H4: after a load the minimum is cut to blocks of the first group, and not of all."""

    def settle(self, request, computed_per_group):
        boundary, self.boundary = self.boundary, self.groups[0].block
        try:
            return super().settle(request, computed_per_group)
        finally:
            self.boundary = boundary


class UntaggedKeys(HybridCache):
    """H8: groups file under one key what ends at one token."""

    def key(self, group, chain, position):
        return super().key(group, chain, position)[4:]


class OneBlockForTwoGroups(HybridCache):
    """H8: the last new block of one group is another's too."""

    def allocate(self, request, tokens, *, loaded=0):
        done = super().allocate(request, tokens, loaded=loaded)
        first, last = self._inside[request].tables[0], self._inside[request].tables[-1]
        if done and first and last:
            last[-1] = first[-1]
        return done


class TouchesTooLate(HybridCache):
    """P8: something is allocated between finding and touching."""

    def reach(self, chain, limit_tokens):
        length = super().reach(chain, limit_tokens)
        self.late = [super(TouchesTooLate, self)._found(index, chain, length) for index in range(len(self.groups))]
        self.pool.free(self.pool.allocate(1) or [])
        return length

    def _found(self, index, chain, length):
        return self.late[index]


class OnePass(HybridCache):
    """H4: each group shortens the candidate once, and none is asked again."""

    def reach(self, chain, limit_tokens):
        candidate = self._asked(chain, limit_tokens) // self.boundary * self.boundary
        for index in range(len(self.groups)):
            candidate = self._served(index, chain, candidate)
        return candidate

    def _found(self, index, chain, length):
        group = self.groups[index]
        keys = [self.key(index, chain, position) for position in range(length // group.block)]
        first = group.first_needed(length) // group.block
        return [0 if j < first else self.pool.lookup(key) or 0 for j, key in enumerate(keys)]


class AsksTheFirstGroup(OnePass):
    """H4: the others are not asked, so that some lengthen what they should shorten."""

    def reach(self, chain, limit_tokens):
        return self._served(0, chain, self._asked(chain, limit_tokens) // self.boundary * self.boundary)


class StopsTooEarly(HybridCache):
    """H4: the first length that a group rejects ends the search with nothing."""

    def reach(self, chain, limit_tokens):
        longest = self._asked(chain, limit_tokens) // self.boundary * self.boundary
        return longest if super().reach(chain, limit_tokens) == longest else 0


class LastTokenToo(HybridCache):
    """P14: a hit covers the last token."""

    def _asked(self, chain, limit_tokens):
        return super()._asked(chain, limit_tokens + 1)


class HoldsAllOfAHit(HybridCache):
    """H4: a hit holds what a group does not need, too."""

    def _found(self, index, chain, length):
        count = length // self.groups[index].block
        return [self.pool.lookup(self.key(index, chain, position)) or 0 for position in range(count)]


class TouchesOneGroup(HybridCache):
    """P8: what the other groups found is not held."""

    def hit(self, request, chain, limit_tokens):
        length = super().hit(request, chain, limit_tokens)
        others = self._inside[request].tables[1:]
        self.pool.free([block for table in others for block in table])
        return length


class FilesWhatIsNotFull(HybridCache):
    """P6: a block is filed that the tokens do not fill."""

    def register(self, request, chain, tokens):
        super().register(request, chain, tokens)
        for index, group in enumerate(self.groups):
            table, position = self._inside[request].tables[index], tokens // group.block
            if tokens % group.block and (position + 1) * group.block <= len(chain) and table[position]:
                self.pool.register(table[position], self.key(index, chain, position), None)


class FilesWhatWasNotLoaded(HybridCache):
    """P6: room is made for all of a load, and what it did not bring stays to be filed."""

    def allocate(self, request, tokens, *, loaded=0):
        return super().allocate(request, tokens)

    def settle(self, request, computed_per_group):
        self.is_settling = True
        length = super().settle(request, computed_per_group)
        self.is_settling = False
        return length

    def _drop(self, table, positions):
        return super()._drop(table, () if getattr(self, "is_settling", False) else positions)


class DropsTheWindow(HybridCache):
    """D7: a position is given up that the next token reads."""

    def drop_outside(self, request):
        entry = self._inside[request]
        ahead = self._room(entry) - entry.computed - entry.external
        entry.computed += ahead
        dropped = super().drop_outside(request)
        entry.computed -= ahead
        return dropped


class ForgetsOneGroup(HybridCache):
    """P1: who leaves keeps the last group's blocks."""

    def finish(self, request):
        self._inside[request].tables.pop()
        super().finish(request)


class FreesWhatIsShared(HybridCache):
    """P9: who leaves takes the blocks with it, whoever else holds them."""

    def finish(self, request):
        held = {block for table in self._inside[request].tables for block in table if block}
        super().finish(request)
        for block in held:
            self.pool.free([block] * self.pool.ref_cnt(block))


CACHES = (
    ExternalStays,
    ComputedStays,
    CountsTheMost,
    MinimumOfTheFirstGroup,
    UntaggedKeys,
    OneBlockForTwoGroups,
    TouchesTooLate,
    OnePass,
    AsksTheFirstGroup,
    StopsTooEarly,
    LastTokenToo,
    HoldsAllOfAHit,
    TouchesOneGroup,
    FilesWhatIsNotFull,
    FilesWhatWasNotLoaded,
    DropsTheWindow,
    ForgetsOneGroup,
    FreesWhatIsShared,
)
