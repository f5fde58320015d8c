"""In place of the release's modules: a request, a hash, and names of what is not asked for."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

__all__ = [
    "ContinuousBatchingConfig", "DistributedHelper", "GenerationOutput", "LogitsProcessorList", "RequestState",
    "compute_block_hash",
]  # fmt: skip

LogitsProcessorList = object
ContinuousBatchingConfig = SimpleNamespace


class DistributedHelper:
    """Who says that there is one device."""

    tp_size = 1

    def __init__(self, model: object, mesh: object) -> None:
        assert model is mesh is None


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
    eos_token_id: int = -1
    num_children: int = 0
    number: int = 0
    epoch: int = 0
    """How often it lost its blocks."""
    under_way: list[int] = field(default_factory=list)
    """Tokens that the device knows, and nobody has looked at."""

    def came(self) -> tuple[int, str]:
        """When it came: continuations come when their request does, and behind it."""
        return self.number, self.request_id

    def current_len(self) -> int:
        """How many tokens are computed."""
        return self.position_offset

    def tokens(self) -> list[int]:
        """All tokens."""
        return self.initial_tokens + self.generated_tokens + self.under_way

    def left(self) -> int:
        """How many of them are to be computed."""
        return len(self.tokens()) - self.position_offset

    def is_over(self) -> bool:
        """Whether nothing more is to be generated."""
        return len(self.generated_tokens) == self.max_new_tokens or self.generated_tokens[-1] == self.eos_token_id

    def ends_with_what_is_under_way(self) -> bool:
        """Whether nothing more will be, whatever it is."""
        return len(self.generated_tokens) + len(self.under_way) == self.max_new_tokens

    def until(self, position: int) -> "RequestState":
        """The same, as if it were computed up to there."""
        return replace(self, position_offset=position)

    def fork(self, name: str) -> "RequestState":
        """The same under another name."""
        return replace(self, request_id=name, generated_tokens=[*self.generated_tokens], under_way=[*self.under_way])


@dataclass
class GenerationOutput:
    """What a client gets of a request."""

    request_id: str
    prompt_ids: list[int]
    generated_tokens: list[int]
    error: str | None
