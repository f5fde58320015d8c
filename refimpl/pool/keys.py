"""Block keys: the chained hash of a full block and of everything else that its KV depends on (P13).

A key is a digest of an *encoding*, and the encoding is injective: every part is preceded by a tag of its kind and by
its length, so that no two different inputs give the same bytes, and ``decode_key_input`` takes them apart again. An
adapter named ``X`` and a salt ``X`` therefore never collide. Nothing in it depends on the process: no ``hash()``, no
pickling, no addresses; integers are little-endian on every machine.

The encoding of one block (all lengths and counts are unsigned 32-bit)::

    0x01                                     version of the encoding
    'R'  |  'P' length parent                first block of its chain | the key of the block before
    'T'  count, then count x uint32          the token ids
    'A'  length utf-8                        adapter, only if there is one
    'S'  length utf-8                        salt, only if there is one
    'M'  count, then count x (offset: int64, length utf-8)
                                             multimodal items, only if there are any
    'E'  length bytes                        prompt embeddings, only if there are any

**How the extras of a request enter its chain** (``block_extras``). What covers the whole request - adapter, salt,
prompt embeddings - enters the first block. A multimodal item enters the block in which it begins, with its offset
relative to that block. Each key covers its parent's, so the keys of all later blocks depend on them too: two requests
have the same key at position p exactly when they agree on the tokens of blocks 0 .. p, on what covers the whole
request, and on every multimodal item that begins in blocks 0 .. p (short of a collision of the digest). KV at a token
never depends on an item that begins after it, so nothing is missing.
"""

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Tokens = Sequence[int] | bytes | memoryview | npt.NDArray[np.integer]
"""Token ids: any sequence of ints from 0 to 2**32 - 1, a numpy array of them, or ready little-endian uint32 bytes.

``bytes`` are the fast form: they are hashed as they are. ``array("I")`` and ``numpy.uint32`` cost one copy.
"""

KEY_BYTES = 32
"""The length of a key: blake2b with 256 bits."""

TOKEN_BYTES = 4
"""The length of one encoded token id."""

_VERSION = b"\x01"
_ROOT = b"R"
_PARENT = b"P"
_TOKENS = b"T"
_ADAPTER = b"A"
_SALT = b"S"
_MULTIMODAL = b"M"
_EMBEDS = b"E"
_MAX_LENGTH = 2**32 - 1


@dataclass(frozen=True, slots=True)
class MultimodalItem:
    """One image, clip or sound inside the tokens: what it is, and the index of its first placeholder token.

    In a request the offset counts from the request's first token; in the encoding of a block, from the block's.
    """

    identifier: str
    offset: int


@dataclass(frozen=True, slots=True)
class ExtraKeys:
    """Everything besides tokens that changes KV, or that must keep tenants apart."""

    adapter: str | None = None
    """The name of the adapter (LoRA) that the request runs under."""
    salt: str | None = None
    """A secret of the tenant: requests share blocks only with requests of the same salt."""
    multimodal: tuple[MultimodalItem, ...] = ()
    """The multimodal items, by identity and place."""
    prompt_embeds: bytes | None = None
    """The prompt embeddings, when the prompt came as vectors."""


NO_EXTRAS = ExtraKeys()
"""The extras of a plain text request."""


def encode_tokens(tokens: Tokens) -> bytes:
    """Return ``tokens`` as little-endian uint32 bytes; ``ValueError`` for an id that does not fit or a torn token."""
    if isinstance(tokens, (bytes, memoryview)):
        if len(tokens) % TOKEN_BYTES or (isinstance(tokens, memoryview) and tokens.itemsize != 1):
            raise ValueError(f"token bytes come in groups of {TOKEN_BYTES}, got {len(tokens)}")
        return bytes(tokens)
    if isinstance(tokens, np.ndarray):
        if tokens.dtype.kind not in "iu" or tokens.ndim != 1:
            raise ValueError(f"tokens must be a vector of integers, got {tokens.dtype} of shape {tokens.shape}")
        if tokens.dtype != np.uint32 and tokens.size and not (tokens.min() >= 0 and tokens.max() <= _MAX_LENGTH):
            raise ValueError("a token id must be from 0 to 2**32 - 1")
        return tokens.astype("<u4", copy=False).tobytes()
    try:
        packed = tokens if isinstance(tokens, array) and tokens.typecode == "I" else array("I", tokens)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"a token id must be an integer from 0 to 2**32 - 1: {error}") from error
    if packed.itemsize == TOKEN_BYTES and sys.byteorder == "little":
        return packed.tobytes()
    return np.array(packed, dtype="<u4").tobytes()


