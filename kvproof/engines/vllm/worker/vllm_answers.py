"""What clients of vLLM's engine core get: the tokens of an answer, and how much of the prompt is said to be cached."""

from dataclasses import dataclass, field

from level import Level

__all__ = ["Answers"]


@dataclass
class _Answer:
    """What a client asked for, and what it has got."""

    prompt: list[int]
    most: int
    """So many tokens may come."""
    stops: tuple[int, ...]
    """The tokens that end the answer."""
    made: list[int] = field(default_factory=list)
    cached: int | None = None
    """So many tokens of the prompt are said to be cached, where that is said."""


class Answers:
    """The answers to requests that are no sessions, until they end."""

    def __init__(self, level: Level, max_len: int) -> None:
        self._level, self._max_len = level, max_len
        self._open: dict[str, _Answer] = {}

    def begin(self, r: str, prompt: list[int], most: int, stops: tuple[int, ...]) -> None:
        """A request arrives, with its prompt as it is told."""
        # Texts end where the model's length does.
        self._open[r] = _Answer(prompt, min(most, self._max_len - len(prompt)), stops)

    def take(self, output) -> None:
        """A part of an answer comes; newer releases say with the first one what was cached."""
        answer = self._open.get(output.request_id)
        if answer is None:
            return
        answer.made += output.new_token_ids
        if (stats := getattr(output, "prefill_stats", None)) is not None:
            answer.cached = stats.num_cached_tokens

    def end(self, r: str, *, whole: bool) -> None:
        """An answer is over; it is told if it is ``whole``: not where its request was given up, or failed."""
        answer = self._open.pop(r, None)
        if whole and answer is not None:
            made = answer.made
            stop = made[-1] if made and made[-1] in answer.stops else None
            told = len(answer.prompt), answer.most, stop, answer.prompt, made, answer.cached
            self._level.tell("output", r, *told)
