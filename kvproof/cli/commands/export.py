"""``kvproof export``: a machine in the language of another checker, which gives a second opinion."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...checkers.trace import write_atomically
from ...errors import ExitStatus, UsageError
from ..options import (
    CachingOption,
    FreeOrderOption,
    JsonOption,
    MachineArgument,
    NullBlockOption,
    ParamsOption,
    SeedOption,
    SetOption,
    SizeOption,
)
from ..output import STANDARD_OUTPUT, Output
from ..schema import machines as schema

if TYPE_CHECKING:
    from ...checkers.export import Setting
    from ...machine import Machine


def export(
    machine: MachineArgument,
    to: Annotated[
        Literal["promela", "tla", "smt2"],
        typer.Option(help="For Spin, for TLC, or (each obligation, for any size) for solvers that read SMT-LIB."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE|DIR",
            help="promela: a file (standard output if not given). tla: a folder for module and configuration. "
            "smt2: a folder for a file per obligation, and their index.",
        ),
    ] = None,
    size: SizeOption = None,
    free_order: FreeOrderOption = "split",
    null_block: NullBlockOption = None,
    caching: CachingOption = True,
    seed: SeedOption = 0,
    given: SetOption = None,
    params: ParamsOption = None,
    json: JsonOption = None,
) -> int:
    """Write a machine for Spin or TLC, in one scope, or all that is to be proved of it as SMT-LIB."""
    output = Output(json)
    from ...harness.machines import find_machine

    kind = find_machine(machine)
    target = _target(to, out, json)
    if to == "smt2":
        if size or given or params:
            raise UsageError("--to smt2 asks of every size at once; leave --size, --set and --params out")
        assert target is not None
        _write_smt2(output, kind, target)
        return ExitStatus.HOLDS
    from ...harness.scopes import asked_scope

    scope = asked_scope(
        kind,
        size=size,
        given=given,
        params=params,
        free_order=free_order,
        null_block=null_block,
        caching=caching,
        seed=seed,
    )
    setting, files = _translated(kind, scope, to)
    for name, text in files.items():
        if target is None:
            typer.echo(text, nl=False)
        else:
            _write(target / name if to == "tla" else target, text)
    _show(output, setting, to, None if target is None else [str(target)])
    output.report(_to_json(setting, to, [] if target is None else _paths(target, to, files)))
    return ExitStatus.HOLDS


def _target(to: str, out: Path | None, json: str | None) -> Path | None:
    """Return where to write; none is standard output.

    Raises:
        UsageError: nothing can be written there.
    """
    if out is None:
        if to != "promela":
            raise UsageError(f"--to {to} writes several files; name a folder for them with -o DIR")
        if json == STANDARD_OUTPUT:
            raise UsageError("the model and --json - cannot both go to standard output; name a file with -o FILE")
        return None
    if to == "promela" and (out.is_dir() or not out.parent.is_dir()):
        raise UsageError(f"-o {out} is no file in a folder that exists; name one, as in -o model.pml")
    if to != "promela" and out.exists() and not out.is_dir():
        raise UsageError(f"-o {out} is a file, and --to {to} writes several; name a folder")
    return out


def _translated(kind: "type[Machine]", scope: Any, to: str) -> "tuple[Setting, dict[str, str]]":
    """Return the machine in its scope, and the files by their names.

    Raises:
        UsageError: the machine or the scope is not covered.
    """
    from ...checkers.export import Refused, Setting, promela, tla
    from ...machine.scope import ScopeError

    try:
        setting = Setting(kind, scope)
        if to == "promela":
            return setting, {f"{kind.__name__}.pml": promela(setting)}
        module = tla(setting)
        return setting, {f"{module.name}.tla": module.module, f"{module.name}.cfg": module.config}
    except (Refused, ScopeError) as error:
        raise UsageError(f"--to {to}: {error}") from error


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all, and the folder that it stands in.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise UsageError(f"-o {path} cannot be written ({error.strerror or error}); give another path") from error


def _write_smt2(output: Output, kind: "type[Machine]", folder: Path) -> None:
    from ...checkers.export import INDEX, write_obligations

    try:
        with output.progress(f"writing {kind.__name__}") as advance:
            written = write_obligations(kind, folder, on_progress=advance)
    except OSError as error:
        raise UsageError(f"-o {folder} cannot be written ({error.strerror or error}); give another path") from error
    said = f"{kind.__name__}: {len(written):,} obligations in {folder}, listed in {INDEX}"
    output.tables.print(said, markup=False, highlight=False, soft_wrap=True)
    output.report(
        schema.ExportObligations(machine=kind.__name__, to="smt2", obligations=len(written), folder=str(folder))
    )


def _paths(target: Path, to: str, files: dict[str, str]) -> list[str]:
    return [str(target / name) for name in files] if to == "tla" else [str(target)]


def _show(output: Output, setting: "Setting", to: str, where: list[str] | None) -> None:
    """Say what is checked and what is not; beside the text where that goes to standard output."""
    console = output.notes if where is None else output.tables
    checked = f"{len(setting.invariants)} invariants and {len(setting.steps)} properties of steps are checked"
    console.print(f"{setting.model.name}, {to}: {checked}", markup=False, highlight=False, soft_wrap=True)
    for line in setting.excuses():
        console.print(f"  left out: {line}", markup=False, highlight=False, soft_wrap=True)


def _to_json(setting: "Setting", to: Literal["promela", "tla"], files: list[str]) -> schema.Export:
    """Return what was written for programs."""
    return schema.Export(
        machine=setting.model.name,
        to=to,
        sizes=dict(setting.scope.sizes),
        files=files,
        invariants=[p.name for p in setting.invariants],
        steps=[p.name for p in setting.steps],
        left_out=[schema.LeftOut(name=name, why=why) for name, why in setting.left_out],
    )
