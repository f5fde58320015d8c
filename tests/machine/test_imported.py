"""What a text calls of modules that it imports itself, or of packages, is looked through as its own functions are."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine, MachineError, Model

HELPERS = """
def is_dark(m):
    return (m.x.value is m) | (m.x.value == 0)


def is_lit(m):
    return m.x.value == 0
"""

MACHINE = """
from kvproof import Bool, Int, Machine, Scalar, action, invariant
{above}

class Lamp(Machine):
    x = Scalar(to=Int)

    @action("X")
    def act(self) -> None:
        self.x.value = 0

    @invariant("X")
    def says(self) -> Bool:
        {inside}
        return {said}(self)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a package with a module of helpers, which Python finds."""
    (tmp_path / "lamps").mkdir()
    (tmp_path / "lamps" / "__init__.py").write_text("")
    (tmp_path / "lamps" / "helpers.py").write_text(HELPERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [n for n in sys.modules if n.partition(".")[0] == "lamps"]:
        del sys.modules[name]


def machine_of(folder: Path, *, above: str = "", inside: str = "", said: str) -> type[Machine]:
    text = MACHINE.format(above=above, inside=inside or "# nothing", said=said)
    (folder / "lamps" / "machine.py").write_text(text)
    found: type[Machine] = importlib.import_module("lamps.machine").Lamp
    return found


WAYS = (
    {"inside": "from .helpers import {0}", "said": "{0}"},
    {"inside": "from lamps.helpers import {0} as one", "said": "one"},
    {"inside": "import lamps.helpers", "said": "lamps.helpers.{0}"},
    {"inside": "import lamps.helpers as those", "said": "those.{0}"},
    {"inside": "from . import helpers", "said": "helpers.{0}"},
    {"above": "import lamps.helpers", "said": "lamps.helpers.{0}"},
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way.values()))
def test_a_helper_that_is_imported_is_looked_through(folder: Path, way: dict[str, str]) -> None:
    machine = machine_of(folder, **{place: text.format("is_dark") for place, text in way.items()})
    with pytest.raises(MachineError, match=r"Python decides `m.x.value is m`") as caught:
        Model.of(machine)
    assert caught.value.line.file == str(folder / "lamps" / "helpers.py")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way.values()))
def test_a_helper_in_order_may_be_imported(folder: Path, way: dict[str, str]) -> None:
    assert prove(machine_of(folder, **{place: text.format("is_lit") for place, text in way.items()})).holds


def test_what_is_not_there_is_told_by_the_import_itself(folder: Path) -> None:
    machine = machine_of(folder, inside="from lamps.nowhere import is_lit", said="is_lit")
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        Model.of(machine)
