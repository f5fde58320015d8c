"""Slots and pages: the release's allocators, and what is free in them."""

import torch
from level import Refused
from sglang.srt.mem_cache import allocator
from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator, TokenToKVPoolAllocator

__all__ = ["NoMemory", "check_page", "free_pages", "made", "may_ask"]

_BY_KERNELS = not hasattr(allocator, "alloc_decode_naive")
"""Before 0.5.22 pages are found by Triton kernels alone."""


class NoMemory:
    """The memory behind an allocator, that is none: what a host tier looks at."""

    device, layer_num = "cpu", 1

    def register_layer_transfer_counter(self, counter) -> None:
        """Nobody waits for layers here; a forward pass does for all of them."""


def check_page(page: int) -> None:
    """Refuse pages of so many tokens, where the release cannot have them.

    Raises:
        Refused: it cannot.
    """
    if _BY_KERNELS and page & (page - 1):
        raise Refused(f"the kernels of this release have no pages of {page} tokens, only of 1, 2, 4, and so on")


def made(page: int, pages: int, sort: bool):
    """Return the release's allocator for so many pages of so many tokens.

    Raises:
        Refused: it has none for such pages.
    """
    check_page(page)
    how = {"size": page * pages, "dtype": torch.float32, "device": "cpu", "kvcache": NoMemory(), "need_sort": sort}
    return TokenToKVPoolAllocator(**how) if page == 1 else PagedTokenToKVPoolAllocator(page_size=page, **how)


def may_ask(allocator, pages: int) -> bool:
    """Whether the allocator may be asked for so many new pages, of which there may be too few.

    Before 0.5.22 the kernel runs before anybody counts, and reads past the pages that are free; where none is, its
    process ends. The release's callers never ask so: they count, evict and retract first (`check_decode_capacity`), and
    take "too few" for a fault. Since 0.5.22 the allocator counts first, and is asked.
    """
    return not _BY_KERNELS or pages <= len(free_pages(allocator))


def free_pages(allocator) -> list[int]:
    """Return the pages that are free, those that are next first."""
    if hasattr(allocator, "get_all_free_pages"):
        return allocator.get_all_free_pages().tolist()
    return allocator.free_pages.tolist() + allocator.release_pages.tolist()  # Before 0.5.20.
