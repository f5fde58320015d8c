"""The KV of every token, really stored: so that one wrong block shows.

There is no model here. In its place, the KV of a token is a fixed function of a 64-bit digest of its whole prefix
(tokens and extras), as real KV is a function of the whole prefix. Every value is a small multiple of a power of two,
exact in the payload's dtype, so two payloads are compared for equality and not for closeness.

**Prefix digests.** Each token, and each multimodal item at its token, is first mixed to 64 bits, giving m_i. The digest
of the prefix that ends at token i is d_i = B * d_{i-1} + m_i modulo 2**64 for an odd constant B, and d_{-1} is drawn
from what covers the whole request (adapter, salt, embeddings). It is linear so that a whole request is one cumulative
sum; it is mixed once more where it becomes a vector. It is no defence against an adversary, only against accidents:
block keys (``keys``) are cryptographic, these are not.
"""

from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import Tensor

from ..kernels.copy import gather_blocks, write_slots
from .pool.keys import NO_EXTRAS, ExtraKeys, Tokens, encode_key_input, encode_tokens

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_BASE = 0x2545F4914F6CDD1D
_BASE_INVERSE = pow(_BASE, -1, 2**64)
_CHUNK_TOKENS = 1 << 14
_CACHED_VECTORS = 4096


def root_digest(extras: ExtraKeys = NO_EXTRAS) -> int:
    """Return the digest before the first token: what covers the whole request, as a signed 64-bit number."""
    whole = ExtraKeys(extras.adapter, extras.salt, (), extras.prompt_embeds)
    return int.from_bytes(blake2b(encode_key_input(None, b"", whole), digest_size=8).digest(), "little", signed=True)


