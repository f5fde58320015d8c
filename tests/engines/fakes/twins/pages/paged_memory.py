"""One memory for all kinds of attention: sectors in a row, cut into blocks of whichever kind has them.

Rows are keys and values of a token in one layer. In a page the keys of all its tokens come before their values, in a
block page by page. So what one kind leaves behind in a sector is what another one finds there.
"""

import torch
from transformers_options import HEAD_DIM

__all__ = ["RESERVED", "Kind", "Memory"]

RESERVED = 2
"""Sectors in front that are never handed out."""


class Memory:
    """So many sectors, each of so many rows."""

    def __init__(self, sectors: int, bytes_per_sector: int, dtype: torch.dtype) -> None:
        rows = bytes_per_sector // (HEAD_DIM * dtype.itemsize)
        self.rows = torch.zeros((RESERVED + sectors) * rows, 1, HEAD_DIM, dtype=dtype)


class Kind:
    """How the layers of one kind of attention see the memory: as blocks of a page for each of them."""

    def __init__(self, memory: Memory, page: int, layers: list[int]) -> None:
        self._rows, self._page = memory.rows, page
        self.stride = 2 * page * len(layers)
        self.views = {layer: self._of_page(at) for at, layer in enumerate(layers)}
        """Of each layer the keys and the values; of a block they begin at its number times the stride."""

    def _of_page(self, at: int) -> tuple[torch.Tensor, torch.Tensor]:
        first = at * 2 * self._page
        return self._rows[first:], self._rows[first + self._page :]

    def copy(self, source: int, target: int, pages: int) -> None:
        """Copy the first so many pages of a block to another one."""
        rows = 2 * self._page * pages
        here, there = source * self.stride, target * self.stride
        self._rows[there : there + rows] = self._rows[here : here + rows]
