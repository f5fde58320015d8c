"""What is known while the loops of machine R go on: facts by name, of the state now and of that at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...machine import Bool, Index, Int, all_of, exists, forall, iff, implies, ite, none
from .sorts import Page, Position, Prefix, Request

if TYPE_CHECKING:
    from .actions import TreeActions

Facts = dict[str, Bool]

# Each takes the state now, that before the first round, and how many rounds are done.


def taken_so_far(now: TreeActions, entry: TreeActions, r: Request, i: Index | Int) -> Facts:
    """An allocation took i pages."""
    return {
        "the table grows by one each round": now.length[r] == entry.length[r] + i,
        "enough pages are left": now.free.size == entry.free.size - i,
        **taken_from_the_head(now, entry, r),
    }


def taken_from_the_head(now: TreeActions, entry: TreeActions, r: Request) -> Facts:
    """The pages that r took since `entry` were the first of the queue, and stand in its table in that order."""

    def is_new(i: Position) -> Bool:
        return (entry.length[r] <= i) & (i < now.length[r])

    return {
        "entries stay": forall(Position, lambda k: implies(k < entry.length[r], now.table[r, k] == entry.table[r, k])),
        "new entries were free": forall(
            Position, Page, lambda k, p: implies(is_new(k) & (now.table[r, k] == p), entry.free.has(p))
        ),
        "new entries stand in the queue's order": forall(
            Position,
            Position,
            Page,
            Page,
            lambda j, k, p, q: implies(
                all_of(is_new(j), is_new(k), j < k, now.table[r, j] == p, now.table[r, k] == q),
                entry.free.before(p, q),
            ),
        ),
        "who was taken stood before who is left": forall(
            Page,
            Page,
            lambda p, q: implies(
                entry.free.has(p) & ~now.free.has(p) & now.free.has(q), entry.free.has(q) & entry.free.before(p, q)
            ),
        ),
        "who is left stands as before": forall(
            Page,
            Page,
            lambda p, q: implies(
                now.free.has(p) & now.free.has(q), iff(now.free.before(p, q), entry.free.before(p, q))
            ),
        ),
    }


def matched_so_far(now: TreeActions, entry: TreeActions, r: Request, i: Index | Int) -> Facts:
    """A match has walked down i pages."""
    return {
        "the table is as long as the walk": (now.length[r] == i) & (now.held[r] == i),
        "the walk stays below the limit": i <= now.limit[r],
        "what was walked is locked once more": locked_along(now, entry, r, 0, i),
        "who is left in the order stands as before": order_of_the_rest(now, entry),
    }


def shared_so_far(now: TreeActions, entry: TreeActions, r: Request, i: Index | Int) -> Facts:
    """A request that checks in has found i pages of its sequence in the tree."""
    return {
        "what was walked is held": now.held[r] == ite(i > entry.held[r], i, entry.held[r]),
        "the rest of the table is as it was": forall(
            Position,
            lambda k: implies((k >= i) | (k < entry.held[r]), now.table[r, k] == entry.table[r, k]),
        ),
        "what was walked is locked once more": locked_along(now, entry, r, entry.held[r], i),
        "who is left in the order stands as before": order_of_the_rest(now, entry),
        **freed_from(now, entry, r, entry.held[r], i, is_upward=True),
    }


def adopted_so_far(now: TreeActions, entry: TreeActions, r: Request, had: Int, limit: Int, j: Index | Int) -> Facts:
    """Of the pages that the tree did not have, j are its own now."""
    end = had + j
    return {
        "what was adopted is held": now.held[r] == end,
        "what was adopted is the request's": forall(
            Position,
            lambda k: implies(
                (had <= k) & (k < end),
                (now.page[now.path[r, k]] == now.table[r, k]) & (entry.page[now.path[r, k]] == none),
            ),
        ),
        "all else in the tree is as it was": forall(
            Prefix,
            lambda a: implies(
                ~is_adopted(now, entry, a), (now.page[a] == entry.page[a]) & iff(now.cut[a], entry.cut[a])
            ),
        ),
        "what was adopted is on the path": forall(
            Prefix, lambda a: implies(is_adopted(now, entry, a), is_on(now, r, had, end, a))
        ),
        "the lock stands on what was adopted": forall(
            Prefix, lambda a: implies((j > 0) & (now.last[r] == a), is_adopted(now, entry, a))
        ),
        "nobody else locks it": forall(
            Request,
            Prefix,
            lambda q, a: implies(is_adopted(now, entry, a), (now.lock[a] == 1) & ((q == r) | (now.last[q] != a))),
        ),
        "what was adopted is one node": forall(
            Position,
            lambda k: implies((had <= k) & (k < end), iff(now.cut[now.path[r, k]], k + 1 == end)),
        ),
        "what was adopted is locked once": locked_along(now, entry, r, had, end),
        "nothing is below it": forall(
            Prefix, lambda c: implies((j > 0) & (now.above[c] == now.last[r]), now.page[c] == none)
        ),
        "what comes next is not in the tree": forall(
            Position, lambda k: implies((k == end) & (k < limit), now.page[now.path[r, k]] == none)
        ),
    }


def let_go_so_far(now: TreeActions, entry: TreeActions, r: Request, i: Index | Int) -> Facts:
    """A request has given up the last i entries of its table."""
    end = now.length[r]
    return {
        "the table shrinks by one each round": end == entry.length[r] - i,
        "what is left of the lock is held": now.held[r] == ite(end < entry.held[r], end, entry.held[r]),
        "the rest of the table is as it was": forall(
            Position,
            lambda k: implies(
                k < end, (now.table[r, k] == entry.table[r, k]) & iff(now.holds[r, k], entry.holds[r, k])
            ),
        ),
        "what was let go is unlocked once": unlocked_along(now, entry, r, end, entry.held[r]),
        "what was unlocked last stands first": forall(
            Prefix,
            Prefix,
            lambda a, c: implies(
                all_of(on_one_edge(now, a, c), now.last[r] == a, now.lock[c] == 0), now.order.is_first(c)
            ),
        ),
        "nobody else was let go": forall(
            Page,
            lambda p: implies(now.free.has(p) & ~entry.free.has(p), entry.own[p] > 0),
        ),
        **used_just_now(now, entry),
        **freed_from(now, entry, r, ite(end < entry.held[r], entry.held[r], end), entry.length[r], is_upward=False),
    }


def evicted_so_far(now: TreeActions, entry: TreeActions, i: Index | Int) -> Facts:
    """An eviction has freed i pages."""
    return {
        "a page is freed each round": now.evictable.value == entry.evictable.value - i,
        "no node was begun in vain": now.needless.total == entry.needless.total,
        "a node that is being evicted is not gone": implies(now.shrinking.value != none, ~now.order.is_empty()),
        "a node that is being evicted is next": forall(
            Prefix,
            Prefix,
            lambda a, b: implies(
                now.shrinking.value == a, now.order.has(a) & ~(now.order.has(b) & now.order.before(a, b))
            ),
        ),
        "a node goes as a whole": forall(
            Prefix,
            Prefix,
            lambda a, c: implies(
                all_of(
                    on_one_edge(entry, a, c),
                    now.page[a] != none,
                    now.page[c] == none,
                ),
                now.shrinking.value == a,
            ),
        ),
        "nodes end where they ended": forall(
            Prefix,
            lambda a: implies(now.page[a] != none, iff(now.cut[a], entry.cut[a] | (now.shrinking.value == a))),
        ),
        **gone_from_the_tail(now, entry),
        **freed_by_eviction(now, entry),
    }


# ------------------------------------------------------------------------------------------------ what these ask


def is_on(now: TreeActions, r: Request, start: Int | int, end: Int | Index, a: Prefix) -> Bool:
    """The prefix stands on the request's path, from a position on and before another."""
    return exists(Position, lambda k: (start <= k) & (k < end) & (now.path[r, k] == a))


