"""The short way by which the sanitizer judges a call that is as due, held to the long one on pools that go wrong."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvproof.engines.vllm.sanitizer.judging import Call, judge_call
from kvproof.engines.vllm.sanitizer.observing import METHODS
from kvproof.engines.vllm.sanitizer.short_way import called


@dataclass(eq=False)
class Block:
    block_id: int
    ref_cnt: int = 0
    _block_hash: bytes | None = None
    next_free_block: "Block | None" = None
    is_null: bool = False

    @property
    def block_hash(self) -> bytes | None:
        return self._block_hash


@dataclass
class Queue:
    fake_free_list_head: Block
    fake_free_list_tail: Block
    num_free_blocks: int


@dataclass
class Cache:
    _cache: dict[bytes | None, Any] = field(default_factory=dict)


class Pool:
    """A pool of six blocks in which all is well, as far as calls are looked at: some held, some free, some cached."""

    enable_caching = True

    def __init__(self, drawn: random.Random) -> None:
        self.null_block = Block(0, is_null=True)
        self.blocks = [self.null_block, *(Block(b, drawn.choice((0, 0, 1, 2))) for b in range(1, 7))]
        self.cached_block_hashes_by_block: dict[int, set[bytes]] = {}
        self.cached_block_hash_to_block = Cache()
        free = [block for block in self.blocks[1:] if not block.ref_cnt]
        drawn.shuffle(free)
        head, tail = Block(-1), Block(-2)
        for block, following in zip([head, *free], [*free, tail], strict=True):
            block.next_free_block = following
        self.free_block_queue = Queue(head, tail, len(free))
        for block in self.blocks[1:]:
            if drawn.random() < 0.5:
                self.name(block, drawn.choice((b"a", b"b", b"c")))

    def name(self, block: Block, key: bytes) -> None:
        cache = self.cached_block_hash_to_block._cache
        held = cache.get(key)
        if held is None:
            cache[key] = block
        else:
            cache[key] = {**(held if isinstance(held, dict) else {held.block_id: held}), block.block_id: block}
        block._block_hash = key

    def forget(self, block: Block) -> None:
        cache, key = self.cached_block_hash_to_block._cache, block._block_hash
        entry = cache.get(key)
        if isinstance(entry, dict):
            entry.pop(block.block_id, None)
        elif entry is block:
            del cache[key]
        block._block_hash = None

    def leave(self, block: Block) -> None:
        queue = self.free_block_queue
        at: Block | None = queue.fake_free_list_head
        for _ in self.blocks:
            if at is None or at.next_free_block is block:
                break
            at = at.next_free_block
        assert at is not None
        at.next_free_block, block.next_free_block = block.next_free_block, None
        queue.num_free_blocks -= 1

    # What follows is called as the release's methods are.

    def get_new_blocks(self, wanted: int) -> list[Block]:
        taken = []
        for _ in range(wanted):
            block = self.free_block_queue.fake_free_list_head.next_free_block
            assert block is not None
            self.leave(block)
            self.forget(block)
            block.ref_cnt += 1
            taken.append(block)
        return taken

    def touch(self, blocks: list[Block]) -> None:
        for block in blocks:
            if not block.ref_cnt:
                self.leave(block)
            block.ref_cnt += 1

    def free_blocks(self, blocks: list[Block]) -> None:
        queue = self.free_block_queue
        for block in blocks:
            block.ref_cnt -= 1
            if not block.ref_cnt:
                head = queue.fake_free_list_head
                head.next_free_block, block.next_free_block = block, head.next_free_block
                queue.num_free_blocks += 1

    def cache_full_blocks(self, _request: None, blocks: list[Block], start: int, end: int) -> None:
        for block in blocks[start:end]:
            if block._block_hash is None:
                self.name(block, b"%d" % block.block_id)


def arguments(pool: Pool, name: str, drawn: random.Random) -> tuple[Any, ...]:
    """What a call of this method may be given."""
    if name == "get_new_blocks":
        return (drawn.randrange(min(pool.free_block_queue.num_free_blocks, 3) + 1),)
    held = [block for block in pool.blocks[1:] if block.ref_cnt]
    named = [block for block in pool.blocks[1:] if block._block_hash is not None]
    among = named if name == "touch" else held
    blocks = drawn.sample(among, min(len(among), drawn.randrange(1, 4)))
    return (None, blocks, 0, len(blocks)) if name == "cache_full_blocks" else (blocks,)


WRONG: dict[str, Callable[[Pool, Block], object]] = {
    "a count too high": lambda _, block: setattr(block, "ref_cnt", block.ref_cnt + 1),
    "a count too low": lambda _, block: setattr(block, "ref_cnt", block.ref_cnt - 1),
    "stands in the queue": lambda _, block: setattr(block, "next_free_block", block),
    "stands there no longer": lambda _, block: setattr(block, "next_free_block", None),
    "a key at the block": lambda _, block: setattr(block, "_block_hash", b"z"),
    "no key at the block": lambda _, block: setattr(block, "_block_hash", None),
    "nothing in the map": lambda pool, _: pool.cached_block_hash_to_block._cache.clear(),
    "an entry in the map": lambda pool, block: pool.cached_block_hash_to_block._cache.update(
        dict.fromkeys((b"a", b"b", b"c"), block)
    ),
    "a second key": lambda pool, block: pool.cached_block_hashes_by_block.update({block.block_id: {b"y"}}),
    "one too many free": lambda pool, _: setattr(pool.free_block_queue, "num_free_blocks", 9),
    "the null block is free": lambda pool, block: setattr(pool.null_block, "next_free_block", block),
    "the null block is cached": lambda pool, _: setattr(pool.null_block, "_block_hash", b"a"),
}
"""What goes wrong before a call or in it, with a block of the pool or with the pool."""


def played(seed: int, wrong: str, *, early: bool) -> tuple[str, Call | None, Call]:
    """A call's name, what the short way keeps of it, and what the long way sees; something may go wrong around it."""
    drawn = random.Random(seed)
    pool = Pool(drawn)
    name = drawn.choice(("get_new_blocks", "touch", "free_blocks", "cache_full_blocks"))
    method, args, concerned = METHODS[name], arguments(pool, name, drawn), drawn.choice(pool.blocks[1:])
    if wrong and early:
        WRONG[wrong](pool, concerned)
    args, seen = method.before(pool, args)
    answer, error = None, ""
    try:
        answer = getattr(pool, name)(*args)
    except (AssertionError, AttributeError) as raised:
        error = f"{type(raised).__name__}: {raised}"
    if wrong and not early:
        WRONG[wrong](pool, concerned)
    kept = None if error else method.short(pool, 7, seen, answer)
    return name, None if kept is None else called(kept), Call(*method.after(pool, 7, seen, answer, error))


