"""The address arithmetic of the copy kernel, proved from its own text for all shapes, strides and id tables.

Proved, of every launch that ``check_launch`` lets through, whatever width Triton gives its integer arguments:

* **it fits**: no operation leaves its 32 or 64 bits, and every access of an unmasked lane lies within its tensor;
* **once**: no two lanes store to one word, given a table without duplicates; and within one tensor, whose blocks are
  never source and destination at once, nobody stores what another loads;
* **all**: every word of every run is stored, at its place, with the word from its place in the source;
* **the grid** is one that CUDA takes, and no program of it is idle.

Each mutant, a copy with one fault, is refuted: by numbers which the mutant is then run on. Every condition of
``check_launch`` is needed: without it one of the properties is refuted too. ``unknown`` is no verdict here.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.checkers.solvers import decided
from kvproof.kernels import launch as launch_module
from kvproof.kernels.launch import Launch, Layout, check_launch, pool_layout, rows_layout

from ..marks import slow_but
from .symbolic_triton import (
    Access,
    Dtype,
    Lane,
    ListedMemory,
    Loaded,
    Memory,
    Number,
    Obligation,
    Pointer,
    Space,
    as_term,
    exact,
    load_launch,
    monotony,
    replaced,
    source_of,
)

SECONDS = 20
"""For one question; each takes a hundredth of one."""

ACCESSES = [("load", "source_ids"), ("load", "destination_ids"), ("load", "source"), ("store", "destination")]
TABLES = ("source_ids", "destination_ids")
TENSORS = ("source", "destination", *TABLES)
NARROW = ("32",) * 6
TYPES: dict[str, tuple[int | None, Callable[[Any], Any]]] = {
    "1": (None, lambda x: x == 1),
    "32": (32, lambda x: z3.And(x >= -(2**31), x < 2**31)),
    "64": (64, lambda x: z3.And(x >= -(2**63), x < 2**63, z3.Or(x < -(2**31), x >= 2**31))),
}
"""What Triton makes of an integer argument: a constant, int32 or int64, and of which values."""


@cache
def kernel(text: str | None = None) -> Loaded:
    return Loaded(source_of("triton_copy") if text is None else text)


def numbers_of(launch: Launch, chunks: Any) -> list[Any]:
    """The integer arguments, in the kernel's order."""
    return [*launch.source[1:3], *launch.destination[1:3], launch.run, chunks]


