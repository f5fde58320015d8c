"""The properties of steps of Mirror (machine M): what each action must do, and what it must not touch."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, all_of, any_of, forall, iff, implies, step
from ...pool import Block, Hash, Position, Request, Slot
from .actions import MirrorActions

__all__ = ["MirrorSteps"]


class MirrorSteps(MirrorActions, abstract=True):
    """What mirroring and lookups are for, and what every action leaves alone."""

    @step("M1", unless=("hit", "mirror"))
    def only_mirror_and_lookup_touch_the_host(self, before: Self, h: Hash, g: Hash) -> Bool:
        """Above all a release moves nothing there."""
        return all_of(
            iff(self.host.has(h), before.host.has(h)),
            implies(self.host.has(h) & self.host.has(g), iff(self.host.before(h, g), before.host.before(h, g))),
        )

    @step("M1", of=("trim", "finish", "preempt"))
    def released_blocks_keep_their_hashes(self, before: Self, b: Block, h: Hash) -> Bool:
        """They can be found on the device until they are taken for something else."""
        return iff(self.hashes[b, h], before.hashes[b, h])

    @step("M2", of="mirror")
    def mirror_only_reads_the_device(self, before: Self, b: Block, c: Block, h: Hash, s: Slot) -> Bool:
        """Map, blocks, content and queue are as they were."""
        return all_of(
            iff(self.hashes[b, h], before.hashes[b, h]),
            implies(
                self.cached[h].has(b) & self.cached[h].has(c),
                iff(self.cached[h].before(b, c), before.cached[h].before(b, c)),
            ),
            self.content[b, s] == before.content[b, s],
            self.ref_cnt[b] == before.ref_cnt[b],
            iff(self.free.has(b), before.free.has(b)),
            implies(self.free.has(b) & self.free.has(c), iff(self.free.before(b, c), before.free.before(b, c))),
        )

    @step("M2, M3", of="mirror")
    def the_host_keeps_what_was_mirrored(self, before: Self, r: Request) -> Bool:
        """Full blocks of the request are its most recently used ones, and only a full host gives anything up."""
        return all_of(*self._mirrored_so_far(before, r, self.length[r]).values())

    @step("M4, M5", of="hit")
    def a_lookup_moves_only_what_it_asks_for(self, before: Self, r: Request) -> Bool:
        """On the host nothing comes or goes; what was reloaded is used last, in this order, and nothing else moves."""
        return all_of(*self._touched_so_far(before, r, self.length[r]).values())

    @step("M5", of="hit")
    def a_reload_brings_back_content_and_hash(self, before: Self, r: Request) -> Bool:
        """Those of the host; and no other block is written, gets a hash or loses one."""
        return all_of(*self._reloaded_so_far(before, r, self.length[r]).values())

    @step("P5, M5", of="hit")
    def what_comes_back_twice_is_found_in_turn(self, before: Self, r: Request, j: Position, k: Position) -> Bool:
        """Two reloads under one hash, if a prompt asks for it twice: the first of them is registered first."""
        return implies(k < self.length[r], self._found_in_turn(before, r, j, k))

    @step("P6", unless=("write", "hit"))
    def nothing_else_is_written(self, before: Self, b: Block, s: Slot) -> Bool:
        """As in P; beside requests, reloads write."""
        return self.content[b, s] == before.content[b, s]

    @step("P5, P11", unless=("hit", "allocate", "register", "evict", "reset"))
    def nothing_else_gives_or_takes_a_hash(self, before: Self, b: Block, h: Hash) -> Bool:
        """As in P; reloads do both."""
        return iff(self.hashes[b, h], before.hashes[b, h])

    @step("P8, M6", of="hit")
    def a_lookup_leaves_the_rest_of_the_queue(self, before: Self, r: Request, b: Block, c: Block) -> Bool:  # type: ignore[override]
        """Who is free was so, or was let go again; what is not of the prefix stands as before."""
        are_others = ~self._is_of_prefix(r, b) & ~self._is_of_prefix(r, c)
        return implies(
            self._idle(b) & self._idle(c) & are_others,
            before._idle(b) & iff(self._sooner(b, c), before._sooner(b, c)),
        )

    @step("M6", of="hit")
    def a_reload_destroys_nothing_that_is_relied_on(self, before: Self, r: Request, i: Position) -> Bool:
        """Whatever of the prefix was on the device, as far as it can be reached on both tiers, is still there."""
        within_reach = forall(
            Position,
            lambda k: implies(
                k <= i,
                ~before.cached[self.prompt[r, k]].is_empty() | before.host.has(self.prompt[r, k]),
            ),
        )
        was_there = ~before.cached[self.prompt[r, i]].is_empty()
        return implies((i < self.limit[r]) & within_reach & was_there, ~self.cached[self.prompt[r, i]].is_empty())

    @step("M6, P14", of="hit")
    def what_is_found_is_held(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """The table is the prefix; what was on the device is taken as it was, the rest was on the host."""
        h = self.prompt[r, i]
        was_here = before.cached[h].is_first(self.table[r, i])
        return implies(
            i < self.length[r],
            self._is_known(r, i, s) & (was_here | (before.cached[h].is_empty() & before.host.has(h))),
        )

    @step("M4, M6", of="hit")
    def a_lookup_ends_where_it_must(self, before: Self, r: Request, b: Block) -> Bool:  # type: ignore[override]
        """At its limit, at the first hash on neither tier, or when all room was taken.

        Then who is free now was held for a position behind the end, and was let go.
        """
        end = self.length[r]
        return any_of(
            end == self.limit[r],
            before.cached[self.prompt[r, end]].is_empty() & ~before.host.has(self.prompt[r, end]),
            implies(self._idle(b), self._is_behind(r, b)),
        )

    @step("M7", of="hit")
    def a_reload_takes_its_time(self, before: Self) -> Bool:
        """Base and transfer, for each block that was reloaded."""
        return self._takes_its_time(before)

    @step("M7, M8", unless=("hit", "mirror"))
    def nothing_else_is_measured(self, before: Self) -> Bool:
        """No other action costs time or counts."""
        return all_of(
            self.latency.total == before.latency.total,
            self.reloaded.total == before.reloaded.total,
            self.mirrored.total == before.mirrored.total,
            self.dropped.total == before.dropped.total,
        )

    @step("M8", of="hit")
    def a_reloaded_block_is_one_hit(self, before: Self, r: Request) -> Bool:
        """A first lookup counts a hit for each block of its table, wherever it was found, and none for its reload."""
        return all_of(
            implies(~before.counted[r], self.hits.total == before.hits.total + self.length[r]),
            self.reloaded.total - before.reloaded.total <= self.length[r],
        )

    @step("M7, M8", of="mirror")
    def mirror_counts_no_hit(self, before: Self) -> Bool:
        """Neither a hit nor a query, and no reload nor its time: those are a lookup's."""
        return all_of(
            (self.queries.total == before.queries.total) & (self.hits.total == before.hits.total),
            (self.reloaded.total == before.reloaded.total) & (self.latency.total == before.latency.total),
        )

    @step("M8", of="hit")
    def a_lookup_mirrors_nothing(self, before: Self) -> Bool:
        """Nor is anything given up for what it brings back."""
        return (self.mirrored.total == before.mirrored.total) & (self.dropped.total == before.dropped.total)

    @step("P12", unless=("hit", "register"))
    def nothing_else_is_reported(self, before: Self, h: Hash) -> Bool:
        """As in P; what a lookup brings back can be found again."""
        return super().nothing_else_is_reported(before, h)

    @step("M3", unless="mirror")
    def what_the_host_keeps_stays(self, before: Self, h: Hash, s: Slot) -> Bool:
        """Nothing else writes there."""
        return self.kept[h, s] == before.kept[h, s]
