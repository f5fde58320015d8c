"""State that is kept in Python: a text is run once, and what it changes outside of itself the next text would find."""

from __future__ import annotations

import dataclasses
import functools
import io
import random
import re
import types
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from kvproof.machine import Bool, Count, Int, Machine, Map, Part, Queue, Scalar, Sort, action, all_of, invariant, step

from .corpus import refused, true


class Block(Sort):
    pass


class Base(Machine):
    """Of x nothing is promised: whatever says how large it is is false."""

    x = Scalar(to=Int)
    y = Scalar(to=Int)
    m = Map(Block, to=Int)

    @action("X")
    def act(self, n: Int) -> None:
        self.x.value = n

    @invariant("X")
    def y_is_zero(self) -> Bool:
        return self.y.value == 0


class Counted(Base):
    """So often it was done."""

    done = 0

    @action("X")
    def act(self, n: Int) -> None:
        type(self).done += 1
        self.x.value = self.done

    @invariant("X")
    def x_is_small(self) -> Bool:
        return self.x.value <= 1


@refused("Counted.done outlives this text")
def a_variable_of_the_class() -> type[Machine]:
    return Counted


_times = 0


@refused("_times outlives this text")
def a_name_of_the_module() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            global _times
            _times += 1
            self.x.value = _times

    return Kept


@refused("times outlives this text")
def a_name_around_the_class() -> type[Machine]:
    times = 0

    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            nonlocal times
            times += 1
            self.x.value = times

    return Kept


_TIMES = [0]


@refused("_TIMES is changed by this text")
def a_list_of_the_module() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            _TIMES[0] += 1
            self.x.value = _TIMES[0]

    return Kept


@refused("Kept.seen is changed by this text")
def a_list_of_the_class() -> type[Machine]:
    class Kept(Base):
        seen: ClassVar[list[int]] = []

        @action("X")
        def act(self, n: Int) -> None:
            self.seen.append(1)
            self.x.value = len(self.seen)

    return Kept


@refused("seen is changed by this text")
def a_queue_around_the_class() -> type[Machine]:
    seen = deque[int]()

    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            seen.append(1)
            self.x.value = len(seen)

    return Kept


@dataclasses.dataclass
class Journal:
    lines: list[int] = dataclasses.field(default_factory=list)


_JOURNAL = Journal()


def _written() -> int:
    _JOURNAL.lines.append(1)
    return len(_JOURNAL.lines)


@refused("_JOURNAL is changed by this text")
def an_object_that_a_helper_changes() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = _written()

    return Kept


class Settings:
    limit = 3


@refused("Settings is changed by this text")
def a_variable_of_another_class() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            Settings.limit += 1
            self.x.value = Settings.limit

    return Kept


class Slotted:
    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times = 0


_SLOTTED = Slotted()


@refused("_SLOTTED is changed by this text")
def a_slot_of_an_object() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            _SLOTTED.times += 1
            self.x.value = _SLOTTED.times

    return Kept


def _often() -> int:
    _often.times = getattr(_often, "times", 0) + 1  # type: ignore[attr-defined]
    return _often.times  # type: ignore[attr-defined, no-any-return]


@refused("_often is changed by this text")
def what_is_noted_at_a_function() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = _often()

    return Kept


@refused("Block is changed by this text")
def what_is_noted_at_a_sort() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            Block.times = getattr(Block, "times", 0) + 1  # type: ignore[attr-defined]
            self.x.value = Block.times  # type: ignore[attr-defined]

    return Kept


@refused("a default of times is changed by this text")
def what_a_default_holds() -> type[Machine]:
    class Kept(Base):
        def times(self, seen: list[int] = []) -> int:  # noqa: B006
            seen.append(1)
            return len(seen)

        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = self.times()

    return Kept