class Setting:
    """One launch in symbolic numbers, and lanes of its programs; what is asked of them is asked of all launches."""

    def __init__(
        self,
        text: str | None = None,
        launches: ModuleType = launch_module,
        *,
        typing: Sequence[str] = NARROW,
        without: str | None = None,
        duplicates: bool = False,
        one_tensor: bool = False,
    ) -> None:
        self.kernel = kernel(text)
        self.space = space = Space()
        if duplicates:
            space.injective = frozenset()
        layouts: list[Any] = [
            Layout(*(self.number(f"{side}_{name}") for name in Layout._fields)) for side in TENSORS[:2]
        ]
        if one_tensor:
            layouts[0] = layouts[1]
        self.launch: Any = launches.Launch(*layouts, *map(self.number, ("items", "planes", "run", "width")))
        self.dropped = 0
        for condition, holds in launches.conditions(self.launch):
            if without is not None and without == condition:
                self.dropped += 1
            else:
                space.assume(holds)
        self.grid = launches.grid_of(self.launch)
        self.chunks: Any = launches.chunks_of(self.launch)
        self.typed, self.arguments = [], []
        for number, kind in zip(numbers_of(self.launch, self.chunks), typing, strict=True):
            bits, values = TYPES[kind]
            self.typed.append(values(number.term))
            self.arguments.append(Number(number.term, bits, space))
        self.programs: list[tuple[Any, Any, Any]] = []
        words = [layouts[0].words, layouts[1].words, self.launch.items, self.launch.items]
        self.words = {tensor: size.term for tensor, size in zip(TENSORS, words, strict=True)}
        self.places = {table: layout.places.term for table, layout in zip(TABLES, layouts, strict=True)}
        for table in TABLES:
            self.memory().identity(table, 0)  # that ids are places is known from the start

    def memory(self) -> Memory:
        return Memory(self.space, self.words, self.places)

    def number(self, name: str) -> Any:
        """A Python integer, of any size."""
        return Number(z3.Int(name), None, self.space)

    def lane(self, name: str) -> tuple[Any, Any, Any]:
        """Any lane of any program of the grid."""
        p, q, lane = z3.Ints(f"p_{name} q_{name} lane_{name}")
        self.space.assume(*self.in_grid(p, q, lane))
        return p, q, lane

    def in_grid(self, p: Any, q: Any, lane: Any) -> list[Any]:
        ends = zip((p, q, lane), (*self.grid, self.launch.width), strict=True)
        return [z3.And(number >= 0, number < end.term) for number, end in ends]

    def run(self, p: Any, q: Any, lane: Any) -> list[Access]:
        """Run one lane; return its accesses."""
        self.programs.append((p, q, lane))
        space = self.space
        where = Lane((Number(p, 32, space), Number(q, 32, space)), Number(lane, 32, space), self.memory())
        pointers = [Pointer(tensor, 0, space) for tensor in TENSORS]
        return self.kernel.run(where, [*pointers, *self.arguments], self.launch.width)

    def known(self) -> list[Any]:
        """Return the facts."""
        return [entry for entry in self.space.trail if not isinstance(entry, Obligation)]

    def proved(self, goal: Any, known: list[Any] | None = None) -> bool:
        facts = self.known() if known is None else known
        answer, _ = decided([*facts, *self.space.lemmas(), z3.Not(goal)], until=time.process_time() + SECONDS)
        return bool(answer == z3.unsat)

    def open_obligations(self, proved: dict[int, Any] | None = None) -> list[tuple[Obligation, list[Any]]]:
        """Return the obligations that are not proved, each with all facts; those ``proved`` are not asked again.

        They are asked of arguments of any value first: what holds then is proved for arguments of every width.
        """
        proved = {} if proved is None else proved
        known: list[Any] = []
        left = []
        for entry in self.space.trail:
            if not isinstance(entry, Obligation):
                known.append(entry)
            elif entry.goal.get_id() in proved:
                continue
            elif self.proved(entry.goal, known):
                proved[entry.goal.get_id()] = entry.goal
            elif not self.proved(entry.goal, [*known, *self.typed]):
                left.append((entry, [*self.known(), *self.typed]))
        return left

    def counterexample(self, goal: Any, known: list[Any], hints: Sequence[Any] = ()) -> Callable[[Any], int] | None:
        """Return the value of every term where all that is known holds, of the true product, and the goal does not."""
        broken = [exact(formula) for formula in (*known, z3.Not(goal))]
        answer, solver = decided([*broken, *hints], until=time.process_time() + SECONDS)
        if answer != z3.sat:
            return None
        model = solver.model()
        assert all(z3.is_true(model.eval(formula, model_completion=True)) for formula in broken)

        def value(term: Any) -> int:
            return int(model.eval(exact(as_term(term)), model_completion=True).as_long())

        return value


# --- the properties


def it_fits(setting: Setting) -> list[tuple[Any, list[Any]]]:
    """Return what is open of: no operation leaves its bits, every access is within its tensor."""
    setting.run(*setting.lane("a"))
    return [(obligation.goal, known) for obligation, known in setting.open_obligations()]


def asked(setting: Setting, *goals: Any) -> list[tuple[Any, list[Any]]]:
    """Return the goals that are not proved, each with what was known."""
    return [(goal, setting.known()) for goal in goals if not setting.proved(goal)]


