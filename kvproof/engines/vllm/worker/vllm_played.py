"""Requests of the level ``manager``: what a case asks for, and what the model worker knows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompts import VOCABULARY

if TYPE_CHECKING:
    from vllm.v1.request import Request

__all__ = ["Pass", "Played", "items_of", "name_of", "sampled_tokens"]

_NAMES = ("", "a", "b")
"""One alphabet for adapters, salts and items: a key that mixes them up shall be found out."""
_LENGTHS = {"a": 2, "b": 3}
"""Tokens of an item: its name stands for its content, so equal names have equal lengths."""


class Played:
    """A request: the release's object, and what the model worker knows of it."""

    def __init__(self, r: str, request: Request, groups: int, prompt: list[int]) -> None:
        self.r, self.request, self.prompt = r, request, prompt
        self.status = "waiting"
        self.tokens: list[int] = list(prompt)
        """With what was sampled, though the manager may not have been told yet."""
        self.done = 0
        """Positions whose KV is there for good."""
        self.tables: list[list[int]] = [[] for _ in range(groups)]
        self.load = (0, 0)
        self.is_counted = False
        """Whether its lookup was, which counts once: of a load of the one token that it has nothing is left."""
        self.epoch = 0
        """How often it lost everything: what was scheduled before is stale."""

    def forget(self) -> None:
        """What was sampled and not told to the manager is lost."""
        self.tokens[:] = [*self.prompt, *self.request.all_token_ids[len(self.prompt) :]]


class Pass:
    """A scheduled forward pass of one request."""

    def __init__(self, x: Played, tokens: int, drafts: int, sampled: list[int], accepted: int) -> None:
        self.x, self.epoch = x, x.epoch
        self.end = x.done
        """Up to where the request is computed with it, though others may have been scheduled behind it."""
        self.tokens, self.drafts, self.accepted, self.sampled = tokens, drafts, accepted, sampled


def sampled_tokens(first: int, at: int, accepted: int, drafts: int) -> tuple[list[int], list[int]]:
    """The tokens that the model samples from position ``at`` on, and the drafts that were run: so many are right."""
    sampled = [(first + at + i) % VOCABULARY for i in range(accepted + 1)]
    wrong = (sampled[-1] + 1) % VOCABULARY
    return sampled, sampled[:accepted] + [wrong] * (drafts - accepted)


def name_of(number: int) -> str | None:
    """Return a name of the alphabet; none for 0."""
    return _NAMES[number % len(_NAMES)] or None


def items_of(wanted, length: int) -> list[list]:
    """Items from gaps and names: in order, apart, and within the prompt."""
    items, at = [], 0
    for gap, number in wanted:
        name = _NAMES[1 + number % (len(_NAMES) - 1)]
        at += gap
        if at + _LENGTHS[name] > length:
            break
        items.append([at, _LENGTHS[name], name])
        at += _LENGTHS[name]
    return items
