"""Clean streams with a known end: a small engine on the reference implementation's block pool, which publishes.

What it publishes is what its pool reports (P12), so that the pool itself says at the end what a router must believe.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kvproof.events.arrival import Arrival, checksum
from kvproof.events.recording import Recorder
from kvproof.events.wire import Cleared, Event, Removed, Stored
from kvproof.refimpl.events import BlockRemoved, BlockStored
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.keys import block_key

__all__ = ["Message", "PublishingEngine", "arrivals", "publish", "record"]

TOKENS = 16
"""Tokens of a block."""


@dataclass
class Message:
    """A batch before it is written."""

    source: str
    number: int
    rank: int | None
    events: list[Event] = field(default_factory=list)
    raw: bytes | None = None
    """What is sent in its place."""
    made: float = 0.5

    def payload(self) -> bytes:
        return msgspec.msgpack.encode([self.made, self.events, self.rank]) if self.raw is None else self.raw


class PublishingEngine:
    """One rank: requests come, find what is cached, compute the rest, and end; blocks are evicted as the pool does."""

    def __init__(
        self,
        seed: int,
        *,
        blocks: int = 64,
        rank: int = 0,
        group: int | None = 0,
        digests: bool = True,
        resets: float = 0.004,
        new: int = 3,
    ) -> None:
        """Begin with nothing cached.

        ``digests``: whether hashes are bytes; ``resets``: how often a step is one; ``new``: how many blocks a prompt
        adds at most to what an earlier one begins with.
        """
        self.rank, self.group, self.digests, self.resets = rank, group, digests, resets
        self.new = new
        self.pool = BlockPool(blocks)
        self._random = random.Random(f"{seed} {rank}")
        self._contents: dict[bytes, tuple[int, ...]] = {}
        self._running: list[list[int]] = []
        self._prompts: list[list[tuple[int, ...]]] = [[]]

    def step(self) -> list[Event]:
        """Do something, and return what is published of it."""
        if self._random.random() < self.resets:
            for blocks in self._running:
                self.pool.free(blocks)
            self._running.clear()
            assert self.pool.reset()
        else:
            self._admit(self._prompt())
        return list(self._published())

    @property
    def cached(self) -> set[bytes | int]:
        """What the pool itself would find."""
        return {self._hash(key) for key, blocks in self.pool.snapshot().copies.items() if blocks}

    def _prompt(self) -> list[tuple[int, ...]]:
        """A prompt of a few blocks, most often the beginning of an earlier one and something new."""
        draw = self._random
        known = draw.choice(self._prompts)
        new = [tuple(draw.randrange(150_000) for _ in range(TOKENS)) for _ in range(draw.randint(0, self.new))]
        prompt = [*known[: draw.randint(0, len(known))], *new]
        self._prompts.append(prompt)
        del self._prompts[:-200]
        return prompt

    def _admit(self, prompt: list[tuple[int, ...]]) -> None:
        keys: list[bytes] = []
        for tokens in prompt:
            keys.append(block_key(keys[-1] if keys else None, tokens))
            self._contents[keys[-1]] = tokens
        held: list[int] = []
        for key in keys:
            block = self.pool.lookup(key)
            if block is None:
                break
            held.append(block)
        self.pool.touch(held)
        new = self.pool.allocate(len(keys) - len(held))
        while new is None and self._running:
            self.pool.free(self._running.pop(0)[::-1])
            new = self.pool.allocate(len(keys) - len(held))
        if new is None:
            self.pool.free(held[::-1])
            return
        for at, block in enumerate(new, start=len(held)):
            self.pool.register(block, keys[at], keys[at - 1] if at else None)
        self._running.append([*held, *new])
        if len(self._running) > 3:
            self.pool.free(self._running.pop(self._random.randrange(3))[::-1])

    def _published(self) -> Iterator[Event]:
        """The pool's events as an engine writes them: blocks of one chain together."""
        chain: list[BlockStored] = []
        for event in self.pool.take_events():
            if isinstance(event, BlockStored):
                if chain and event.parent != chain[-1].key:
                    yield self._stored(chain)
                    chain = []
                chain.append(event)
                continue
            if chain:
                yield self._stored(chain)
                chain = []
            if isinstance(event, BlockRemoved):
                yield Removed([self._hash(event.key)], "GPU", self.group)
            else:
                yield Cleared()
        if chain:
            yield self._stored(chain)

    def _stored(self, chain: list[BlockStored]) -> Stored:
        parent = chain[0].parent
        return Stored(
            [self._hash(event.key) for event in chain],
            None if parent is None else self._hash(parent),
            tuple(token for event in chain for token in self._contents[event.key]),
            TOKENS,
            medium="GPU",
            group_idx=self.group,
        )

    def _hash(self, key: bytes) -> bytes | int:
        return key if self.digests else int.from_bytes(key[-8:], "big")


def publish(engines: list[PublishingEngine], batches: int, *, per_batch: int = 1) -> list[Message]:
    """What engines publish in turns, each with numbers of its own."""
    numbers = [0] * len(engines)
    messages: list[Message] = []
    while len(messages) < batches:
        for at, engine in enumerate(engines):
            events: list[Event] = []
            while len(events) < per_batch:
                events += engine.step()
            messages.append(Message(f"tcp://engine:{5557 + at}", numbers[at], engine.rank, events))
            numbers[at] += 1
    return messages


def arrivals(messages: list[Message]) -> Iterator[Arrival]:
    """The messages as they come."""
    for message in messages:
        payload = message.payload()
        yield Arrival(message.source, b"kv", message.number, payload, checksum(payload))


def record(messages: list[Message], path: Path) -> Path:
    """Write a recording."""
    with Recorder(path) as recorder:
        for arrival in arrivals(messages):
            recorder.write(arrival)
    return path
