"""Differential: vLLM's `SimpleCPUOffloadScheduler` and the reference implementation do the same operations.

Cases are those of the level ``offload`` with one group of full attention. Each is played on a release through the
worker, and then on an `OffloadManager` under the same small scheduler (`vllm_offload_mirror`). After every operation
both must show the same, block by block and by number (the host of vLLM has a null block before its others):

* of both pools the reference counts, the free queue in its order, the keys of each block and the blocks of each key;
* the block tables, and what transfers and pins hold on each tier;
* how many requests wait and run, how many transfers are pending;
* the copies that were submitted, pair by pair, and which of them ended;
* how much each lookup found on either tier, who was scheduled, preempted and ended, whose load is done, and what a
  reset answered;
* which keys are equal (P13): the engine's numbers of keys and the mirror's own keys are one to one.

Where the policies differ, the mirror does as vLLM does if a caller of the manager is free to; else the comparison ends
there with the reason (`Outcome.parted`), and the rest of the case is the universal oracles' alone:

============================ ========================================= ======================================= ======
what                         vLLM                                      reference implementation                then
============================ ========================================= ======================================= ======
which blocks are offered     of scheduled requests, those of earlier   what the caller names                   as vLLM
                             steps; a finished one's at its end (O9)
stored with no room (O12)    the request stops there, and goes on in   dropped and counted, if offered         as vLLM
                             a later step
in one store                 all that a step stores                    all that a call offers                  as vLLM
hit what this step writes    stored in this step: copies are behind    not offered before it is processed;     as vLLM
                             its forward pass (since 0.24)             the caller says when that is
aborted under its load       the table goes when the load is done      at once, the load holds its blocks      as vLLM
reset                        each tier by itself, on demand; pins go   both tiers or neither; pins are         as vLLM
                             first                                     references (O5, O10)
order of loads done at once  that of a set of names                    that of the reports                     as vLLM
how far a lazy scan goes     by tokens of a step, from its cursor      as far as the caller says (O4)          as vLLM
refused reset of both tiers  empties a tier that it can, voids what    changes nothing (O10)                   parted
                             is in flight
refused admission            touches no device block that was found    touches and gives back: to the tail     parted
                                                                       where nobody else holds them (P15)
dropped pins                 first position first                      last position first (P10)               parted
several blocks offered       judged before host blocks are taken       one by one: what an earlier one drove   parted
                             for any                                   out is stored again (O12)
lazy, forgotten by the host  not looked at again before the walk       the scan goes back to the head          parted
                             begins anew
============================ ========================================= ======================================= ======

The comparison parts when such a difference takes effect, not when it may: pins that are found again at once, or a
single one, are dropped alike.

Releases that are known to be wrong disagree:

* up to 0.20.2 a block is stored twice at once (O3);
* up to 0.23.0 what a step writes for one request, and another one hits, is stored in that step, and the copy waits for
  nothing (P6, vllm#45704): the reference implementation stores it later (`Dialect.stores_wait`);
* up to 0.28.0 what the last step of a request completed is never stored (O9).

Up to 0.21.0 a lookup holds nothing on the host: once the request has its blocks it is looked up again, and held then.
That is no fault, and disagrees (`holds.host`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from ...engines.dialects import DIALECTS
from ...engines.session import Session
from ...engines.verdicts import of_failure
from ...engines.vllm.levels.offload import more_oracles
from ...engines.vllm.levels.offload import profiles as families
from ...judge.judging import Judge
from ...judge.record import Answer, Case, PoolState, Step
from ...judge.violation import Violation
from ...refimpl.errors import RefusedError
from ...refimpl.pool.block_pool import PoolSnapshot
from ..outcome import Disagreement, Outcome
from .offload_mirror import SKIPPED, Mirror, PartedError

__all__ = ["LEVEL", "PROFILES", "cases", "compare", "profiles"]

Op = tuple[str, dict[str, Any]]

_ROUNDS = 8
"""Steps between two looks at whether all is at rest, and how often that is looked at."""

PROFILES = ("simple-eager", "simple-workers", "simple-lazy")
"""Those of the level's families of cases that have one group, of full attention: all that the mirror knows."""