def once(setting: Setting) -> list[tuple[Any, list[Any]]]:
    """Return what is open of: two lanes do not store to one word."""
    lanes = [setting.lane("a"), setting.lane("b")]
    first, second = (setting.run(*lane)[-1] for lane in lanes)
    assert first.kind == second.kind == "store"
    setting.space.assume(first.mask, second.mask, z3.Or(*(x != y for x, y in zip(*lanes, strict=True))))
    return asked(setting, first.offset != second.offset)


def undisturbed(setting: Setting) -> list[tuple[Any, list[Any]]]:
    """Return what is open of: in one tensor, no lane stores what a lane loads."""
    reading, writing = setting.run(*setting.lane("a")), setting.run(*setting.lane("b"))
    load, store = reading[2], writing[3]
    assert (load.kind, load.tensor, store.kind, store.tensor) == ("load", "source", "store", "destination")
    origins, targets = (setting.space.tables[table] for table in TABLES)
    setting.space.assume(load.mask, store.mask, *(o != t for (_, o), (_, t) in itertools.product(origins, targets)))
    return asked(setting, load.offset != store.offset)


def everything(setting: Setting) -> list[tuple[Any, list[Any]]]:
    """Return what is open of: any word of any run is stored, by the lane that is named here, with what it shall be."""
    space, launch = setting.space, setting.launch
    item, plane, word = (setting.number(name) for name in ("item", "plane", "word"))
    for number, end in ((item, launch.items), (plane, launch.planes), (word, launch.run)):
        space.assume(number >= 0, number < end)
    origin, target = (setting.memory().identity(table, item.term).term for table in TABLES)
    program = (item * setting.chunks + word // launch.width).term
    lane = (word % launch.width).term
    store = setting.run(program, plane.term, lane)[-1]
    assert (store.kind, store.tensor, store.value.tensor) == ("store", "destination", "source")

    def place(layout: Any, identity: Any) -> Any:
        return space.product(identity, layout.item.term) + space.product(plane.term, layout.plane.term) + word.term

    return asked(
        setting,
        *setting.in_grid(program, plane.term, lane),
        store.mask,
        store.value.mask,
        store.offset == place(launch.destination, target),
        store.value.offset == place(launch.source, origin),
    )


def the_grid(setting: Setting) -> list[tuple[Any, list[Any]]]:
    """Return what is open of: CUDA takes the grid. Its limits, as the programming guide has them."""
    limits = (2**31 - 1, 65_535)
    return asked(setting, *(z3.And(n.term >= 1, n.term <= most) for n, most in zip(setting.grid, limits, strict=True)))


def the_arguments(setting: Setting) -> list[tuple[Any, list[Any]]]:
    """Return what is open of: every integer argument is one that Triton takes as signed, whatever its width."""
    numbers = numbers_of(setting.launch, setting.chunks)
    return asked(setting, *(z3.Or(*(values(n.term) for _, values in TYPES.values())) for n in numbers))


def none_idle(setting: Setting) -> list[tuple[Any, list[Any]]]:
    """Return what is open of: every program of the grid has a word to move, in its first lane."""
    p, q, lane = setting.lane("a")
    setting.space.assume(lane == 0)
    return asked(setting, setting.run(p, q, lane)[-1].mask)


PROPERTIES = [it_fits, once, everything, the_grid, the_arguments, none_idle]


# --- proofs


def test_the_lemma_holds_of_the_true_product() -> None:
    """All that the prover is told of products: split by which is larger, so that Z3 has one factor at a time."""
    x, y, factor, more = z3.Ints("x y factor more")
    lemma = monotony(x, y, factor, lambda a, b: a * b)
    cases = (y == x + 1 + more, x == y + 1 + more, x == y)
    for case in cases:
        solver = z3.Solver()
        solver.set(timeout=SECONDS * 1000)
        solver.add(more >= 0, case, z3.Not(lemma))
        assert solver.check() == z3.unsat
    solver = z3.Solver()
    solver.add(z3.Not(z3.Or(x == y, x < y, y < x)))
    assert solver.check() == z3.unsat


@pytest.mark.slow
def test_every_operation_fits_and_every_access_is_within_its_tensor() -> None:
    """Of all widths of the six integer arguments: 729 runs of the text, most of which ask the same."""
    proved: dict[int, Any] = {}  # by the identity that Z3 gives a formula, kept alive here
    facts: set[tuple[int, ...]] = set()
    addresses: set[tuple[int, ...]] = set()
    settings = []
    for typing in itertools.product(TYPES, repeat=6):
        setting = Setting(typing=typing)
        accesses = setting.run(*setting.lane("a"))
        settings.append(setting)
        assert [(access.kind, access.tensor) for access in accesses] == ACCESSES
        facts.add(tuple(entry.get_id() for entry in setting.space.trail if not isinstance(entry, Obligation)))
        addresses.add(tuple(term.get_id() for access in accesses for term in (access.offset, as_term(access.mask))))
        assert [obligation.what for obligation, _ in setting.open_obligations(proved)] == []
    assert len(facts) == 1, "what was proved in one of the runs would not hold in another"
    assert len(addresses) == 1, "the other proofs are of the addresses of one run"


@pytest.mark.parametrize("wanted", PROPERTIES, ids=lambda f: f.__name__)
def test_the_launch_is_right(wanted: Callable[[Setting], list[Any]]) -> None:
    assert wanted(Setting()) == []


def test_within_one_tensor_nobody_writes_what_another_reads() -> None:
    assert undisturbed(Setting(one_tensor=True)) == []


@pytest.mark.parametrize("planes_outside", [True, False], ids=["pool", "rows"])
def test_the_layouts_of_the_wrapper_are_let_through(planes_outside: bool) -> None:
    """A pool, a staging buffer and values to write: only CUDA's limits, and 2**59 words, are asked of their sizes."""
    setting = Setting()
    space = setting.space = Space()
    a, b, run = (setting.number(name) for name in ("a", "b", "run"))
    space.assume(a >= 1, b >= 1, run >= 1)
    layout: Any = pool_layout(a, b, run) if planes_outside else rows_layout(b, a, run)
    space.assume(layout.words.term <= 2**59)
    width = setting.number("width")
    space.assume(width >= 1, width <= 2048)
    items = setting.number("items")
    space.assume(items >= 1)
    launch = Launch(layout, layout, items, a, run, width)
    grid: Any = launch_module.grid_of(launch)
    space.assume(grid[0] <= 2**31 - 1, grid[1] <= 65_535)
    for condition, holds in list(launch_module.conditions(launch)):
        assert setting.proved(holds), condition


@pytest.mark.slow
def test_the_proofs_are_not_about_nothing() -> None:
    """There are launches, with arguments of either width: what is assumed is not contradictory."""
    for typing in (("64",) * 5 + ("32",), ("32",) * 6, ("1", "32", "1", "32", "1", "1")):
        setting = Setting(typing=typing)
        setting.run(*setting.lane("a"))
        assert setting.counterexample(z3.BoolVal(False), [*setting.known(), *setting.typed])


# --- refutations


@dataclass(frozen=True)
class Mutant:
    """A fault: one replacement in the text of the kernel or of ``launch.py``, and the property that it breaks."""

    name: str
    broken: Callable[[Setting], list[Any]]
    old: str = ""
    new: str = ""
    module: str = "triton_copy"
    duplicates: bool = False

    def texts(self) -> tuple[str | None, ModuleType]:
        if not self.old:
            return None, launch_module
        text = replaced(source_of(self.module), self.old, self.new)
        return (text, launch_module) if self.module == "triton_copy" else (None, load_launch(text))


MUTANTS = [
    Mutant(
        "ids of 32 bits",
        it_fits,
        "target = tl.load(destination_ids + item)",
        "target = tl.load(destination_ids + item).to(tl.int32)",
    ),
    Mutant("plane of 32 bits", it_fits, "plane = tl.program_id(1).to(tl.int64)", "plane = tl.program_id(1)"),
    Mutant("chunk of 32 bits", it_fits, "(program % chunks).to(tl.int64) * WORDS", "program % chunks * WORDS"),
    Mutant("store without mask", it_fits, "tl.store(write, run, mask=inside)", "tl.store(write, run)"),
    Mutant("load without mask", it_fits, "tl.load(read, mask=inside)", "tl.load(read)"),
    Mutant("mask one too wide", it_fits, "first + lane < run_words", "first + lane <= run_words"),
    Mutant("mask one too narrow", everything, "first + lane < run_words", "first + lane < run_words - 1"),
    Mutant("stride of the other side", it_fits, "plane * destination_plane", "plane * source_plane"),
    Mutant("stride of the other side, and not all", everything, "plane * destination_plane", "plane * source_plane"),
    Mutant("item and chunk exchanged", it_fits, "item = program // chunks", "item = program % chunks"),
    Mutant("overlapping chunks", once, "(tl.int64) * WORDS", "(tl.int64) * (WORDS - 1)"),
    Mutant("chunks apart", everything, "(tl.int64) * WORDS", "(tl.int64) * (WORDS + 1)"),
    Mutant(
        "one chunk short", everything, "(launch.run + launch.width - 1) // launch.width", "launch.run // launch.width",
        module="launch",
    ),
    Mutant("one item short", everything, "launch.items * chunks_of", "(launch.items - 1) * chunks_of", module="launch"),
    Mutant("duplicate destinations", once, duplicates=True),
]  # fmt: skip


def launch_of(setting: Setting, value: Callable[[Any], int]) -> Launch:
    """Return the launch of a counterexample."""
    source, destination, *counts = setting.launch
    layouts = (Layout(*(value(number.term) for number in layout)) for layout in (source, destination))
    return launch_module.Launch._make([*layouts, *(value(number.term) for number in counts)])


def listed(launch: Launch, value: Callable[[Any], int], setting: Setting) -> dict[str, dict[int, int]]:
    """Return the tables of a counterexample; entries that it does not name are filled in with what is left over."""
    tables: dict[str, dict[int, int]] = {}
    for table, layout in zip(TABLES, launch[:2], strict=True):
        named = {value(index): value(identity) for index, identity in setting.space.tables[table]}
        # Launches that are run as a whole are small; of the others only the named entries are used.
        left = (place for place in itertools.count() if place not in named.values())
        others = {item: next(left) for item in range(min(launch.items, 16)) if item not in named}
        tables[table] = {item: min(place, layout.places - 1) for item, place in others.items()} | named
    return tables


def run_lane(
    text: str | None, launch: Launch, tables: dict[str, dict[int, int]], chunks: int, where: tuple[int, int, int]
) -> tuple[list[Access], int | None]:
    """Run one lane on plain numbers, as a card would; return its accesses and the place that it should store to."""
    space = Space()
    memory = ListedMemory(space, tables)
    p, q, lane = where
    values = numbers_of(launch, chunks)
    typed = [Number(v, None if v == 1 else 32 if -(2**31) <= v < 2**31 else 64, space) for v in values]
    at = Lane((Number(p, 32, space), Number(q, 32, space)), Number(lane, 32, space), memory)
    accesses = kernel(text).run(
        at, [*(Pointer(t, 0, space) for t in TENSORS), *typed], Number(launch.width, None, space)
    )
    target = tables["destination_ids"].get(p // chunks)
    word = p % chunks * launch.width + lane
    if target is None or word >= launch.run:
        return accesses, None
    return accesses, target * launch.destination.item + q * launch.destination.plane + word


def goes_wrong(mutant: Mutant, setting: Setting, value: Callable[[Any], int]) -> bool:
    """Run the mutant on a counterexample's numbers, and tell whether the property is seen to break."""
    text, launches = mutant.texts()
    sizes = launch_of(setting, value)
    check_launch(sizes)
    chunks = launches.chunks_of(sizes)
    tables = listed(sizes, value, setting)
    if mutant.broken is it_fits:
        (p, q, lane) = (value(number) for number in setting.programs[0])
        try:
            accesses, place = run_lane(text, sizes, tables, chunks, (p, q, lane))
        except KeyError as missing:
            return not 0 <= missing.args[0] < sizes.items  # a table was read outside
        ends = dict(zip(TENSORS, (sizes.source.words, sizes.destination.words, sizes.items, sizes.items), strict=True))
        outside = any(access.mask and not 0 <= access.offset < ends[access.tensor] for access in accesses)
        # A lane without a word stores nothing: a place within the tensor is as wrong as one outside of it.
        stored_to = accesses[-1].offset if accesses[-1].mask else None
        return outside or stored_to != place
    stored: list[int] = []
    for p, q in itertools.product(*map(range, launches.grid_of(sizes))):
        for lane in range(sizes.width):
            accesses, _ = run_lane(text, sizes, tables, chunks, (p, q, lane))
            stored += [access.offset for access in accesses if access.kind == "store" and access.mask]
    if mutant.broken is once:
        return len(set(stored)) < len(stored)
    wanted = {
        tables["destination_ids"][item] * sizes.destination.item + plane * sizes.destination.plane + word
        for item in range(sizes.items)
        for plane in range(sizes.planes)
        for word in range(sizes.run)
    }
    return not wanted <= set(stored)


def hints_for(mutant: Mutant, setting: Setting) -> list[list[Any]]:
    """Return what a counterexample is wished to have besides: one wish after the other, till one goes wrong."""
    if mutant.broken is it_fits:
        # A step that leaves its bits does no harm in a lane that is masked: one that has a word to move is asked next.
        (p, _, lane) = setting.programs[0]
        launch = setting.launch
        return [[], [p % setting.chunks.term * launch.width.term + lane < launch.run.term]]
    # The whole launch is run.
    small = [number.term <= 5 for number in setting.launch[2:]]
    room = [layout.places.term >= 6 for layout in setting.launch[:2]]  # for the items that are not named
    return [[*small, *room]]


OFTEN = ("store without mask", "load without mask", "mask one too wide", "mask one too narrow", "overlapping chunks")
"""The quickest; CI takes all."""


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(m, marks=() if m.name in OFTEN else pytest.mark.slow) for m in MUTANTS],
    ids=lambda mutant: mutant.name.replace(" ", "-"),
)
def test_a_mutant_is_refuted_and_its_counterexample_goes_wrong(mutant: Mutant) -> None:
    setting = Setting(*mutant.texts(), duplicates=mutant.duplicates)
    open_ends = mutant.broken(setting)
    assert open_ends != []
    found = (
        setting.counterexample(goal, known, hints) for goal, known in open_ends for hints in hints_for(mutant, setting)
    )
    value = next((value for value in found if value is not None and goes_wrong(mutant, setting, value)), None)
    assert value is not None
    if mutant.old:
        assert not goes_wrong(replace(mutant, old=""), setting, value), "the kernel itself does no wrong there"


