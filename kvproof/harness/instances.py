"""Instances of the parameters of machine P, and of those that extend it, that come from real token sequences.

An instance is a few requests whose tokens share prefixes. Every distinct prefix (with what else its KV depends on) is
one content; a hash is the real, chained key of a block and names the contents of the slots that it covers. So whatever
the machine allows can be done to an implementation, with real keys and with real digests. What machines M, D and O have
besides (a host tier's capacity, a window, workers) are a few numbers more.
"""

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from ..checkers.target import Args
from ..machine import Machine, Model
from ..machine.concrete import State
from ..machine.scope import Scope
from ..refimpl.payload import next_digest, root_digest
from ..refimpl.pool.blocks import blocks_for, lookup_limit
from ..refimpl.pool.keys import ExtraKeys, block_extras, block_key
from ..spec.offload import Offload
from ..spec.pool import Pool
from ..spec.tiers.mirror import Mirror
from ..spec.tiers.pin import Pinned
from ..spec.tiers.tiered import Tiered
from .steering import Steering

__all__ = ["OFFLOAD_SIZES", "SIZES", "TIER_SIZES", "Instance", "Size", "host_params", "host_sizes", "instances"]

CHOICES: Mapping[str, Sequence[int | bool]] = {
    "capacity": (2, 1, 3, 4),
    "cost": (1, 2, 5),
    "pinning": (True, True, True, True, True, True, True, False),
    "window": (1, 2),
    "min_drop": (1, 2, 3),
    "lazy": (False, False, True),
}
"""What machines M, D and O may have: small, so that hosts are full, and windows move past whole drops."""


@dataclass(frozen=True)
class Size:
    """How large an instance is."""

    blocks: int
    """Blocks that can be handed out; a null block comes on top."""
    requests: int
    positions: int
    """The most blocks that a request needs."""
    slots: int
    """Tokens per block."""
    prefixes: int
    """Distinct token prefixes."""
    hashes: int
    """Block keys: all those of full blocks, and some of partly filled ones."""
    host_blocks: int = 2
    """Blocks of the host's pool, where there is one."""
    workers: int = 1
    """Workers that copy between the pools; a slot of a block belongs to one of them."""


SIZES = (
    Size(blocks=2, requests=2, positions=2, slots=1, prefixes=3, hashes=3),
    Size(blocks=3, requests=2, positions=2, slots=2, prefixes=5, hashes=4),
    Size(blocks=4, requests=3, positions=3, slots=1, prefixes=5, hashes=5),
    Size(blocks=5, requests=3, positions=3, slots=2, prefixes=8, hashes=6),
    Size(blocks=4, requests=3, positions=2, slots=3, prefixes=8, hashes=5),
    Size(blocks=7, requests=4, positions=3, slots=2, prefixes=10, hashes=7),
)
"""The sizes that random instances have, the smallest first. They are few because each costs an interpreter."""

TIER_SIZES = (
    Size(blocks=2, requests=2, positions=2, slots=1, prefixes=3, hashes=3),
    Size(blocks=3, requests=2, positions=3, slots=1, prefixes=4, hashes=4),
    Size(blocks=4, requests=2, positions=4, slots=1, prefixes=6, hashes=6),
    Size(blocks=4, requests=3, positions=3, slots=2, prefixes=9, hashes=6),
    Size(blocks=5, requests=3, positions=4, slots=1, prefixes=7, hashes=7),
)
"""Those of instances with more tiers than one: prompts are longer than in `SIZES`, and blocks fewer."""

OFFLOAD_SIZES = (
    Size(blocks=2, requests=2, positions=2, slots=1, prefixes=3, hashes=3, host_blocks=1),
    Size(blocks=3, requests=2, positions=3, slots=1, prefixes=4, hashes=4, host_blocks=2),
    Size(blocks=3, requests=2, positions=2, slots=2, prefixes=6, hashes=4, host_blocks=2, workers=2),
    Size(blocks=4, requests=3, positions=3, slots=1, prefixes=6, hashes=6, host_blocks=3),
    Size(blocks=4, requests=3, positions=3, slots=2, prefixes=8, hashes=5, host_blocks=4, workers=2),
)
"""Those of instances with asynchronous offload."""

_TENANTS = (ExtraKeys(), ExtraKeys(salt="a"), ExtraKeys(adapter="a"))


@functools.cache
def _model_with(params: frozenset[str]) -> Model:
    """The first of the machines that has these parameters.

    Raises:
        ValueError: none has them.
    """
    for machine in (Pool, Mirror, Pinned, Tiered, Offload):
        model = Model.of(machine)
        if params == set(model.params):
            return model
    raise ValueError(f"there are no instances for a machine with the parameters {', '.join(sorted(params))}")


