"""Is the judge silent where nothing is wrong? Drives clean twins of levels with the same cases and oracles as engines.

    python -m benchmarks.clean_twins benchmarks/data/clean_twins.jsonl --seconds 600     # --only tree,requests
    python -m benchmarks.clean_twins benchmarks/data/clean_twins.jsonl --table

A twin is right, and what is told of it is a false alarm: the run ends there, prints it, and its status is 1. ``tree``
(SGLang), ``manager`` and ``scheduler`` (vLLM) are the reference implementations behind the operations of these levels;
so are ``hicache`` and ``rounds`` (SGLang's level ``scheduler``), over trees of two tiers and of one. ``allocator``
(SGLang), ``chunks`` (vLLM's level ``offload``), ``backend``, ``chunk engine`` and ``leases`` (LMCache's levels
``offload``, ``engine`` and ``l1``), ``pages``, ``cache`` and ``batches`` (Transformers' levels ``pool``, ``manager``
and ``scheduler``) are the kit's drivers of these engines over what stands in for the release. So is ``block pool``, of
vLLM's level ``pool``, which no cases are drawn for: it goes beside machine P, as releases do. Of level ``requests``
there is a manager with tenants and events, and the mirror in JavaScript of the documentation. ``toy`` judges what
vLLM's levels judge, of a toy with blocks, a host and copies. To see that they can be told of at all, ``--fault NAME``
plants one.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kvproof.checkers.fuzz import FuzzReport
from kvproof.engines.cases import MoreOracles, Op
from kvproof.engines.driver import requests
from kvproof.engines.driver.command import Driver
from kvproof.engines.lmcache.levels.engine import more_oracles as chunk_engine_oracles
from kvproof.engines.lmcache.levels.engine import profiles as chunk_engine_profiles
from kvproof.engines.lmcache.levels.l1 import more_oracles as lease_oracles
from kvproof.engines.lmcache.levels.l1 import profiles as lease_profiles
from kvproof.engines.lmcache.levels.offload import more_oracles as backend_oracles
from kvproof.engines.lmcache.levels.offload import profiles as backend_profiles
from kvproof.engines.session import Limits, Session
from kvproof.engines.sglang.levels.allocator import profiles as allocator_profiles
from kvproof.engines.sglang.levels.hicache import more_oracles as hicache_oracles
from kvproof.engines.sglang.levels.hicache import profiles as hicache_profiles
from kvproof.engines.sglang.levels.scheduler import more_oracles as rounds_oracles
from kvproof.engines.sglang.levels.scheduler import profiles as rounds_profiles
from kvproof.engines.sglang.levels.tree import profiles as tree_profiles
from kvproof.engines.transformers.levels.cache import manager_profiles as cache_profiles
from kvproof.engines.transformers.levels.cache import more_oracles as pool_oracles
from kvproof.engines.transformers.levels.cache import pool_profiles
from kvproof.engines.transformers.levels.scheduler import profiles as batch_profiles
from kvproof.engines.verdicts import CLOSING, close, verdict
from kvproof.engines.vllm.levels.manager import more_oracles as manager_oracles
from kvproof.engines.vllm.levels.manager import profiles as manager_profiles
from kvproof.engines.vllm.levels.offload import more_oracles as offload_oracles
from kvproof.engines.vllm.levels.offload import profiles as offload_profiles
from kvproof.engines.vllm.levels.scheduler import more_oracles as scheduler_oracles
from kvproof.engines.vllm.levels.scheduler import profiles as scheduler_profiles
from kvproof.judge.record import Case
from tests.engines.toys import FAKES, cases, toy

from .clean_pool import beside_machine_p

__all__ = ["BESIDE", "NAMES", "TWINS", "Silence", "Twin", "main", "silence_of"]

EXAMPLE = Path(__file__).parents[1] / "docs/examples/mirror-driver/driver.js"
LIMITS = Limits(start=60, operation=20, answer=60)
MANY = 1_000_000
_UNKNOWN_TO_MANAGER = ("chunk", "spec", "embeddings", "mamba", "mamba external", "mamba tails", "ahead")
"""Families of the level ``manager`` that its twin does not know."""
_OF_A_SCHEDULER = (
    "plain", "window", "hybrid", "unequal", "asynchronous", "stages", "priority", "pressure", "uncached", "adapters",
    "again", "resets", "pauses",
)  # fmt: skip
"""Families of the level ``scheduler`` of vLLM that its twin knows."""
_OF_HICACHE = (
    "through", "through overlap", "through chunks", "selective", "back", "back overlap", "back chunks", "tight host",
    "retracts", "pauses", "conversations", "events", "storage", "storage tight", "storage any", "storage retracts",
    "storage comes and goes", "storage conversations", "drafts",
)  # fmt: skip
"""Families of the level ``hicache`` that its twin knows."""
_OF_ROUNDS = (
    "plain", "overlap", "tight", "chunks", "chunks overlap", "mixed", "priority", "pauses", "retracts",
    "conversations", "conversations with room", "events", "drafts", "drafts tight", "drafts conversations",
)  # fmt: skip
"""Families of SGLang's level ``scheduler`` that its twin knows."""


