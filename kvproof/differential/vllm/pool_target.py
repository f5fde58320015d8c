"""vLLM's block pool as a target for machine P."""

import itertools
from collections.abc import Callable
from typing import Any, ClassVar, Self

from ...checkers.target import Answer, Args, Fields, Target
from ...engines.session import Session
from ...harness.instances import Instance
from ...judge.record import Case, PoolState, Step

__all__ = ["EngineLostError", "PoolLink", "VllmPoolTarget"]

Op = tuple[str, dict[str, Any]]


class EngineLostError(Exception):
    """The worker was lost, or the engine failed, in the midst of a call."""


class PoolLink:
    """A worker, and which of the runs made with it is the one that it has before it."""

    def __init__(self, session: Session) -> None:
        """Runs are made one after the other, or in turns; each is made again when its turn comes."""
        self.session = session
        self._numbers = itertools.count()
        self._current = -1

    def number(self) -> int:
        """A number for a new run."""
        return next(self._numbers)

    def do(self, number: int, setup: dict[str, Any], before: list[Op], op: Op) -> Step:
        """Do an operation in a run with this past.

        Raises:
            EngineLostError: there is no answer, or it is an exception.
        """
        if number == self._current:
            run = self.session.more([op])
        else:
            run = self.session.run(Case("pool", setup, [*before, op]), keep=True)
        self._current = -1
        if run.failure is not None:
            raise EngineLostError(run.failure.text)
        if run.answer.refused is not None:
            raise EngineLostError(run.answer.refused)
        if not run.answer.steps:
            raise EngineLostError("the worker answered without a step")
        step = run.answer.steps[-1]
        if step.error is not None:
            raise EngineLostError(f"{step.error.type}: {step.error.message}")
        self._current = number
        return step


