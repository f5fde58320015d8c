"""The device's blocks as bytes: what a connector reads and writes, whatever the cache tensor looks like."""

import sys
from typing import Protocol

import torch
from torch import Tensor

from ..errors import RefusedError


class DeviceMemory(Protocol):
    """The device's blocks, as bytes."""

    @property
    def block_bytes(self) -> int:
        """How many bytes every block has."""

    def read(self, block: int) -> bytes:
        """Return a copy of what a block holds now."""

    def write(self, block: int, content: bytes) -> None:
        """Overwrite a block; ``content`` has ``block_bytes`` bytes."""


class TensorMemory:
    """The blocks of a cache tensor, on any device, such as ``Payload.data``."""

    def __init__(self, data: Tensor, *, block_dim: int = 2) -> None:
        """Look at ``data`` as blocks along its dimension ``block_dim``."""
        self._blocks = data.movedim(block_dim, 0)

    @property
    def block_bytes(self) -> int:
        """The bytes of one block."""
        return self._blocks[0].numel() * self._blocks.element_size()

    @property
    def layout(self) -> dict[str, object]:
        """What of this tensor decides the meaning of a block's bytes: to go into a ``layout_fingerprint``."""
        return {
            "dtype": str(self._blocks.dtype),
            "block_shape": tuple(self._blocks.shape[1:]),
            "byte_order": sys.byteorder,
        }

    def read(self, block: int) -> bytes:
        """Copy a block out."""
        content = self._block(block).cpu().contiguous().flatten().view(torch.uint8)
        return content.numpy().tobytes()

    def write(self, block: int, content: bytes) -> None:
        """Copy a block in. Refused for another number of bytes."""
        target = self._block(block)
        if len(content) != self.block_bytes:
            raise RefusedError(f"a block has {self.block_bytes} bytes, not {len(content)}")
        values = torch.frombuffer(bytearray(content), dtype=self._blocks.dtype)
        target.copy_(values.reshape(target.shape))

    def _block(self, block: int) -> Tensor:
        """Return a view of a block; a negative id would silently index from the end."""
        if not 0 <= block < len(self._blocks):
            raise RefusedError(f"{block} is not one of the {len(self._blocks)} blocks")
        return self._blocks[block]
