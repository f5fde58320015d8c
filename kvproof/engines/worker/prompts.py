"""The prompts that cases ask for, in few tokens: so prefixes are shared."""

__all__ = ["VOCABULARY", "tokens_of"]

VOCABULARY = 3
"""Tokens that there are."""


def tokens_of(args: dict, history: list[list[int]], most: int) -> list[int]:
    """The prompt that an operation asks for: what is kept of an earlier request, and runs of equal tokens."""
    tokens: list[int] = []
    if history and args.get("keep"):
        tokens += history[args.get("like", 0) % len(history)][: args["keep"]]
    for token, count in args["runs"]:
        tokens += [token % VOCABULARY] * count
    return tokens[:most] or [0]
