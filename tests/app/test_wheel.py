"""The package as others get it: a wheel, alone in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .test_workload import make_lines, write_lines

ROOT = Path(__file__).parents[2]
PARTS = ("kvproof", "spec", "refimpl", "kernels")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


@pytest.fixture(autouse=True)
def nothing_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Python looks first, as who works in a checkout sets it, would hide the wheel."""
    monkeypatch.delenv("PYTHONPATH", raising=False)


def called(*command: str | Path, **options: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=1200, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made of a copy: what an earlier one left in the checkout's build folder has no part in it."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for part in PARTS:
        shutil.copytree(ROOT / part, source / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    called(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", made, source)
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with what it depends on: of this one, all but the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    called(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/*/site-packages")
    here = called(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (packages / "dependencies.pth").write_text(f"{here}\n")
    called(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    return folder


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    def beside(part: str, path: Path) -> str:
        return "/".join(("kvproof", *(() if part == "kvproof" else (part,)), *path.relative_to(ROOT / part).parts))

    wanted = {
        beside(part, path)
        for part in PARTS
        for folder, _, names in os.walk(ROOT / part)
        for path in (Path(folder, name) for name in names)
        if path.suffix != ".pyc"
    }
    held = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("kvproof-")}
    assert held == wanted
    assert {"kvproof/py.typed", "kvproof/engines/worker/__main__.py", "kvproof/refimpl/pool/block_pool.py"} <= held


def test_the_wheel_alone_verifies(environment: Path, tmp_path: Path) -> None:
    trace = write_lines(tmp_path / "small.jsonl", make_lines(1))
    report = tmp_path / "report.json"
    where = called(environment / "bin" / "python", "-c", "import kvproof; print(kvproof.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(environment)
    surroundings = {"cwd": tmp_path, "env": {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}}
    shown = called(environment / "bin" / "kvproof", "verify", "--trace", trace, "--json", report, **surroundings)
    assert "Everything holds." in shown
    head = {"command", "schema", "kit"}
    assert head | {"prove", "explore", "fuzz", "workload", "gaps"} == json.loads(report.read_text()).keys()


def test_the_package_is_run_as_a_module_too(environment: Path, tmp_path: Path) -> None:
    assert "Usage: kvproof" in called(environment / "bin" / "python", "-m", "kvproof", "--help", cwd=tmp_path)