CONDITIONS = [
    condition for condition, _ in launch_module.conditions(Launch(Layout(1, 1, 1, 1), Layout(1, 1, 1, 1), 1, 1, 1, 1))
]


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.replace(" ", "-"))
def test_every_condition_of_a_launch_is_needed(condition: str) -> None:
    for wanted in PROPERTIES:
        setting = Setting(without=condition)
        assert setting.dropped == 1
        if any(setting.counterexample(goal, known) for goal, known in wanted(setting)):
            return
    pytest.fail("all is proved without it")


# --- what the proofs do not say: that the wrapper launches what it checked, and that the stand-in types as Triton does


@pytest.mark.parametrize("condition", slow_but(CONDITIONS, CONDITIONS[:3]), ids=lambda c: c.replace(" ", "-"))
def test_what_breaks_a_condition_is_refused(condition: str) -> None:
    """``check_launch`` on numbers that break one condition: found by Z3, with those before it holding."""
    setting = Setting(without=condition)
    holds = dict(launch_module.conditions(setting.launch))[condition]
    value = setting.counterexample(holds, setting.known())
    assert value is not None
    with pytest.raises(ValueError, match=re.escape(condition)):
        check_launch(launch_of(setting, value))


class TensorMemory(Memory):
    """The memory of real tensors."""

    def __init__(self, space: Space, tensors: dict[str, torch.Tensor]) -> None:
        super().__init__(space, {}, {})
        self.tensors = tensors

    def load(self, pointer: Pointer, mask: Any = True) -> Any:
        if not mask:
            return None
        assert 0 <= pointer.offset < self.tensors[pointer.tensor].numel()
        word = int(self.tensors[pointer.tensor][pointer.offset])
        return Number(word, 64, self.space) if pointer.tensor in TABLES else word

    def store(self, pointer: Pointer, value: Any, mask: Any = True) -> None:
        if mask:
            assert 0 <= pointer.offset < self.tensors[pointer.tensor].numel()
            self.tensors[pointer.tensor][pointer.offset] = value


