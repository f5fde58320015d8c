"""Prompts that are given as embeddings: which positions are, what a release is asked, and what a worker got.

A row that stands for a token says which one, so that whoever gets it can tell what it is.
"""

from collections.abc import Sequence

import torch

__all__ = ["EMBEDDED", "contents", "embedded", "prompt", "prompt_of"]

EMBEDDED = 100
"""What a position's content has on top of its token where it is given as an embedding: it is no token then."""


def embedded(every: int, length: int) -> list[bool]:
    """Which positions of a prompt are given as embeddings: none for 0, all for 1, else runs of so many and others by
    turns."""
    return [every == 1 or (every > 1 and i // every % 2 == 0) for i in range(length)]


def contents(tokens: Sequence[int], embeds: Sequence[bool]) -> list[int]:
    """Return what stands at each position."""
    return [token + EMBEDDED * is_given for token, is_given in zip(tokens, embeds, strict=True)]


def prompt(tokens: list[int], embeds: Sequence[bool]) -> dict:
    """Return the arguments of a request that say what is asked: tokens, embeddings, or (where the release takes that)
    both by turns."""
    if not any(embeds):
        return {"prompt_token_ids": list(tokens)}
    rows = torch.tensor([[1.0 + t, 2.0] if e else [0.0, 0.0] for t, e in zip(tokens, embeds, strict=True)])
    if all(embeds):
        return {"prompt_token_ids": None, "prompt_embeds": rows}
    mask = [not e for e in embeds]
    return {"prompt_token_ids": list(tokens), "prompt_embeds": rows, "prompt_is_token_ids": mask}


def prompt_of(new) -> list[int]:
    """Return what stands at each position of the prompt of a request that a worker was told of."""
    rows = getattr(new, "prompt_embeds", None)
    if rows is None:
        return list(new.prompt_token_ids)
    tokens = new.prompt_token_ids or [0] * len(rows)
    told = [(int(value) - 1, bool(is_given)) for value, is_given in rows.tolist()]
    found = [value if is_given else token for token, (value, is_given) in zip(tokens, told, strict=True)]
    return contents(found, [is_given for _, is_given in told])
