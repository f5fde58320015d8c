"""What `kvproof export` writes: Spin and TLC count and reach the same states as the explorer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import z3

from kvproof.checkers.explore import explore
from kvproof.checkers.export import Setting, promela, tla, write_obligations
from kvproof.checkers.transitions import transitions
from kvproof.harness.machines import KNOWN, find_machine
from kvproof.harness.scopes import find_scope
from kvproof.machine import Machine, Model
from kvproof.machine.scope import Scope
from kvproof.machine.terms import name_of
from kvproof.spec.pool import Pool
from kvproof.spec.pool.keys import Keys
from kvproof.untrusted.numbers import parse_sizes

from ..marks import slow_but
from . import parts, pools
from .alloc import Alloc
from .alloc import scope as alloc_scope
from .outside import Edge, Flat, flat, needs_spin, needs_tlc, run_spin, run_tlc, spin_edges, tlc_edges
from .test_alloc import COUNTS, SLOW


def ours(machine: type[Machine], scope: Scope) -> tuple[int, int]:
    """States, and transitions as Spin and TLC count them."""
    report = explore(machine, scope)
    assert report.complete
    assert report.violations == []
    return report.states, report.generated


# ------------------------------------------------------------------------------------- each part of the language

PARTS = list(parts.SCOPES)
SIZES = [pytest.param(True, id="small"), pytest.param(False, id="all", marks=pytest.mark.nightly)]


def our_edges(setting: Setting) -> tuple[set[Flat], set[Edge]]:
    """Every state, and every step from it, by the concrete interpreter."""
    visits = {v.key: v for v in transitions(setting.model, setting.scope)}
    states = {key: flat(setting, v.state) for key, v in visits.items()}
    edges: set[Edge] = set()
    for key, visit in visits.items():
        for e in visit.edges:
            names = [name_of(p) for p in setting.model.actions[e.action].params]
            label = f"{e.action}({', '.join(f'{n}={v}' for n, v in zip(names, e.args, strict=True))})"
            edges.add((label, states[key], states[e.successor]))
    return set(states.values()), edges


@needs_spin
@pytest.mark.parametrize("small", SIZES)
@pytest.mark.parametrize(
    "machine",
    [pytest.param(m, marks=pytest.mark.slow if m in (parts.Keys, parts.Queues, parts.Loops) else ()) for m in PARTS],
)
def test_spin_takes_the_same_steps(machine: type[Machine], small: bool, tmp_path: Path) -> None:
    setting = Setting(machine, parts.scope(machine, small=small))
    run, states, edges = spin_edges(setting, promela(setting), tmp_path)
    assert (run.states, run.generated) == ours(machine, setting.scope)
    assert len(set(states)) == len(states)
    assert (set(states), edges) == our_edges(setting)


@needs_tlc
@pytest.mark.parametrize(
    ("machine", "small"),
    [
        (parts.Answers, True),
        *(pytest.param(m, True, marks=pytest.mark.slow) for m in PARTS if m is not parts.Answers),
        *(pytest.param(m, False, marks=pytest.mark.nightly) for m in PARTS),
    ],
)
def test_tlc_takes_the_same_steps(machine: type[Machine], small: bool, tmp_path: Path) -> None:
    setting = Setting(machine, parts.scope(machine, small=small))
    run, states, edges = tlc_edges(setting, tla(setting), tmp_path)
    assert (run.states, run.generated) == ours(machine, setting.scope)
    our_states, ours_ = our_edges(setting)
    assert (states, edges) == (our_states, {(label.split("(")[0], a, b) for label, a, b in ours_})


# ------------------------------------------------------------------------------------- machines that are known

PAGE = Path(__file__).parents[2] / "docs" / "export.md"

PROMPTS = {
    "tokens": [[0, 1], [0, 1]],
    "item": [[[None], [0]], [[None], [None]]],
    "adapter": [None, None],
    "salt": [None, 1],
    "embeds": [None, None],
}


def known(name: str, size: str = "", **given: int) -> Callable[[], tuple[type[Machine], Scope]]:
    """A machine by name, in a scope of the command line."""

    def make() -> tuple[type[Machine], Scope]:
        machine = find_machine(name)
        sizes = parse_sizes(size) if size else {}
        found = find_scope(machine, sizes, split=True, null=None, caching=True, seed=0, given=given or None)
        return machine, found

    return make


def keys() -> tuple[type[Machine], Scope]:
    """Two prompts of two blocks each, one under a salt, one with an item."""
    sizes = {"Prompt": 2, "Position": 2, "Tokens": 2, "Offset": 1, "Text": 2, "Tag": 1, "Place": 1, "Key": 4}
    return Keys, Scope(Model.of(Keys), sizes, PROMPTS)


MACHINES: dict[str, Callable[[], tuple[type[Machine], Scope]]] = {
    "alloc": lambda: (Alloc, alloc_scope(Alloc, 3, 2, 2)),
    "pool": lambda: (Pool, pools.scope()),
    "pool, null block": lambda: (Pool, pools.scope(blocks=3, null=0, split=True)),
    "statistics": known("statistics", "Block=2,Request=1,Hash=1,Content=2"),
    "calls": known("calls", "Block=2,Request=1,Hash=1,Content=2"),
    "deferred": known("deferred", "Hash=1,Content=2"),
    "lengths": known("lengths", "Block=2,Request=1,Hash=1,Content=2"),
    "linked-list": known("linked-list", "Block=2,Hash=2,Content=3"),
    "keys": keys,
    "mirror": known("mirror", "Request=1"),
    "batches": known("batches", "Request=1"),
    "pin": known("pin", "Request=1"),
    "tiered": known("tiered", "Request=1"),
    "offload": known("offload", "Request=1"),
    "reports": known("reports", "Hash=1,Content=2"),
    "chunks": known("chunks", "Load=1"),
    "lazy-walk": known("lazy-walk", "Block=2"),
    "pinning-off": known("pinning-off", "Request=1", pinning=0),
    "blis-mirror": known("blis-mirror", "Request=1"),
    "links": known("links", "Transfer=2"),
    "stalls": known("stalls", "Request=2,Transfer=1"),
    "timed-tiers": known("timed-tiers", "Transfer=2,Block=1"),
    "shared-tier": known("shared-tier", "Transfer=2"),
    "planner": known("planner", "Tokens=4,Chunks=3"),
    "groups": known("groups", "Group=1"),
    "group-tables": known("group-tables", "Block=1,Position=1"),
    "aligned-split": known("aligned-split", "Tokens=3"),
    "connectors": known("connectors", "Request=1"),
    "partial-loads": known("partial-loads", "Tokens=3,Connector=1"),
    "file-store": known("file-store", "Hash=1"),
}
LARGE = {
    "pool": known("pool"),
    "mirror": known("mirror"),
    "pin": known("pin"),
    "tiered": known("tiered"),
    "offload": known("offload"),
    "links": known("links"),
    "timed-tiers": known("timed-tiers"),
    "groups": known("groups"),
    "connectors": known("connectors"),
    "file-store": known("file-store"),
}
"""The scopes that are explored where nothing else is said. Counts of the others are in docs/export.md."""

QUICK = {"alloc", "planner", "aligned-split", "file-store"}
"""These have few states: TLC counts them too."""

OFTEN = {"alloc", "planner", "file-store"}
"""Those that Spin counts at a desk."""


LONG = {
    "reports",
    "calls",
    "deferred",
    "linked-list",
    "mirror",
    "pin",
    "tiered",
    "offload",
    "pinning-off",
    "blis-mirror",
    "pool, null block",
}
"""These take TLC long; they are written in what the others are written in."""

AT_NIGHT = {
    *("calls", "deferred", "lengths", "reports", "statistics", "pool, null block", "linked-list"),
    *("mirror", "pin", "pinning-off", "blis-mirror"),
}
"""These are P or O, and a little more, or in other words; M and D, of which the machine of all tiers is made."""


def but_nightly(names: set[str]) -> list[Any]:
    """The names of all machines, these with the mark of what is done at night."""
    marks = {True: pytest.mark.nightly, False: pytest.mark.slow}
    return [pytest.param(n, marks=marks[n in names]) for n in MACHINES]


@needs_spin
@pytest.mark.parametrize("name", slow_but(MACHINES, OFTEN, AT_NIGHT))
def test_spin_counts_the_same(name: str, tmp_path: Path) -> None:
    machine, scope = MACHINES[name]()
    run = run_spin(promela(Setting(machine, scope)), tmp_path)
    assert run.broken is None
    assert (run.states, run.generated) == ours(machine, scope)
    (row,) = [line for line in PAGE.read_text().splitlines() if line.replace("`", "").startswith(f"| {name} |")]
    assert row.endswith(f"| {run.states:,} | {run.generated:,} |")


@needs_spin
@pytest.mark.nightly
@pytest.mark.parametrize("name", LARGE)
def test_spin_counts_the_same_where_there_is_more(name: str, tmp_path: Path) -> None:
    machine, scope = LARGE[name]()
    run = run_spin(promela(Setting(machine, scope)), tmp_path)
    assert run.broken is None
    assert (run.states, run.generated) == ours(machine, scope)


@needs_tlc
@pytest.mark.parametrize("name", but_nightly(set(MACHINES) - QUICK))
def test_tlc_counts_the_same(name: str, tmp_path: Path) -> None:
    machine, scope = MACHINES[name]()
    run = run_tlc(tla(Setting(machine, scope)), tmp_path)
    assert run.broken is None
    assert (run.states, run.generated) == ours(machine, scope)


@needs_spin
@pytest.mark.parametrize("sizes", [pytest.param(s, marks=pytest.mark.nightly) if s in SLOW else s for s in COUNTS])
def test_spin_counts_what_it_counted_of_the_model_that_was_written_by_hand(
    sizes: tuple[int, int, int], tmp_path: Path
) -> None:
    run = run_spin(promela(Setting(Alloc, alloc_scope(Alloc, *sizes))), tmp_path)
    assert (run.states, run.generated) == COUNTS[sizes]


# ------------------------------------------------------------------------------------- what a wrong translation does

FAULTS: dict[str, tuple[type[Machine], str, str]] = {
    "a queue that is filled from the wrong end": (parts.Rounds, "push_front_s_guests(0", "push_back_s_guests(0"),
    "a write that is lost": (parts.Rounds, "s_flags[0] = 1;", "skip;"),
    "a condition that is left out": (parts.Rounds, ":: d_step { (s_home[1] == none) ->", ":: d_step { true ->"),
    "a temporary that is left behind": (parts.Rounds, "t_0 = 0;", "skip;"),
    "one index too many": (parts.Answers, "if :: ((t_1 + 1) < 2) ->", "if :: ((t_1 + 1) < 3) ->"),
    "one index too few": (parts.Answers, "d_step { (((s_top[0] - 1) + 1) < 2)", "d_step { (((s_top[0] - 1) + 1) < 1)"),
    "another result": (parts.Answers, "if :: ((t_0 == before_s_top[0])", "if :: ((t_0 + 1 == before_s_top[0])"),
}


@needs_spin
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_translation_is_noticed(fault: str, tmp_path: Path) -> None:
    machine, right, wrong = FAULTS[fault]
    setting = Setting(machine, parts.scope(machine, small=True))
    text = promela(setting)
    assert right in text
    changed = text.replace(right, wrong)
    run = run_spin(changed, tmp_path)
    if run.broken is None and (run.states, run.generated) == ours(machine, setting.scope):
        _, states, edges = spin_edges(setting, changed, tmp_path)
        assert (set(states), edges) != our_edges(setting)


# ------------------------------------------------------------------------------------- what is covered


NOT_YET = {"tree", "served", "loads-end"}
"""Machines of which nobody has counted the states with Spin or TLC yet."""


def test_every_machine_of_the_specification_is_compared() -> None:
    assert set(KNOWN) - NOT_YET <= set(MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_is_left_out_but_what_has_to_be_reached(name: str) -> None:
    setting = Setting(*MACHINES[name]())
    assert {left for left, _ in setting.left_out} == {p.name for p in setting.model.of_kind("sometimes")}


ALMOST = {"statistics", "lengths", "group-tables", "partial-loads", "timed-tiers"}
"""What these ask is, but for a little, what is read of the machine that they extend."""


@pytest.mark.parametrize("name", [n for n in but_nightly(LONG | ALMOST) if n.values[0] in KNOWN])
def test_the_obligations_of_every_machine_are_text_that_solvers_read(name: str, tmp_path: Path) -> None:
    written = write_obligations(find_machine(name), tmp_path)
    assert written
    for entry in written:
        z3.parse_smt2_string((tmp_path / entry.file).read_text())
