"""The story of a case: whether what happened to each request is told, in an order that can have happened."""

from collections.abc import Iterator
from typing import Any

from .oracles.begun import begun_by
from .oracles.host_stores import DEVICE
from .record import Case, Step

__all__ = ["Story", "asked"]


class Story:
    """Follows the requests of one case by what was told of them."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._caching = case.setup.get("caching", True)
        self._size: int = case.setup["block_tokens"]
        self._tokens: dict[str, int] = {}
        self._computed: dict[str, int] = {}
        self._keys: dict[str, int] = {}
        self._fails = False
        """A copy has failed: what a lookup found may not have come."""

    def told(self, steps: list[Step]) -> Iterator[str]:
        """Yield what is missing."""
        for number, step in enumerate(steps):
            if step.error is not None:
                return
            yield from (f"after {asked(self._case, number)}: {text}" for text in self._step(step))

    def _step(self, step: Step) -> Iterator[str]:
        kinds = {effect[0] for effect in step.effects}
        if step.skipped:
            if kinds:
                yield "it is skipped, and effects are told"
            return
        r = step.args.get("request")
        if step.op == "start":
            first: list[Any] = step.effects[0] if step.effects else [None]
            if first[:2] != ["request", r] or first[2].get("tokens") != step.args["prompt"]:
                yield f"its first effect must be the request {r} with the prompt as it was asked for"
                return
            wrong = [name for name in ("adapter", "salt") if first[2].get(name) != step.args.get(name)]
            if wrong:
                yield f"the request is told with another {wrong[0]} than was asked for"
        for effect in step.effects:
            yield from self._effect(effect)
        if not isinstance(r, str) or r not in self._tokens:
            return
        waits = "compute" not in kinds and any(to == DEVICE for e in step.effects for *_, to, _ in begun_by(e))
        # Whether all of it may be found is P14's.
        all_found = any(e[:2] == ["lookup", r] and e[2] + e[3] >= self._tokens[r] for e in step.effects)
        needed = {"table"} if all_found else {"table", "compute"}
        if step.op in ("start", "resume") and step.result is True and not (needed <= kinds or waits):
            yield "the request was admitted, and no table or no compute is told"
        if step.op in ("start", "resume") and step.result is True and self._caching and "lookup" not in kinds:
            yield "the request was admitted, and no lookup is told"
        if self._caching and step.result is True and self._keys.get(r, 0) < self._tokens[r] // self._size:
            yield f"{r} has {self._tokens[r] // self._size} full blocks, and {self._keys.get(r, 0)} keys are told"
        whole = step.op in ("grow", "resume") or (step.op == "start" and not step.args.get("most"))
        if step.result is True and whole and not waits and self._computed.get(r, 0) != self._tokens[r]:
            yield f"{r} has {self._tokens[r]} tokens, and {self._computed.get(r, 0)} are computed"
        if step.op == "fork" and step.result is True:
            yield from self._forked(r, str(step.args.get("child")), step.effects)
        for op, kind in (("finish", "end"), ("abort", "end"), ("preempt", "preempted")):
            if step.op == op and kind not in kinds:
                yield f"no effect {kind} is told"

    def _forked(self, r: str, child: str, effects: list[list[Any]]) -> Iterator[str]:
        told = {effect[0]: effect for effect in effects if len(effect) > 1 and effect[1] == child}
        if "request" not in told or told["request"][2].get("fork") != r or self._tokens[child] != self._tokens[r]:
            yield f"the fork is not told as a request {child} that goes on from {r} (fork), with all its tokens"
        elif missing := [kind for kind in ("found", "table", "processed") if kind not in told]:
            yield f"{r} was forked, and of {child} no {missing[0]} is told"

    def _effect(self, effect: list[Any]) -> Iterator[str]:
        kind: str = effect[0]
        r: Any = effect[1] if len(effect) > 1 else None
        if kind == "request":
            self._tokens[r] = len(effect[2]["tokens"])
            self._computed[r] = self._tokens[r] if effect[2].get("fork") else 0
        elif kind == "append":
            self._tokens[r] += len(effect[2])
        elif kind == "keys":
            self._keys[r] = effect[2] + len(effect[3])
        elif kind == "lookup":
            self._computed[r] = effect[2] + effect[3]
        elif kind == "preempted":
            self._computed[r] = 0
        elif kind == "copy":
            self._fails = self._fails or effect[2] == "fail"
        elif kind == "compute":
            if effect[2] > self._computed[r] or (effect[2] < self._computed[r] and not self._fails):
                yield f"{r} is computed from position {effect[2]} on, and {self._computed[r]} tokens are there"
            self._computed[r] = effect[2] + len(effect[3])


def asked(case: Case, number: int) -> str:
    """An operation of a case, in words."""
    op, args = case.ops[number] if number < len(case.ops) else ("?", {})
    return f"operation {number + 1} ({op}{' of ' + str(args['request']) if 'request' in args else ''})"
