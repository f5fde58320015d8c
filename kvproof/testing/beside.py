"""A manager beside machine P: what was told of a case is played on the machine, and after each step both are compared.

Where P leaves no choice, a manager must do what it does: blocks come from the head of the free queue, freed ones go
where the dialect says, every full block that is computed is registered, a second one of the same content too, and
blocks are there exactly when P has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import UsageError
from ..judge.record import Answer, Step, World
from ..judge.violation import Verdict, Violation
from ..machine import Model
from ..machine.concrete import Concrete
from ..machine.scope import Scope
from ..spec.pool import Pool
from .capable import has
from .manager import BlockManager
from .telling import BESIDE

__all__ = ["beside_pool", "check_comparable"]


def check_comparable(kind: type) -> None:
    """Make sure that it is a manager, and tells what is compared.

    Raises:
        UsageError: it is none, or does not.
    """
    if not issubclass(kind, BlockManager):
        raise UsageError(f"{kind.__qualname__} is no BlockManager, so it cannot be compared with machine P")
    for method in ("lookup", "ref_counts", "free_queue", "cached"):
        if not has(kind, method):
            raise UsageError(f"{kind.__qualname__} has no {method}(), so it cannot be compared with machine P; tell it")
    if kind.kept_back or kind.window is not None or kind.groups or "cached" in kind.dialect:
        raise UsageError(
            f"{kind.__qualname__} keeps blocks back, has a window or holds what is cached, and machine P does nothing "
            "of that: they differ"
        )
    if kind.dialect.get("free") not in ("append", "split"):
        raise UsageError(f'{kind.__qualname__}.dialect says nothing of "free"; say append or split')


def beside_pool(answer: Answer) -> Verdict | None:
    """The first step after which the machine and what was told differ; None where they never do."""
    if answer.world is None or answer.world.dialect.get("keep") == "none":
        return None
    run = _Run(answer.world, answer.steps)
    for number, step in enumerate(answer.steps):
        for rule, what, text in run.step(step):
            return Verdict(Violation(rule, BESIDE, text, (what,)), number, answer)
    return None


@dataclass
class _Request:
    """A request, while it is told of."""

    hashes: list[int]
    """Those of all full blocks that it will ever have."""
    tokens: int = 0
    computed: int = 0
    admission: int | None = None
    filled: int = 0


@dataclass
class _Case:
    """What must be known of a case before the machine can be made: its prefixes, and who will be let in."""

    hashes: dict[tuple[object, ...], int] = field(default_factory=dict)
    parents: list[int | None] = field(default_factory=list)
    lines: dict[str, list[int]] = field(default_factory=dict)
    admissions: list[tuple[str, int]] = field(default_factory=list)
    """The request of each, and how many tokens it has then."""

    @staticmethod
    def of(world: World, steps: list[Step]) -> _Case:
        """The case of these steps."""
        case, size = _Case(), world.hash_block
        tokens: dict[str, list[int]] = {}
        tenants: dict[str, tuple[object, ...]] = {}
        running: set[str] = set()
        for step in steps:
            for kind, *rest in step.effects:
                if kind == "request":
                    tokens[rest[0]] = [*rest[1]["tokens"]]
                    tenants[rest[0]] = (rest[1].get("adapter"), rest[1].get("salt"))
                elif kind == "append":
                    tokens[rest[0]] += rest[1]
                elif kind == "lookup":
                    case.admissions.append((rest[0], len(tokens[rest[0]])))
                    running.add(rest[0])
                elif kind in ("end", "preempted"):
                    running.discard(rest[0])
            if step.op in ("start", "resume", "cut") and step.result is False:
                r = step.args["request"]
                if r not in running:  # A cut lets in who waits, too.
                    case.admissions.append((r, len(tokens[r])))
        for r, line in tokens.items():
            case.lines[r] = case._numbered(tenants[r], line, size)
        return case

    def _numbered(self, tenant: tuple[object, ...], tokens: list[int], size: int) -> list[int]:
        found: list[int] = []
        for end in range(size, len(tokens) + 1, size):
            key = (*tenant, *tokens[:end])
            if key not in self.hashes:
                self.hashes[key] = len(self.parents)
                self.parents.append(found[-1] if found else None)
            found.append(self.hashes[key])
        return found

    def scope(self, world: World) -> Scope:
        """The machine's parameters. A block is one slot: whole blocks are written, and a hash names one content."""
        device = world.tiers["device"]
        hashes, size = max(1, len(self.parents)), world.hash_block
        # Any request may grow until it holds all blocks: what is refused to it must be refused for want of room.
        positions = device.blocks - (device.null is not None)
        lines = [self.lines[r] for r, _ in self.admissions] or [[]]
        sizes = {"Block": device.blocks, "Request": len(lines), "Hash": hashes, "Slot": 1, "Content": hashes}
        return Scope(
            Model.of(Pool),
            {**sizes, "Position": positions},
            {
                "null": device.null,
                "caching": True,
                "split": world.notes["dialect"]["free"] == "split",
                "kv": [[h] for h in range(hashes)],
                "parent": self.parents or [None],
                "prompt": [line + [0] * (positions - len(line)) for line in lines],
                "limit": [(n - 1) // size for _, n in self.admissions] or [0],
                "need": [positions] * len(lines),
            },
        )


Difference = tuple[str, str, str]
"""The rule, what differs, and a sentence."""


class _Run:
    """The machine, and what was told up to now."""

    def __init__(self, world: World, steps: list[Step]) -> None:
        self._case, self._size = _Case.of(world, steps), world.hash_block
        scope = self._case.scope(world)
        self._machine = Concrete(scope.model, scope)
        self._state = self._machine.initial()
        self._null = world.tiers["device"].null
        self._requests: dict[str, _Request] = {}
        self._hash_of: dict[int, int] = {}
        """By number of the manager's key."""
        self._admitted = 0

    def step(self, step: Step) -> Iterator[Difference]:
        """Play a step on the machine, and yield what differs."""
        for kind, *rest in step.effects:
            if kind in ("request", "append", "keys", "lookup", "table", "processed", "end", "preempted"):
                yield from getattr(self, f"_{kind}")(*rest) or ()
        if step.skipped or step.error is not None:
            return
        if step.result is False and step.op != "reset":
            yield from self._refused(step)
        elif step.op == "evict":
            self._do("evict", step.args["block"])
        elif step.op == "reset" and step.result is not self._do("reset"):
            yield "P11", "reset", f"reset is answered {step.result}, and the machine does the opposite"
        yield from self._compared(step)

    # ------------------------------------------------------------------------------------------------ what was told

    def _request(self, r: str, what: dict[str, list[int]]) -> None:
        self._requests[r] = _Request(self._case.lines[r], len(what["tokens"]))

    def _append(self, r: str, tokens: list[int]) -> None:
        self._requests[r].tokens += len(tokens)

    def _keys(self, r: str, first: int, keys: list[int]) -> None:
        self._hash_of |= dict(zip(keys, self._requests[r].hashes[first:], strict=False))

    def _lookup(self, r: str, local: int, _external: int, _limit: int) -> Iterator[Difference]:
        request, request_number = self._requests[r], self._admitted
        self._admitted += 1
        request.admission = request_number
        self._do("admit", request_number)
        hits = self._machine.apply(self._state, "hit", (request_number,)).result
        request.filled, request.computed = int(hits or 0), local
        if request.filled * self._size != local:
            yield "P14", "hit", f"a lookup for {r} finds {local} tokens, the machine {request.filled * self._size}"

    def _table(self, r: str, _g: int, _at: int, blocks: list[int]) -> Iterator[Difference]:
        a = self._requests[r].admission
        assert a is not None
        missing = len(blocks) - self._length(a)
        if missing > 0 and not self._do("allocate", a, missing):
            yield "P7", "room", f"{r} gets {missing} blocks, and the machine has no room for them"

    def _processed(self, r: str, n: int) -> None:
        request = self._requests[r]
        request.computed = n
        for i in range(request.filled, n // self._size):
            h = request.hashes[i]
            self._do("write", request.admission, i, 0, h)
            self._do("register", request.admission, i, h)
        request.filled = max(request.filled, n // self._size)

    def _end(self, r: str, _how: str = "") -> None:
        request = self._requests[r]
        if request.admission is not None:
            self._do("preempt", request.admission)
        request.admission, request.filled, request.computed = None, 0, 0

    _preempted = _end

    # ----------------------------------------------------------------------------------------------------- comparing

    def _refused(self, step: Step) -> Iterator[Difference]:
        """The machine refuses what was refused."""
        request, before = self._requests[step.args["request"]], self._machine.copy(self._state)
        a, most = request.admission, step.args.get("most") or 0
        until = request.tokens + (0 if a is None else len(step.args.get("tokens", ())))
        if a is None:
            a, self._admitted = self._admitted, self._admitted + 1
            self._do("admit", a)
            request_hits = int(self._machine.apply(self._state, "hit", (a,)).result or 0)
            until = min(until, request_hits * self._size + (most or until))
        elif step.op == "step":
            until = min(until, request.computed + (most or until))
        missing = -(-until // self._size) - self._length(a)
        fits = missing <= 0 or self._machine.is_enabled(self._state, "allocate", (a, missing))
        self._state = before
        if fits:
            yield "P7", "refusal", f"{step.op} is refused for want of {missing} blocks, and the machine has them"

    def _compared(self, step: Step) -> Iterator[Difference]:
        pool = None if step.state is None else step.state.pools["device"]
        if pool is None:
            return
        now = vars(self._state)
        counts = [0 if b == self._null else count for b, count in enumerate(now["ref_cnt"])]
        told = [0 if b == self._null else count for b, count in enumerate(pool.ref or ())]
        if told != counts:
            yield "P2", "ref_cnt", f"reference counts are {told}, and the machine's {counts}"
        if (pool.free or []) != [*now["free"]]:
            yield "P10", "free", f"the free queue is {pool.free}, and the machine's {[*now['free']]}"
        cached = {h: [*blocks] for h, blocks in enumerate(now["cached"]) if blocks}
        here = {self._hash_of.get(k, -1): blocks for k, _, blocks in pool.cached or () if blocks}
        if here != cached:
            h = min(h for h in {*here, *cached} if here.get(h) != cached.get(h))
            text = f"a prefix is cached in blocks {here.get(h, [])}, and in the machine in {cached.get(h, [])}"
            yield "P5", "cached", text

    def _do(self, action: str, *args: int | None) -> bool:
        """Do an action, if the machine allows it."""
        numbers = tuple(number for number in args if number is not None)
        if not self._machine.is_enabled(self._state, action, numbers):
            return False
        self._machine.apply(self._state, action, numbers)
        return True

    def _length(self, a: int) -> int:
        length: int = vars(self._state)["length"][a]
        return length
