"""Objects in memory by first fit, and who counts them; under the calls of the release's objects and allocators."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import torch

__all__ = ["CHUNK", "UNIT", "ChunkMemory", "Object"]

UNIT = 32
"""Bytes that a token takes in a tensor."""
CHUNK = 4
"""Tokens of a whole chunk."""


@dataclass(eq=False)
class Object:
    """Tensors in memory, and who counts them: the cache, and callers; pins are of lookups."""

    memory: "ChunkMemory"
    meta: SimpleNamespace
    tokens: int
    tensors: list[torch.Tensor] = field(default_factory=list)

    @property
    def tensor(self) -> torch.Tensor:
        """The only tensor."""
        return self.tensors[0]

    def get_tensor(self, n: int) -> torch.Tensor:
        """One of several."""
        return self.tensors[n]

    def is_valid(self) -> bool:
        """Whether it still has its memory."""
        return self in self.memory.objects

    @property
    def can_evict(self) -> bool:
        """Whether nobody but the cache has it."""
        return self.meta.ref_count == 1 and not self.meta.pin_count

    def ref_count_up(self) -> None:
        """Somebody has it too."""
        self.meta.ref_count += 1

    def ref_count_down(self) -> None:
        """Somebody lets go of it."""
        self.meta.ref_count -= 1
        self._free_if_unused()

    def unpin(self) -> None:
        """A lookup lets go of it."""
        self.meta.pin_count -= 1
        self._free_if_unused()

    def _free_if_unused(self) -> None:
        if not self.meta.ref_count and not self.meta.pin_count:
            self.memory.objects.discard(self)


class ChunkMemory:
    """So many units; with ``page`` they come in pages of so many, else in runs of any size."""

    def __init__(self, units: int, page: int = 0) -> None:
        self._units, self._page = units, page
        self.objects: set[Object] = set()
        """All that has memory."""

    def take(self, shapes: list[tuple[int, ...]], dtypes: list[torch.dtype], tokens: int) -> Object | None:
        """An object with these tensors of so many tokens each, which its caller has; None where there is no room."""
        size = tokens * len(shapes) * UNIT
        address = self._place(size)
        if address is None:
            return None
        size = self._page * UNIT if self._page else size
        obj = Object(self, SimpleNamespace(address=address, phy_size=size, ref_count=1, pin_count=0), tokens)
        obj.tensors = [torch.zeros(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        self.objects.add(obj)
        return obj

    @property
    def total_allocated_size(self) -> int:
        """Bytes that are taken."""
        return sum(obj.meta.phy_size for obj in self.objects)

    @property
    def free_blocks(self) -> list[SimpleNamespace]:
        """The pages that are free, where memory comes in pages."""
        taken = {obj.meta.address for obj in self.objects}
        pages = range(self._units // self._page)
        return [SimpleNamespace(meta=SimpleNamespace(address=page)) for page in pages if page not in taken]

    @property
    def address_manager(self) -> SimpleNamespace:
        """The free runs of memory, where it does not."""
        return SimpleNamespace(_explicit_list=self._gaps())

    def _gaps(self) -> list[SimpleNamespace]:
        gaps, at = [], 0
        for obj in sorted(self.objects, key=lambda obj: obj.meta.address):
            gaps.append(SimpleNamespace(start=at, size=obj.meta.address - at))
            at = obj.meta.address + obj.meta.phy_size
        return [gap for gap in [*gaps, SimpleNamespace(start=at, size=self._units * UNIT - at)] if gap.size]

    def _place(self, size: int) -> int | None:
        if self._page:
            return next((page.meta.address for page in self.free_blocks), None)
        return next((gap.start for gap in self._gaps() if gap.size >= size), None)
