"""Contracts that CrossHair must break: likely mistakes, and the planner as proposed, in place of the real functions.

A checker that passes these would prove nothing about ``contracts_planner``. The properties are the same.
"""


def counts_a_chunk_that_is_not_filled(chunk: int, block: int, tokens: int) -> int:
    """S19: the last chunk counts from its first token on.

    pre: min(chunk, block) >= 1 and tokens >= 0
    post: 0 <= _ <= tokens
    """
    chunks = -(-tokens // chunk)
    return chunks * chunk // block * block


def counts_chunks_as_proposed(tokens: int) -> int:
    """H2: the greatest count whose prefix fits, at most one more than are filled; chunks of 2, a block of 3.

    pre: tokens >= 0
    post: 0 <= _ * 2 <= tokens
    """
    chunks = tokens // 2 + 1
    return chunks if chunks * 2 // 3 * 3 <= tokens else chunks - 1


def takes_the_plain_minimum_as_proposed(chunks: int) -> int:
    """H2: what all groups cover need not be where a mamba group has a state; chunks of 2, mamba of 2, attention of 3.

    pre: chunks >= 0
    post: _ % 2 == 0
    """
    return min(chunks * 2 // 2 * 2, chunks * 2 // 3 * 3)


def aligns_what_is_new_and_not_where_it_ends(start: int, total: int, budget: int) -> bool:
    """H7: a step that starts within a block of 4 ends within one.

    pre: 0 <= start <= total and budget >= 0
    post: _
    """
    last = total // 4 * 4
    new = min(budget, total - start)
    end = start + (new // 4 * 4 if start + new < last else new)
    return start >= last or end == start or (end <= last and end % 4 == 0)


def forgets_external_tokens(computed: int, external: int, budget: int) -> bool:
    """H7: aligned on what was computed here alone.

    pre: min(computed, external, budget) >= 0
    post: _
    """
    end = (computed + budget) // 4 * 4
    return end <= computed or (end + external) % 4 == 0


def gives_blocks_back_when_asked_for_less(demand: int, held: int, block: int) -> int:
    """H7: a demand below what is held turns into a negative number of blocks.

    pre: demand >= 0 and held >= 0 and block >= 1
    post: (held + _) * block >= demand and (_ == 0 or (_ > 0 and (held + _ - 1) * block < demand))
    """
    return -(-demand // block) - held
