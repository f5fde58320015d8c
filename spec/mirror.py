"""Machine M: a host tier that mirrors the device, and from which a lookup reloads.

Device memory is small. Host memory is larger and far away: a copy costs time, computing the KV again costs more. So
after each step the full blocks of the batch are copied to a host tier, an LRU cache of blocks by their hashes. Nothing
moves when a request releases its blocks: they stay on the device, findable, until they are taken for something else.
When a later request looks for a prefix that the device has lost in part, the lost blocks come back from the host.

The difficulty is that a reloaded block needs room, and the room is taken from the very queue in which free blocks of
the same prefix may stand. So a lookup first holds everything of its prefix that is on the device, also what stands
behind a gap (`_claim`); only then does it fill the gaps, and each block that it fills is the request's at once
(`_fill`); what it could not reach for lack of room it lets go again (`_let_go`). No reload can so destroy what it, or
the lookup that it serves, relies on (M6).

The rules M1 to M8 stand here; `blis_mirror.py` is the historical way, which breaks M6 and P6. That a host tier never
lowers the hits (M9) is a statement about two whole runs: `docs/mirror-and-pin.md`.
"""

from __future__ import annotations

from ..machine import (
    Bool,
    Index,
    Int,
    Map,
    Param,
    Queue,
    Tally,
    action,
    all_of,
    any_of,
    assume,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    none,
    optional,
    otherwise,
    sometimes,
    step,
    when,
)
from .pool import Block, Content, Hash, Pool, Position, Request, Slot
from .statistics import Statistics

__all__ = ["Mirror"]