def encode_key_input(parent: bytes | None, tokens: Tokens, extras: ExtraKeys = NO_EXTRAS) -> bytes:
    """Return the encoding of one block (P13): the module's docstring has the layout.

    Args:
        parent: the key of the block before, or ``None`` for the first one.
        tokens: the tokens of the block; fewer than a block's worth for a partly filled one.
        extras: the extras of this block, offsets relative to it (see ``block_extras``).

    Raises:
        ValueError: for a token, an offset (signed 64-bit) or a length that does not fit its field.
    """
    ids = encode_tokens(tokens)
    head = _VERSION + _ROOT if parent is None else _VERSION + _PARENT + _sized(parent)
    encoded = head + _TOKENS + _length(len(ids) // TOKEN_BYTES) + ids
    return encoded if extras == NO_EXTRAS else encoded + _encode_extras(extras)


def decode_key_input(encoded: bytes) -> tuple[bytes | None, list[int], ExtraKeys]:
    """Return the ``(parent, tokens, extras)`` that ``encoded`` stands for: the inverse of ``encode_key_input``.

    It is total on what the encoder writes and strict on the rest: bytes that the encoder never writes (a part out of
    order, an empty list of items, text that is not utf-8, anything left over) raise ``ValueError``. Together with
    ``decode(encode(x)) == x`` that makes the encoding a bijection onto what is accepted.
    """
    reader = _Reader(encoded)
    reader.expect(_VERSION)
    if reader.accept(_ROOT):
        parent = None
    else:
        reader.expect(_PARENT)
        parent = reader.take(reader.length())
    reader.expect(_TOKENS)
    tokens = [reader.length() for _ in range(reader.length())]
    adapter = reader.text() if reader.accept(_ADAPTER) else None
    salt = reader.text() if reader.accept(_SALT) else None
    items: list[MultimodalItem] = []
    if reader.accept(_MULTIMODAL):
        count = reader.length()
        if count == 0:
            raise ValueError("an empty list of multimodal items is written as nothing")
        for _ in range(count):
            offset = int.from_bytes(reader.take(8), "little", signed=True)
            items.append(MultimodalItem(reader.text(), offset))
    embeds = reader.take(reader.length()) if reader.accept(_EMBEDS) else None
    reader.finish()
    return parent, tokens, ExtraKeys(adapter, salt, tuple(items), embeds)


def block_key(parent: bytes | None, tokens: Tokens, extras: ExtraKeys = NO_EXTRAS) -> bytes:
    """Return the key of one block: ``KEY_BYTES`` bytes, the same in every process (P13). Arguments as for encoding."""
    return blake2b(encode_key_input(parent, tokens, extras), digest_size=KEY_BYTES).digest()


def block_extras(extras: ExtraKeys, position: int, num_tokens: int, block_tokens: int) -> ExtraKeys:
    """Return the part of a request's ``extras`` that enters the block at ``position`` of its chain.

    Args:
        extras: the extras of the request, offsets counted from its first token.
        position: the place of the block in the chain.
        num_tokens: how many tokens the key covers: ``block_tokens``, or fewer for a partly filled block.
        block_tokens: the tokens of a full block.

    Items are put in order of offset, so that the order in which a request lists them changes no key.
    """
    if extras == NO_EXTRAS:
        return extras
    start = position * block_tokens
    items = sorted(
        (item.offset - start, item.identifier) for item in extras.multimodal if 0 <= item.offset - start < num_tokens
    )
    multimodal = tuple(MultimodalItem(identifier, offset) for offset, identifier in items)
    if position == 0:
        return ExtraKeys(extras.adapter, extras.salt, multimodal, extras.prompt_embeds)
    return ExtraKeys(multimodal=multimodal)


def chain_keys(
    tokens: Tokens,
    block_tokens: int,
    extras: ExtraKeys = NO_EXTRAS,
    *,
    previous: Sequence[bytes] = (),
) -> list[bytes]:
    """Return the keys of all full blocks of a request, first to last.

    Args:
        tokens: all tokens of the request, also those whose keys are known already.
        block_tokens: the tokens of a full block.
        extras: the extras of the request, offsets counted from its first token.
        previous: the keys of leading blocks when they are known; only the blocks behind them are hashed.

    The keys of ``previous`` are part of the answer. A partly filled last block has no key here.
    """
    if block_tokens < 1:
        raise ValueError(f"a block holds at least one token, got {block_tokens}")
    if any(item.offset < 0 for item in extras.multimodal):
        raise ValueError("a multimodal item begins at a token of its request: its offset must not be negative")
    ids = tokens if isinstance(tokens, bytes) else encode_tokens(tokens)
    if len(ids) % TOKEN_BYTES:
        raise ValueError(f"token bytes come in groups of {TOKEN_BYTES}, got {len(ids)}")
    width = block_tokens * TOKEN_BYTES
    keys = list(previous)
    num_full = len(ids) // width
    if len(keys) > num_full:
        raise ValueError(f"{len(keys)} keys are given for {num_full} full blocks")
    parent = keys[-1] if keys else None
    if parent is None and num_full:
        parent = block_key(None, ids[:width], block_extras(extras, 0, block_tokens, block_tokens))
        keys.append(parent)
    # Behind the first block only multimodal items enter. Where none begins, which is nearly everywhere, the encoding
    # is a constant head, the parent and the tokens, and is hashed without being assembled part by part.
    with_items = {item.offset // block_tokens for item in extras.multimodal}
    head = _VERSION + _PARENT + _length(KEY_BYTES)
    token_head = _TOKENS + _length(block_tokens)
    for position in range(len(keys), num_full):
        block = ids[position * width : (position + 1) * width]
        assert parent is not None
        if position in with_items or len(parent) != KEY_BYTES:
            parent = block_key(parent, block, block_extras(extras, position, block_tokens, block_tokens))
        else:
            parent = blake2b(head + parent + token_head + block, digest_size=KEY_BYTES).digest()
        keys.append(parent)
    return keys


def _encode_extras(extras: ExtraKeys) -> bytes:
    """Return the parts behind the tokens, those that are there."""
    parts: list[bytes] = []
    if extras.adapter is not None:
        parts += _ADAPTER, _sized(_utf8(extras.adapter))
    if extras.salt is not None:
        parts += _SALT, _sized(_utf8(extras.salt))
    if extras.multimodal:
        parts += _MULTIMODAL, _length(len(extras.multimodal))
        parts += _encode_items(extras.multimodal)
    if extras.prompt_embeds is not None:
        parts += _EMBEDS, _sized(extras.prompt_embeds)
    return b"".join(parts)


def _encode_items(items: Iterable[MultimodalItem]) -> list[bytes]:
    """Return the encoded multimodal items."""
    encoded: list[bytes] = []
    for item in items:
        if not -(2**63) <= item.offset < 2**63:
            raise ValueError(f"the offset {item.offset} does not fit 64 bits")
        encoded += item.offset.to_bytes(8, "little", signed=True), _sized(_utf8(item.identifier))
    return encoded


def _utf8(text: str) -> bytes:
    """Return ``text`` as bytes. Lone surrogates pass: they are legal in a Python string and must not fail a request."""
    return text.encode("utf-8", "surrogatepass")


def _length(length: int) -> bytes:
    """Return a length or a count as four bytes."""
    if length > _MAX_LENGTH:
        raise ValueError(f"a length of {length} does not fit 32 bits")
    return length.to_bytes(4, "little")


def _sized(data: bytes) -> bytes:
    """Return ``data`` behind its length."""
    return _length(len(data)) + data


class _Reader:
    """A cursor over an encoding; every method raises ``ValueError`` where the bytes do not go on as they must."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        """Return the next ``length`` bytes."""
        end = self._at + length
        if end > len(self._data):
            raise ValueError("the encoding ends too early")
        part = self._data[self._at : end]
        self._at = end
        return part

    def accept(self, tag: bytes) -> bool:
        """Go past ``tag`` if it comes next; tell whether it did."""
        if self._data[self._at : self._at + 1] != tag:
            return False
        self._at += 1
        return True

    def expect(self, tag: bytes) -> None:
        """Go past ``tag``, which must come next."""
        if not self.accept(tag):
            raise ValueError(f"expected the tag {tag!r} at byte {self._at}")

    def length(self) -> int:
        """Return the next unsigned 32-bit number."""
        return int.from_bytes(self.take(4), "little")

    def text(self) -> str:
        """Return the next text."""
        return self.take(self.length()).decode("utf-8", "surrogatepass")

    def finish(self) -> None:
        """Require that nothing is left."""
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes are left over")
