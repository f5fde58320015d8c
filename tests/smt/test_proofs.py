"""The store of proofs: what has not changed is not asked again, and nothing that has changed is believed."""

# Annotations are evaluated where they stand: the machines here are made in functions, with sorts of their own.

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import z3

from kvproof.checkers import deciding, records, vacuity
from kvproof.checkers import proofs as proofs_module
from kvproof.checkers import prove as prove_module
from kvproof.checkers.obligations import COROLLARIES, INITIALLY, problems_of
from kvproof.checkers.proofs import Proofs, StoreError, digest_of, place_digest
from kvproof.checkers.prove import How, ProveReport, prove, prove_machines
from kvproof.checkers.records import Record
from kvproof.checkers.solvers import Question, Way, ask
from kvproof.cli import main as cli
from kvproof.harness.machines import find_machine
from kvproof.machine import (
    Bool,
    Count,
    Event,
    Index,
    Int,
    Machine,
    Map,
    Model,
    Param,
    Queue,
    Scalar,
    Sort,
    action,
    assume,
    corollary,
    exists,
    implies,
    initially,
    invariant,
    step,
)
from kvproof.machine.canonical import Content, Contents
from kvproof.machine.universe import Unbounded
from kvproof.spec.pool.statistics import Statistics

from ..marks import slow_but

SHARE = "SAMPLE"


