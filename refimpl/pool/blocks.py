"""Block arithmetic: tokens, positions and slots.

Token ``i`` of a request lives in slot ``i % block_tokens`` of the block at position ``i // block_tokens`` of its
block table. All functions are pure and raise ``ValueError`` for a negative count or a block of no tokens.
"""


def blocks_for(num_tokens: int, block_tokens: int) -> int:
    """Return the number of blocks that ``num_tokens`` tokens occupy, a partly filled last one included."""
    _check(num_tokens, block_tokens)
    return -(-num_tokens // block_tokens)


def full_blocks(num_tokens: int, block_tokens: int) -> int:
    """Return the number of blocks that ``num_tokens`` tokens fill completely."""
    _check(num_tokens, block_tokens)
    return num_tokens // block_tokens


def lookup_limit(num_tokens: int, block_tokens: int) -> int:
    """Return the number of leading full blocks that a lookup for ``num_tokens`` tokens may return (P14).

    The last token is always recomputed, for its logits: the limit covers at most ``num_tokens - 1`` tokens.
    """
    _check(num_tokens, block_tokens)
    return 0 if num_tokens == 0 else (num_tokens - 1) // block_tokens


def blocks_behind_window(num_computed: int, window_tokens: int, block_tokens: int) -> int:
    """Return the number of leading blocks that no later query reads, with a sliding window of ``window_tokens`` (D7).

    The query at token ``p`` reads tokens ``p - window_tokens + 1`` to ``p``. Later queries are those at token
    ``num_computed`` and after it: count only tokens whose step has been processed, since one in flight still reads.
    """
    _check(num_computed, block_tokens)
    if window_tokens < 1:
        raise ValueError(f"a window covers at least the token itself, got {window_tokens}")
    return max(0, num_computed - window_tokens + 1) // block_tokens


def position_of(token_index: int, block_tokens: int) -> tuple[int, int]:
    """Return ``(position, slot)`` of a token: its place in the block table, and within that block."""
    _check(token_index, block_tokens)
    return divmod(token_index, block_tokens)


def token_index(position: int, slot: int, block_tokens: int) -> int:
    """Return which token of the request lives at ``(position, slot)``: the inverse of ``position_of``."""
    _check(position, block_tokens)
    if not 0 <= slot < block_tokens:
        raise ValueError(f"slot {slot} is not one of the {block_tokens} slots of a block")
    return position * block_tokens + slot


def filled_slots(num_tokens: int, position: int, block_tokens: int) -> int:
    """Return how many slots of the block at ``position`` are filled when the request has ``num_tokens`` tokens."""
    _check(num_tokens, block_tokens)
    _check(position, block_tokens)
    return min(max(num_tokens - position * block_tokens, 0), block_tokens)


def _check(count: int, block_tokens: int) -> None:
    """Refuse counts and block sizes that mean nothing."""
    if count < 0:
        raise ValueError(f"a count of tokens or blocks must not be negative, got {count}")
    if block_tokens < 1:
        raise ValueError(f"a block holds at least one token, got {block_tokens}")