class VllmPoolTarget(Target):
    """A `BlockPool`, driven action by action in its own interpreter.

    What it observes is read from the pool's blocks, its free queue and its map. The block tables are the caller's own,
    and no KV is there; what is written is the caller's word. Events are judged elsewhere: this engine reports more of
    them than the machine.
    """

    name = "vllm"
    level = "pool"
    fields: ClassVar[tuple[str, ...]] = ("ref_cnt", "free", "hashes", "cached")
    reports: ClassVar = False
    # Who is let in, and what is registered, is decided above the pool.
    unjudged: ClassVar = {"admit": frozenset({"need"}), "register": frozenset({"caching"})}
    ignored: ClassVar = {
        "hit": frozenset({"caching"}),
        "allocate": frozenset({"1 <= n"}),
        "trim": frozenset({"1 <= n"}),
        "evict": frozenset({"hashes"}),
    }
    weights: ClassVar = {"hit": 3, "allocate": 3, "write": 6, "register": 6, "finish": 2}
    lookups: ClassVar = frozenset({"hit"})
    essential: ClassVar = frozenset({"admit", "allocate"})

    def __init__(self, setting: Instance, link: PoolLink) -> None:
        """A fresh pool for an instance."""
        super().__init__(setting)
        self.instance, self._link = setting, link
        params, sizes = setting.scope.params, setting.scope.sizes
        self._prompt, self._limit, self._parent = params["prompt"], params["limit"], params["parent"]
        self._setup = {
            "blocks": sizes["Block"],
            "requests": sizes["Request"],
            "keys": sizes["Hash"],
            "caching": params["caching"],
        }
        self._held = [0] * sizes["Request"]
        self._ops: list[Op] = []
        self._number = link.number()
        self._pool = self._state(link.do(self._number, self._setup, [], ("evict", {"block": 0})))

    def apply(self, action: str, args: Args) -> Answer:
        """Make the call that the action is; some are the caller's business alone."""
        op: Callable[..., Op | None] = getattr(self, f"_{action}")
        call = op(*args)
        if call is None:
            return Answer()
        step = self._link.do(self._number, self._setup, self._ops, call)
        self._ops.append(call)
        self._pool = self._state(step)
        if step.result is False:
            return Answer(refused="the pool refused it")
        if action in ("hit", "allocate"):
            self._held[args[0]] += step.result if action == "hit" else len(step.result)
        return Answer(step.result if action == "hit" else None)

    def _admit(self, _r: int) -> None:
        return None

    def _write(self, _r: int, _i: int, _s: int, _c: int) -> None:
        return None

    def _hit(self, r: int) -> Op:
        return "hit", {"r": r, "keys": self._prompt[r][: self._limit[r]]}

    def _allocate(self, r: int, n: int) -> Op:
        return "take", {"r": r, "n": n}

    def _skip(self, r: int) -> Op:
        self._held[r] += 1
        return "skip", {"r": r}

    def _register(self, r: int, i: int, h: int) -> Op:
        return "register", {"r": r, "at": i, "key": h, "parent": self._parent[h]}

    def _trim(self, r: int, n: int) -> Op:
        self._held[r] -= n
        return "free", {"r": r, "n": n}

    def _finish(self, r: int) -> Op:
        return self._trim(r, self._held[r])

    def _preempt(self, r: int) -> Op:
        return self._trim(r, self._held[r])

    def _evict(self, b: int) -> Op:
        return "evict", {"block": b}

    def _reset(self) -> Op:
        return "reset", {}

    def flat(self) -> Fields:
        """The pool's state as its own objects have it."""
        sizes, pool = self.instance.scope.sizes, self._pool
        blocks, hashes = sizes["Block"], sizes["Hash"]
        null = self.instance.scope.params["null"]
        carried = [False] * (blocks * hashes)
        for block, keys in pool.hashes or ():
            for k, _ in keys:
                carried[block * hashes + k] = True
        cached: list[list[int]] = [[] for _ in range(hashes)]
        for k, _, copies in pool.cached or ():
            cached[k] = list(copies)
        free: list[Any] = list(pool.free or ())
        if pool.num_free != len(free):
            free.append(f"the counter says {pool.num_free}")
        # Some releases count the null block's holders, others do not; nobody reads it (P4).
        ref_cnt = [0 if block == null else count for block, count in enumerate(pool.ref or ())]
        return {"ref_cnt": ref_cnt, "free": free, "hashes": carried, "cached": cached}

    def fork(self) -> Self:
        """A second run in the same state: it is made again, call by call, when its turn comes."""
        kind = type(self)
        forked = kind.__new__(kind)
        forked.__dict__.update(self.__dict__)
        forked._held, forked._ops, forked._number = self._held[:], self._ops[:], self._link.number()
        return forked

    def spell(self, action: str, args: Args) -> str:
        """The calls on the pool."""
        named: dict[str, Callable[..., str]] = {
            "admit": lambda r: f"# request {r} arrives",
            "write": lambda r, i, s, c: f"# a step of request {r} writes content {c} at ({i}, {s})",
            "skip": lambda r: f"table[{r}].append(pool.null_block)",
            "hit": lambda r: f"hit({r}, keys={self._prompt[r][: self._limit[r]]})  # get_cached_block of each, touch",
            "allocate": lambda r, n: f"table[{r}] += pool.get_new_blocks({n})",
            "register": lambda r, i, h: f"pool.cache_full_blocks(table[{r}], {i}, {i + 1})  # key {h}",
            "trim": lambda r, n: f"pool.free_blocks(reversed(table[{r}][-{n}:]))",
            "finish": lambda r: f"pool.free_blocks(reversed(table[{r}]))",
            "preempt": lambda r: f"pool.free_blocks(reversed(table[{r}]))",
            "evict": lambda b: f"pool.evict_blocks({{{b}}})",
        }
        return named[action](*args) if action in named else "pool.reset_prefix_cache()"

    def preamble(self) -> str:
        """Makes this target from the description of its instance."""
        target = f"vllm=={self._link.session.hello.version}"
        return (
            f"from {Instance.__module__} import Instance\nfrom {__name__} import PoolLink, VllmPoolTarget\n"
            f"from {Session.__module__} import Session\nfrom kvproof.engines.store import resolve\n\n"
            f"link = PoolLink(Session.of(resolve({target!r})))\n"
            "target = VllmPoolTarget(Instance.load(setting), link)"
        )

    @staticmethod
    def _state(step: Step) -> PoolState:
        if step.state is None or "device" not in step.state.pools:
            raise EngineLostError("the worker told no state of the device's pool")
        return step.state.pools["device"]
