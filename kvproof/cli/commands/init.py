"""``kvproof init``: a starting point in a project, a test of what it has and a GitHub workflow that runs it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from ...errors import ExitStatus, UsageError
from ..output import Output
from ..written import check_folder

STARTING_POINT: Final = Path(__file__).parent.parent / "starting_point"
"""What is written into projects."""


class Kind(StrEnum):
    """What a project has."""

    POOL = "pool"
    TREE = "tree"
    OFFLOAD = "offload"


@dataclass(frozen=True)
class Start:
    """What is written for it."""

    test: Path
    what: str
    calls: str


STARTS: Final = {
    Kind.POOL: Start(Path("tests/test_block_manager.py"), "block manager", "five"),
    Kind.TREE: Start(Path("tests/test_prefix_tree.py"), "prefix tree", "six"),
    Kind.OFFLOAD: Start(Path("tests/test_offload.py"), "block manager and its host tier", "nine"),
}

WORKFLOW: Final = Path(".github/workflows/kvproof.yml")


def init(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="The project. Default: where you stand.")] = Path(),
    kind: Annotated[
        Kind,
        typer.Option(
            help="What it has: pool, a block pool or manager; tree, a prefix tree (radix cache); offload, a manager "
            "with a host tier."
        ),
    ] = Kind.POOL,
) -> int:
    """Write a starting point into a project: a test of what it has, and a GitHub workflow that runs it."""
    output, start = Output(None), STARTS[kind]
    test = start.test
    files = {folder / test: _template(test), folder / WORKFLOW: _workflow(folder, start)}
    _check(folder, files)
    _write(files)
    for path in files:
        output.line(f"written: {path}")
    output.line("what to do next:")
    output.line(f"  1. fill in {folder / test}: {start.calls} calls of your {start.what}")
    output.line(f"  2. python -m pytest {test}   (one test for each rule; what fails tells its story)")
    output.line("  3. let it tell more of itself: what is skipped says which method unlocks its rule (-rs)")
    output.line(f"  4. commit both files: {WORKFLOW} runs the test at every push; see that its line of pip names")
    output.line(f"     all that your {start.what} needs, and kvproof from where you have it")
    return ExitStatus.HOLDS


def _template(path: Path) -> str:
    return (STARTING_POINT / path.name).read_text(encoding="utf-8")


def _workflow(folder: Path, start: Start) -> str:
    """The workflow, which also installs the project as far as one sees how."""
    project = next((words for name, words in _INSTALLED_BY.items() if (folder / name).is_file()), "")
    return _template(WORKFLOW).replace(" PROJECT", project).replace("TEST", str(start.test)).replace("WHAT", start.what)


_INSTALLED_BY = {"pyproject.toml": " .", "setup.py": " .", "requirements.txt": " -r requirements.txt"}
"""What pip is told where a project has this file."""


def _check(folder: Path, files: Mapping[Path, str]) -> None:
    """Make sure, before anything is written, that all of it can be, and that nothing is in its place.

    Raises:
        UsageError: it cannot, or something is.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give the folder of your project, and make it first")
    for path in files:
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} is there already, and nothing is overwritten; move it away first")
        check_folder("FOLDER", path.parent)


def _write(files: Mapping[Path, str]) -> None:
    """Write all files or none.

    Raises:
        UsageError: one cannot be written after all.
    """
    from ...checkers.trace import write_atomically

    written: list[Path] = []
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text.encode())
            written.append(path)
    except OSError as error:
        for path in written:
            path.unlink()
        raise UsageError(f"{path} cannot be written ({error.strerror}); nothing was; mend that first") from error