@refused("a default of times is changed by this text")
def what_the_first_of_two_defaults_holds() -> type[Machine]:
    """Several things may be named alike: each is looked at."""

    class Kept(Base):
        def times(self, seen: list[int] = [], more: tuple[int, ...] = ()) -> int:  # noqa: B006
            seen.append(1)
            return len(seen) + len(more)

        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = self.times()

    return Kept


@refused("seen is changed by this text")
def what_a_property_changes() -> type[Machine]:
    seen = types.SimpleNamespace(times=0)

    class Kept(Base):
        @invariant("X")
        def x_is_large(self) -> Bool:
            seen.times += 1
            return self.x.value <= self.x.value + int(seen.times)

    return Kept


@refused("seen is changed by this text")
def what_a_count_changes() -> type[Machine]:
    seen: list[int] = []

    def counts(m: Base, b: Block) -> Bool:
        seen.append(1)
        return m.m[b] + len(seen) > 1

    class Kept(Base):
        n = Count(Block, where=counts)

    return Kept


class Inner(Machine):
    x = Scalar(to=Int)
    seen: ClassVar[list[int]] = []

    @action("X")
    def put(self) -> None:
        self.seen.append(1)
        self.x.value = len(self.seen)


@refused("Inner.seen is changed by this text")
def what_the_text_of_a_part_changes() -> type[Machine]:
    class Kept(Base):
        host_x = Scalar(to=Int)
        host = Part(Inner)

        @action("X")
        def put(self) -> None:
            self.host.put()

    return Kept


_NUMBERS = map(int, "01")


@refused("_NUMBERS is an iterator")
def an_iterator_of_the_module() -> type[Machine]:
    class Kept(Base):
        @invariant("X")
        def y_is_none_of_these(self) -> Bool:
            return all_of(*[self.y.value != k + 1 for k in _NUMBERS])

        @invariant("X")
        def x_is_none_of_these(self) -> Bool:
            return all_of(*[self.x.value != k + 1 for k in _NUMBERS])

    return Kept


@refused("Kept.numbers is an iterator")
def an_iterator_in_a_list_of_the_class() -> type[Machine]:
    class Kept(Base):
        numbers: ClassVar[list[Any]] = [iter((1, 2))]

        @invariant("X")
        def y_is_none_of_these(self) -> Bool:
            return all_of(*[self.y.value != k for k in self.numbers[0]])

        @invariant("X")
        def x_is_none_of_these(self) -> Bool:
            return all_of(*[self.x.value != k for k in self.numbers[0]])

    return Kept


_BYTES = bytearray()


@refused("act says something else each time")
def what_python_s_library_holds() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            _BYTES.append(1)
            self.x.value = len(_BYTES)

    return Kept


_CLOCK = functools.partial(random.randrange, 10**9)


@refused("act says something else each time")
def what_is_drawn() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = random.randrange(10**9)

    return Kept


@refused("x_is_not_drawn says something else each time")
def what_a_partial_draws() -> type[Machine]:
    class Kept(Base):
        @invariant("X")
        def x_is_not_drawn(self) -> Bool:
            return self.x.value != _CLOCK()

    return Kept


@refused("act says something else each time")
def what_a_variable_of_the_class_writes_down() -> type[Machine]:
    class Kept(Base):
        journal = io.StringIO()

        @action("X")
        def act(self, n: Int) -> None:
            self.journal.write("x")
            self.x.value = len(self.journal.getvalue())

    return Kept


@dataclasses.dataclass
class Nested:
    inside: Any


_NESTED = Nested(Nested(Nested(Nested([[[0]]]))))


@refused("act says something else each time")
def what_is_held_deep_inside() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            _NESTED.inside.inside.inside.inside[0][0][0] += 1
            self.x.value = _NESTED.inside.inside.inside.inside[0][0][0]

    return Kept


@refused("act says something else each time")
def what_a_text_imports() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            from random import randrange

            self.x.value = randrange(10**9)

    return Kept


_LOG: list[int] = []
_note, _often_noted = _LOG.append, _LOG.__len__