@dataclass(frozen=True)
class Twin:
    """A session with what is right, and what it is driven with."""

    session: Session
    families: Mapping[str, st.SearchStrategy[Case]]
    more: MoreOracles | None = None
    closing: list[Op] = field(default_factory=lambda: CLOSING)


class Silence(msgspec.Struct, frozen=True):
    """How a run of a twin went."""

    twin: str
    seconds: float
    cases: int
    steps: int
    refused: int
    """Cases whose setup the twin does not take."""
    seed: int
    told: str = ""
    """The false alarm; empty where there is none."""


class _Over(BaseException):
    """Out of time, or something was told: of another exception Hypothesis says that a case is flaky."""


def _tree() -> Twin:
    session = Session.around(FAKES / "tree_engine.py", Path(sys.executable), os.environ, LIMITS, ["tree"])
    return Twin(session, _among(tree_profiles("0.5.23"), ("tokens", "pages", "tight", "events", "again")))


def _allocator() -> Twin:
    return Twin(_over("allocator", "allocator"), allocator_profiles("0.5.23"))


def _chunks() -> Twin:
    families = {name: family for name, family in offload_profiles("0.33.0").items() if "simple" not in name}
    return Twin(_over("chunks", "offload"), families, offload_oracles)


def _backend() -> Twin:
    return Twin(_over("backend", "offload"), backend_profiles("0.5.6"), backend_oracles)


def _chunk_engine() -> Twin:
    return Twin(_over("backend", "engine"), chunk_engine_profiles("0.5.6"), chunk_engine_oracles)


def _leases() -> Twin:
    return Twin(_over("backend", "l1"), lease_profiles("0.5.6"), lease_oracles)


def _pages() -> Twin:
    return Twin(_over("pages", "pool"), pool_profiles("5.24.0"), pool_oracles)


def _cache() -> Twin:
    return Twin(_over("pages", "manager"), cache_profiles("5.24.0"), pool_oracles)


def _batches() -> Twin:
    return Twin(_over("pages", "scheduler"), batch_profiles("5.24.0"))


def _manager() -> Twin:
    families = {name: family for name, family in manager_profiles("0.33.0").items() if name not in _UNKNOWN_TO_MANAGER}
    return Twin(_over("hybrid", "manager"), families, manager_oracles)


def _scheduler() -> Twin:
    families = _among(scheduler_profiles("0.33.0"), _OF_A_SCHEDULER)
    return Twin(_over("hybrid", "scheduler"), families, scheduler_oracles)


def _hicache() -> Twin:
    families = _among(hicache_profiles("0.5.23"), _OF_HICACHE)
    return Twin(_over("radix", "hicache"), families, hicache_oracles)


def _rounds() -> Twin:
    families = _among(rounds_profiles("0.5.23"), _OF_ROUNDS)
    return Twin(_over("radix", "scheduler"), families, rounds_oracles)


def _among(
    families: Mapping[str, st.SearchStrategy[Case]], names: tuple[str, ...]
) -> dict[str, st.SearchStrategy[Case]]:
    """Those of a level's families that a twin knows."""
    return {name: family for name, family in families.items() if name in names}


def _over(name: str, level: str) -> Session:
    """The driver of an engine, over what stands in for its release."""
    adapter = FAKES / f"twins/{name}/{name}_engine.py"
    return Session.around(adapter, Path(sys.executable), os.environ, LIMITS, [level])


def _toy() -> Twin:
    return Twin(toy(LIMITS), {"toy": cases()})


