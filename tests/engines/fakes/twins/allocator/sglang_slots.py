"""In place of the release's allocators: pages in the order in which they were given back, under the same calls."""

from collections import deque

import torch

__all__ = ["Allocator", "free_pages", "made", "may_ask"]

FAULT = ""
"""What is wrong with allocators that are made from now on; nothing, if empty."""


class Allocator:
    """Pages of ``page`` tokens. Page 0 is nobody's."""

    def __init__(self, page: int, pages: int) -> None:
        self.page, self.pages, self.fault = page, pages, FAULT
        self.group: list[int] | None = None
        self.clear()

    def clear(self) -> None:
        """All pages are free."""
        self.free_list = deque(range(1, self.pages + 1))

    def available_size(self) -> int:
        """How many slots are free."""
        return len(self.free_list) * self.page

    def alloc(self, slots: int) -> torch.Tensor | None:
        """Slots of whole pages, or none where there are too few."""
        if slots > self.available_size():
            return None
        return torch.tensor([slot for _ in range(slots // self.page) for slot in self._next_page()], dtype=torch.int64)

    def alloc_extend(self, before, _before, after, _after, last, _count) -> torch.Tensor | None:
        """Slots for the next tokens of rows, whose last slots these are: first those that are left in its last page."""
        rows = list(zip(before.tolist(), after.tolist(), last.tolist(), strict=True))
        if sum(self._needed(start, end) for start, end, _ in rows) > len(self.free_list):
            return None
        return torch.tensor([slot for row in rows for slot in self._slots(*row)], dtype=torch.int64)

    def alloc_decode(self, lengths, _lengths, last) -> torch.Tensor | None:
        """A slot for each row, which has so many tokens with it."""
        return self.alloc_extend(lengths - 1, None, lengths, None, last, len(lengths))

    def free(self, slots: torch.Tensor) -> None:
        """The pages of these slots are free again, now or when the group ends."""
        pages = list(dict.fromkeys((slots // self.page).tolist()))
        if self.fault == "keeps a page" and len(pages) > 1:
            pages.pop()
        if self.group is None:
            self.free_list.extend(pages)
        else:
            self.group += pages

    def free_segment(self, slots: torch.Tensor, start_pos: int) -> None:
        """Slots of a row, from a position on at which a page begins."""
        self.free(slots)

    def free_segments(self, segments) -> None:
        """Several of these."""
        for slots, _ in segments:
            self.free(slots)

    def free_group_begin(self) -> None:
        """What is given back from now on waits."""
        self.group = []

    def free_group_end(self) -> None:
        """It waits no more."""
        pages, self.group = self.group or [], None
        if self.fault == "group twice" and len(pages) > 1:
            pages.append(pages[0])
        self.free_list.extend(pages)

    def _needed(self, start: int, end: int) -> int:
        return -(-end // self.page) - -(-start // self.page)

    def _slots(self, start: int, end: int, last: int):
        left = min(-start % self.page, end - start)
        yield from range(last + 1, last + 1 + left)
        more = end - start - left
        for at in range(0, more, self.page):
            yield from self._next_page()[: more - at]

    def _next_page(self) -> range:
        page = self.free_list[0] if self.fault == "hands out twice" and len(self.free_list) == 2 else None
        first = (self.free_list.popleft() if page is None else page) * self.page
        return range(first, first + self.page)


def made(page: int, pages: int, sort: bool) -> Allocator:
    """An allocator for so many pages of so many tokens; in which order they come is its own affair."""
    return Allocator(page, pages)


def may_ask(allocator: Allocator, pages: int) -> bool:
    """It may always be asked."""
    return True


def free_pages(allocator: Allocator) -> list[int]:
    """The pages that are free, those that are next first."""
    return list(allocator.free_list)
