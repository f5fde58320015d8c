"""Attention over a block table, and over a contiguous sequence: the two must agree.

The gather by table is the only difference between them, so their outputs are equal bit by bit as long as the table
leads to the right blocks. This is what a user of the cache sees of it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..kernels.copy import gather_blocks


def dense_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return causal attention of the last tokens of a sequence over all of it: ``[q, heads, head_dim]``.

    Args:
        queries: ``[q, heads, head_dim]``, the queries of the last ``q`` tokens.
        keys: ``[n, heads, head_dim]`` with ``n >= q``.
        values: ``[n, heads, head_dim]``.
    """
    num_queries, num_tokens = len(queries), len(keys)
    if num_queries > num_tokens or keys.shape != values.shape or keys.shape[1:] != queries.shape[1:]:
        raise ValueError(
            f"queries {tuple(queries.shape)}, keys {tuple(keys.shape)} and values {tuple(values.shape)} do not fit"
        )
    scores = torch.einsum("qhd,khd->hqk", queries, keys) * queries.shape[-1] ** -0.5
    token = torch.arange(num_tokens, device=queries.device)
    own = token[num_tokens - num_queries :]
    scores = scores.masked_fill(token[None, :] > own[:, None], float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)


def paged_attention(queries: Tensor, cache: Tensor, layer: int, table: Sequence[int], num_tokens: int) -> Tensor:
    """Return what ``dense_attention`` does, with keys and values read through a block table.

    Args:
        queries: ``[q, heads, head_dim]``, the queries of the last ``q`` of the tokens.
        cache: ``[layers, 2, blocks, block_tokens, heads, head_dim]``.
        layer: which layer's keys and values to read.
        table: the block table of the request, long enough for its tokens.
        num_tokens: the tokens of the request whose KV is in the cache.
    """
    block_tokens = cache.shape[3]
    if not 0 <= num_tokens <= len(table) * block_tokens:
        raise ValueError(f"{num_tokens} tokens do not fit {len(table)} blocks of {block_tokens}")
    if not 0 <= layer < cache.shape[0]:
        raise ValueError(f"layer {layer} is not one of {cache.shape[0]}")
    gathered = gather_blocks(cache[layer : layer + 1], table).flatten(2, 3)[0, :, :num_tokens]
    return dense_attention(queries, gathered[0], gathered[1])