def _requests(*command: str) -> Twin:
    session = Session.of(Driver(command), LIMITS)
    able = session.hello.capabilities[requests.LEVEL]
    return Twin(session, requests.profiles(able), requests.more_oracles, requests.closing(able))


TWINS: dict[str, Callable[[], Twin]] = {
    "tree": _tree,
    "allocator": _allocator,
    "chunks": _chunks,
    "backend": _backend,
    "chunk engine": _chunk_engine,
    "leases": _leases,
    "hicache": _hicache,
    "manager": _manager,
    "pages": _pages,
    "cache": _cache,
    "batches": _batches,
    "rounds": _rounds,
    "scheduler": _scheduler,
    "toy": _toy,
    "requests": lambda: _requests(sys.executable, str(FAKES / "requests_driver.py")),
    "requests with a mirror": lambda: _requests(shutil.which("node") or "node", str(EXAMPLE)),
}

BESIDE: dict[str, Callable[[float, int, str], Iterator[FuzzReport]]] = {"block pool": beside_machine_p}
"""Twins of levels that no cases are drawn for: they go beside a machine."""

NAMES = (*TWINS, *BESIDE)


def main() -> None:
    """Run each twin for so long, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="twins, separated by commas; default: all")
    parser.add_argument("--fault", default="", help="plant this fault, and write nothing down")
    parser.add_argument("--table", action="store_true", help="run nothing")
    asked = parser.parse_args()
    path: Path = asked.results
    chosen = asked.only.split(",") if asked.only else NAMES
    told = []
    for name in [] if asked.table else chosen:
        silence = silence_of(name, asked.seconds, asked.seed, asked.fault)
        told += [f"{name}: {silence.told}"] if silence.told else []
        if not asked.fault:
            with path.open("ab") as sink:
                sink.write(msgspec.json.encode(silence) + b"\n")
    print("\n".join([*table(path), *told]))
    sys.exit(1 if told else 0)


def silence_of(name: str, seconds: float, number: int, fault: str = "") -> Silence:
    """Drive a twin until something is told of it, or the time is over."""
    if name in BESIDE:
        return _silence_beside(name, seconds, number, fault)
    twin = TWINS[name]()
    counts = {"cases": 0, "steps": 0, "refused": 0}
    told = ""
    with twin.session:
        assert twin.session.hello.levels  # It is ready.
        began = time.monotonic()

        @seed(number)
        @settings(
            max_examples=MANY, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(st.one_of(*twin.families.values()))
        def search(case: Case) -> None:
            nonlocal told
            setup = {**case.setup, "fault": fault} if fault else case.setup
            found, answer = verdict(twin.session, close(Case(case.level, setup, case.ops), twin.closing), twin.more)
            counts["cases"] += 1
            counts["steps"] += len(answer.steps)
            counts["refused"] += answer.refused is not None
            if found is not None:
                told = f"{found.violation.rule} ({found.violation.oracle}): {found.violation.text}; {case}"
            if told or time.monotonic() - began > seconds:
                raise _Over

        with suppress(_Over):
            search()
        return Silence(name, time.monotonic() - began, **counts, seed=number, told=told)


def _silence_beside(name: str, seconds: float, number: int, fault: str) -> Silence:
    """The same of a twin that goes beside a machine; in place of a rule the action is told that they differ after."""
    began = time.monotonic()
    reports = [*BESIDE[name](seconds, number, fault)]
    found = [difference for report in reports for difference in report.findings]
    cases, steps = sum(report.examples for report in reports), sum(report.steps for report in reports)
    told = f"{found[0].rule} ({found[0].oracle}): {found[0].report}" if found else ""
    return Silence(name, time.monotonic() - began, cases, steps, refused=0, seed=number, told=told)


def table(path: Path) -> Iterator[str]:
    """Yield the lines of the table: a run each."""
    yield "| twin | seconds | cases | steps | not taken | told |"
    yield "|---|---:|---:|---:|---:|---|"
    for line in path.read_bytes().splitlines() if path.exists() else []:
        run = msgspec.json.decode(line, type=Silence)
        told = run.told or "nothing"
        yield f"| {run.twin} | {run.seconds:.0f} | {run.cases:,} | {run.steps:,} | {run.refused:,} | {told} |"


if __name__ == "__main__":
    main()