def is_adopted(now: TreeActions, entry: TreeActions, a: Prefix) -> Bool:
    """The tree has a page for the prefix, and had none."""
    return all_of(now.page[a] != none, entry.page[a] == none)


def locked_along(now: TreeActions, entry: TreeActions, r: Request, start: Int | int, end: Int | Index) -> Bool:
    """Every prefix between these positions of the path has one lock more than at the start, and no other has."""
    return forall(Prefix, lambda a: now.lock[a] == entry.lock[a] + ite(is_on(now, r, start, end, a), 1, 0))


def unlocked_along(now: TreeActions, entry: TreeActions, r: Request, start: Int | int, end: Int | Index) -> Bool:
    """Every prefix between these positions of the path has one lock less than at the start, and no other has."""
    return forall(Prefix, lambda a: now.lock[a] == entry.lock[a] - ite(is_on(now, r, start, end, a), 1, 0))


def order_of_the_rest(now: TreeActions, entry: TreeActions) -> Bool:
    """Who is still in the order was there, and any two of them stand as they stood."""
    return forall(
        Prefix,
        Prefix,
        lambda a, b: implies(
            now.order.has(a) & now.order.has(b),
            entry.order.has(a) & iff(now.order.before(a, b), entry.order.before(a, b)),
        ),
    )