@dataclass(frozen=True)
class Instance:
    """One instance of a machine's parameters, and what an implementation needs to be driven in it."""

    scope: Scope
    keys: tuple[bytes, ...]
    """The key of each hash."""
    digests: tuple[int, ...]
    """The 64-bit digest of the prefix that each content is the KV of."""
    writes: frozenset[Args] = frozenset()
    """The arguments of `write` that put a request's own tokens in their places; none where tokens are not known."""

    def __post_init__(self) -> None:
        """Refuse what no tokens can help."""
        if self.scope.params.get("cost", 1) < 1:
            raise ValueError("bandwidths are finite, so that a reload takes some time: cost must be at least 1")

    # The parameters that implementations ask for.

    @property
    def blocks(self) -> int:
        """All blocks, a null block included."""
        return self.scope.sizes["Block"]

    @property
    def block_tokens(self) -> int:
        """Tokens per block."""
        return self.scope.sizes["Slot"]

    @property
    def covered(self) -> tuple[int, ...]:
        """How many leading slots of its block each hash covers."""
        return tuple(sum(c is not None for c in row) for row in self.scope.params["kv"])

    # How instances are made.

    @staticmethod
    def from_seed(seed: int, size: Size | None = None, *, machine: type[Machine] = Pool) -> "Instance":
        """The instance with this number; the same one on every machine and in every process."""
        dice = random.Random(seed)
        size = dice.choice(_sizes_for(machine)) if size is None else size
        caching, split, null = dice.random() < 0.9, dice.random() < 0.5, dice.random() < 0.5
        more = {name: dice.choice(CHOICES[name]) for name in _more_params(machine)}
        return Instance.make(size, caching=caching, split=split, null=null, seed=seed, more=more)

    @staticmethod
    def make(
        size: Size,
        *,
        caching: bool = True,
        split: bool = False,
        null: bool = False,
        seed: int = 0,
        more: Mapping[str, int | bool] | None = None,
    ) -> "Instance":
        """An instance of this size and dialect: tries sequences until their prefixes give the numbers asked for.

        ``more``: what a machine that extends P has besides; it is the machine that has just these parameters.
        """
        dice = random.Random(seed)
        lonely = 0
        # A gap between tiers takes two blocks.
        shared = min(2, size.positions - 1) if more else 1
        for _ in range(1000):
            trie = _Trie(size, dice)
            if not trie.fits():
                continue
            # Most instances have something to find; a few need not, and some sizes have no room for it.
            lonely += 1
            if trie.shares(shared) or lonely > 20 * shared or dice.random() < 0.05:
                return trie.instance({"caching": caching, "split": split, "null": 0 if null else None, **(more or {})})
        raise ValueError(f"no token sequences were found that give {size}")

    @staticmethod
    def of_scope(scope: Scope) -> "Instance":
        """An instance in any scope of a machine, such as that of a proof's counterexample: made-up tokens, real keys.

        Raises:
            ValueError: no blocks are like that: a hash covers slots with gaps, or the null block is not the first.
        """
        kv, parents = scope.params["kv"], scope.params["parent"]
        if scope.params["null"] not in (None, 0):
            raise ValueError("implementations keep their null block first: null must be 0 or none")
        keys: dict[int, bytes] = {}
        for h, row in enumerate(kv):
            length = sum(c is not None for c in row)
            if not length or any(c is None for c in row[:length]):
                raise ValueError(f"hash {h} names {row}; a block is filled from its first slot on")
        for start in range(len(kv)):
            # Parents first. Where they go in a circle, which no tokens do, the circle is cut anywhere.
            path = [start]
            while parents[path[-1]] is not None and parents[path[-1]] not in path:
                path.append(parents[path[-1]])
            for h in reversed(path):
                if h not in keys:
                    tokens = [c for c in kv[h] if c is not None]
                    keys[h] = block_key(keys.get(parents[h]), tokens, ExtraKeys(salt=f"hash {h}"))
        digests = [next_digest(root_digest(), c) for c in range(scope.sizes["Content"])]
        return Instance(scope, tuple(keys[h] for h in range(len(kv))), tuple(digests))

    def worthwhile(self, state: State, action: str, possible: list[Args]) -> list[Args]:
        """What a server would do, and what leads somewhere."""
        return Steering(self.scope, state, self.writes).worthwhile(action, possible)

    def describe(self) -> dict[str, Any]:
        """Everything that is needed to make this instance again: JSON values, 64-bit numbers included."""
        return {
            "sizes": dict(self.scope.sizes),
            "params": dict(self.scope.params),
            "keys": [key.hex() for key in self.keys],
            "digests": list(self.digests),
        }

    @staticmethod
    def load(described: Mapping[str, Any]) -> "Instance":
        """The opposite of `describe`.

        Raises:
            ValueError: it describes no instance.
        """
        params = dict(described["params"])
        scope = Scope(_model_with(frozenset(params)), dict(described["sizes"]), params)
        keys, digests = tuple(map(bytes.fromhex, described["keys"])), tuple(described["digests"])
        if len(set(keys)) != scope.sizes["Hash"] or len(keys) != scope.sizes["Hash"]:
            raise ValueError("an instance has a key of its own for each hash")
        if len(digests) != scope.sizes["Content"] or not all(type(d) is int and -(2**63) <= d < 2**63 for d in digests):
            raise ValueError("an instance has a digest of 64 bits for each content")
        return Instance(scope, keys, digests)


