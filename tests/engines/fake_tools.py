"""What stands in for pip and venv: releases are a few empty modules, made in milliseconds. Trying a release is real."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kvproof.engines.process import ProcessError, run

INDEX = ("0.34.0rc1", "0.33.0", "0.20.2", "0.15.1", "0.11.0", "0.9.2")

STEPS = ("venv", "index", "torch", "packages", "release", "try")


class FakeTools:
    """Takes the place of ``run`` in ``kvproof.engines.installation``."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str], Mapping[str, str]]] = []
        self.fails: dict[str, str] = {}
        """What the tools say at a step, or where a word of the command is this one, when they fail there."""
        self.says = "nothing new"
        self.before: Callable[[str], None] = lambda step: None
        self.after: Callable[[str], None] = lambda step: None

    def __call__(
        self, command: Sequence[str | Path], environment: Mapping[str, str], log: Path, on_line: Callable[[str], None]
    ) -> None:
        words = [str(word) for word in command]
        step = step_of(words)
        self.calls.append((step, words, environment))
        self.before(step)
        on_line(self.says)
        log.open("a").write(f"{step}\n")
        for place in (step, *words):
            if place in self.fails:
                raise ProcessError(self.fails[place])
        if step == "venv":
            make_environment(Path(words[-1]))
        elif step == "index":
            on_line(f"Available versions: {', '.join(INDEX)}")
        elif step == "packages":
            (Path(words[0]).parents[1] / "filled").touch()
        elif step == "release":
            make_release(Path(words[words.index("--target") + 1]), dynamo=words[-1].startswith("ai-dynamo-runtime"))
        elif step == "try":
            assert (Path(words[0]).parents[1] / "filled").exists() or "import dynamo" in words[-1]
            run(command, environment, log, on_line)
        self.after(step)

    def steps(self) -> list[str]:
        """Return what was done, and forget it."""
        steps = [step for step, _, _ in self.calls]
        self.calls.clear()
        return steps


def step_of(words: Sequence[str]) -> str:
    """Return which step of an installation a command is."""
    if words[1] == "-c":
        return "try"
    if "--target" in words:
        return "release"
    if "--requirement" in words:
        return "packages"
    return next((step for step in ("venv", "index") if step in words), "torch")


def make_environment(place: Path) -> None:
    """Make a virtual environment, without pip."""
    python = Path(os.path.realpath(sys.executable))
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(python)
    (place / "pyvenv.cfg").write_text(f"home = {python.parent}\nversion = 3\n")


def make_release(place: Path, *, dynamo: bool = False) -> None:
    """Make a release that has all that is tried, and nothing in it."""
    vllm = [f"vllm/v1/core/{module}.py" for module in ("block_pool", "kv_cache_manager", "sched/scheduler")]
    for name in ["dynamo/_core.py"] if dynamo else vllm:
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