def used_just_now(now: TreeActions, entry: TreeActions) -> Facts:
    """Who was in the order stands as before; who is new stands in front of all of them, parents first."""

    def is_new(a: Prefix) -> Bool:
        return now.order.has(a) & ~entry.order.has(a)

    return {
        "who was in the order stands as before": forall(
            Prefix,
            Prefix,
            lambda a, b: implies(
                entry.order.has(a) & entry.order.has(b),
                now.order.has(a) & iff(now.order.before(a, b), entry.order.before(a, b)),
            ),
        ),
        "who is new in the order stands in front": forall(
            Prefix, Prefix, lambda a, b: implies(is_new(a) & entry.order.has(b), now.order.before(a, b))
        ),
    }


def kept_in_the_queue(now: TreeActions, entry: TreeActions) -> Bool:
    """Whatever was free is free, and any two such pages stand as they stood."""
    return forall(
        Page,
        Page,
        lambda p, q: implies(
            entry.free.has(p) & entry.free.has(q),
            now.free.has(p) & iff(now.free.before(p, q), entry.free.before(p, q)),
        ),
    )


def freed_from(
    now: TreeActions, entry: TreeActions, r: Request, start: Int, end: Int | Index, *, is_upward: bool
) -> Facts:
    """What stood at these positions of a table is free now, behind what was free, in the order of the walk."""

    def is_freed(k: Position, p: Page) -> Bool:
        return (start <= k) & (k < end) & (entry.table[r, k] == p)

    return {
        "who was free stays free, in the same order": kept_in_the_queue(now, entry),
        "exactly this is freed": forall(
            Page,
            lambda p: iff(now.free.has(p), entry.free.has(p) | exists(Position, lambda k: is_freed(k, p))),
        ),
        "what is freed goes to the tail": forall(
            Page,
            Page,
            lambda p, q: implies(now.free.has(p) & ~entry.free.has(p) & entry.free.has(q), now.free.before(q, p)),
        ),
        "what is freed stands in the order of the walk": forall(
            Position,
            Position,
            Page,
            Page,
            lambda j, k, p, q: implies(
                is_freed(j, p) & is_freed(k, q) & (j < k),
                now.free.before(p, q) if is_upward else now.free.before(q, p),
            ),
        ),
    }


def on_one_edge(now: TreeActions, a: Prefix, c: Prefix) -> Bool:
    """The second is right below the first, on the edge of one node."""
    return all_of(now.page[a] != none, ~now.cut[a], now.above[c] == a, now.page[c] != none)


def is_next(now: TreeActions, a: Prefix) -> Bool:
    """The prefix stands at the tail of the order: it is evicted next."""
    return now.order.has(a) & forall(Prefix, lambda b: implies(now.order.has(b), ~now.order.before(a, b)))


def gone_from_the_tail(now: TreeActions, entry: TreeActions) -> Facts:
    """What the tree has lost stood behind all that is left; what is left is as it was."""
    return {
        "what is left in the tree is as it was": forall(
            Prefix, lambda a: implies(now.page[a] != none, now.page[a] == entry.page[a])
        ),
        "what is gone was not locked": forall(
            Prefix,
            lambda a: implies((entry.page[a] != none) & (now.page[a] == none), entry.order.has(a)),
        ),
        "what is gone stood behind what is left": forall(
            Prefix,
            Prefix,
            lambda a, b: implies(entry.order.has(a) & ~now.order.has(a) & now.order.has(b), entry.order.before(b, a)),
        ),
        "what is left stands as before": order_of_the_rest(now, entry),
    }


def freed_by_eviction(now: TreeActions, entry: TreeActions) -> Facts:
    """Exactly the pages that the tree has lost are free now, behind what was free."""

    def was_evicted(a: Prefix, p: Page) -> Bool:
        return all_of(entry.page[a] == p, now.page[a] == none)

    return {
        "who was free stays free, in the same order": kept_in_the_queue(now, entry),
        "exactly this is freed": forall(
            Page,
            lambda p: iff(now.free.has(p), entry.free.has(p) | exists(Prefix, lambda a: was_evicted(a, p))),
        ),
        "what is freed goes to the tail": forall(
            Page,
            Page,
            lambda p, q: implies(now.free.has(p) & ~entry.free.has(p) & entry.free.has(q), now.free.before(q, p)),
        ),
        "the last of a node is freed first": forall(
            Prefix,
            Prefix,
            Page,
            Page,
            lambda a, b, p, q: implies(
                was_evicted(a, p) & was_evicted(b, q) & entry.order.before(a, b), now.free.before(q, p)
            ),
        ),
    }