def interpreted(most_words: int) -> ModuleType:
    """Return the module of the kernel, wrapper and all, with launches that run lane by lane on plain numbers."""
    loaded = Loaded(source_of("triton_copy"))

    def launched(grid: tuple[int, int], arguments: Sequence[Any], constants: dict[str, int]) -> None:
        tensors, numbers = dict(zip(TENSORS, arguments[:4], strict=True)), arguments[4:]
        for p, q, lane in itertools.product(*map(range, grid), range(constants["WORDS"])):
            space = Space()
            typed = [Number(v, None if v == 1 else 32 if v < 2**31 else 64, space) for v in numbers]
            pointers = [Pointer(tensor, 0, space) for tensor in TENSORS]
            programs = (Number(p, 32, space), Number(q, 32, space))
            at = Lane(programs, Number(lane, 32, space), TensorMemory(space, tensors))
            loaded.run(at, [*pointers, *typed], Number(constants["WORDS"], None, space))

    loaded.kernel.launched = launched
    loaded.host.__dict__["MOST_WORDS_PER_PROGRAM"] = most_words
    return loaded.host


DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int8]


def random_bits(shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """A tensor of any bits: not-a-numbers of every kind too."""
    generator = torch.Generator().manual_seed(seed)
    count = torch.Size(shape).numel() * dtype.itemsize
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator).view(dtype).reshape(list(shape))