def instances(
    sizes: Sequence[Size] | None = None, *, caching: bool | None = None, machine: type[Machine] = Pool
) -> st.SearchStrategy[Instance]:
    """Draws instances of all sizes and dialects; Hypothesis shrinks to the first size and the plain dialect.

    Args:
        sizes: how large they are; by default as suits the machine.
        caching: whether blocks are registered; by default in most instances.
        machine: whose parameters they are instances of: P's, M's, D's, those of both, or O's.
    """
    more = _more_params(machine)
    if sizes is None:
        sizes = _sizes_for(machine)
    # One in eight has no cache: then there is nothing to hit, register or evict. As rarely windows cannot move.
    mostly, rarely = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 0]), st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7])
    return st.builds(
        lambda size, split, null, cache, seed, numbers: Instance.make(
            size,
            caching=caching if caching is not None else cache > 0,
            split=split,
            null=null,
            seed=seed,
            more=numbers,
        ),
        st.sampled_from(list(sizes)),
        st.booleans(),
        rarely.map(lambda n: n < 7) if "window" in more else st.booleans(),
        mostly,
        st.integers(0, 2**16 - 1),
        st.fixed_dictionaries({name: st.sampled_from(list(CHOICES[name])) for name in more}),
    )


def host_params(size: Size) -> dict[str, Any]:
    """The parameters of machine O that an instance's size decides: whose the slots are."""
    return {"owner": [s % size.workers for s in range(size.slots)], "driver": 0}


def host_sizes(size: Size) -> dict[str, int]:
    """What machine O counts besides. A host block may be held by a load into each block, and by each lookup."""
    numbers = max(size.positions, size.blocks + size.requests) + 1
    return {"HostBlock": size.host_blocks, "Worker": size.workers, "Int": numbers}


def _sizes_for(machine: type[Machine]) -> Sequence[Size]:
    """The sizes of instances for this machine."""
    return OFFLOAD_SIZES if issubclass(machine, Offload) else TIER_SIZES if _more_params(machine) else SIZES


def _more_params(machine: type[Machine]) -> list[str]:
    """What the machine has beyond the parameters of P, and can be chosen."""
    return [name for name in Model.of(machine).params if name in CHOICES]


@dataclass
class _Sequence:
    """The tokens of one request, as nodes of the trie."""

    nodes: list[int]
    prompt: int
    """How many of them are its prompt."""


