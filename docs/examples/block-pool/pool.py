"""A small block pool with a prefix cache, in the manner of vLLM's. It knows nothing of kvproof."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

__all__ = ["Block", "Pool"]


class Block:
    """One block of KV memory."""

    def __init__(self, number: int) -> None:
        """Nobody holds it, and it is cached under no key."""
        self.number = number
        self.ref_cnt = 0
        self.key: bytes | None = None


class Pool:
    """Blocks, who holds them, and the prefixes that they are cached under.

    A block that nobody holds stands in the free queue and stays cached until it is taken: the head is taken next.
    """

    def __init__(self, blocks: int, block_tokens: int) -> None:
        """So many blocks of so many tokens, all free."""
        self.block_tokens = block_tokens
        self.blocks = [Block(number) for number in range(blocks)]
        self.free: OrderedDict[int, None] = OrderedDict((number, None) for number in range(blocks))
        self.num_free = blocks
        self.cached: dict[bytes, int] = {}
        self.tables: dict[str, list[int]] = {}
        self.events: list[tuple[str, bytes]] = []

    # ------------------------------------------------------------------------------------------------ prefixes

    def keys(self, tokens: Sequence[int], salt: str | None = None) -> list[bytes]:
        """The keys of all full blocks: each names its tokens, and through the key before it all that went before."""
        keys: list[bytes] = []
        for end in range(self.block_tokens, len(tokens) + 1, self.block_tokens):
            parent = keys[-1] if keys else f"salt {salt}".encode() if salt else b"none"
            keys.append(self.key(parent, tokens[end - self.block_tokens : end]))
        return keys

    def key(self, parent: bytes, tokens: Sequence[int]) -> bytes:
        """The key of one block."""
        return blake2b(parent + repr(list(tokens)).encode(), digest_size=16).digest()

    def lookup(self, tokens: Sequence[int], salt: str | None = None) -> list[int]:
        """The blocks that hold the beginning of these tokens. The last token has to be computed in any case."""
        found: list[int] = []
        for key in self.keys(tokens, salt)[: self.most(tokens)]:
            if key not in self.cached:
                break
            found.append(self.cached[key])
        return found

    def most(self, tokens: Sequence[int]) -> int:
        """How many blocks a lookup may find."""
        return (len(tokens) - 1) // self.block_tokens

    # ------------------------------------------------------------------------------------------------ requests

    def admit(self, name: str, found: Sequence[int], tokens: int) -> bool:
        """Let a request in with the blocks that were found for it and new ones, for so many tokens in all."""
        idle = sum(self.blocks[number].ref_cnt == 0 for number in found)
        if self.need(tokens) - len(found) > self.num_free - idle:
            return False
        for number in found:
            self.touch(self.blocks[number])
        self.tables[name] = [*found]
        return self.extend(name, tokens)

    def extend(self, name: str, tokens: int) -> bool:
        """Give a request blocks for so many tokens in all; where there is no room, nothing."""
        missing = self.need(tokens) - len(self.tables[name])
        if missing > self.num_free:
            return False
        self.tables[name] += [self.take() for _ in range(missing)]
        return True

    def need(self, tokens: int) -> int:
        """How many blocks so many tokens take."""
        return -(-tokens // self.block_tokens)

    def computed(self, name: str, tokens: Sequence[int], salt: str | None = None) -> None:
        """These tokens of a request are computed: the blocks that they fill can be found from now on."""
        for key, number in zip(self.keys(tokens, salt), self.tables[name], strict=False):
            self.register(self.blocks[number], key)

    def release(self, name: str) -> None:
        """A request is over: its blocks are given back, the last one first, since it is the least use to others."""
        for number in reversed(self.tables.pop(name)):
            self.give_back(self.blocks[number])

    # -------------------------------------------------------------------------------------------------- blocks

    def touch(self, block: Block) -> None:
        """One more holds a block."""
        if block.ref_cnt == 0:
            del self.free[block.number]
            self.num_free -= 1
        block.ref_cnt += 1

    def take(self) -> int:
        """The block at the head of the queue, for somebody who will overwrite it."""
        number, _ = self.free.popitem(last=False)
        self.num_free -= 1
        self.forget(self.blocks[number])
        self.blocks[number].ref_cnt = 1
        return number

    def give_back(self, block: Block) -> None:
        """One less holds a block."""
        block.ref_cnt -= 1
        if block.ref_cnt == 0:
            self.free[block.number] = None
            self.num_free += 1

    def register(self, block: Block, key: bytes) -> None:
        """A block can be found under a key, unless there is one already."""
        if block.key is None and key not in self.cached:
            block.key, self.cached[key] = key, block.number
            self.events.append(("stored", key))

    def forget(self, block: Block) -> None:
        """A block cannot be found any more."""
        if block.key is not None:
            del self.cached[block.key]
            self.events.append(("removed", block.key))
            block.key = None

    def reset(self) -> bool:
        """Nothing can be found any more. Refused while somebody holds a block."""
        if any(block.ref_cnt for block in self.blocks):
            return False
        for block in self.blocks:
            self.forget(block)
        return True

    def take_events(self) -> Iterable[tuple[str, bytes]]:
        """What was stored and removed since the last call."""
        events, self.events = self.events, []
        return events