@settings(max_examples=20)
@given(st.data())
def test_the_wrapper_launches_what_is_proved(data: st.DataObject) -> None:
    """Its text too, on tensors: blocks and slots come where they should, bit for bit, in programs of 1 to 4 words."""
    layers, source_blocks, blocks, tokens, heads, dim = (data.draw(st.integers(1, most)) for most in (2, 3, 3, 2, 2, 3))
    dtype = data.draw(st.sampled_from(DTYPES))
    host = interpreted(data.draw(st.sampled_from([1, 2, 4])))
    source = random_bits((layers, 2, source_blocks, tokens, heads, dim), dtype, 0)
    destination = random_bits((layers, 2, blocks, tokens, heads, dim), dtype, 1)
    targets = data.draw(st.lists(st.integers(0, blocks - 1), min_size=1, unique=True))
    origins = data.draw(st.lists(st.integers(0, source_blocks - 1), min_size=len(targets), max_size=len(targets)))
    wanted = destination.clone()
    wanted[:, :, targets] = source[:, :, origins]
    host.copy_blocks(source, destination, torch.tensor(origins), torch.tensor(targets))
    assert torch.equal(destination.view(torch.uint8), wanted.view(torch.uint8))

    slots = data.draw(st.lists(st.integers(0, blocks * tokens - 1), min_size=1, max_size=3, unique=True))
    values = random_bits((len(slots), layers, 2, heads, dim), dtype, 2)
    places = torch.tensor(slots)
    wanted[:, :, places // tokens, places % tokens] = values.permute(1, 2, 0, 3, 4)
    host.write_slots(destination, places, values)
    assert torch.equal(destination.view(torch.uint8), wanted.view(torch.uint8))


@pytest.mark.parametrize(
    ("origins", "targets"),
    [
        pytest.param(torch.tensor([0]), torch.tensor([0], dtype=torch.int32), id="a table of 32 bits"),
        pytest.param(torch.tensor([0, 1]), torch.tensor([0]), id="tables of two lengths"),
        pytest.param(torch.tensor([0, 1, 2])[::2], torch.tensor([0, 1]), id="a table with gaps"),
        pytest.param(torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64), id="empty tables"),
    ],
)
def test_the_wrapper_refuses_tables_that_the_proof_is_not_about(origins: torch.Tensor, targets: torch.Tensor) -> None:
    tensor = random_bits((1, 2, 3, 2, 2, 2), torch.int8, 0)
    with pytest.raises(ValueError, match=r"tables|items"):
        interpreted(4).copy_blocks(tensor, tensor.clone(), origins, targets)


