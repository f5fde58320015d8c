"""Instances of the parameters of machine R that are made from real token sequences."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from ...checkers.target import NONE
from ...machine import Machine, Model
from ...machine.concrete import State
from ...machine.scope import Scope
from ...refimpl.pool.keys import ExtraKeys
from ...spec.tree import PrefixTree
from ..scoped_instance import ScopedInstance

__all__ = ["TreeInstance", "tree_instances"]

SIZES: Mapping[type[Machine], Sequence[dict[str, int]]] = {
    PrefixTree: (
        {"Page": 3, "Prefix": 3, "Request": 2, "Position": 2, "Slot": 1},
        {"Page": 5, "Prefix": 4, "Request": 2, "Position": 3, "Slot": 2},
        {"Page": 6, "Prefix": 6, "Request": 3, "Position": 4, "Slot": 1},
        {"Page": 7, "Prefix": 8, "Request": 4, "Position": 4, "Slot": 2},
    ),
}
"""The sizes that random instances have, the smallest first."""

_SALTS = (None, "a")


@dataclass(frozen=True)
class TreeInstance(ScopedInstance):
    """One instance of the parameters of `PrefixTree`, and the tokens of its sequences."""

    SIZES = SIZES

    def __post_init__(self) -> None:
        """Refuse what no tokens give.

        Raises:
            ValueError: a last page that is not full, where a page has one token only.
        """
        params = self.scope.params
        if self.page_tokens == 1 and params["need"] != params["whole"]:
            raise ValueError("a page of one token is always full: give as many pages that are whole as are needed")

    @property
    def page_tokens(self) -> int:
        """Tokens per page."""
        return self.scope.sizes["Slot"]

    def tokens(self, r: int) -> list[int]:
        """All tokens of a request. A last page that is not full lacks one token."""
        path: list[int] = self.scope.params["path"][r][: self.scope.params["whole"][r]]
        full = [token for a in path for token in self.page(a)]
        is_partial: bool = self.scope.params["need"][r] > len(path)
        return full + [1000 + r] * ((self.page_tokens - 1) * is_partial)

    def extras(self, r: int) -> ExtraKeys:
        """What parts the request from those of other namespaces."""
        path = self.scope.params["path"][r][: self.scope.params["whole"][r]]
        return self.namespace(path[0]) if path else ExtraKeys()

    def page(self, a: int) -> list[int]:
        """The tokens of a prefix's last page.

        Those of siblings differ from the first token on: where tokens agree so does their KV, and the machine's content
        of a slot is that of one prefix.
        """
        rank = self._rank(a) if self.scope.params["above"][a] is not None else self._rank(a) // len(_SALTS)
        return [rank] * self.page_tokens

    def namespace(self, a: int) -> ExtraKeys:
        """That of a first page: some have the same tokens in two namespaces."""
        return ExtraKeys(salt=_SALTS[self._rank(a) % len(_SALTS)])

    def _rank(self, a: int) -> int:
        """How many siblings come before."""
        above = self.scope.params["above"]
        return sum(above[b] == above[a] for b in range(a))

    def steering(self, state: State) -> object:
        """What a server would do, and what leads somewhere."""
        return _Steering(state, self.scope)


def tree_instances(machine: type[Machine]) -> st.SearchStrategy[TreeInstance]:
    """Draws instances of all sizes; Hypothesis shrinks to the first size."""
    model = Model.of(machine)
    return st.builds(
        lambda size, seed: TreeInstance(Scope(model, dict(size), _grown(size, random.Random(seed)))),
        st.sampled_from(list(SIZES[PrefixTree])),
        st.integers(0, 2**16 - 1),
    )


def _grown(size: Mapping[str, int], dice: random.Random) -> dict[str, Any]:
    """A tree of prefixes, and sequences that end somewhere in it."""
    above: list[int | None] = [None]
    depth = [0]
    while len(above) < size["Prefix"]:
        parents = [a for a, d in enumerate(depth) if d + 1 < size["Position"]]
        parent = None if not parents or dice.random() < 0.25 else dice.choice(parents[-3:])
        above.append(parent)
        depth.append(0 if parent is None else depth[parent] + 1)
    paths: list[list[int]] = []
    for _ in range(size["Request"]):
        # Mostly long ones: a match of a short one has nothing to return.
        at: int | None = max(dice.choices(range(size["Prefix"]), k=2), key=depth.__getitem__)
        path: list[int] = []
        while at is not None:
            path.insert(0, at)
            at = above[at]
        paths.append(path)
    whole = [len(path) for path in paths]
    need = [n + (size["Slot"] > 1 and n < size["Position"] and dice.random() < 0.5) for n in whole]
    return {
        "above": above,
        "depth": depth,
        "path": [path + [0] * (size["Position"] - len(path)) for path in paths],
        "limit": [
            min(w, n - 1) if dice.random() < 0.8 else dice.randrange(n) for w, n in zip(whole, need, strict=True)
        ],
        "whole": whole,
        "need": need,
    }


class _Steering:
    """Which of the possible steps lead somewhere, in one state."""

    def __init__(self, state: State, scope: Scope) -> None:
        self.now, self.params, self.positions = vars(state), scope.params, scope.sizes["Position"]
        self.slots = scope.sizes["Slot"]

    def _look(self, r: int) -> bool:
        """What others were used after."""
        order = self.now["order"]
        return self._is_cached(r) and bool(order) and next(iter(order)) != self.params["path"][r][0]

    def _hit(self, r: int) -> bool:
        return self._is_cached(r)

    def _is_cached(self, r: int) -> bool:
        return bool(self.params["limit"][r] > 0 and self.now["page"][self.params["path"][r][0]] != NONE)

    def _write(self, r: int, i: int, s: int) -> bool:
        """What is not written yet."""
        page = self.now["table"][r * self.positions + i]
        is_full = i < self.params["whole"][r]
        return not is_full or self.now["content"][page * self.slots + s] != self.params["path"][r][i]

    def _check_in(self, r: int, k: int) -> bool:
        """What is not checked in yet."""
        return bool(k > self.now["held"][r])

    def _leave(self, r: int) -> bool:
        """Mostly when it is done."""
        return bool(self.now["held"][r] == self.params["whole"][r])

    def _evict(self, n: int) -> bool:
        """A little."""
        return bool(self.now["order"]) and n <= 2
