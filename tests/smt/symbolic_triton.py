"""A stand-in for Triton that runs the text of a kernel on symbolic numbers, or on plain ones, one lane at a time.

The kernel's source is executed as it is, with modules named ``triton`` and ``triton.language`` made here: Triton need
not be installed. What is trusted is what these stand-ins say of Triton:

* a program's number, and the lanes of ``arange``, are int32; an integer argument is int32 where it fits, a constant
  where it is 1, else int64;
* int32 with int64 gives int64; a constant (``constexpr``, Python integer) takes the type of the other side;
* an operation gives the exact result where that fits its type, and wraps where not; ``//`` and ``%`` are the
  mathematical ones where no operand is negative;
* a pointer moves by words, whatever the type of the offset, in 64 bits of bytes.

On symbolic numbers nothing wraps: each operation leaves an *obligation*, that its exact result fits. Once these are
proved, the terms are the very numbers that a card computes. Products are an uninterpreted function for the prover,
about which it is told, of the products that occur, what ``monotony`` says: that keeps the proofs in linear arithmetic.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec, module_from_spec
from itertools import combinations
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import z3

import kvproof.kernels

FOLDER = Path(str(kvproof.kernels.__file__)).parent
KERNEL = "<kernel>"
"""What the compiled text of the kernel is called: obligations are named by its lines."""

OFFSET_BITS = 61
"""An offset in words has that many bits, sign included, so that 8 times it fits int64."""

times = z3.Function("times", z3.IntSort(), z3.IntSort(), z3.IntSort())


@dataclass
class Obligation:
    """What must hold for the terms to be what a card computes."""

    what: str
    goal: Any


@dataclass
class Access:
    """One load or store of a lane: word ``offset`` of ``tensor``, if ``mask`` holds. ``value``: what is stored."""

    kind: str
    tensor: str
    offset: Any
    mask: Any
    value: Any = None


@dataclass
class Space:
    """What was said and asked in one proof, in order. An obligation assumes the facts before it."""

    text: str = ""
    trail: list[Any] = field(default_factory=list)
    products: list[tuple[Any, Any]] = field(default_factory=list)
    quotients: dict[tuple[str, str], tuple[Any, Any]] = field(default_factory=dict)
    tables: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)
    injective: frozenset[str] = frozenset({"destination_ids"})
    fresh_names: int = 0
    known_lemmas: list[Any] = field(default_factory=list)
    lemmas_of: int = -1

    def fresh(self, name: str) -> Any:
        self.fresh_names += 1
        return z3.Int(f"{name}!{self.fresh_names}")

    def assume(self, *facts: Any) -> None:
        self.trail += facts

    def oblige(self, what: str, goal: Any) -> None:
        self.trail.append(Obligation(f"{self.line()}: {what}", goal))

    def line(self) -> str:
        """Return the line of the kernel that is being executed."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != KERNEL:
            frame = frame.f_back
        return self.text.splitlines()[frame.f_lineno - 1].strip() if frame else "host"

    def product(self, a: Any, b: Any) -> Any:
        """Return ``a * b``, which is ``b * a``."""
        a, b = sorted((as_term(a), as_term(b)), key=in_order)
        if not any(a.eq(x) and b.eq(y) for x, y in self.products):
            self.products.append((a, b))
        return times(a, b)

    def quotient(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Return quotient and remainder for a divisor that is positive."""
        key = (as_term(a).sexpr(), as_term(b).sexpr())
        if key in self.quotients:
            return self.quotients[key]
        q, r = self.quotients[key] = self.fresh("quotient"), self.fresh("remainder")
        self.assume(as_term(a) == self.product(q, b) + r, r >= 0, r < as_term(b))
        return q, r

    def entry(self, table: str, index: Any) -> Any:
        """Return what a table of ids says at ``index``: one id per index, and in an injective one one index per id."""
        value = self.fresh(table)
        for other_index, other in self.tables.setdefault(table, []):
            same_index, same_id = as_term(index) == other_index, value == other
            self.assume(same_index == same_id if table in self.injective else z3.Implies(same_index, same_id))
        self.tables[table].append((as_term(index), value))
        return value

    def lemmas(self) -> list[Any]:
        """Return what is known of the products: ``monotony`` for every two that share a factor, and for 0 and 1."""
        if self.lemmas_of == len(self.products):
            return self.known_lemmas
        self.lemmas_of = len(self.products)
        with_factor: dict[Any, list[Any]] = {}
        for a, b in self.products:
            for factor, other in ((a, b), (b, a)):
                entry = with_factor.setdefault(factor.get_id(), [factor, z3.IntVal(0), z3.IntVal(1)])
                if not any(other.eq(x) for x in entry[1:]):
                    entry.append(other)

        def product(x: Any, factor: Any) -> Any:
            if z3.is_int_value(x):
                return x.as_long() * factor
            return times(*sorted((x, factor), key=in_order))

        self.known_lemmas = [
            monotony(x, y, factor, product)
            for factor, *others in with_factor.values()
            for x, y in combinations(others, 2)
        ]
        return self.known_lemmas


def monotony(x: Any, y: Any, factor: Any, product: Callable[[Any, Any], Any]) -> Any:
    """Return the only facts about products that the proofs use; proved of the true product in the tests."""
    first, second = product(x, factor), product(y, factor)
    return z3.Implies(
        factor >= 0,
        z3.And(
            z3.Implies(x < y, first + factor <= second),
            z3.Implies(y < x, second + factor <= first),
            z3.Implies(x == y, first == second),
        ),
    )


def exact(formula: Any) -> Any:
    """Return ``formula`` about the true product."""
    return z3.substitute_funs(formula, (times, z3.Var(0, z3.IntSort()) * z3.Var(1, z3.IntSort())))


def as_term(x: Any) -> Any:
    """Return a term of Z3 for a number or a term."""
    return z3.IntVal(x) if isinstance(x, int) else x


def in_order(term: Any) -> str:
    """Order the factors of a product, so that it has one form."""
    return str(term.sexpr())


@dataclass(frozen=True)
class Number:
    """An integer of ``bits`` bits, or of any size where that is None: a Python integer, or a constant of Triton's.

    A term that is a plain ``int`` is computed with as a card would, so it wraps.
    """

    term: Any
    bits: int | None
    space: Space

    def _pair(self, other: Any) -> tuple[Any, Any, int | None]:
        """Return both terms and the type of an operation on them."""
        mine, right = self.bits, other.bits if isinstance(other, Number) else None
        term = other.term if isinstance(other, Number) else other
        if not isinstance(term, int) and not z3.is_int(term):
            raise TypeError(f"no integer: {other!r}")
        bits = max(mine or 0, right or 0) or None
        for part, own in ((self.term, mine), (term, right)):
            if own is None and bits is not None:
                self._fits(part, bits, "the constant fits", wrap=False)
        return self.term, term, bits

    def _fits(self, term: Any, bits: int, what: str, wrap: bool = True) -> Any:
        """Oblige a term to fit; a plain one is wrapped instead. A plain constant must fit: Triton refuses others."""
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if not isinstance(term, int):
            self.space.oblige(f"{what} {bits} bits", z3.And(term >= least, term <= most))
            return term
        if not wrap and not least <= term <= most:
            raise ValueError(f"scalar {term} is out of range of int{bits}")
        return (term - least) % 2**bits + least

    def _result(self, term: Any, bits: int | None, what: str) -> Number:
        return Number(term if bits is None else self._fits(term, bits, what), bits, self.space)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Pointer):
            return other + self
        a, b, bits = self._pair(other)
        return self._result(a + b, bits, "the sum fits")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Number:
        a, b, bits = self._pair(other)
        return self._result(a - b, bits, "the difference fits")

    def __mul__(self, other: Any) -> Number:
        a, b, bits = self._pair(other)
        both = isinstance(a, int) or isinstance(b, int)  # by a plain number: linear, no lemma needed
        return self._result(a * b if both else self.space.product(a, b), bits, "the product fits")

    __rmul__ = __mul__

    def _divide(self, other: Any) -> tuple[Any, Any, int | None]:
        a, b, bits = self._pair(other)
        if isinstance(a, int) and isinstance(b, int):
            assert b >= 1
            assert bits is None or a >= 0
            return a // b, a % b, bits
        self.space.oblige("the divisor is positive", as_term(b) >= 1)
        if bits is not None:
            self.space.oblige("the dividend is not negative", as_term(a) >= 0)
        return *self.space.quotient(a, b), bits

    def __floordiv__(self, other: Any) -> Number:
        q, _, bits = self._divide(other)
        return self._result(q, bits, "the quotient fits")

    def __mod__(self, other: Any) -> Number:
        _, r, bits = self._divide(other)
        return self._result(r, bits, "the remainder fits")

    def to(self, dtype: Dtype) -> Number:
        return self._result(self.term, dtype.bits, "the number converted fits")

    def __lt__(self, other: Any) -> Any:
        a, b, _ = self._pair(other)
        return a < b

    def __le__(self, other: Any) -> Any:
        a, b, _ = self._pair(other)
        return a <= b

    def __ge__(self, other: Any) -> Any:
        a, b, _ = self._pair(other)
        return a >= b

    def __gt__(self, other: Any) -> Any:
        a, b, _ = self._pair(other)
        return a > b

    def __str__(self) -> str:
        return str(self.term)


@dataclass(frozen=True)
class Dtype:
    """An integer type of Triton's."""

    bits: int


@dataclass(frozen=True)
class Pointer:
    """A place in a tensor, in words."""

    tensor: str
    offset: Any
    space: Space

    def __add__(self, other: Number) -> Pointer:
        term = self.offset + other.term
        if not isinstance(term, int):
            most = 2 ** (OFFSET_BITS - 1)
            self.space.oblige("the offset fits", z3.And(term >= -most, term < most))
        return Pointer(self.tensor, term, self.space)


class Memory:
    """What the loads and stores of one lane do; this one notes them down, and knows the tables of ids only.

    An id lies from 0 to the number of places, and a destination's comes once: what ``copy.py`` checks of the lists.
    """

    def __init__(self, space: Space, words: dict[str, Any], places: dict[str, Any]) -> None:
        self.space = space
        self.words = words
        self.places = places
        self.accesses: list[Access] = []

    def note(self, access: Access) -> Access:
        """Note an access down, and oblige it to lie within its tensor."""
        words, inside = self.words[access.tensor], access.mask
        if not isinstance(words, int):
            within = z3.And(as_term(access.offset) >= 0, as_term(access.offset) < words)
            goal = z3.Implies(inside, within)
            self.space.oblige(f"the {access.kind} is within {access.tensor}", goal)
        self.accesses.append(access)
        return access

    def load(self, pointer: Pointer, mask: Any = True) -> Any:
        access = self.note(Access("load", pointer.tensor, pointer.offset, mask))
        return self.identity(pointer.tensor, pointer.offset) if pointer.tensor in self.places else access

    def identity(self, table: str, index: Any) -> Number:
        """Return the id at ``index``: one of the places, if that index is one of the table's."""
        value, index = self.space.entry(table, index), as_term(index)
        known = z3.And(value >= 0, value < self.places[table])
        self.space.assume(z3.Implies(z3.And(index >= 0, index < self.words[table]), known))
        return Number(value, 64, self.space)

    def store(self, pointer: Pointer, value: Any, mask: Any = True) -> None:
        self.note(Access("store", pointer.tensor, pointer.offset, mask, value))


class ListedMemory(Memory):
    """Tables given as numbers."""

    def __init__(self, space: Space, tables: dict[str, dict[int, int]]) -> None:
        super().__init__(space, defaultdict(int), dict.fromkeys(tables))
        self.listed = tables

    def identity(self, table: str, index: Any) -> Number:
        return Number(self.listed[table][index], 64, self.space)


@dataclass
class Lane:
    """Where the kernel is: the numbers of the program, the lane, and its memory."""

    programs: Sequence[Number]
    lane: Number
    memory: Memory


class Kernel:
    """A function under ``triton.jit``: called by the host text it goes to ``launched``, grid and all."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self.launched: Callable[..., None] | None = None

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*arguments: Any, **constants: Any) -> None:
            assert self.launched is not None
            self.launched(grid, arguments, constants)

        return launch


class Loaded:
    """The text of the kernel, or a mutant of it, executed with the stand-ins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.here: Lane | None = None
        module = ModuleType("kvproof.kernels.symbolic_triton_copy")
        module.__package__ = "kvproof.kernels"
        with self._stand_ins():
            exec(compile(text, KERNEL, "exec"), module.__dict__)
        self.host = module
        (self.kernel,) = (value for value in vars(module).values() if isinstance(value, Kernel))

    @contextmanager
    def _stand_ins(self) -> Iterator[None]:
        triton, language = ModuleType("triton"), ModuleType("triton.language")
        triton.__dict__.update(jit=Kernel, next_power_of_2=lambda n: 1 << (n - 1).bit_length(), language=language)
        language.__dict__.update(
            constexpr=object,
            int32=Dtype(32),
            int64=Dtype(64),
            program_id=lambda axis: self._lane().programs[axis],
            arange=self._arange,
            load=lambda *a, **k: self._lane().memory.load(*a, **k),
            store=lambda *a, **k: self._lane().memory.store(*a, **k),
        )
        names = ("triton", "triton.language")
        kept = {name: sys.modules.get(name) for name in names}
        sys.modules.update(zip(names, (triton, language), strict=True))
        try:
            yield
        finally:
            for name, module in kept.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module

    def _lane(self) -> Lane:
        assert self.here is not None
        return self.here

    def _arange(self, start: int, end: Any) -> Number:
        assert start == 0
        return self._lane().lane

    def run(self, lane: Lane, arguments: Sequence[Any], width: Any) -> list[Access]:
        """Execute one lane of one program; return its accesses."""
        space = lane.lane.space
        space.text = self.text
        self.here = lane
        try:
            self.kernel.function(*arguments, width)
        finally:
            self.here = None
        return lane.memory.accesses


def source_of(name: str) -> str:
    """Return the text of a module of ``kernels/``."""
    return (FOLDER / f"{name}.py").read_text()


def replaced(text: str, old: str, new: str) -> str:
    """Return a mutant of ``text``: one replacement, of what occurs once."""
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    return text.replace(old, new)


def load_launch(text: str) -> ModuleType:
    """Execute a mutant of ``launch.py``, which imports nothing that needs a stand-in."""
    spec = find_spec("kvproof.kernels.launch")
    assert spec is not None
    module = module_from_spec(spec)
    exec(compile(text, str(FOLDER / "launch.py"), "exec"), module.__dict__)
    return module