def sampled(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """So much of what is found is asked again."""
    for module in (records, deciding, vacuity):
        monkeypatch.setattr(module, SHARE, share)


@pytest.fixture(autouse=True)
def nothing_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled(monkeypatch, 0.0)


@pytest.fixture
def proofs(tmp_path: Path) -> Proofs:
    return Proofs(tmp_path / "proofs.sqlite")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The places that are asked, and not just recalled, from now on."""
    found: list[str] = []
    ask = prove_module._asked

    def noted(model: Model, number: int, place: str, work: prove_module._Work) -> Any:
        found.append(place)
        return ask(model, number, place, work)

    monkeypatch.setattr(prove_module, "_asked", noted)
    return found


def again(machine: type[Machine], proofs: Proofs | None) -> ProveReport:
    return prove(machine, proofs=proofs, jobs=1, timeout=2)


def told(report: ProveReport) -> list[tuple[str, ...]]:
    return [(o.action, o.goal, o.rule, o.verdict, o.line, o.prop, o.note) for o in report.obligations]


# ------------------------------------------------------------------------------------------------ nothing has changed


def test_a_second_run_recalls_everything_and_tells_the_same(proofs: Proofs, asked: list[str]) -> None:
    first = prove(Statistics, proofs=proofs, jobs=1)
    assert sorted(asked) == sorted([INITIALLY, *Model.of(Statistics).actions, COROLLARIES])
    asked.clear()
    second = prove(Statistics, proofs=proofs, jobs=1)
    assert asked == []
    assert second.recalled == len(second.obligations) > 400
    assert told(second) == told(first)
    numbers = ("actions", "properties", "left_to_exploration", "untouched", "holds", "machine")
    assert [getattr(second, n) for n in numbers] == [getattr(first, n) for n in numbers]


def test_several_processes_share_a_store(proofs: Proofs) -> None:
    first = prove(Statistics, only=["skip", "hit", INITIALLY], proofs=proofs, jobs=2)
    second = prove(Statistics, only=["skip", "hit", INITIALLY], proofs=proofs, jobs=2)
    assert first.holds
    assert second.recalled == len(second.obligations)
    assert told(first) == told(second)


def test_what_z3_proved_is_not_believed_of_cvc5(proofs: Proofs) -> None:
    """A second opinion is one of its own."""
    pytest.importorskip("cvc5")
    again(shelf(), proofs)
    report = prove(shelf(), proofs=proofs, jobs=1, solver="cvc5")
    assert report.recalled == 0
    assert report.holds


def test_what_cvc5_proved_of_one_machine_it_is_not_asked_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a run: from run to run nothing of it is kept."""
    pytest.importorskip("cvc5")
    first, second = prove_machines([shelf(), shelf(added=1)], How(solver="cvc5"), jobs=1)
    assert first.holds
    assert first.recalled == 0
    assert second.recalled > 0


# ------------------------------------------------------------------------------------------------ something has changed


class Mark(Index):
    pass


def shelf(
    *,
    start: Callable[[Any], object] = lambda m: 0,
    room: Callable[[Any], Bool] = lambda m: m.full.value < m.limit.value,
    added: int = 1,
    rounds: Callable[[Any, Any, Any], Bool] = lambda m, i, entry: m.full.value == entry.full.value + i,
    counted: Callable[[Any, Any], Bool] = lambda m, j: m.on[j],
    bound: Callable[[Any], Bool] = lambda m: m.full.value <= m.limit.value,
    derived: Callable[[Any], Bool] = lambda m: m.full.value <= m.limit.value + 1,
    grows: Callable[[Any, Any], Bool] = lambda m, before: m.full.value == before.full.value + 1,
    least: int = 1,
    first: Callable[[Any], Bool] = lambda m: m.line.size == 0,
    extra: tuple[str, ...] = (),
    number: type[Int] | type[Index] = Mark,
    size: type[Int] | type[Index] = Mark,
    leave: Callable[[Any], Int] = lambda m: m.left.value + 1,
    said: str = "What is filled.",
) -> type[Machine]:
    """A small machine; each argument is one part of it."""

    class Jar(Sort):
        pass

    class Node(Jar, extra=extra):
        pass

    class Shelf(Machine):
        limit = Param(to=Int)
        size_of_all = Param(to=size)
        on = Map(Jar, to=Bool)
        node = Map(Node, to=Bool)
        full = Scalar(to=Int, init=lambda m: start(m))
        left = Scalar(to=Int)
        last = Scalar(to=number)
        line = Queue(of=Jar)
        number_on = Count(Jar, where=lambda m, j: counted(m, j))
        came = Event(Jar)

        @assume("A")
        def some_room(self) -> Bool:
            return self.limit.value >= least

        @initially("A")
        def nobody_waits(self) -> Bool:
            return first(self)

        @action("F")
        def fill(self, j: Jar) -> None:
            self.require(room(self))
            self.full.value = self.full.value + added

        @action("F")
        def fill_all(self, n: Int) -> None:
            self.require((n >= 0) & (self.full.value + n <= self.limit.value))
            with self.loop(n, facts=lambda i, entry: {"as many as rounds": rounds(self, i, entry)}):
                self.full.value = self.full.value + 1

        @action("F")
        def put(self, j: Jar) -> None:
            self.require(~self.on[j])
            self.on[j] = True
            self.came(j)

        @action("F")
        def come(self, j: Jar) -> None:
            self.require(~self.line.has(j))
            self.line.push_back(j)

        @action("F")
        def leave(self) -> None:
            self.left.value = leave(self)

        @invariant("F")
        def there_is_room(self) -> Bool:
            return bound(self)

        @invariant("F")
        def none_owes(self) -> Bool:
            return (self.left.value >= 0) & (self.last.value >= 0) & (self.size_of_all.value >= 0)

        @invariant("F")
        def what_is_on_counts(self, j: Jar) -> Bool:
            return implies(self.on[j], self.number_on.value >= 1)

        @invariant("F")
        def all_nodes_are_alike(self, j: Node) -> Bool:
            return ~self.node[j]

        @corollary("F")
        def nearly_room(self) -> Bool:
            return derived(self)

        @corollary("F")
        def nodes_are_jars(self, n: Node) -> Bool:
            return exists(Jar, lambda j: j == n)

        @step("F", of="fill")
        def it_grows(self, before: Any, j: Jar) -> Bool:
            return grows(self, before)

    Shelf.__doc__ = said
    return Shelf


PLACES = {INITIALLY, "fill", "fill_all", "put", "come", "leave", COROLLARIES}
STATES = {INITIALLY, COROLLARIES}
"""Every property is a part of these."""

FALSE: dict[str, tuple[dict[str, Any], set[str], set[str]]] = {
    "a first value": ({"start": lambda m: m.limit.value + 1}, PLACES, {INITIALLY}),
    "a requirement": ({"room": lambda m: m.full.value <= m.limit.value}, {"fill"}, {"fill"}),
    "a statement": ({"added": 2}, {"fill"}, {"fill"}),
    "a loop fact": ({"rounds": lambda m, i, entry: m.full.value == i}, {"fill_all"}, {"fill_all"}),
    "a count": ({"counted": lambda m, j: m.on[j] & m.line.has(j)}, PLACES, {"put"}),
    "an invariant": ({"bound": lambda m: m.full.value < m.limit.value}, PLACES, {"fill"}),
    "a corollary": ({"derived": lambda m: m.full.value < m.limit.value}, STATES, {COROLLARIES}),
    "a property of steps": ({"grows": lambda m, b: m.full.value > b.full.value + 1}, {"fill"} | STATES, {"fill"}),
    "an assumption": ({"least": -1}, PLACES, {INITIALLY}),
    "what is known at first": ({"first": lambda m: m.line.size == 1}, PLACES, {INITIALLY}),
    "a sort's extra elements": ({"extra": ("HEAD",)}, PLACES, {COROLLARIES}),
    "the type of a parameter": ({"size": Int}, PLACES, {INITIALLY}),
    "what an action writes": ({"leave": lambda m: m.left.value - 1}, {"leave"}, {"leave"}),
}
"""What is changed, the places of which that is a part, and some of those where something is false then."""

TRUE: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a requirement": ({"room": lambda m: m.full.value + 1 < m.limit.value}, {"fill"}),
    "a loop fact": ({"rounds": lambda m, i, entry: m.full.value - i == entry.full.value}, {"fill_all"}),
    "an invariant": ({"bound": lambda m: m.full.value < m.limit.value + 1}, PLACES),
    "a corollary": ({"derived": lambda m: m.full.value <= m.limit.value + 2}, STATES),
    "a property of steps": ({"grows": lambda m, b: m.full.value > b.full.value}, {"fill"} | STATES),
    "an assumption": ({"least": 2}, PLACES),
    "a first value": ({"start": lambda m: m.limit.value}, PLACES),
    "the type of a map": ({"number": Int}, PLACES),
    "a statement": ({"leave": lambda m: m.left.value + 2}, {"leave"}),
    "nothing but what is said of it": ({"said": "Something else."}, set()),
    "nothing": ({}, set()),
}


