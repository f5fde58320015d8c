"""Contracts that CrossHair must break: each is a likely mistake in place of the real function.

A checker that passes these would prove nothing about ``contracts_refimpl``. The properties are the same.
"""

from kvproof.refimpl.pool.keys import ExtraKeys, MultimodalItem, decode_key_input, encode_key_input


def limit_that_forgets_the_last_token(num_tokens: int, block_tokens: int) -> int:
    """P14 broken: a prompt of exactly one block would be answered whole, without logits.

    pre: num_tokens >= 0 and block_tokens >= 1
    post: _ >= 0 and _ * block_tokens <= max(num_tokens - 1, 0) < (_ + 1) * block_tokens
    """
    return num_tokens // block_tokens


def limit_that_gives_one_block_away(num_tokens: int, block_tokens: int) -> int:
    """Sound but not tight: the cache would answer less than it may.

    pre: num_tokens >= 0 and block_tokens >= 1
    post: _ >= 0 and _ * block_tokens <= max(num_tokens - 1, 0) < (_ + 1) * block_tokens
    """
    return max(num_tokens // block_tokens - 1, 0)


def blocks_with_one_too_many(num_tokens: int, block_tokens: int) -> int:
    """One block too many when the tokens fill the last one.

    pre: num_tokens >= 0 and block_tokens >= 1
    post: _ * block_tokens >= num_tokens > (_ - 1) * block_tokens or num_tokens == _ == 0
    """
    return num_tokens // block_tokens + 1


def place_with_position_and_slot_of_different_blocks(token: int, block_tokens: int) -> int:
    """The slot is taken in a block that is one token longer.

    pre: token >= 0 and block_tokens >= 1
    post: _ == token
    """
    return token // block_tokens * block_tokens + token % (block_tokens + 1)


def item_that_enters_two_blocks(offset: int, position: int, block_tokens: int) -> bool:
    """An item at the first token of a block enters the block before it as well.

    pre: offset >= 0 and position >= 0 and block_tokens >= 1
    post: _
    """
    enters = 0 <= offset - position * block_tokens <= block_tokens
    return enters == (position * block_tokens <= offset < (position + 1) * block_tokens)


def names_without_tags(adapter: str | None, salt: str | None, other: str | None, other_salt: str | None) -> bool:
    """Fault B5 itself: what is there is listed, with its length but without its kind.

    pre: (adapter, salt) != (other, other_salt)
    post: _
    """
    return _untagged(adapter, salt) != _untagged(other, other_salt)


def names_without_lengths(parent: bytes, embeds: bytes, other: bytes, other_embeds: bytes) -> bool:
    """Tagged, but without lengths: the tag of the second part may stand inside the first.

    pre: (parent, embeds) != (other, other_embeds)
    pre: max(len(parent), len(embeds), len(other), len(other_embeds)) <= 2
    post: _
    """
    return b"P" + parent + b"E" + embeds != b"P" + other + b"E" + other_embeds


def decoder_that_ignores_what_is_left(data: bytes) -> bool:
    """A decoder that does not look at the end accepts bytes that nobody wrote.

    pre: len(data) <= 8
    post: _
    """
    try:
        value = decode_key_input(data[:7])
    except ValueError:
        return True
    return encode_key_input(*value) == data


def offset_that_is_left_out(offset: int, other: int) -> bool:
    """P13 broken: the same image at another place has the same encoding.

    pre: 0 <= offset < other < 10
    post: _
    """
    left, right = (ExtraKeys(multimodal=(MultimodalItem("image", place // 10),)) for place in (offset, other))
    return encode_key_input(None, b"", left) != encode_key_input(None, b"", right)


def _untagged(*names: str | None) -> list[tuple[int, str]]:
    """Return the names that are there, each behind its length."""
    return [(len(name), name) for name in names if name is not None]
