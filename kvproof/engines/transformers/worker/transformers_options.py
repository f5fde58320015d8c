"""What a setup may say, and the configuration of model and cache that it becomes."""

import math
from dataclasses import dataclass, fields
from types import SimpleNamespace

import torch
from level import Refused
from transformers.generation.configuration_utils import ContinuousBatchingConfig

__all__ = ["DTYPE", "EOS", "HEAD_DIM", "VOCABULARY", "Options", "continuous_batching", "model_config"]

DTYPE = torch.float32
"""Of the cache: exact for whole numbers up to 2^24, which stamps stay below."""
HEAD_DIM = 4
"""Numbers per token and layer, once as its key and once as its value: what a stamp is made of."""
VOCABULARY = 4
EOS = 3
"""The token that ends a request which asks for that."""

_KINDS = {"full": "full_attention", "window": "sliding_attention"}


@dataclass(frozen=True)
class Options:
    """A setup."""

    layers: tuple[str, ...]
    """Of each layer, ``full`` or ``window``."""
    page: int
    """Tokens of a page: of a block, in each layer."""
    blocks: int
    """What the cache is asked to hold, in blocks of all layers."""
    window: int = 6
    """Tokens that a window layer attends to, the current one included."""
    sharing: bool = True
    """Whether blocks may be shared by requests."""
    batch: int = 16
    """Tokens of a batch."""
    requests: int = 8
    """Requests of a batch."""
    scheduler: str = "fifo"
    margin: float | None = None
    """The part of the cache below which no prefill is begun; none: the scheduler's own."""
    host: int = 0
    """Sectors of the host tier."""
    asynchronous: bool = False
    """Whether a batch is prepared before the last one is processed."""
    sequences: int = 1
    """How many continuations each prompt gets."""

    @classmethod
    def of(cls, setup: dict) -> "Options":
        """Read a setup; what is not known is refused."""
        unknown = setup.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise Refused(f"there is no option {min(unknown)}")
        options = cls(**{**setup, "layers": tuple(setup["layers"])})
        if not options.layers or not set(options.layers) <= _KINDS.keys():
            raise Refused("layers are full or window, one at least")
        if options.page < 1 or options.blocks < 1 or options.window < 1:
            raise Refused("page, blocks and window are 1 at least")
        return options

    @property
    def groups(self) -> list[dict]:
        """The world's groups: one a layer, of the kind that was asked for."""
        of = {"full": {"kind": "full"}, "window": {"kind": "window", "window": self.window}}
        return [of[kind] | {"block": self.page} for kind in self.layers]

    @property
    def shares(self) -> bool:
        """Whether what is computed is kept for others: of windows nothing is, nor beside them."""
        return self.sharing and set(self.layers) == {"full"}

    @property
    def bytes_per_page(self) -> int:
        """Bytes of a page: keys and values of its tokens."""
        return 2 * self.page * HEAD_DIM * DTYPE.itemsize

    @property
    def bytes_per_sector(self) -> int:
        """Bytes of a sector, by the release's rule: blocks of both kinds divide it."""
        sizes = [self.layers.count(kind) * self.bytes_per_page for kind in set(self.layers)]
        return math.lcm(*sizes, 128)


def model_config(options: Options) -> SimpleNamespace:
    """Return what the release asks of a model's configuration. Flash attention needs no masks."""
    config = SimpleNamespace(
        _attn_implementation="flash_attention_2",
        num_hidden_layers=len(options.layers),
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=HEAD_DIM,
        hidden_size=HEAD_DIM,
        vocab_size=VOCABULARY,
        layer_types=[_KINDS[kind] for kind in options.layers],
        sliding_window=options.window if "window" in options.layers else None,
        eos_token_id=None,
    )
    config.get_text_config = lambda: config
    return config


def continuous_batching(options: Options) -> ContinuousBatchingConfig:
    """Return what a user would ask for."""
    return ContinuousBatchingConfig(
        page_size=options.page,
        num_blocks=options.blocks,
        max_batch_tokens=options.batch,
        max_requests_per_batch=options.requests,
        max_blocks_per_request=0,
        allow_block_sharing=options.sharing,
        use_async_batching=options.asynchronous,
        use_cuda_graph=(False, False),
        scheduler_type=options.scheduler,
        safety_margin=options.margin,
        seed=0,
        # Half a sector more, so that no rounding takes one away.
        cpu_offload_space=(options.host + 0.5) * options.bytes_per_sector / 2**30 if options.host else 0.0,
    )