LONG = {"a loop fact", "a count", "an invariant", "what is known at first", "a property of steps"}
"""Those that a desk leaves to CI."""


@pytest.mark.parametrize("change", slow_but(FALSE, FALSE.keys() - LONG))
def test_what_a_change_makes_false_is_refuted_whatever_was_proved(
    change: str, proofs: Proofs, asked: list[str]
) -> None:
    assert again(shelf(), proofs).holds
    asked.clear()
    parts, concerned, broken = FALSE[change]
    machine = shelf(**parts)
    report = again(machine, proofs)
    assert set(asked) == concerned
    assert not report.holds
    refuted = [o for o in report.obligations if o.verdict == "refuted"]
    assert {o.action for o in refuted} >= broken
    assert all(o.counterexample is not None and o.counterexample.replayed for o in refuted if o.prop)
    # A cold run says the same.
    assert {(o.action, o.goal, o.verdict) for o in again(machine, None).obligations} == {
        (o.action, o.goal, o.verdict) for o in report.obligations
    }


@pytest.mark.parametrize("change", TRUE)
def test_only_what_a_change_concerns_is_asked(change: str, proofs: Proofs, asked: list[str]) -> None:
    assert again(shelf(), proofs).holds
    asked.clear()
    parts, concerned = TRUE[change]
    report = again(shelf(**parts), proofs)
    assert report.holds
    assert set(asked) == concerned
    assert told(report) == told(again(shelf(**parts), None))