def test_a_call_in_which_nothing_is_wrong_takes_the_short_way_and_nothing_is_lost() -> None:
    short = Counter[str]()
    for seed in range(1000):
        name, kept, call = played(seed, "", early=False)
        assert judge_call(call) is None
        assert kept is None or kept == call
        short[name] += kept is not None
    assert all(of > 150 for of in short.values()), short
    assert len(short) == 4


def test_a_call_in_which_something_is_wrong_never_takes_it() -> None:
    found = Counter[str]()
    for wrong in WRONG:
        for seed in range(300):
            for early in (False, True):
                _, kept, call = played(seed, wrong, early=early)
                assert kept is None or kept == call, (wrong, seed)
                verdict = judge_call(call)
                found[wrong] += verdict is not None
                assert kept is None or verdict is None, (wrong, seed, verdict)
    # A key that is gone from a block shows where it is evicted, or in the whole state: a call may well leave blocks
    # without one. A second key is nothing wrong in itself.
    assert all(found[wrong] > 10 for wrong in WRONG.keys() - {"a second key", "no key at the block"}), found


def test_a_block_that_stands_twice_in_a_call_takes_the_long_way() -> None:
    pool = Pool(random.Random(1))
    block = next(block for block in pool.blocks if block.ref_cnt)
    block.ref_cnt = 2
    method = METHODS["free_blocks"]
    args, seen = method.before(pool, ([block, block],))
    pool.free_blocks(*args)
    assert method.short(pool, 0, seen, None) is None
    assert judge_call(Call(*method.after(pool, 0, seen, None, ""))) is None