@refused("act says something else each time")
def what_two_methods_of_one_list_share() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            _note(1)
            self.x.value = _often_noted()

    return Kept


@refused("act says something else each time")
def what_is_found_by_its_text() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            globals().setdefault("_found", []).append(1)
            self.x.value = len(globals()["_found"])

    return Kept


class Numbered(list[int]):
    times = 0


_NUMBERED = Numbered()


@refused("_NUMBERED is changed by this text")
def what_a_list_has_beside_its_elements() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            _NUMBERED.times += 1
            self.x.value = _NUMBERED.times

    return Kept


def _counting() -> Callable[[], int]:
    seen: list[int] = []

    def count() -> int:
        seen.append(1)
        return len(seen)

    return count


_BY_NAME = {"count": _counting()}


@refused("seen is changed by this text")
def what_a_function_in_a_dict_changes() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = _BY_NAME["count"]()

    return Kept


def _kept_in_a_class(keeps: Callable[[Callable[[Base], Int]], object]) -> type[Machine]:
    """Reads x by way of what keeps it, writes it, and reads it again so."""

    class Kept(Base):
        at_hand: Any = keeps(lambda m: m.x.value)

        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = self.at_hand + 1
            self.y.value = self.at_hand

    return Kept


@refused("at_hand keeps what it has read first")
def what_a_property_keeps_that_is_written_meanwhile() -> type[Machine]:
    return _kept_in_a_class(functools.cached_property)


@refused("at_hand keeps what it has read first")
def what_a_method_keeps_that_is_written_meanwhile() -> type[Machine]:
    return _kept_in_a_class(functools.cache)


@functools.cache
def _at_hand(m: Base) -> Int:
    return m.x.value


@refused("a state is no key of a dict")
def what_a_function_keeps_that_is_written_meanwhile() -> type[Machine]:
    class Kept(Base):
        @action("X")
        def act(self, n: Int) -> None:
            self.x.value = _at_hand(self) + 1
            self.y.value = _at_hand(self)

    return Kept


@functools.cache
def _first_of(q: Queue[Block]) -> Block:
    return q.head()


@refused("q is no key of a dict")
def what_a_function_keeps_of_a_queue() -> type[Machine]:
    class Kept(Base):
        q = Queue(Block, init=True)

        @action("X")
        def take(self) -> None:
            self.require(self.q.size > 1)
            self.q.remove(_first_of(self.q))
            self.q.remove(_first_of(self.q))

    return Kept


@functools.lru_cache
def _most() -> int:
    return 3


@true
class ReadAgainAndTheSame(Base):
    """What is computed once and kept is the same each time."""

    pattern = re.compile("x")

    @action("X")
    def act(self, n: Int) -> None:
        self.x.value = _most() + len(self.pattern.findall("x"))

    @step("X", of="act")
    def x_is_four(self, before: Base) -> Bool:
        return (self.x.value == 4) & (before.y.value == 0)


@refused("a state has no dict")
def which_state_a_machine_looks_at() -> type[Machine]:
    class Looks(Base):
        @step("X", of="act")
        def x_stays(self, before: Base) -> Bool:
            vars(before)["view"] = "now"
            return self.x.value == before.x.value

    return Looks


_LIMITS = {"x": 3, "y": [0, 1]}
_PLAN = Journal()


@true
class OnlyLookedAt(Base):
    """What is looked at, and what a text makes for itself, may be anything."""

    names: ClassVar[tuple[str, ...]] = ("x", "y")

    @action("X")
    def act(self, n: Int) -> None:
        most = [*_LIMITS.values()]
        most.append(2)
        numbers = iter(most)
        count = 0

        def up() -> int:
            nonlocal count
            count += 1
            return count

        self.x.value = n + up() + len(_PLAN.lines) + int(str(next(numbers)))

    @invariant("X")
    def each_is_zero_or_not(self) -> Bool:
        return all_of(*[getattr(self, name).value * 0 == 0 for name in self.names])
