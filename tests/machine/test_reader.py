"""What the reader of machines refuses of a class and its declarations, each with its file, its line and a way out.

Mistakes in the text of actions and properties stand in `test_mistakes_of_*.py`.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from kvproof.errors import UsageError
from kvproof.harness.machines import find_machine
from kvproof.machine import (
    Bool,
    Count,
    Event,
    Index,
    Int,
    Machine,
    MachineError,
    Map,
    Model,
    Param,
    Promise,
    Queue,
    Real,
    Scalar,
    Sort,
    Sum,
    Tally,
    action,
    all_of,
    assume,
    can,
    corollary,
    eventually,
    exists,
    forall,
    implies,
    initially,
    invariant,
    ite,
    optional,
    otherwise,
    promise,
    sometimes,
    step,
    steps,
    when,
)
from kvproof.machine.classbody import own_text


class Block(Sort):
    pass


class Node(Block, extra=("HEAD",)):
    pass


class Request(Sort):
    pass


class Place(Index):
    pass


class Base(Machine):
    """What the machines below extend, each by one mistake, at the line that says `# wrong`."""

    x = Scalar(to=Int)
    m = Map(Block, to=Int)
    pair = Map(Block, Block, to=Bool)
    table = Map(Place, to=Bool)
    q = Queue(Block)
    done = Tally()

    @action("X")
    def act(self, b: Block, n: Int) -> None:
        self.x.value = n

    @action("X")
    def look(self, b: Block) -> Int:
        return self.m[b]


def mistake(make: Callable[[], type[Machine]]) -> str:
    """The message where what is made is read; its line must be the one that says so."""
    with pytest.raises(MachineError) as caught:
        Model.of(make())
    line = caught.value.line
    text = linecache.getline(line.file, line.number)
    assert "# wrong" in text, f"{caught.value} names the line {text!r}"
    assert str(caught.value).startswith(f"test_reader.py:{line.number}")
    return str(caught.value).partition(": ")[2]


# ------------------------------------------------------------------------------------------------ parts of a text


class Stock(Machine, abstract=True):
    count = Scalar(to=Int)

    @action("X")
    def add(self) -> None:
        self.count.value = self.count.value + 1


class Promises(Stock, abstract=True):
    @invariant("X")
    def there_is_no_debt(self) -> Bool:
        return self.count.value >= 0


class Effects(Stock, abstract=True):
    @step("X", of="add")
    def one_more(self, before: Self) -> Bool:
        return self.count.value == before.count.value + 1


class Shop(Effects, Promises):
    """What stands in the parts is its own."""


class Branch(Shop):
    @step("X")
    def nothing_goes(self, before: Shop) -> Bool:
        return self.count.value >= before.count.value


def test_a_machine_may_stand_in_several_classes() -> None:
    model = Model.of(Shop)
    assert [p.name for p in model.properties.values()] == ["there_is_no_debt", "one_more"]
    assert own_text(Shop) == [Shop, Effects, Promises, Stock]
    assert own_text(Branch) == [Branch]


@pytest.mark.parametrize("part", [Stock, Promises])
def test_a_part_of_a_machine_is_no_machine(part: type[Machine]) -> None:
    """It would be proved of its actions that nothing is asked of them."""
    with pytest.raises(MachineError, match=f": {part.__name__} is a part of a machine"):
        Model.of(part)


# ------------------------------------------------------------------------------------------------ decorators


@pytest.mark.parametrize(
    ("name", "decorator"),
    [
        ("action", action),
        ("invariant", invariant),
        ("corollary", corollary),
        ("step", step),
        ("sometimes", sometimes),
        ("assume", assume),
        ("initially", initially),
    ],
)
def test_a_bare_decorator(name: str, decorator: Any) -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @decorator  # type: ignore[untyped-decorator] # wrong
            def bare(self) -> Bool:
                return self.x.value == 0

        return Wrong

    assert mistake(make) == f'@{name} names the rule that the method writes down, as in @{name}("P3")'


def test_a_rule_that_is_no_text() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant(3)  # type: ignore[arg-type] # wrong
            def numbered(self) -> Bool:
                return self.x.value == 0

        return Wrong

    assert mistake(make).startswith("@invariant names the rule")


def test_a_decorator_over_a_static_method() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("X")  # wrong
            @staticmethod
            def static() -> Bool:
                return forall(Block, lambda b: b == b)

        return Wrong

    assert mistake(make).startswith("@invariant stands over a plain method, not over <staticmethod")


def test_a_decorator_over_a_class() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("X")  # wrong
            class Inner:
                pass

        return Wrong

    assert mistake(make).startswith("@action stands over a plain method, not over <class")


def test_two_decorators() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @sometimes("X")  # wrong
            @invariant("X")
            def both(self) -> Bool:
                return self.x.value == 0

        return Wrong

    assert mistake(make) == "both stands under @sometimes and @invariant"


def test_a_property_of_python_around_one_of_the_machine() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @property  # wrong
            @invariant("X")
            def around(self) -> Bool:
                return self.x.value == 0

        return Wrong

    assert mistake(make) == "@invariant stands over a plain method: put nothing around around"


def test_a_property_without_a_name() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            kept = [invariant("X")(lambda self: self.x.value == 0)]  # noqa: RUF012 # wrong

        return Wrong

    assert mistake(make) == "<lambda> of Wrong is lost, and @invariant with it: it has no name there"


# ------------------------------------------------------------------------------------------------ names


def test_a_second_property_of_one_name() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("X")
            def small(self) -> Bool:
                return self.x.value < 3

            @invariant("X")  # type: ignore[no-redef]
            def small(self) -> Bool:  # noqa: F811 # wrong
                return self.x.value < 30

        return Wrong

    message = mistake(make)
    assert message.startswith("small stands twice in Wrong, and the second would replace the first (line ")
    assert message.endswith("give one of them another name")


def test_a_second_declaration_of_one_name() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            y = Scalar(to=Int)
            y = Scalar(to=Bool)  # type: ignore[arg-type] # wrong

        return Wrong

    assert mistake(make).startswith("y stands twice in Wrong, and the second would replace the first (line ")


def test_a_plain_value_in_the_place_of_a_helper() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            def helper(self) -> int:
                return 1

            helper = 2  # type: ignore[assignment] # noqa: F811 # wrong

        return Wrong

    assert mistake(make).startswith("helper stands twice in Wrong")


def test_a_property_with_a_setter_is_one() -> None:
    class Right(Base):
        @property
        def half(self) -> Int:
            return self.x.value // 2

        @half.setter
        def half(self, value: Int) -> None:
            self.x.value = value * 2

        @action("X")
        def put(self, n: Int) -> None:
            self.half = n

        @invariant("X")
        def even(self) -> Bool:
            return self.half * 2 <= self.x.value

    assert set(Model.of(Right).properties) == {"even"}


@pytest.mark.parametrize("name", ["require", "each", "loop", "__init__", "__getattr__"])
def test_a_method_of_the_language(name: str) -> None:
    def make() -> type[Machine]:
        space = type(Machine).__prepare__("Wrong", (Base,))
        space[name] = lambda self: None  # wrong
        return type(Machine)("Wrong", (Base,), space)  # type: ignore[misc,no-any-return]

    assert mistake(make) == f"{name} is part of the language, and no machine can have one of its own"


@pytest.mark.parametrize("name", ["require", "each", "loop", "view", "copy", "result"])
def test_a_part_of_the_state_with_a_name_that_is_taken(name: str) -> None:
    def make() -> type[Machine]:
        space = type(Machine).__prepare__("Wrong", (Base,))
        space[name] = Scalar(to=Int)  # wrong
        return type(Machine)("Wrong", (Base,), space)  # type: ignore[misc,no-any-return]

    assert mistake(make) == f"{name} means something else to a machine: give this part of the state another name"


def test_one_declaration_under_two_names() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            y = z = Scalar(to=Int)  # wrong

        return Wrong

    assert mistake(make) == "z is the same declaration as y: declare it anew"


def test_a_declaration_of_another_machine_under_another_name() -> None:
    def make() -> type[Machine]:
        class Wrong(Machine):
            y = Base.x  # wrong

        return Wrong

    assert mistake(make) == "y is the same declaration as x: declare it anew"


def test_none_in_the_place_of_an_action() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):  # wrong
            act = None  # type: ignore[assignment] # wrong

        return Wrong

    message = mistake(make)
    assert message == (
        "act is under @action in a class that Wrong extends; a subclass can write it anew, and not take it away"
    )


def test_an_invariant_in_the_place_of_an_action() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("X")  # wrong
            def act(self) -> Bool:  # type: ignore[override]
                return self.x.value == 0

        return Wrong

    message = mistake(make)
    assert message.startswith("act is under @action in a class that Wrong extends, and under @invariant here")


# ------------------------------------------------------------------------------------------------ parameters


def test_any_number_of_parameters() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("X")  # wrong
            def many(self, *blocks: Block) -> None:
                self.x.value = 0

        return Wrong

    assert mistake(make) == "parameter blocks of many is variadic positional: name each by itself"


def test_a_parameter_by_name_only() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("X")  # wrong
            def named(self, *, b: Block) -> Bool:
                return self.m[b] == 0

        return Wrong

    assert mistake(make) == "parameter b of named is keyword-only: name each by itself"


def test_a_parameter_with_a_default() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("X")  # wrong
            def put(self, n: Int = 3) -> None:  # type: ignore[assignment]
                self.x.value = n

        return Wrong

    assert mistake(make) == "parameter n of put has a default, which nothing would use"


def test_a_parameter_of_python_s_own_type() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("X")  # wrong
            def put(self, n: int) -> None:
                self.x.value = n

        return Wrong

    assert mistake(make) == "parameter n of put needs a sort, Int or Bool as its annotation, not <class 'int'>"


def test_a_parameter_named_result() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("X")  # wrong
            def put(self, result: Int) -> None:
                self.x.value = result

        return Wrong

    assert mistake(make).endswith("a parameter of put is named result, as is what an action returns: rename it")


def test_an_invariant_of_every_integer() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("X")  # wrong
            def all_numbers(self, n: Int) -> Bool:
                return self.x.value * n == 0

        return Wrong

    assert "all_numbers would be asked for every n, and integers have no last one: declare an index" in mistake(make)


def test_an_invariant_of_every_exact_number() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("X")  # wrong
            def all_results(self, result: Real) -> Bool:
                return self.x.value * result == 0

        return Wrong

    assert "all_results would be asked for every result, and numbers have no last one" in mistake(make)


def test_a_step_whose_integer_is_no_parameter() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @step("X", of=("act", "look"))  # wrong
            def both(self, before: Base, n: Int) -> Bool:
                return self.x.value == n

        return Wrong

    assert "both would be asked for every n" in mistake(make)


def test_a_step_that_gives_a_parameter_another_sort() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @step("X", of="act")  # wrong
            def other(self, before: Base, b: Request) -> Bool:
                return self.x.value == 0

        return Wrong

    assert mistake(make).endswith("b is a Block in act and a Request in other: rename one, or give both one sort")


@pytest.mark.parametrize(
    ("of", "says"),
    [("act", "act returns nothing"), ((), "name the actions with of="), (("look", "act"), "act returns nothing")],
)
def test_a_result_that_is_not_returned(of: Any, says: str) -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @step("X", of=of)  # wrong
            def returned(self, before: Base, result: Int) -> Bool:
                return result == 0

        return Wrong

    assert mistake(make).endswith(f"returned speaks of the result, a Int: {says}")


def test_a_result_of_another_sort() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @step("X", of="look")  # wrong
            def returned(self, before: Base, result: Block) -> Bool:
                return self.m[result] == 0

        return Wrong

    assert mistake(make).endswith("returned speaks of the result, a Block: look returns a Int")


def test_a_binder_that_becomes_a_parameter() -> None:
    class Right(Base):
        @step("X", of="look")
        def nothing_moves(self, before: Base, other: Block) -> Bool:
            return self.m[other] == before.m[other]

    assert Model.of(Right).properties["nothing_moves"].binders

    def make() -> type[Machine]:
        class Wrong(Right):
            @action("X")
            def look(self, b: Block, other: Block) -> Int:  # type: ignore[override]
                return self.m[b] + self.m[other]

        return Wrong

    with pytest.raises(MachineError, match=r"^test_reader.py:\d+: nothing_moves holds for every other in Right") as e:
        Model.of(make())
    assert '@step("X", of="look")' in linecache.getline(e.value.line.file, e.value.line.number)
    assert str(e.value).endswith("an action of Wrong has a parameter of that name: rename the parameter")


# ------------------------------------------------------------------------------------------------ sorts


def test_an_extra_element_that_is_no_word() -> None:
    with pytest.raises(MachineError, match=r"^test_reader.py:\d+: 'two words' cannot be an extra element of Odd: name"):

        class Odd(Sort, extra=("two words",)):
            pass


def test_an_extra_element_named_none() -> None:
    with pytest.raises(MachineError, match=r"^test_reader.py:\d+: 'none' cannot be an extra element of Odd"):

        class Odd(Sort, extra=("none",)):
            pass


def test_an_extra_element_twice() -> None:
    with pytest.raises(MachineError, match=r"^test_reader.py:\d+: two extra elements of Odd have one name"):

        class Odd(Node, extra=("HEAD",)):
            pass


def test_a_sort_with_a_name_of_the_language() -> None:
    def make() -> type[Machine]:
        named = type("Real", (Sort,), {})

        class Wrong(Machine):
            y = Map(named, to=Int)

        return Wrong

    with pytest.raises(MachineError, match="a sort is named Real, which means something else: give it another name"):
        Model.of(make())


def test_two_sorts_of_one_name() -> None:
    def make() -> type[Machine]:
        other = type("Block", (Sort,), {})

        class Wrong(Base):
            y = Map(other, to=Int)

        return Wrong

    with pytest.raises(MachineError, match=r"two sorts are named Block \(.*\): rename one of them"):
        Model.of(make())


def test_two_sorts_of_one_name_in_a_base() -> None:
    def make() -> type[Machine]:
        other = type("Block", (Sort,), {})
        wider = type("Wider", (other,), {}, extra=("TOP",))

        class Wrong(Base):
            y = Scalar(to=optional(wider))  # type: ignore[var-annotated]

        return Wrong

    with pytest.raises(MachineError, match="two sorts are named Block"):
        Model.of(make())


def test_two_wider_sorts_with_one_extra_element() -> None:
    class Other(Block, extra=("HEAD",)):
        pass

    class Wrong(Base):
        y = Map(Node, to=Int)
        z = Map(Other, to=Int)

    with pytest.raises(MachineError, match=r"(Node and Other|Other and Node) both have an extra element HEAD"):
        Model.of(Wrong)


@pytest.mark.parametrize("kind", [Int, Index])
def test_keys_without_a_last_one(kind: Any) -> None:
    def make() -> type[Machine]:
        class Wrong(Machine):
            y = Map(kind, to=Bool)  # wrong

        return Wrong

    message = mistake(make)
    assert message == (
        f"a map is keyed by sorts, and {kind.__name__} has no last value: declare an index of your own with "
        "`class Name(Index)`"
    )


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (lambda: Queue(Int), "a queue holds elements of a sort"),
        (lambda: Queue(Block, by=Int), "a queue is keyed by sorts"),
        (lambda: Count(Int, where=lambda m, n: n > 0), "a count runs over sorts"),
        (lambda: Count(Block, by=Int, where=lambda m, b, n: n > 0), "a count is kept by sorts"),
        (lambda: Tally(Index), "a map is keyed by sorts"),
        (lambda: Param(Index, to=Int), "a map is keyed by sorts"),
    ],
)
def test_other_declarations_without_a_last_one(declare: Callable[[], Any], says: str) -> None:
    with pytest.raises(MachineError, match=rf"^test_reader.py:\d+: {says}, and (Int|Index) has no last value"):
        declare()


def test_an_event_of_something_else() -> None:
    with pytest.raises(MachineError, match=r"^test_reader.py:\d+: <class 'str'> is not a sort; an event carries"):
        Event(str)  # type: ignore[arg-type]


def test_a_listener_hears_what_the_event_carries() -> None:
    with pytest.raises(MachineError, match=r"^test_reader.py:\d+: `heard` takes the machine and 1 arguments, not 2"):
        Event(Block, heard=lambda m, b, r: None)


@pytest.mark.parametrize("kind", [Int, Index])
@pytest.mark.parametrize("quantifier", [forall, exists])
def test_a_quantifier_without_an_end(quantifier: Any, kind: Any) -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("X")
            def endless(self) -> Bool:
                return quantifier(kind, lambda n: n >= 0)  # type: ignore[no-any-return] # wrong

        return Wrong

    assert "a quantifier runs over sorts, and" in mistake(make)


def test_each_without_an_end() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("X")
            def endless(self) -> None:
                with self.each(Int) as n:  # wrong
                    self.x.value = n

        return Wrong

    assert "`each` runs over sorts, and Int has no last value" in mistake(make)


def test_the_index_without_a_name() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @invariant("X")
            def inside(self) -> Bool:
                return Index.has(self.x.value)  # wrong

        return Wrong

    assert mistake(make).endswith("name an index of your own, as in Position.has(n)")


# ------------------------------------------------------------------------------------------------ tallies and counts


def test_an_action_that_looks_at_a_tally() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("X")
            def put(self) -> None:
                self.x.value = self.done.total  # wrong

        return Wrong

    assert mistake(make).endswith("done is a tally, which no action looks at: keep a map or a scalar instead")


@pytest.mark.parametrize("decorator", [invariant, corollary, sometimes, initially])
def test_a_property_that_looks_at_a_tally(decorator: Any) -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @decorator("X")  # type: ignore[untyped-decorator] # wrong
            def counted(self) -> Bool:
                return self.done.total >= 0

        return Wrong

    assert mistake(make).endswith("counted reads the tally done, of which properties of steps alone can speak")


IN_ALL: dict[str, Callable[[Any, Any], Bool]] = {
    "what there is": lambda now, _: now.done.total <= 2,
    "what there was": lambda _, before: before.done.total == 0,
    "a sum": lambda now, before: now.done.total + before.done.total >= 0,
    "twice": lambda now, before: 2 * now.done.total - before.done.total >= 0,
    "a rest": lambda now, before: now.done.total % 2 == before.done.total % 2,
    "a product": lambda now, before: now.done.total * now.x.value == before.done.total * before.x.value,
    "a square": lambda now, before: now.done.total * now.done.total >= before.done.total * before.done.total,
    "a half": lambda now, before: now.done.total / 2 >= before.done.total / 3,
    "a whole half": lambda now, before: now.done.total // 2 >= before.done.total // 2,
    "a part of another": lambda now, before: now.done.total * now.x.value >= before.by[now.last.value] * now.x.value,
    "one of two": lambda now, before: ite(now.x.value == 0, now.done.total, 0) == before.done.total,
    "other keys": lambda now, before: forall(Block, lambda b: now.by[b] >= before.by[now.last.value]),
    "a key": lambda now, before: now.pair[now.done.total] == now.pair[before.done.total],
}

IN_A_STEP: dict[str, Callable[[Any, Any], Bool]] = {
    "a difference": lambda now, before: now.done.total - before.done.total <= 1,
    "no more": lambda now, before: now.done.total == before.done.total,
    "twice the difference": lambda now, before: 2 * now.done.total >= before.done.total * 2,
    "one and another": lambda now, before: (
        now.done.total + before.by[now.last.value] >= before.done.total + before.by[now.last.value]
    ),
    "either": lambda now, before: ite(now.x.value == 0, now.done.total, now.done.total + 1) >= before.done.total,
    "of all": lambda now, before: forall(Block, lambda b: now.by[b] - before.by[b] >= 0),
    "a product": lambda now, before: now.done.total * now.x.value >= now.x.value * before.done.total,
    "products": lambda now, before: (
        (now.done.total * now.x.value) * before.x.value >= (before.x.value * before.done.total) * now.x.value
    ),
    "a half": lambda now, before: now.done.total / 2 >= before.done.total / 2,
    "a rest of the difference": lambda now, before: (now.done.total - before.done.total) % 2 == 0,
}


def speaking(said: Callable[[Any, Any], Bool]) -> type[Machine]:
    """A machine with a property of steps that says this of its tallies."""

    class Counting(Machine):
        x, last, pair = Scalar(to=Int), Scalar(to=Block, init=lambda m: m.best.value), Map(Place, to=Bool)
        best = Param(to=Block)
        done, by = Tally(), Tally(Block)

        @action("X")
        def put(self, b: Block) -> None:
            self.done.add(1)
            self.by.add(1, b)
            self.last.value = b

        @step("X")  # wrong, if it is
        def counted(self, before: Machine) -> Bool:
            return said(self, before)

    return Counting


def test_an_action_that_sets_a_tally() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("X")
            def put(self) -> None:
                self.done[()] = 5  # wrong

        return Wrong

    assert mistake(make).endswith("done is a tally, which is added to and never set: done.add(…), or a map")


@pytest.mark.parametrize(
    "made",
    [
        lambda m: promise(goal=m.done.total > 2, fair=[steps(m.put, Block)], measure=[1]),
        lambda m: promise(goal=m.x.value == 1, fair=[steps(m.put, Block)], measure=[3 - m.done.total]),
        lambda m: promise(goal=m.x.value == 1, fair=[steps(m.put, Block, where=lambda b: m.by[b] == 0)], measure=[1]),
    ],
    ids=["goal", "measure", "steps"],
)
def test_a_promise_that_looks_at_a_tally(made: Callable[[Any], Promise]) -> None:
    def make() -> type[Machine]:
        class Wrong(Machine):
            x, done, by = Scalar(to=Int), Tally(), Tally(Block)

            @action("X")
            def put(self, b: Block) -> None:
                self.done.add(1)
                self.by.add(1, b)

            @eventually("X")  # wrong
            def some_day(self) -> Promise:
                return made(self)

        return Wrong

    assert "of which properties of steps alone can speak" in mistake(make)


@pytest.mark.parametrize("said", IN_ALL.values(), ids=IN_ALL)
def test_a_step_that_depends_on_all_that_a_tally_ever_counted(said: Callable[[Any, Any], Bool]) -> None:
    """The explorer counts each step from 0: it would miss what is broken by the third."""
    assert "ever counted, which is no part of a state" in mistake(lambda: speaking(said))


@pytest.mark.parametrize("said", IN_A_STEP.values(), ids=IN_A_STEP)
def test_a_step_may_say_what_is_counted_in_it(said: Callable[[Any, Any], Bool]) -> None:
    assert Model.of(speaking(said)).properties["counted"]


def test_a_count_that_looks_at_a_tally() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            by = Tally(Block)
            some = Count(Block, where=lambda m, b: m.by[b] > 0)  # wrong

        return Wrong

    assert mistake(make).endswith("count some reads the tally by, which is no part of the state")


def test_a_count_that_looks_at_another() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            worth = Param(Block, to=Int)
            dear = Count(Block, where=lambda m, b: m.worth[b] > 2)
            cheap = Count(Block, where=lambda m, b: m.worth[b] < m.dear.value)  # wrong

        return Wrong

    assert mistake(make).endswith("count cheap reads dear; a count may only look at its own element, not at a count")


def test_a_count_that_looks_at_two_places() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            both = Count((Block, Block), where=lambda m, a, b: m.pair[a, b] & m.pair[b, a])  # wrong

        return Wrong

    assert mistake(make).endswith("count both reads pair at two different places for one element")


# ------------------------------------------------------------------------------------------------ can


def use_of_can(body: Callable[[Any, Any], Any]) -> str:
    def make() -> type[Machine]:
        class Wrong(Base):
            def helper(self, b: Block) -> Bool:
                return self.m[b] == 0

            @corollary("X")
            def possible(self, b: Block) -> Bool:
                result: Bool = body(self, b)
                return result

        return Wrong

    return mistake(make).partition("possible: ")[2] or mistake(make)


def test_can_with_too_few_arguments() -> None:
    assert use_of_can(lambda m, b: can(m.act, b)) == "act takes 2 arguments (b, n), not 1"  # wrong


def test_can_with_another_sort() -> None:
    assert use_of_can(lambda m, b: can(m.act, 3, 3)) == "b of act is a Block; 3 is a Int"  # wrong


def test_can_of_a_helper() -> None:
    assert use_of_can(lambda m, b: can(m.helper, b)).startswith("`can` speaks of an action of the machine")  # wrong


def test_can_of_the_class() -> None:
    assert use_of_can(lambda m, b: can(Base.act, b, 3)).startswith("`can` speaks of an action")  # wrong


# ------------------------------------------------------------------------------------------------ blocks


EARLY = "the text is read once for all states, so whatever stands behind it would be lost; say it with conditions"


def in_action(text: Callable[[Any, Any, Any], None]) -> str:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("X")
            def put(self, b: Block, n: Int) -> None:
                text(self, b, n)

        return Wrong

    return mistake(make).partition("action put: ")[2] or mistake(make)


def test_return_in_when() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        with when(n == 0):
            return  # wrong
        m.x.value = 3

    assert in_action(text) == f"`return` leaves a `when` before its end: {EARLY}"


def test_return_in_otherwise() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        with when(n == 0):
            m.x.value = 3
        with otherwise():
            if m.view == "now":
                return  # wrong
        m.x.value = 4

    assert in_action(text) == f"`return` leaves a `otherwise` before its end: {EARLY}"


def test_break_in_a_loop() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        for _ in range(2):
            with m.loop(n):
                m.x.value = 3
                break  # wrong

    assert in_action(text) == f"`break` leaves a `loop` before its end: {EARLY}"


def test_continue_in_each() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        for k in range(2):
            with m.each(Block) as c:
                m.m[c] = k
                continue  # wrong

    assert in_action(text) == f"`continue` leaves a `each` before its end: {EARLY}"


def test_return_under_a_condition_of_python_in_a_match() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        with when(n == 0):
            try:
                match m.view:
                    case "now":
                        return  # wrong
            finally:
                m.x.value = 3

    assert in_action(text) == f"`return` leaves a `when` before its end: {EARLY}"


def test_a_function_in_a_block_may_return() -> None:
    class Right(Base):
        @action("X")
        def put(self, n: Int) -> None:
            with when(n > 0):

                def half(k: Int) -> Int:
                    return k // 2

                for _ in range(3):
                    if self.view == "then":
                        break
                    self.x.value = half(n)

    assert "put" in Model.of(Right).actions


def test_facts_that_are_no_dict() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        with m.loop(n, facts=lambda i, entry: m.x.value == i):  # type: ignore[arg-type,return-value] # wrong
            m.x.value = 3

    assert in_action(text).startswith("the facts of a loop are a dict of names and conditions, not ")


def test_writing_a_part_of_another_machine() -> None:
    class Other(Machine):
        y = Scalar(to=Int)

    def text(m: Base, b: Block, n: Int) -> None:
        Other().y.value = n  # wrong

    assert in_action(text).endswith("y is not part of this machine")


def test_reading_what_the_machine_does_not_have() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        m.x.value = m.y.value  # wrong

    assert in_action(text).endswith("Wrong has no y")


def test_a_loop_in_a_loop() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        with m.loop(n), m.loop(n):  # wrong
            m.x.value = 3

    assert in_action(text) == "a loop stands at the top level of an action, not inside `loop`"


def test_a_loop_in_a_loop_of_each() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        with m.each(Block) as c, when(c == b), m.each(Request):  # wrong
            m.m[c] = 3

    assert in_action(text) == "`each` holds plain statements and `when` only"


def test_a_queue_of_all_in_no_order() -> None:
    def text(m: Base, b: Block, n: Int) -> None:
        with m.each(Block) as c, when(~m.q.has(c)):
            m.q.push_back(c)  # wrong

    assert in_action(text) == "pushes to q for each b have no order"


def test_what_can_be_read_is() -> None:
    class Right(Base):
        @corollary("X")
        def possible(self, b: Block) -> Bool:
            return implies(self.x.value == 0, can(self.act, b, 3))

    assert Model.of(Right).properties["possible"].derived


def test_a_block_whose_source_is_not_at_hand() -> None:
    text = (
        "class Typed(Base):\n"
        "    @action('X')\n"
        "    def put(self, n: Int) -> None:\n"
        "        with when(n > 3):\n"
        "            self.x.value = 3\n"
        "            return\n"
        "        self.x.value = n\n"
    )
    names = dict(globals())
    exec(text, names)
    with pytest.raises(MachineError, match="its source is not at hand"):
        Model.of(names["Typed"])


def test_a_property_beside_the_class(tmp_path: Path) -> None:
    """As of one that is not indented as it should be."""
    beside = tmp_path / "beside.py"
    beside.write_text(
        "from kvproof.machine import Bool, Int, Machine, Scalar, action, invariant\n"
        "class Beside(Machine):\n"
        "    x = Scalar(to=Int)\n"
        "    @action('X')\n"
        "    def put(self, n: Int) -> None:\n"
        "        self.x.value = n\n"
        "@invariant('X')\n"
        "def small(self) -> Bool:\n"
        "    return self.x.value < 3\n"
    )
    with pytest.raises(UsageError, match=r"beside\.py:7: small is under @invariant and in no machine"):
        find_machine(f"{beside}:Beside")


def test_a_mistake_is_told_again_when_a_machine_is_read_again() -> None:
    """What the text changes by being run is changed by then: the second time no mistake was found in it."""
    seen: list[int] = []

    class Changes(Machine):
        x = Scalar(to=Int)

        @action("X")
        def act(self, n: Int) -> None:
            with when(n > 0):
                if not seen:
                    seen.append(1)
            self.x.value = len(seen)

    for _ in range(2):
        with pytest.raises(MachineError, match="seen is changed inside a `when`"):
            Model.of(Changes)


def test_who_reads_a_machine_is_none_of_its_text() -> None:
    """The language makes conditions too; a generator that asks for a machine gives none of them."""

    class Weighed(Machine):
        size = Map(Block, to=Int)
        sizes = Sum(Block, of=lambda m, b: m.size[b], to=Int)

        @action("X")
        def grow(self, b: Block) -> None:
            self.size[b] = self.size[b] + 1

    def models() -> Iterator[Model]:
        yield Model.of(Weighed)

    assert next(models()).name == "Weighed"


def test_who_overrides_a_helper_need_not_use_all_that_it_is_told() -> None:
    """Who calls it does not know; one that nobody else has must, since what it is told would be lost."""

    class Counts(Machine):
        x = Scalar(to=Int)

        def _move(self, *, is_far: Bool) -> None:
            self.x.value = ite(is_far, 2, 1)

        @action("X")
        def move(self, n: Int) -> None:
            self._move(is_far=n > 0)

    class Strolls(Counts):
        def _move(self, *, is_far: Bool) -> None:
            self.x.value = 1

    class Alone(Machine):
        x = Scalar(to=Int)

        def _move(self, *, is_far: Bool) -> None:
            self.x.value = 1

        @action("X")
        def move(self, n: Int) -> None:
            self._move(is_far=n > 0)

    assert [Model.of(machine).name for machine in (Counts, Strolls)] == ["Counts", "Strolls"]
    with pytest.raises(MachineError, match="nothing is done with 0 < n"):
        Model.of(Alone)


def test_a_function_that_is_given_may_have_defaults_of_its_own() -> None:
    class Given(Machine):
        held = Map(Block, to=Int)
        few = Count(Block, where=lambda m, b, most=2: m.held[b] <= most)

        @action("P1")
        def take(self, b: Block) -> None:
            self.held[b] = 1

        @invariant("P1")
        def few_at_most(self) -> Bool:
            return all_of(*[forall(Block, lambda b, most=most: self.held[b] <= most) for most in (2, 3)])

    formula = Model.of(Given).properties["few_at_most"].formula
    assert "<= 2" in repr(formula)
    assert "<= 3" in repr(formula)