def prefix_digests(
    tokens: Tokens, extras: ExtraKeys = NO_EXTRAS, *, start: int = 0, previous: int | None = None
) -> Tensor:
    """Return the digest of the prefix that ends at each token: int64 ``[len(tokens)]``, on the CPU.

    Args:
        tokens: the tokens from index ``start`` of the request on.
        extras: the extras of the request; offsets of multimodal items count from its first token.
        start: the index of the first token given.
        previous: the digest of the token before ``start``; by default the root, which is right for ``start = 0`` only.

    Raises:
        ValueError: when ``start`` is not 0 and ``previous`` is not given.
    """
    if previous is None:
        if start:
            raise ValueError(f"the digest before token {start} is needed to go on from there")
        previous = root_digest(extras)
    ids = (
        torch.frombuffer(bytearray(encode_tokens(tokens)), dtype=torch.uint32).to(torch.int64)
        if len(tokens)
        else (torch.zeros(0, dtype=torch.int64))
    )
    mixed = _mix(ids + 1)
    for item in extras.multimodal:
        if start <= item.offset < start + len(ids):
            name = blake2b(item.identifier.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            mixed[item.offset - start] += int.from_bytes(name, "little", signed=True)
    digests = torch.empty_like(mixed)
    # d_i = B^(i+1) * (d_{-1} + sum over j <= i of m_j * B^-(j+1)): one cumulative sum, exact modulo 2^64.
    for begin in range(0, len(mixed), _CHUNK_TOKENS):
        chunk = mixed[begin : begin + _CHUNK_TOKENS]
        powers = _powers(_BASE, len(chunk))
        inverses = _powers(_BASE_INVERSE, len(chunk))
        digests[begin : begin + _CHUNK_TOKENS] = (torch.cumsum(chunk * inverses, 0) + previous) * powers
        previous = int(digests[begin + len(chunk) - 1])
    return digests


def next_digest(previous: int, token: int, items: Sequence[str] = ()) -> int:
    """Return the digest one token further, as ``prefix_digests`` would: the plain definition, for one token.

    Args:
        previous: the digest of the token before, or ``root_digest``.
        token: the token id.
        items: the identifiers of the multimodal items that begin at this token.
    """
    mixed = _mix_one(token + 1)
    for identifier in items:
        name = blake2b(identifier.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        mixed += int.from_bytes(name, "little")
    return _signed(previous * _BASE + mixed)


class Payload:
    """A cache tensor ``[layers, 2, blocks, block_tokens, heads, head_dim]`` that is written and compared by digest.

    A token's KV has ``layers * 2 * heads * head_dim`` values with as many random bits each as the dtype represents
    exactly; give it 64 bits in all (8 values of bfloat16) or more, and a wrong token goes unseen once in 2**64.
    """

    def __init__(
        self,
        num_blocks: int,
        block_tokens: int,
        *,
        layers: int = 2,
        heads: int = 2,
        head_dim: int = 4,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
        pin_memory: bool = False,
    ) -> None:
        """Make an all-zero payload.

        Args:
            num_blocks: blocks, the null block included.
            block_tokens: tokens per block.
            layers: layers of the pretended model.
            heads: KV heads.
            head_dim: values per head.
            dtype: float16, bfloat16, float32 or float64.
            device: where the tensor lives, ``cpu`` or ``cuda``.
            pin_memory: for a host tier: page-locked memory, which a GPU copies from and to without staging.
        """
        if min(num_blocks, block_tokens, layers, heads, head_dim) < 1:
            raise ValueError("every dimension of a payload must be at least 1")
        if dtype not in _EXACT_BITS:
            raise ValueError(f"a payload is float16, bfloat16, float32 or float64, not {dtype}")
        self.num_blocks = num_blocks
        self.block_tokens = block_tokens
        self.data = torch.zeros(
            (layers, 2, num_blocks, block_tokens, heads, head_dim), dtype=dtype, device=device, pin_memory=pin_memory
        )
        self._shape = (layers, 2, heads, head_dim)
        self._vectors: dict[int, Tensor] = {}

    def expected(self, digests: Tensor) -> Tensor:
        """Return what tokens with these digests must hold: ``[len(digests), layers, 2, heads, head_dim]``."""
        return token_vectors(digests.to(self.data.device), self._shape, self.data.dtype)

    def write(self, block: int, slot: int, digest: int) -> None:
        """Write the KV of one token."""
        self._check(block, slot)
        self.data[:, :, block, slot] = self._vector(digest)

    def write_run(self, blocks: Sequence[int], slots: Sequence[int], digests: Tensor) -> None:
        """Write the KV of many tokens, one (block, slot) each."""
        write_slots(self.data, blocks, slots, self.expected(digests))

    def read(self, block: int, slot: int) -> Tensor:
        """Return a copy of the KV of one token: ``[layers, 2, heads, head_dim]``."""
        self._check(block, slot)
        return self.data[:, :, block, slot].clone()

    def matches(self, block: int, slot: int, digest: int) -> bool:
        """Tell whether a slot holds exactly the KV of a token with this digest."""
        self._check(block, slot)
        return torch.equal(self.data[:, :, block, slot], self._vector(digest))

    def mismatches(self, blocks: Sequence[int], slots: Sequence[int], digests: Sequence[int] | Tensor) -> list[int]:
        """Return the indices i at which slot ``slots[i]`` of block ``blocks[i]`` does not hold ``digests[i]``."""
        wanted = (
            digests if isinstance(digests, Tensor) else torch.tensor(list(map(_signed, digests)), dtype=torch.int64)
        )
        if not len(blocks) == len(slots) == len(wanted):
            raise ValueError("blocks, slots and digests must be equally many")
        for block, slot in zip(blocks, slots, strict=True):
            self._check(block, slot)
        device = self.data.device
        block_index = torch.tensor(blocks, dtype=torch.int64, device=device)
        slot_index = torch.tensor(slots, dtype=torch.int64, device=device)
        held = self.data[:, :, block_index, slot_index].permute(2, 0, 1, 3, 4)
        differs = (held != self.expected(wanted)).flatten(1).any(1)
        return [int(index) for index in differs.nonzero().flatten()]

    def sequence(self, table: Sequence[int], num_tokens: int) -> Tensor:
        """Return the KV of a request's first ``num_tokens`` tokens: ``[layers, 2, num_tokens, heads, head_dim]``.

        ``table`` is its block table; it must be long enough.
        """
        if not 0 <= num_tokens <= len(table) * self.block_tokens:
            raise ValueError(f"{num_tokens} tokens do not fit {len(table)} blocks of {self.block_tokens}")
        return gather_blocks(self.data, table).flatten(2, 3)[:, :, :num_tokens]

    def _vector(self, digest: int) -> Tensor:
        """Return the KV of one token. Recent ones are kept: a fuzzer uses the same few prefixes over and over."""
        vector = self._vectors.get(digest)
        if vector is None:
            if len(self._vectors) >= _CACHED_VECTORS:
                self._vectors.clear()
            vector = self.expected(torch.tensor([_signed(digest)], dtype=torch.int64))[0]
            self._vectors[digest] = vector
        return vector

    def _check(self, block: int, slot: int) -> None:
        """Refuse indices that torch would take from the end."""
        if not (0 <= block < self.num_blocks and 0 <= slot < self.block_tokens):
            raise ValueError(f"there is no slot {slot} of block {block}")


def token_vectors(digests: Tensor, shape: tuple[int, int, int, int], dtype: torch.dtype) -> Tensor:
    """Return the KV that each digest stands for: ``[len(digests), *shape]``, values in [-1, 1).

    Element e of a token is the signed integer of the top p bits of mix(digest + (e + 1) * golden), divided by
    2**(p - 1), with p the bits that ``dtype`` represents exactly.
    """
    bits = _EXACT_BITS[dtype]
    size = shape[0] * shape[1] * shape[2] * shape[3]
    steps = torch.arange(1, size + 1, dtype=torch.int64, device=digests.device) * _signed(_GOLDEN)
    mixed = _mix(digests[:, None] + steps)
    integers = mixed >> (64 - bits)  # An arithmetic shift: it keeps the sign.
    return (integers.to(torch.float64) * 2.0 ** (1 - bits)).to(dtype).reshape(len(digests), *shape)


_EXACT_BITS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24, torch.float64: 32}


def _mix(x: Tensor) -> Tensor:
    """Return the splitmix64 finaliser of int64 ``x``, wrapping modulo 2**64."""
    x = (x ^ _shift(x, 30)) * _signed(_MIX_1)
    x = (x ^ _shift(x, 27)) * _signed(_MIX_2)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Return the logical right shift: torch's own, on int64, would drag the sign in."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix_one(x: int) -> int:
    """Return the splitmix64 finaliser of one number, unsigned."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * _MIX_1) & _MASK
    x = ((x ^ (x >> 27)) * _MIX_2) & _MASK
    return x ^ (x >> 31)


def _signed(x: int) -> int:
    """Return ``x`` modulo 2**64, as the signed number that torch's int64 holds."""
    x &= _MASK
    return x - 2**64 if x >> 63 else x


def _powers(base: int, count: int) -> Tensor:
    """Return base**1 .. base**count modulo 2**64."""
    return torch.cumprod(torch.full((count,), _signed(base), dtype=torch.int64), 0)
