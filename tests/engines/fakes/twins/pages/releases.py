"""In place of the release's modules: a request, a hash, and names of what is not asked for."""

from dataclasses import dataclass, field

__all__ = ["ContinuousBatchingConfig", "DistributedHelper", "PagedAttentionCache", "RequestState", "compute_block_hash"]

ContinuousBatchingConfig = DistributedHelper = PagedAttentionCache = object


def compute_block_hash(parent: int | None, tokens: list[int]) -> int:
    """The hash of a block's tokens and of all before it."""
    return hash((parent, *tokens))


@dataclass
class RequestState:
    """A request: its tokens, and up to where they are computed."""

    request_id: str
    initial_tokens: list[int]
    max_new_tokens: int | None = None
    generated_tokens: list[int] = field(default_factory=list)
    position_offset: int = 0

    def current_len(self) -> int:
        """How many tokens are computed."""
        return self.position_offset

    def fork(self, name: str) -> "RequestState":
        """The same under another name."""
        return RequestState(name, self.initial_tokens, None, [*self.generated_tokens], self.position_offset)
