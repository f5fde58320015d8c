"""Contracts that CrossHair must not be able to break: the pure parts of the reference implementation.

Each function is a property; its docstring states what is assumed (``pre``) and what must hold (``post``). They are
run by ``test_contracts.py``, which also says what a verdict establishes.
"""

from kvproof.refimpl.pool.blocks import blocks_for, filled_slots, full_blocks, lookup_limit, position_of, token_index
from kvproof.refimpl.pool.keys import ExtraKeys, MultimodalItem, block_extras, decode_key_input, encode_key_input

# Block arithmetic, for any size.


def limit_leaves_the_last_token(num_tokens: int, block_tokens: int) -> int:
    """P14: at most n - 1 tokens, and as many full blocks as that allows.

    pre: num_tokens >= 0 and block_tokens >= 1
    post: _ >= 0 and _ * block_tokens <= max(num_tokens - 1, 0) < (_ + 1) * block_tokens
    """
    return lookup_limit(num_tokens, block_tokens)


def blocks_hold_the_tokens_and_no_block_is_idle(num_tokens: int, block_tokens: int) -> int:
    """The least number of blocks that suffices.

    pre: num_tokens >= 0 and block_tokens >= 1
    post: _ * block_tokens >= num_tokens > (_ - 1) * block_tokens or num_tokens == _ == 0
    """
    return blocks_for(num_tokens, block_tokens)


def full_blocks_are_full(num_tokens: int, block_tokens: int) -> int:
    """The greatest number of blocks that the tokens fill.

    pre: num_tokens >= 0 and block_tokens >= 1
    post: _ * block_tokens <= num_tokens < (_ + 1) * block_tokens
    """
    return full_blocks(num_tokens, block_tokens)


def a_place_leads_back_to_its_token(token: int, block_tokens: int) -> int:
    """``token_index`` inverts ``position_of``: no two tokens share a slot.

    pre: token >= 0 and block_tokens >= 1
    post: _ == token
    """
    position, slot = position_of(token, block_tokens)
    return token_index(position, slot, block_tokens)


def a_slot_is_filled_when_its_token_is_there(num_tokens: int, position: int, slot: int, block_tokens: int) -> bool:
    """A slot counts as filled exactly when its token is one of the request's.

    pre: num_tokens >= 0 and position >= 0 and 0 <= slot < block_tokens
    post: _
    """
    filled = filled_slots(num_tokens, position, block_tokens)
    return (slot < filled) == (token_index(position, slot, block_tokens) < num_tokens)


def an_item_enters_the_block_in_which_it_begins(offset: int, position: int, block_tokens: int) -> bool:
    """A multimodal item enters one block of its chain, and its offset there leads back to where it was.

    pre: offset >= 0 and position >= 0 and block_tokens >= 1
    post: _
    """
    request = ExtraKeys(multimodal=(MultimodalItem("image", offset),))
    items = block_extras(request, position, block_tokens, block_tokens).multimodal
    begins_here = position * block_tokens <= offset < (position + 1) * block_tokens
    return (len(items) == 1) == begins_here and all(item.offset + position * block_tokens == offset for item in items)


# The encoding of keys (P13). A left inverse proves injectivity: no two inputs can share an encoding.


def tokens_are_read_back(ids: bytes) -> bool:
    """Any two token ids come back, whatever their bytes.

    pre: len(ids) == 8
    post: _
    """
    expected = [int.from_bytes(ids[:4], "little"), int.from_bytes(ids[4:], "little")]
    return decode_key_input(encode_key_input(None, ids)) == (None, expected, ExtraKeys())


def parent_and_embeddings_are_read_back(parent: bytes | None, embeds: bytes | None) -> bool:
    """A parent and embeddings of up to 3 bytes come back, and neither passes for the other.

    pre: parent is None or len(parent) <= 3
    pre: embeds is None or len(embeds) <= 3
    post: _
    """
    extras = ExtraKeys(prompt_embeds=embeds)
    return decode_key_input(encode_key_input(parent, b"", extras)) == (parent, [], extras)


def kinds_never_collide(name: str, kind: int, other: int) -> bool:
    """Fault B5: the same name as adapter, salt, multimodal item and embeddings gives four encodings.

    pre: 0 <= kind < other < 4
    pre: len(name) <= 2
    post: _
    """
    left, right = (_extras_of_kind(name, number) for number in (kind, other))
    return encode_key_input(None, b"", left) != encode_key_input(None, b"", right)


def the_decoder_is_strict(data: bytes) -> bool:
    """Of all byte strings up to 8 bytes, the decoder accepts those only that the encoder writes.

    pre: len(data) <= 8
    post: _
    """
    try:
        value = decode_key_input(data)
    except ValueError:
        return True
    return encode_key_input(*value) == data


def names_are_read_back(adapter: str | None, salt: str | None, item: str) -> bool:
    """All names at once come back, each as what it was.

    pre: adapter is None or len(adapter) <= 2
    pre: salt is None or len(salt) <= 2
    pre: len(item) <= 2
    post: _
    """
    extras = ExtraKeys(adapter, salt, (MultimodalItem(item, 1),), None)
    return decode_key_input(encode_key_input(None, b"", extras)) == (None, [], extras)


def two_tenants_never_collide(adapter: str | None, salt: str | None, other: str | None, other_salt: str | None) -> bool:
    """Injectivity told directly, for the two names that fault B5 mixed up.

    pre: (adapter, salt) != (other, other_salt)
    post: _
    """
    left = encode_key_input(None, b"", ExtraKeys(adapter, salt))
    return left != encode_key_input(None, b"", ExtraKeys(other, other_salt))


def _extras_of_kind(name: str, kind: int) -> ExtraKeys:
    """Return extras in which ``name`` stands for one of the four kinds."""
    if kind == 0:
        return ExtraKeys(adapter=name)
    if kind == 1:
        return ExtraKeys(salt=name)
    if kind == 2:
        return ExtraKeys(multimodal=(MultimodalItem(name, 0),))
    return ExtraKeys(prompt_embeds=name.encode("utf-8", "surrogatepass"))
