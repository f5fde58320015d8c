"""Names: known at once, and open to the machines and levels of other packages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvproof import spec
from kvproof.cli import main as cli
from kvproof.harness import machines
from kvproof.harness.levels import LEVELS
from kvproof.harness.machines import KNOWN, find_machine
from kvproof.registry import Registry

MACHINE = """
from kvproof.machine import Bool, Machine, Scalar, action, invariant

class Lamp(Machine):
    lit = Scalar(to=Bool)

    @action("X1")
    def switch_on(self) -> None:
        self.lit.value = True

    @invariant("X1")
    def it_is_lit_or_not(self) -> Bool:
        return self.lit.value | ~self.lit.value
"""

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a package of one module, with an entry point, as installing it would."""

    def installed(text: str, entry_points: str) -> None:
        (tmp_path / "of_others.py").write_text(text)
        described = tmp_path / "of_others-1.0.dist-info"
        described.mkdir()
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: of-others\nVersion: 1.0\n")
        (described / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "of_others", raising=False)
        monkeypatch.setattr(machines, "INSTALLED", Registry("kvproof.machines", {}))

    return installed


@pytest.mark.parametrize("name", KNOWN)
def test_every_machine_can_be_imported_from_the_specification(name: str) -> None:
    kind = find_machine(name)
    assert getattr(spec, kind.__name__) is kind
    assert kind.__module__ == KNOWN[name][0]


def test_a_machine_of_an_installed_package_has_a_name(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install(MACHINE, "[kvproof.machines]\nlamp = of_others:Lamp\n")
    assert cli.run(["prove", "lamp", "--fresh"]) == 0
    assert "Lamp" in capsys.readouterr().out
    assert cli.run(["prove", "nothing"]) == 2
    assert "tree, lamp, or your own as FILE.py:CLASS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("x = 1", "of_others:x", "the machine lamp is none"),
        ("x = 1", "of_others:y", "cannot be loaded"),
        ("1 / 0", "of_others:x", "cannot be loaded (division by zero)"),
    ],
)
def test_what_an_installed_package_gets_wrong_is_a_sentence(
    install: Install, capsys: pytest.CaptureFixture[str], text: str, target: str, said: str
) -> None:
    install(text, f"[kvproof.machines]\nlamp = {target}\n")
    assert cli.run(["prove", "lamp"]) == 2
    assert said in capsys.readouterr().err


def test_nobody_takes_a_name_of_the_kit(install: Install) -> None:
    install(
        MACHINE,
        "[kvproof.machines]\npool = of_others:Lamp\n[kvproof.levels]\npool = of_others:Lamp\nlamp = of_others:Lamp\n",
    )
    assert machines.find_machine("pool").__name__ == "Pool"
    levels = Registry("kvproof.levels", {"pool": lambda: "ours"})
    assert list(levels) == ["pool", "lamp"]
    assert levels["pool"] == "ours"
    assert len(levels) == 2
    assert "mirror" not in levels


def test_what_is_named_is_made_once_and_when_it_is_wanted() -> None:
    made: list[int] = []

    def one() -> int:
        made.append(1)
        return len(made)

    numbers = Registry("kvproof.nothing", {"one": one})
    assert list(numbers) == ["one"]
    assert not made
    assert (numbers["one"], numbers["one"]) == (1, 1)
    with pytest.raises(KeyError):
        numbers["two"]


@pytest.mark.slow
def test_names_are_known_before_anything_heavy_is_imported() -> None:
    text = (
        "import sys\n"
        "from kvproof.cli import main\n"
        "assert main.run(['fuzz', 'refimpl', '--level', 'scheduler']) == 2\n"
        "assert not {'torch', 'z3', 'hypothesis'} & sys.modules.keys(), 'something heavy was imported'\n"
        "assert main.run(['prove', 'nothing']) == 2\n"
        "assert main.run(['engines', 'list']) == 0\n"
        "assert not {'torch', 'z3'} & sys.modules.keys(), 'something heavy was imported'\n"
        "assert main.run(['fuzz', 'vllm']) == 2\n"
        "assert main.run(['fuzz', 'vlm==1.0']) == 2\n"
        "assert main.run(['rules', 'P6']) == 0\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "name one of pool, mirror" in done.stderr


def test_every_level_has_a_machine_of_the_specification() -> None:
    classes = {machines.find_machine(name) for name in KNOWN}
    assert all(level.model.machine in classes for level in LEVELS.values())
