"""Machines whose text is as it was are not even read; whatever could be another text is."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvproof.checkers import prove as prove_module
from kvproof.checkers import records
from kvproof.checkers.proofs import Proofs
from kvproof.checkers.prove import How, ProveReport, prove_machines
from kvproof.checkers.texts import Text, imported_text
from kvproof.machine import Bool, Int, Machine, Model, Scalar, action, invariant

PACKAGE = "package_of_texts"


class Door(Machine):
    opened = Scalar(to=Int)

    @action("X")
    def open(self) -> None:
        self.require(self.opened.value < 3)
        self.opened.value = self.opened.value + 1

    @invariant("X")
    def at_most_three(self) -> Bool:
        return self.opened.value <= 3

    @invariant("X")
    def not_negative(self) -> Bool:
        return self.opened.value >= 0


@pytest.fixture(autouse=True)
def nothing_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "SAMPLE", 0.0)


@pytest.fixture
def proofs(tmp_path: Path) -> Proofs:
    return Proofs(tmp_path / "proofs.sqlite")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of two modules, not imported yet."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [n for n in sys.modules if n.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def text_of_door(digest: str = "a text") -> Text:
    text = Text((Door.__module__, "kvproof.machine"))
    text.digest = digest
    return text


def proved(proofs: Proofs, text: Text | None, *, only: list[str] | None = None) -> ProveReport:
    (report,) = prove_machines([Door], How(proofs=proofs, text=text), jobs=1, only=only)
    return report


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The machines that are read, from now on."""
    found: list[int] = []
    begin = prove_module._begun

    def noted(work: prove_module._Work, number: int) -> prove_module._Places:
        found.append(number)
        return begin(work, number)

    monkeypatch.setattr(prove_module, "_begun", noted)
    return found


# ------------------------------------------------------------------------------------------------ which text it is


def test_the_same_text_has_the_same_digest_and_any_change_another(package: Path) -> None:
    def digest() -> str:
        with imported_text(PACKAGE) as text:
            assert not text.digest, "what is being imported is not known yet"
        return text.digest

    first = digest()
    assert first == digest()
    (package / "one.py").write_text("x = 2\n")
    changed = digest()
    (package / "two.py").write_text("")
    added = digest()
    (package / "two.py").rename(package / "three.py")
    assert len({first, changed, added, digest()}) == 4


def test_text_that_was_imported_before_is_not_known(package: Path) -> None:
    importlib.import_module(f"{PACKAGE}.one")
    with imported_text(PACKAGE) as text:
        pass
    assert not text.digest


def test_text_that_changes_while_it_is_imported_is_not_known(package: Path) -> None:
    with imported_text(PACKAGE) as text:
        importlib.import_module(f"{PACKAGE}.one")
        (package / "one.py").write_text("x = 2\n")
    assert not text.digest


def test_only_a_class_that_a_module_of_the_text_defines_is_made_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_of_door().of(Door)
    assert text_of_door("").of(Door) is None
    assert text_of_door("other").of(Door) != text_of_door().of(Door)
    outside = Text(("kvproof.machine",))
    outside.digest = "a text"
    assert outside.of(Door) is None

    class Made(Door):
        pass

    assert text_of_door().of(Made) is None
    monkeypatch.setattr(sys.modules[__name__], "Door", type("Door", (Machine,), {"__module__": __name__}))
    assert text_of_door().of(Door), "the module has it under this name"
    assert text_of_door().of(Made.__mro__[1]) is None, "it was replaced"


# ------------------------------------------------------------------------------------------------ what is not read


def test_what_was_proved_of_a_text_is_told_without_reading_it(proofs: Proofs, begun: list[int]) -> None:
    first = proved(proofs, text_of_door())
    assert first.holds
    assert begun == [0]
    second = proved(proofs, text_of_door())
    assert begun == [0]
    assert second.holds
    assert second.recalled == len(second.obligations) == len(first.obligations)
    shown = [[(o.action, o.goal, o.rule, o.verdict, o.line, o.prop) for o in r.obligations] for r in (first, second)]
    assert shown[0] == shown[1]
    numbers = ("machine", "actions", "properties", "left_to_exploration", "untouched")
    assert [getattr(first, n) for n in numbers] == [getattr(second, n) for n in numbers]


@pytest.mark.parametrize("text", [None, text_of_door(""), text_of_door("another")])
def test_another_text_is_read(text: Text | None, proofs: Proofs, begun: list[int]) -> None:
    proved(proofs, text_of_door())
    proved(proofs, text)
    assert begun == [0, 0]


def test_a_part_is_not_taken_for_the_whole(proofs: Proofs, begun: list[int]) -> None:
    proved(proofs, text_of_door(), only=["open"])
    report = proved(proofs, text_of_door())
    assert begun == [0, 0]
    assert len({o.action for o in report.obligations}) > 1


def test_what_is_not_proved_is_not_kept(proofs: Proofs, begun: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProveReport, "holds", False)
    proved(proofs, text_of_door())
    proved(proofs, text_of_door())
    assert begun == [0, 0]


def test_another_version_of_the_prover_reads_it_anew(
    proofs: Proofs, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    proved(proofs, text_of_door())
    monkeypatch.setattr("kvproof.checkers.proofs.kit_digest", lambda: "another")
    proved(proofs, text_of_door())
    assert begun == [0, 0]


def test_some_of_it_is_asked_again(proofs: Proofs, begun: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    proved(proofs, text_of_door())
    asked: list[str] = []
    ask = prove_module._asked

    def noted(model: Model, number: int, place: str, work: prove_module._Work) -> prove_module._Found:
        asked.append(place)
        return ask(model, number, place, work)

    monkeypatch.setattr(prove_module, "_asked", noted)
    monkeypatch.setattr(records, "SAMPLE", 1.0)
    report = proved(proofs, text_of_door())
    assert asked == [*dict.fromkeys(asked)]
    assert set(asked) == {"initially", *Model.of(Door).actions, "every state"}
    assert report.holds
