"""What clients of vLLM's engine core get: the tokens of an answer, and how much of the prompt is said to be cached."""

from level import Level


class Answers:
    """The answers to requests that are no sessions, until they end."""

    def __init__(self, level: Level, max_len: int) -> None:
        self._level, self._max_len = level, max_len
        self._asked: dict[str, tuple[list[int], int, tuple[int, ...]]] = {}
        """Prompt, how many tokens may come at most, and those that end the answer."""
        self._made: dict[str, list[int]] = {}
        self._cached: dict[str, int] = {}

    def begin(self, r: str, prompt: list[int], most: int, stops: tuple[int, ...]) -> None:
        """A request arrives, with its prompt as it is told."""
        # Texts end where the model's length does.
        self._asked[r] = prompt, min(most, self._max_len - len(prompt)), stops

    def take(self, output) -> None:
        """A part of an answer comes; newer releases say with the first one what was cached."""
        r = output.request_id
        self._made.setdefault(r, []).extend(output.new_token_ids)
        if (stats := getattr(output, "prefill_stats", None)) is not None:
            self._cached[r] = stats.num_cached_tokens

    def end(self, r: str, *, whole: bool) -> None:
        """An answer is over; it is told if it is ``whole``: not where its request was given up, or failed."""
        prompt, most, stops = self._asked.pop(r, (None, 0, ()))
        made, cached = self._made.pop(r, []), self._cached.pop(r, None)
        if whole and prompt is not None:
            stop = made[-1] if made and made[-1] in stops else None
            self._level.tell("output", r, len(prompt), most, stop, prompt, made, cached)