class _Trie:
    """Token sequences, node by node: each node is a prefix."""

    def __init__(self, size: Size, dice: random.Random) -> None:
        self.size, self.dice = size, dice
        self.tenant: list[ExtraKeys] = []
        self.tokens: list[tuple[int, ...]] = []
        self.above: list[int | None] = []
        self._nodes: dict[tuple[ExtraKeys, tuple[int, ...]], int] = {}
        self.sequences: list[_Sequence] = []
        self._grow()

    def _grow(self) -> None:
        size, dice = self.size, self.dice
        longest = size.positions * size.slots
        main = dice.choice(_TENANTS)
        for number in range(size.requests):
            tenant = main if dice.random() < 0.85 else dice.choice(_TENANTS)
            tokens: list[int] = []
            relatives = [s for s in self.sequences if self.tenant[s.nodes[0]] == tenant]
            if relatives and dice.random() < 0.85:
                relative = self.tokens[dice.choice(relatives).nodes[-1]]
                tokens = list(relative[: dice.randint(1, len(relative))])
            total = max(dice.randint(max(1, len(tokens)), longest), dice.randint(1, longest))
            tokens += [dice.randint(0, 1) for _ in range(total - len(tokens))]
            nodes: list[int] = []
            above: int | None = None
            # The requests still to come need a prefix each.
            room = size.prefixes - (size.requests - number - 1)
            for end in range(1, total + 1):
                node = self._nodes.get((tenant, tuple(tokens[:end])))
                if node is None:
                    if len(self.tokens) >= room:
                        break
                    node = self._add(tenant, tuple(tokens[:end]), above)
                nodes.append(node)
                above = node
            if not nodes:
                return
            self.sequences.append(_Sequence(nodes, max(dice.randint(1, len(nodes)), dice.randint(1, len(nodes)))))
        # What no request says, but somebody might have: it fills the numbers up.
        while len(self.tokens) < size.prefixes:
            node = dice.choice([None, *(n for n, t in enumerate(self.tokens) if len(t) < longest)])
            before = () if node is None else self.tokens[node]
            tenant = main if node is None else self.tenant[node]
            self._add(tenant, (*before, 2 + len(self.tokens)), node)

    def _add(self, tenant: ExtraKeys, tokens: tuple[int, ...], above: int | None) -> int:
        node = len(self.tokens)
        self.tenant.append(tenant)
        self.tokens.append(tokens)
        self.above.append(above)
        self._nodes[tenant, tokens] = node
        return node

    def _is_full(self, node: int) -> bool:
        return len(self.tokens[node]) % self.size.slots == 0

    def fits(self) -> bool:
        """Whether there are as many hashes as wanted, every full block among them."""
        full = sum(map(self._is_full, range(len(self.tokens))))
        return len(self.sequences) == self.size.requests and full <= self.size.hashes <= len(self.tokens)

    def shares(self, blocks: int) -> bool:
        """Whether two requests look for the same first blocks."""
        tokens = blocks * self.size.slots
        ends = [s.nodes[tokens - 1] for s in self.sequences if s.prompt > tokens]
        return len(set(ends)) < len(ends)

    def instance(self, given: Mapping[str, Any]) -> Instance:
        """The instance of these sequences, with those parameters that are no matter of sequences."""
        size = self.size
        full = [n for n in range(len(self.tokens)) if self._is_full(n)]
        partial = [n for n in range(len(self.tokens)) if not self._is_full(n)]
        self.dice.shuffle(partial)
        named = sorted(full + partial[: size.hashes - len(full)])
        number = {node: h for h, node in enumerate(named)}
        kv: list[list[int | None]] = []
        parents: list[int | None] = []
        keys: dict[int, bytes] = {}
        for node in named:
            block, before = self._block(node)
            kv.append([*block, *[None] * (size.slots - len(block))])
            parents.append(None if before is None else number[before])
            position = (len(self.tokens[node]) - 1) // size.slots
            keys[node] = block_key(
                None if before is None else keys[before],
                self.tokens[node][position * size.slots :],
                block_extras(self.tenant[node], position, len(block), size.slots),
            )
        digests: list[int] = []
        for node, tokens in enumerate(self.tokens):
            above = self.above[node]
            digests.append(next_digest(root_digest(self.tenant[node]) if above is None else digests[above], tokens[-1]))
        # One content more, which no hash names: what a step may write by mistake.
        digests.append(next_digest(digests[-1], 1 << 20))
        params = {
            **given,
            "kv": kv,
            "parent": parents,
            "prompt": [self._prompt(s, number) for s in self.sequences],
            "limit": [lookup_limit(s.prompt, size.slots) for s in self.sequences],
            "need": [blocks_for(len(s.nodes), size.slots) for s in self.sequences],
        }
        sizes = {"Int": max(size.positions + 1, size.requests)}
        if "lazy" in given:
            params |= host_params(size)
            sizes |= host_sizes(size)
        scope = Scope(
            _model_with(frozenset(params)),
            {
                "Block": size.blocks + (given["null"] is not None),
                "Request": size.requests,
                "Hash": size.hashes,
                "Slot": size.slots,
                "Content": size.prefixes + 1,
                "Position": size.positions,
                **sizes,
            },
            params,
        )
        writes = [
            (r, *divmod(i, size.slots), node) for r, s in enumerate(self.sequences) for i, node in enumerate(s.nodes)
        ]
        return Instance(scope, tuple(keys[node] for node in named), tuple(digests), frozenset(writes))

    def _block(self, node: int) -> tuple[list[int], int | None]:
        """The nodes of the block that a prefix ends in, up to its end, and the node at the end of the block before."""
        block: list[int] = []
        at: int | None = node
        for _ in range((len(self.tokens[node]) - 1) % self.size.slots + 1):
            assert at is not None
            block.append(at)
            at = self.above[at]
        return block[::-1], at

    def _prompt(self, sequence: _Sequence, number: Mapping[int, int]) -> list[int]:
        """The hashes of the full blocks; a lookup never gets to what stands behind them."""
        slots = self.size.slots
        hashes = [number[sequence.nodes[end - 1]] for end in range(slots, sequence.prompt + 1, slots)]
        return hashes + [0] * (self.size.positions - len(hashes))