LEVEL = "offload"

_FORGET: list[Op] = [("drain", {}), ("reset", {"connector": False, "running": 1})]
"""What makes the device forget and the host not: behind it there is something to load."""


def profiles(release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Families of cases, by name: those that the release can do."""
    return {name: cases(release, name) for name in PROFILES if name in families(release)}


def cases(release: str, profile: str) -> st.SearchStrategy[Case]:
    """Cases of a family, several of them in a row: the setup is the first one's, and what it cannot do is skipped."""
    parts = st.lists(st.tuples(families(release)[profile], st.booleans()), min_size=1, max_size=4)
    return parts.map(_joined)


def _joined(parts: list[tuple[Case, bool]]) -> Case:
    ops = [op for case, forget in parts for op in (*case.ops, *(_FORGET if forget else []))]
    return msgspec.structs.replace(parts[0][0], ops=ops)


def compare(session: Session, case: Case) -> Outcome:
    """Play a case on a release and on the reference implementation, and compare them after each operation."""
    known = DIALECTS["vllm"].dialect(session.hello.version)
    case, answer, broken = _played(session, case)
    outcome = Outcome(case, answer, sum(not step.skipped for step in answer.steps), broken=broken)
    mirror = Mirror(case.setup, split=known.split, stores_wait=known.stores_wait)
    told = _Told(mirror)
    for at, step in enumerate(answer.steps):
        try:
            outcome.disagreement = next(told.disagreements(at, step), None)
        except PartedError as error:
            outcome.parted = str(error)
        except (RefusedError, AssertionError) as error:
            outcome.disagreement = Disagreement(at, step.op, "legality", "goes on", str(error))
        if outcome.parted is not None or outcome.disagreement is not None:
            break
        outcome.compared += not step.skipped
        for copy in mirror.copies:
            outcome.counts["blocks stored"] += sum(pair[0] == "store" for pair in copy)
            outcome.counts["blocks loaded"] += sum(pair[0] == "load" for pair in copy)
    return outcome


def _played(session: Session, case: Case) -> tuple[Case, Answer, list[Violation]]:
    """Play a case on the release until all is at rest. Drains are taken apart: one step of each at a time."""
    end = _rest(case.setup)
    ops: list[Op] = [op for given in case.ops for op in (end if given[0] == "drain" else [given])]
    run = session.run(Case(case.level, case.setup, ops), keep=True)
    answer = run.answer
    for _ in range(_ROUNDS):
        if run.failure is not None or answer.refused is not None or _at_rest(run.answer):
            break
        run = session.more(end)
        ops += end
        answer.steps += run.answer.steps
    played = msgspec.structs.replace(case, ops=ops)
    broken = [of_failure(run.failure)] if run.failure is not None else []
    return played, answer, [*_broken(played, answer), *broken]


def _rest(setup: Mapping[str, Any]) -> list[Op]:
    """Steps behind each of which all copies end."""
    work: list[Op] = [("work", {"which": 0, "all": 1})] * (2 * setup["workers"])
    return [*work, ("step", {"most": setup["budget"], "sample": 0, "stop": 0})] * _ROUNDS


def _at_rest(answer: Answer) -> bool:
    state = answer.steps[-1].state if answer.steps else None
    return state is None or not (state.waiting or state.running or state.pending)


def _broken(case: Case, answer: Answer) -> list[Violation]:
    """What the universal oracles say: the first step that breaks rules, and which."""
    if answer.world is None:
        return []
    judge = Judge(answer.world, more_oracles(case))
    return next((found for step in answer.steps if (found := judge.step(step))), [])


class _Told:
    """Puts what the mirror has into the engine's words, and compares."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._numbers: dict[bytes, int] = {}

    def disagreements(self, at: int, step: Step) -> Iterator[Disagreement]:
        """Do an operation on the mirror, and yield what is not as the engine has it."""
        if step.error is not None or step.state is None:
            yield Disagreement(at, step.op, "outcome", step.error, "no error")
            return
        result = self._mirror.do(step)
        if (result is SKIPPED) != step.skipped:
            yield Disagreement(at, step.op, "skipped", step.skipped, result is SKIPPED)
        lookups = [effect[1:] for effect in step.effects if effect[0] == "lookup"]
        pairs = [("lookups", lookups, self._mirror.lookups), ("copies", _copies(step), self._copies())]
        if not step.skipped:
            pairs.append(("result", step.result, result))
        pairs += [("keys", *told) for told in self._learn(step)]
        for what, engine, reference in (*pairs, *self._state(step)):
            if engine != reference:
                yield Disagreement(at, step.op, what, engine, reference)

    def _learn(self, step: Step) -> Iterator[tuple[Any, Any]]:
        """Learn the engine's numbers of keys; equal keys have equal numbers, and different ones different (P13)."""
        for effect in step.effects:
            if effect[0] == "keys":
                _, r, first, numbers = effect
                own = self._mirror.keys[r][first : first + len(numbers)]
                for key, number in zip(own, numbers, strict=True):
                    self._numbers.setdefault(key, number)
                yield numbers, [self._numbers[key] for key in own]
        yield len(self._numbers), len(set(self._numbers.values()))

    def _copies(self) -> list[list[list[Any]]]:
        tiers = {"load": ("host", 1, "device", 0), "store": ("device", 0, "host", 1)}
        return [
            [[tiers[k][0], a + tiers[k][1], tiers[k][2], b + tiers[k][3]] for k, a, b in copy]
            for copy in self._mirror.copies
        ]

    def _state(self, step: Step) -> Iterator[tuple[str, Any, Any]]:
        assert step.state is not None
        own, state = self._mirror.manager.snapshot(), step.state
        yield "tables", state.tables, {r: [list(own.tables.get(r, ()))] for r in self._mirror.live}
        stored = [pair for store in own.stores.values() for pair in store.pairs]
        loaded = [pair for load in own.loads.values() for pair in load.pairs]
        pins = [block for found in own.pins.values() for block in found.values()]
        device = [block for block, _ in stored] + [block for _, block in loaded]
        host = [block for _, block in stored] + [block for block, _ in loaded] + pins
        yield "holds.device", sorted(state.holds["device"]), sorted(device)
        yield "holds.host", sorted(state.holds["host"]), sorted(block + 1 for block in host)
        for name, count in self._mirror.counts.items():
            yield name, getattr(state, name), count
        yield from self._pool("device", state.pools["device"], own.pool, 0)
        yield from self._pool("host", state.pools["host"], own.host, 1)

    def _pool(self, tier: str, pool: PoolState, own: PoolSnapshot, first: int) -> Iterator[tuple[str, Any, Any]]:
        """A pool of vLLM's keeps a null block, number 0; the reference implementation's host has none."""
        yield f"{tier}.ref", (pool.ref or [])[1:], list(own.ref_cnt)[1 - first :]
        yield f"{tier}.free", pool.free, [block + first for block in own.free]
        yield f"{tier}.num_free", pool.num_free, own.num_free
        named = {k: blocks for k, _, blocks in pool.cached or ()}
        yield f"{tier}.cached", named, {self._number(key): _up(blocks, first) for key, blocks in own.copies.items()}
        carried = {block: [k for k, _ in keys] for block, keys in pool.hashes or ()}
        yield f"{tier}.hashes", carried, {b + first: list(map(self._number, keys)) for b, keys in own.keys.items()}

    def _number(self, key: bytes) -> int | str:
        return self._numbers.get(key, key.hex()[:6])


def _up(blocks: Sequence[int], by: int) -> list[int]:
    return [block + by for block in blocks]


def _copies(step: Step) -> list[Any]:
    return [effect[3] for effect in step.effects if effect[0] == "copy" and effect[2] == "begin"]