class Mirror(Statistics):
    """The block pool with a host tier behind it."""

    # -------------------------------------------------------------------------------- parameters

    capacity = Param(to=Int)
    """How many blocks the host tier keeps."""

    cost = Param(to=Int)
    """The time that one block's reload takes: base + ceil(block tokens / bandwidth) (M7)."""

    # -------------------------------------------------------------------------------- state

    host = Queue(Hash)
    """The hashes of the blocks on the host, least recently used first."""

    kept = Map(Hash, Slot, to=optional(Content))
    """Ghost: what really stands in each slot of the host block that is kept for a hash."""

    # -------------------------------------------------------------------------------- what is measured

    mirrored = Tally()
    """Blocks that were stored on the host."""

    dropped = Tally()
    """Blocks that the host gave up for others."""

    reloaded = Tally()
    """Blocks that came back to the device."""

    latency = Tally()
    """The time that reloads took. Who reads it takes it away; a tally never falls, so a reader notes where it was."""

    # -------------------------------------------------------------------------------- what is known of the parameters

    @assume("M3")
    def the_host_has_room(self) -> Bool:
        """A host tier without a block would be none."""
        return self.capacity.value >= 1

    @assume("M7")
    def copies_take_time(self) -> Bool:
        """The base latency is not negative, and the bandwidth is finite."""
        return self.cost.value >= 1

    # -------------------------------------------------------------------------------- actions

    @action("M2, M3")
    def mirror(self, r: Request) -> None:
        """After a step, for each request of its batch: every full block that can be found stands on the host.

        One already there is touched. Partly filled blocks and blocks without a hash are skipped.
        """
        self.require(self.running[r])
        with self.loop(self.length[r], facts=lambda i, entry: self._mirrored_so_far(entry, r, i)) as walk:
            h = self.filed[r, walk.index]
            b = self.table[r, walk.index]
            with when(self._is_worth_keeping(r, walk.index)):
                self._keep(h, b)

    # -------------------------------------------------------------------------------- what the host does

    def _is_worth_keeping(self, r: Request, i: Index) -> Bool:
        """The block is full, and a lookup on the device finds it under the hash by which the request knows it."""
        b, h = self.table[r, i], self.filed[r, i]
        return exists(Hash, lambda g: (h == g) & self.hashes[b, g])

    def _keep(self, h: Hash, b: Block) -> None:
        """The host keeps the block as its most recently used one; the least recently used one makes room."""
        is_there = self.host.has(h)
        is_full = self.host.size >= self.capacity.value
        with when(is_there):
            self.host.remove(h)
        with otherwise():
            with when(is_full):
                self.host.remove(self.host.head())
                self.dropped.add(1)
            with self.each(Slot) as s:
                self.kept[h, s] = self.content[b, s]
            self.mirrored.add(1)
        self.host.push_back(h)

    # -------------------------------------------------------------------------------- the lookup on both tiers

    def _look_up(self, r: Request) -> Int:
        """Hold what the device has, fill the gaps from the host, let go of what cannot be reached."""
        reach = self._claim(r)
        found = self._fill(r, reach)
        self._let_go(r, reach)
        return found

    def _claim(self, r: Request) -> Int:
        """Hold each block of the prefix that is on the device, up to the first hash on neither tier (M4, M6)."""
        with self.loop(
            self.limit[r],
            going=lambda i: ~self.cached[self.prompt[r, i]].is_empty() | self.host.has(self.prompt[r, i]),
            facts=lambda i, entry: {
                "what is claimed is the first of its hash": forall(
                    Position,
                    lambda k: implies(
                        self.claimed[k] != none, (k < i) & self.cached[self.prompt[r, k]].is_first(self.claimed[k])
                    ),
                ),
                "what is on the device is claimed": forall(
                    Position,
                    lambda k: implies((k < i) & (self.claimed[k] == none), self.cached[self.prompt[r, k]].is_empty()),
                ),
                "the rest is on the host": forall(
                    Position, lambda k: implies((k < i) & (self.claimed[k] == none), self.host.has(self.prompt[r, k]))
                ),
                **self._claims_are_sound(r),
                **self._only_taken_from(entry),
            },
        ) as walk:
            h = self.prompt[r, walk.index]
            with when(~self.cached[h].is_empty()):
                b = self.cached[h].head()
                with when(self.ref_cnt[b] == 0):
                    self._leave_queue(b)
                self.ref_cnt[b] = self.ref_cnt[b] + 1
                self.claimed[walk.index] = b
        return walk.rounds

    def _fill(self, r: Request, reach: Int) -> Int:
        """Bring the prefix into the table in order: claims as they are, the rest by reloads, while there is room.

        The room is what is left when all claims are held; a reloaded block is the request's at once (M6).
        """
        with self.loop(
            reach,
            going=lambda i: (self.claimed[i] != none) | (self._room() > 0),
            facts=lambda i, entry: {
                "the table is as long as the walk": self.length[r] == i,
                "claims are handed over in order": forall(
                    Position,
                    lambda k: all_of(
                        implies(k < i, self.claimed[k] == none),
                        implies(k >= i, self.claimed[k] == entry.claimed[k]),
                    ),
                ),
                "a claimed block stands where it was claimed for": forall(
                    Position,
                    lambda k: implies((k < i) & (entry.claimed[k] != none), self.table[r, k] == entry.claimed[k]),
                ),
                "what was claimed can still be found": forall(
                    Position,
                    lambda k: implies(
                        entry.claimed[k] != none,
                        self.cached[self.prompt[r, k]].has(entry.claimed[k]),
                    ),
                ),
                "the table is the prefix": forall(Position, Slot, lambda k, s: implies(k < i, self._is_known(r, k, s))),
                "held blocks keep their hashes": forall(
                    Block,
                    Hash,
                    lambda b, h: implies(
                        entry.hashes[b, h] & (entry.ref_cnt[b] > 0), self.hashes[b, h] & (self.ref_cnt[b] > 0)
                    ),
                ),
                "what is not claimed was not on the device": forall(
                    Position,
                    lambda k: implies(
                        (k < reach) & (entry.claimed[k] == none), entry.cached[self.prompt[r, k]].is_empty()
                    ),
                ),
                "what is reloaded was free": forall(
                    Block, lambda b: implies(self._is_reloaded(entry, r, b, i), entry._idle(b))
                ),
                "who carries a hash stands as before": self._found_in_order(entry),
                "each reload takes its time": self._takes_its_time(entry),
                "each round hands over a claim, or reloads": (
                    self.reloaded.total - entry.reloaded.total == i - (entry.all_claims.value - self.all_claims.value)
                ),
                "no more is reloaded than is found": self.reloaded.total - entry.reloaded.total <= i,
                **self._claims_are_sound(r),
                **self._reloaded_so_far(entry, r, i),
                **self._touched_so_far(entry, r, i),
                **self._taken_in_order(entry),
                **self._filled_so_far(entry),
            },
        ) as walk:
            h = self.prompt[r, walk.index]
            b = self.claimed[walk.index]
            is_claimed = b != none
            with when(is_claimed):
                self.claimed[walk.index] = none
                self._enter(r, b)
            with otherwise():
                self._reload(r, h)
            self.filed[r, walk.index] = h
            with self.each(Slot) as s:
                self.expects[r, walk.index, s] = self.kv[h, s]
        return walk.rounds

    def _filled_so_far(self, entry: Mirror) -> dict[str, Bool]:  # noqa: ARG002
        """What else is known while a lookup fills its gaps; for extensions of M."""
        return {}

    def _enter(self, r: Request, b: Block) -> None:
        """The claim on a block becomes an entry of the table: one reference, as before."""
        self.table[r, self.length[r]] = b
        self.length[r] = self.length[r] + 1

    def _reload(self, r: Request, h: Hash) -> None:
        """The head of the queue loses its hashes, gets the host's content and its hash, and is the request's (M5)."""
        b = self._take_head()
        self._forget(b)
        self._hold(r, b)
        self._come_back(b, h)

    def _come_back(self, b: Block, h: Hash) -> None:
        """The block gets what the host keeps for the hash, and can be found; the host block is the most recent one."""
        with self.each(Slot) as s:
            self.content[b, s] = self.kept[h, s]
        self._publish(b, h)
        self.host.remove(h)
        self.host.push_back(h)
        self.reloaded.add(1)
        self.latency.add(self.cost.value)

    def _let_go(self, r: Request, reach: Int) -> None:
        """One free call for the claims that the walk did not reach, last position first."""
        self._begin_free_call()
        with self.loop(
            reach,
            facts=lambda i, entry: {
                "from the last on": forall(
                    Position,
                    lambda k: all_of(
                        implies(k >= reach - i, self.claimed[k] == none),
                        implies(k < reach - i, self.claimed[k] == entry.claimed[k]),
                    ),
                ),
                "the mark stands in the queue": implies(self.behind.value != none, self.free.has(self.behind.value)),
                "who was free stays free, in the same order": forall(Block, Block, self._kept_in_order(entry)),
                "who could be taken stands as before": forall(
                    Block,
                    Block,
                    lambda b, c: implies(
                        entry._idle(b) & entry._idle(c),
                        self._idle(b) & iff(self._sooner(b, c), entry._sooner(b, c)),
                    ),
                ),
                "who is let go stands behind all that was free": forall(
                    Block,
                    Block,
                    lambda b, c: implies(self._is_new(entry, b) & entry.free.has(c), self.free.before(c, b)),
                ),
                "of those the last position stands first": forall(
                    Position,
                    Position,
                    Block,
                    Block,
                    lambda j, k, b, c: implies(
                        all_of(
                            self._is_new(entry, b) & self._is_new(entry, c),
                            (j < k) & (entry.claimed[j] == b) & (entry.claimed[k] == c),
                            forall(Position, lambda m: implies(m < k, entry.claimed[m] != c)),
                        ),
                        self.free.before(c, b),
                    ),
                ),
                "what is let go lies behind the end": forall(
                    Position, lambda k: implies(self.claimed[k] != none, self.length[r] < k)
                ),
                "where no room is left, nobody else is free": forall(
                    Block,
                    lambda b: implies((self.length[r] < reach) & self._idle(b), self._is_behind(r, b)),
                ),
                "who joins is of the prefix behind the end": forall(
                    Block, lambda b: implies(self._idle(b) & ~entry._idle(b), self._is_behind(r, b))
                ),
                **self._claims_are_sound(r),
            },
        ) as walk:
            last = reach - 1 - walk.index
            b = self.claimed[last]
            with when(b != none):
                self.claimed[last] = none
                self._release(b)
        self._end_free_call()

    # -------------------------------------------------------------------------------- facts of these walks

    def _claims_are_sound(self, r: Request) -> dict[str, Bool]:
        """A claimed block is a block that somebody holds, and carries the hash for which it was claimed."""
        return {
            "a claimed block carries its hash": forall(
                Position,
                lambda k: implies(
                    self.claimed[k] != none,
                    all_of(
                        k < self.limit[r],
                        self.claimed[k] != self.null.value,
                        self.ref_cnt[self.claimed[k]] >= 1,
                        self.hashes[self.claimed[k], self.prompt[r, k]],
                    ),
                ),
            )
        }

    def _taken_in_order(self, entry: Mirror) -> dict[str, Bool]:
        """Reloads took the first blocks of the queue (M5)."""
        return {
            "who was taken stood before who is left": forall(
                Block,
                Block,
                lambda b, c: implies(entry._idle(b) & ~self._idle(b) & self._idle(c), entry._sooner(b, c)),
            ),
            **self._only_taken_from(entry),
        }

    def _is_of_prefix(self, r: Request, b: Block) -> Bool:
        """The block carries such a hash."""
        return exists(Position, lambda k: (k < self.limit[r]) & self.hashes[b, self.prompt[r, k]])

    def _is_behind(self, r: Request, b: Block) -> Bool:
        """The block carries a hash that a lookup for this request may ask for, behind what it found."""
        return exists(
            Position, lambda k: all_of(self.length[r] < k, k < self.limit[r], self.hashes[b, self.prompt[r, k]])
        )

    def _is_reloaded(self, entry: Mirror, r: Request, b: Block, i: Index | Int) -> Bool:
        """The block stands at one of the first i positions, and did not carry the prompt's hash before."""
        return exists(
            Position,
            lambda k: all_of(k < i, self.table[r, k] == b, ~entry.hashes[b, self.prompt[r, k]]),
        )

    def _reloaded_so_far(self, entry: Mirror, r: Request, i: Index | Int) -> dict[str, Bool]:
        """What stands in the blocks that a lookup has reloaded at the first i positions, and in all others (M5)."""
        return {
            "what is reloaded is what the host keeps, under its hash and no other": forall(
                Position,
                Slot,
                Hash,
                lambda k, s, h: implies(
                    (k < i) & ~entry.hashes[self.table[r, k], self.prompt[r, k]],
                    all_of(
                        self.content[self.table[r, k], s] == self.kept[self.prompt[r, k], s],
                        iff(self.hashes[self.table[r, k], h], h == self.prompt[r, k]),
                    ),
                ),
            ),
            "nothing else is written": forall(
                Block,
                Slot,
                lambda b, s: implies(~self._is_reloaded(entry, r, b, i), self.content[b, s] == entry.content[b, s]),
            ),
            "nothing else gets or loses a hash": forall(
                Block,
                Hash,
                lambda b, h: implies(~self._is_reloaded(entry, r, b, i), iff(self.hashes[b, h], entry.hashes[b, h])),
            ),
        }

    def _comes_back(self, entry: Mirror, r: Request, h: Hash, i: Index | Int) -> Bool:
        """The hash is one of the first i of the prompt, and the device did not have it."""
        return entry.cached[h].is_empty() & exists(Position, lambda k: (k < i) & (self.prompt[r, k] == h))

    def _touched_so_far(self, entry: Mirror, r: Request, i: Index | Int) -> dict[str, Bool]:
        """What the host looks like when the first i positions were filled: what came back was used last (M4, M5)."""

        def comes_back(h: Hash) -> Bool:
            return self._comes_back(entry, r, h, i)

        return {
            "the host keeps what it has": forall(Hash, lambda h: iff(self.host.has(h), entry.host.has(h))),
            "what was not asked for stands as before": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    all_of(self.host.has(g), self.host.has(h), ~comes_back(g), ~comes_back(h)),
                    iff(self.host.before(g, h), entry.host.before(g, h)),
                ),
            ),
            "what came back stands behind it": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    self.host.has(g) & ~comes_back(g) & comes_back(h), self.host.has(h) & self.host.before(g, h)
                ),
            ),
            "what came back last stands last": forall(
                Position,
                Position,
                lambda j, k: implies(
                    all_of(
                        (j < k) & (k < i),
                        entry.cached[self.prompt[r, j]].is_empty() & entry.cached[self.prompt[r, k]].is_empty(),
                        forall(
                            Position,
                            lambda m: implies((j < m) & (m < i), self.prompt[r, m] != self.prompt[r, j]),
                        ),
                    ),
                    self.host.before(self.prompt[r, j], self.prompt[r, k]),
                ),
            ),
        }

    def _takes_its_time(self, entry: Mirror) -> Bool:
        """The latency is the sum over the reloaded blocks (M7)."""
        blocks = self.reloaded.total - entry.reloaded.total
        return (blocks >= 0) & (self.latency.total == entry.latency.total + self.cost.value * blocks)

    # -------------------------------------------------------------------------------- invariants

    @invariant("M3")
    def the_host_holds_no_more_than_it_can(self) -> Bool:
        """Used <= capacity."""
        return self.host.size <= self.capacity.value

    @invariant("M3, P6")
    def a_host_block_is_what_its_hash_names(self, h: Hash, s: Slot) -> Bool:
        """What a reload will bring back is what the hash says, slot by slot."""
        return implies(self.host.has(h) & (self.kv[h, s] != none), self.kept[h, s] == self.kv[h, s])

    @invariant("M2, P12")
    def a_host_block_was_reported(self, h: Hash, p: Hash) -> Bool:
        """What is on the host was once on the device, and listeners know of it and of what it builds upon."""
        return all_of(
            implies(self.host.has(h), self.reported[h]),
            implies(self.reported[h] & (self.parent[h] == p), self.reported[p]),
        )

    @corollary("M2")
    def whoever_is_inside_can_be_mirrored(self, r: Request) -> Bool:
        """Whatever it holds, and however full the host is."""
        return iff(can(self.mirror, r), self.running[r])

    # -------------------------------------------------------------------------------- steps

    @step("M1", unless=("hit", "mirror"))
    def only_mirror_and_lookup_touch_the_host(self, before: Mirror, h: Hash, g: Hash) -> Bool:
        """Above all a release moves nothing there."""
        return all_of(
            iff(self.host.has(h), before.host.has(h)),
            implies(self.host.has(h) & self.host.has(g), iff(self.host.before(h, g), before.host.before(h, g))),
        )

    @step("M1", of=("trim", "finish", "preempt"))
    def released_blocks_keep_their_hashes(self, before: Mirror, b: Block, h: Hash) -> Bool:
        """They can be found on the device until they are taken for something else."""
        return iff(self.hashes[b, h], before.hashes[b, h])

    @step("M2", of="mirror")
    def mirror_only_reads_the_device(self, before: Mirror, b: Block, c: Block, h: Hash, s: Slot) -> Bool:
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

    def _mirrored_so_far(self, entry: Mirror, r: Request, i: Position | Int) -> dict[str, Bool]:
        """What the host keeps when the first i positions were mirrored."""
        return {
            "what is mirrored stands behind all that was not mirrored since": forall(
                Position,
                Hash,
                Hash,
                lambda k, h, g: implies(
                    all_of(
                        (k < i) & (self.filed[r, k] == h) & self._is_worth_keeping(r, k),
                        self.host.has(g) & (g != h) & ~self._is_mirrored(r, g, i, after=k),
                    ),
                    self.host.has(h) & self.host.before(g, h),
                ),
            ),
            "only a full host gives up what is mirrored": forall(
                Position,
                Hash,
                lambda k, h: implies(
                    (k < i) & (self.filed[r, k] == h) & self._is_worth_keeping(r, k) & ~self.host.has(h),
                    self.host.size >= self.capacity.value,
                ),
            ),
            "the least recently used is given up": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    all_of(
                        entry.host.has(g) & ~self.host.has(g),
                        entry.host.has(h) & self.host.has(h) & ~self._is_mirrored(r, h, i),
                    ),
                    entry.host.before(g, h),
                ),
            ),
            "others keep their order": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    all_of(
                        entry.host.has(g) & self.host.has(g) & ~self._is_mirrored(r, g, i),
                        entry.host.has(h) & self.host.has(h) & ~self._is_mirrored(r, h, i),
                    ),
                    iff(self.host.before(g, h), entry.host.before(g, h)),
                ),
            ),
            "a full host is why something is given up": forall(
                Hash,
                lambda h: implies(entry.host.has(h) & ~self.host.has(h), self.host.size >= self.capacity.value),
            ),
            "the host gains what is mirrored": forall(
                Hash,
                lambda h: implies(self.host.has(h), entry.host.has(h) | self._is_mirrored(r, h, i)),
            ),
            "what is stored and what is given up is counted": all_of(
                self.dropped.total >= entry.dropped.total,
                self.mirrored.total - entry.mirrored.total
                == self.host.size - entry.host.size + self.dropped.total - entry.dropped.total,
            ),
        }

    def _is_mirrored(self, r: Request, h: Hash, i: Position | Int, *, after: Position | int = -1) -> Bool:
        """One of the first i positions, after some other, holds a block that was kept under this hash."""
        return exists(
            Position, lambda k: (after < k) & (k < i) & (self.filed[r, k] == h) & self._is_worth_keeping(r, k)
        )

    @step("M2, M3", of="mirror")
    def the_host_keeps_what_was_mirrored(self, before: Mirror, r: Request) -> Bool:
        """Full blocks of the request are its most recently used ones, and only a full host gives anything up."""
        return all_of(*self._mirrored_so_far(before, r, self.length[r]).values())

    @step("M4, M5", of="hit")
    def a_lookup_moves_only_what_it_asks_for(self, before: Mirror, r: Request) -> Bool:
        """On the host nothing comes or goes; what was reloaded is used last, in this order, and nothing else moves."""
        return all_of(*self._touched_so_far(before, r, self.length[r]).values())

    @step("M5", of="hit")
    def a_reload_brings_back_content_and_hash(self, before: Mirror, r: Request) -> Bool:
        """Those of the host; and no other block is written, gets a hash or loses one."""
        return all_of(*self._reloaded_so_far(before, r, self.length[r]).values())

    @step("P6", unless=("write", "hit"))
    def nothing_else_is_written(self, before: Pool, b: Block, s: Slot) -> Bool:
        """As in P; beside requests, reloads write."""
        return self.content[b, s] == before.content[b, s]

    @step("P5, P11", unless=("hit", "allocate", "register", "evict", "reset"))
    def nothing_else_gives_or_takes_a_hash(self, before: Pool, b: Block, h: Hash) -> Bool:
        """As in P; reloads do both."""
        return iff(self.hashes[b, h], before.hashes[b, h])

    @step("P8, M6", of="hit")
    def a_lookup_leaves_the_rest_of_the_queue(self, before: Mirror, r: Request, b: Block, c: Block) -> Bool:  # type: ignore[override]
        """Who is free was so, or was let go again; what is not of the prefix stands as before."""
        are_others = ~self._is_of_prefix(r, b) & ~self._is_of_prefix(r, c)
        return implies(
            self._idle(b) & self._idle(c) & are_others,
            before._idle(b) & iff(self._sooner(b, c), before._sooner(b, c)),
        )

    @step("M6", of="hit")
    def a_reload_destroys_nothing_that_is_relied_on(self, before: Mirror, r: Request, i: Position) -> Bool:
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
    def what_is_found_is_held(  # type: ignore[override]
        self, before: Mirror, r: Request, i: Position, s: Slot
    ) -> Bool:
        """The table is the prefix; what was on the device is taken as it was, the rest was on the host."""
        h = self.prompt[r, i]
        was_here = before.cached[h].is_first(self.table[r, i])
        return implies(
            i < self.length[r],
            self._is_known(r, i, s) & (was_here | (before.cached[h].is_empty() & before.host.has(h))),
        )

    @step("M4, M6", of="hit")
    def a_lookup_ends_where_it_must(self, before: Mirror, r: Request, b: Block) -> Bool:  # type: ignore[override]
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
    def a_reload_takes_its_time(self, before: Mirror) -> Bool:
        """Base and transfer, for each block that was reloaded."""
        return self._takes_its_time(before)

    @step("M7, M8", unless=("hit", "mirror"))
    def nothing_else_is_measured(self, before: Mirror) -> Bool:
        """No other action costs time or counts."""
        return all_of(
            self.latency.total == before.latency.total,
            self.reloaded.total == before.reloaded.total,
            self.mirrored.total == before.mirrored.total,
            self.dropped.total == before.dropped.total,
        )

    @step("M8", of="hit")
    def a_reloaded_block_is_one_hit(self, before: Mirror, r: Request) -> Bool:
        """A first lookup counts a hit for each block of its table, wherever it was found, and none for its reload."""
        return all_of(
            implies(~before.counted[r], self.hits.total == before.hits.total + self.length[r]),
            self.reloaded.total - before.reloaded.total <= self.length[r],
        )

    @step("M8", of="mirror")
    def mirror_counts_no_hit(self, before: Mirror) -> Bool:
        """Neither a hit nor a query: those are a lookup's."""
        return (self.queries.total == before.queries.total) & (self.hits.total == before.hits.total)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("M2")
    def a_hash_is_on_the_host_only(self, h: Hash) -> Bool:
        """The device has lost it, the host has not."""
        return self.host.has(h) & self.cached[h].is_empty()

    @sometimes("M6")
    def a_prefix_has_a_gap(self, r: Request, i: Position, j: Position) -> Bool:
        """The device has a later block of a prompt, free, and the host an earlier one."""
        return all_of(
            self.running[r] & (self.length[r] == 0) & (i < j) & (j < self.limit[r]),
            self.host.has(self.prompt[r, i]) & self.cached[self.prompt[r, i]].is_empty(),
            exists(Block, lambda b: self.hashes[b, self.prompt[r, j]] & (self.ref_cnt[b] == 0)),
        )