def test_what_is_refuted_is_not_kept(proofs: Proofs, asked: list[str]) -> None:
    parts, _, broken = FALSE["a statement"]
    first = again(shelf(**parts), proofs)
    asked.clear()
    second = again(shelf(**parts), proofs)
    assert broken <= set(asked)
    assert told(second) == told(first)


def test_parts_of_machines_with_different_contents_have_different_digests() -> None:
    """Each pair of variants, at every place that the change of either concerns."""
    variants = {name: (parts, concerned) for name, (parts, concerned, _) in FALSE.items()}
    variants |= {f"true: {name}": found for name, found in TRUE.items() if found[1]}
    plain = Contents(Model.of(shelf()))
    usual = {place: place_digest(plain.of_place(place)) for place in PLACES}
    for parts, concerned in variants.values():
        contents = Contents(Model.of(shelf(**parts)))
        other = {place: place_digest(contents.of_place(place)) for place in PLACES}
        assert {place for place in PLACES if other[place] != usual[place]} == concerned


def test_the_name_of_a_fact_does_not_look_like_another_fact() -> None:
    two, one = Content(), Content()
    two.write({"a": 1, "b": 2})
    one.write({"a: 1 b": 2})
    assert two.digest != one.digest


# ------------------------------------------------------------------------------------------------ places in files

SHELF = """
from kvproof.machine import Bool, Int, Machine, Scalar, action, invariant


class Shelf(Machine):
    full = Scalar(to=Int)

    @action("F")
    def fill(self, n: Int) -> None:
        self.require(n >= 0)
        with self.loop(n, facts=lambda i, entry: {"it grows": self.full.value == entry.full.value + i}):
            self.full.value = self.full.value + 1

    @invariant("F")
    def none_owes(self) -> Bool:
        return self.full.value >= 0
"""


def test_a_machine_that_moves_in_its_file_keeps_its_proofs_and_shows_its_new_lines(
    tmp_path: Path, proofs: Proofs, asked: list[str]
) -> None:
    (tmp_path / "here.py").write_text(SHELF)
    there = "# moved\n" * 100 + SHELF.replace("        self.require", "\n        self.require")
    (tmp_path / "there.py").write_text(there)
    first = again(find_machine(f"{tmp_path}/here.py:Shelf"), proofs)
    asked.clear()
    moved = again(find_machine(f"{tmp_path}/there.py:Shelf"), proofs)
    assert first.holds
    assert asked == []
    assert moved.recalled == len(moved.obligations)
    # As a cold run tells it.
    assert told(moved) == told(again(find_machine(f"{tmp_path}/there.py:Shelf"), None))
    loop = 1 + next(n for n, line in enumerate(there.splitlines()) if "self.loop" in line)
    assert {o.line for o in moved.obligations if "it grows" in o.goal} == {f"there.py:{loop}"}
    assert any(o.goal.startswith(f"loop at there.py:{loop}: ") for o in moved.obligations)
    assert not any("/here.py" in f"/{text}" for o in moved.obligations for text in (o.goal, o.line))


# ------------------------------------------------------------------------------------------------ what is not believed