@pytest.mark.parametrize("side", [0, 1])
def test_the_wrapper_refuses_layouts_of_other_tensors(side: int) -> None:
    row, table = torch.zeros(12, dtype=torch.int64), torch.tensor([0])
    layouts = [pool_layout(2, 3, 2), pool_layout(2, 3, 2)]
    layouts[side] = pool_layout(2, 4, 2)
    with pytest.raises(ValueError, match="do not fit"):
        interpreted(4)._launch(row, row.clone(), (table, table), tuple(layouts), planes=2, run=2)


TYPING = """
import numpy, torch, triton, triton.language as tl

@triton.jit
def widths(out, ids, narrow, wide, CONSTANT: tl.constexpr):
    program = tl.program_id(0)
    lane = tl.arange(0, 2)
    first = tl.load(ids + program)
    tl.store(out + 0, program.dtype.primitive_bitwidth)
    tl.store(out + 1, lane.dtype.primitive_bitwidth)
    tl.store(out + 2, narrow.dtype.primitive_bitwidth)
    tl.store(out + 3, wide.dtype.primitive_bitwidth)
    tl.store(out + 4, first.dtype.primitive_bitwidth)
    tl.store(out + 5, (program * narrow).dtype.primitive_bitwidth)
    tl.store(out + 6, (program * wide).dtype.primitive_bitwidth)
    tl.store(out + 7, (narrow * first).dtype.primitive_bitwidth)
    tl.store(out + 8, (program * CONSTANT).dtype.primitive_bitwidth)
    tl.store(out + 9, (CONSTANT * first).dtype.primitive_bitwidth)
    tl.store(out + 10, (first + lane).dtype.primitive_bitwidth)
    tl.store(out + 11, (program // narrow).dtype.primitive_bitwidth)
    tl.store(out + 12, (program % wide).dtype.primitive_bitwidth)
    tl.store(out + 13, program.to(tl.int64).dtype.primitive_bitwidth)

out = torch.zeros(14, dtype=torch.int64)
widths[(1,)](out, torch.tensor([0]), 2**31 - 1, 2**31, CONSTANT=4)
print(out.tolist())
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton (its interpreter, no GPU)")
def test_triton_types_integers_as_the_stand_in_does() -> None:
    space = Space()
    program, narrow, constant = Number(0, 32, space), Number(2**31 - 1, 32, space), Number(4, None, space)
    lane, wide, first = Number(1, 32, space), Number(2**31, 64, space), Number(0, 64, space)
    mine = [program, lane, narrow, wide, first, program * narrow, program * wide, narrow * first, program * constant]
    mine += [constant * first, first + lane, program // narrow, program % wide, program.to(Dtype(64))]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "typing.py")  # Triton reads a kernel's source from its file
        script.write_text(TYPING)
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        answer = subprocess.run(
            [sys.executable, "-P", str(script)], env=environment, capture_output=True, text=True, timeout=120
        )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == [number.bits for number in mine]