def test_what_another_version_of_the_prover_has_proved_is_not_believed(
    proofs: Proofs, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = again(shelf(), proofs).recalled
    asked.clear()
    monkeypatch.setattr(proofs_module, "kit_digest", lambda: "another version")
    other = again(shelf(), proofs)
    assert set(asked) == PLACES
    assert other.recalled == cold  # what occurs more than once in one run


def test_the_text_of_the_prover_and_of_the_machine_language_is_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more in any file that has a part in a proof."""
    proofs_module.kit_digest.cache_clear()
    usual, read = proofs_module.kit_digest(), Path.read_bytes
    for wanted in ("deciding.py", "slices.py", "execution.py", "canonical.py"):
        monkeypatch.setattr(Path, "read_bytes", lambda p, w=wanted: read(p) + (b"\n" if p.name == w else b""))
        proofs_module.kit_digest.cache_clear()
        assert proofs_module.kit_digest() != usual
    monkeypatch.undo()
    proofs_module.kit_digest.cache_clear()
    assert proofs_module.kit_digest() == usual


def poison_place(proofs: Proofs, machine: type[Machine], place: str) -> None:
    """The store says that everything there was proved."""
    believed = [o for o in again(shelf(), None).obligations if o.action == place]
    model = Model.of(machine)
    Record.of(model, place, "z3").keep(proofs, believed, [p.name for p in model.inductive])


def poison_goals(proofs: Proofs, machine: type[Machine], place: str) -> None:
    """The store says that every goal there follows, from nothing."""
    model = Model.of(machine)
    proofs.keep((digest_of(g.formula), ()) for g in problems_of(model, place, Unbounded(model)).goals)


@pytest.mark.parametrize("poison", [poison_place, poison_goals])
def test_what_is_wrong_in_the_store_is_caught_when_it_is_asked_again(
    poison: Callable[[Proofs, type[Machine], str], None], proofs: Proofs, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = shelf(added=2)
    poison(proofs, machine, "fill")
    assert prove(machine, only=["fill"], proofs=proofs, jobs=1, timeout=2).holds  # it would be believed
    Path(proofs.path).unlink()
    proofs = Proofs(proofs.path.with_name("other.sqlite"))
    poison(proofs, machine, "fill")
    sampled(monkeypatch, 1.0)
    report = prove(machine, only=["fill"], proofs=proofs, jobs=1, timeout=2)
    broken = {o.prop for o in report.obligations if o.verdict == "refuted"}
    assert broken == {"there_is_room", "it_grows"}


def test_some_of_what_is_found_is_asked_again(
    proofs: Proofs, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as the sample says, place by place and goal by goal, and what is asked again is proved again."""
    assert proofs_module.SAMPLE > 0
    again(shelf(), proofs)
    asked.clear()
    sampled(monkeypatch, 0.5)
    drawn = iter([0.4, 0.6] * 1000)
    for module in (records, deciding):
        monkeypatch.setattr(module.random, "random", lambda: next(drawn))
    questions: list[Question] = []

    def noted(question: Question, way: Way, **more: Any) -> tuple[int, ...] | None:
        questions.append(question)
        return ask(question, way, **more)

    monkeypatch.setattr(deciding, "ask", noted)
    report = again(shelf(), proofs)
    assert report.holds
    assert 0 < len(asked) < len(PLACES)
    assert questions
    assert 0 < report.recalled < len(report.obligations)


# ------------------------------------------------------------------------------------------------ what is no store


def strange_table(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE goals (something TEXT)")
        db.execute("CREATE TABLE places (something TEXT)")
    db.close()


def no_database(path: Path) -> None:
    path.write_text("What somebody wrote, and would like to keep.\n" * 50)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [no_database, folder, strange_table])
def test_what_is_no_store_is_refused_in_one_sentence_and_left_alone(
    make: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "proofs.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else None

    def used() -> None:
        store = Proofs(path)
        store.cores("goal")
        store.place("place", object)

    with pytest.raises(StoreError, match=r"proofs\.sqlite is no store of proofs that can be used .*; remove it"):
        used()
    monkeypatch.setenv("KVPROOF_PROOFS", str(path))
    assert cli.run(["prove", "file-store", "--jobs", "1"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("kvproof: ")
    assert shown.count("\n") == 1
    assert "--fresh" in shown
    if make is no_database:
        assert path.read_bytes() == before
    assert cli.run(["prove", "file-store", "--jobs", "1", "--fresh"]) == 0


def test_a_store_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        Proofs(tmp_path / "file" / "proofs.sqlite")


@pytest.mark.parametrize(
    "written",
    [
        "no json",
        "null",
        "[]",
        "{}",
        '{"obligations": [["fill"]], "untouched": []}',
    ],
)
def test_a_record_that_cannot_be_read_is_no_proof(written: str, proofs: Proofs) -> None:
    machine = shelf(added=2)
    record = Record.of(Model.of(machine), "fill", "z3")
    with sqlite3.connect(proofs.path) as db:
        db.execute("INSERT INTO places VALUES (?, ?)", (record.digest, written))
    db.close()
    with contextlib.suppress(StoreError):
        assert not prove(machine, only=["fill"], proofs=proofs, jobs=1, timeout=2).holds


# ------------------------------------------------------------------------------------------------ the command


def test_the_command_says_what_it_did_not_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPROOF_PROOFS", str(tmp_path / "own" / "proofs.sqlite"))
    again = "were known: the same goal beside the same facts had been proved before"
    assert cli.run(["prove", "file-store", "--jobs", "1"]) == 0
    assert (tmp_path / "own" / "proofs.sqlite").is_file()
    capsys.readouterr()
    assert cli.run(["prove", "file-store", "--jobs", "1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    (total,) = {line for line in shown.split() if line.isdigit() and int(line) > 50}
    assert f"{total} of {total} {again}" in shown
    assert cli.run(["prove", "file-store", "--jobs", "1", "--fresh"]) == 0
    assert f"{total} of {total} {again}" not in " ".join(capsys.readouterr().out.split())


# ------------------------------------------------------------------------------------------------ digests of formulas


def test_formulas_that_differ_in_the_sort_of_a_symbol_only_have_different_digests() -> None:
    one, other = z3.DeclareSort("One"), z3.DeclareSort("Other")
    found = set()
    for sort in (z3.IntSort(), z3.RealSort(), z3.BoolSort(), one, other):
        x, f = z3.Const("x", sort), z3.Function("f", sort, z3.BoolSort())
        bound = z3.Const("bound", sort)
        same = [x == x, f(x), z3.ForAll([bound], f(bound)), z3.Exists([bound], bound == bound)]
        found |= {digest_of(formula) for formula in same[1:]}
        assert str(same[1]) == "f(x)"
    assert len(found) == 5 * 3
    assert digest_of(z3.Bool("true")) != digest_of(z3.BoolVal(True))
    assert digest_of(True) != digest_of(False)


def shared(width: int = 12) -> Any:
    """A formula in which much occurs several times."""
    block = z3.DeclareSort("Block")
    b, c = z3.Consts("b c", block)
    held, count = z3.Function("held", block, z3.BoolSort()), z3.Function("count", block, z3.IntSort())
    parts: list[Any] = [z3.And(held(b), count(b) > 0, b != c)]
    for i in range(width):
        parts.append(z3.Implies(z3.And(parts[-1], count(c) > i), z3.Or(parts[-1], held(c))))
    return z3.ForAll([b, c], z3.And(*parts))


def test_a_formula_has_the_same_digest_whatever_else_was_built() -> None:
    """Z3 numbers what it builds, and names what is used elsewhere too: neither is a part of the formula."""
    first = digest_of(shared())
    others = [shared(w) for w in range(1, 12)]
    b = z3.Const("b", z3.DeclareSort("Block"))
    held = z3.Function("held", z3.DeclareSort("Block"), z3.BoolSort())
    others += [z3.And(z3.Not(held(b)), z3.Int(f"x{i}") > i) for i in range(2000)]
    assert digest_of(shared()) == first
    formula = shared()
    parts = [formula.body()]
    for part in parts:
        parts += part.children() if len(parts) < 200 else []
    assert digest_of(formula) == first
    assert len(parts) > 100
    assert others
    assert digest_of(shared(11)) != first


def test_the_goals_of_a_machine_have_the_same_digests_beside_those_of_another() -> None:
    model = Model.of(Statistics)
    kept = []
    found = []
    for _ in range(2):
        problems = problems_of(model, "allocate", Unbounded(model))
        found.append([digest_of(g.formula) for g in problems.goals])
        kept.append([g.formula for g in problems_of(Model.of(shelf()), "fill", Unbounded(Model.of(shelf()))).goals])
        kept.append([g.formula for g in problems.goals[::2]])
    assert found[0] == found[1]
    assert len(set(found[0])) > 30
