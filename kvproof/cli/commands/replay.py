"""``kvproof replay``: a trace once more, on the specification and, if one is named, on a target beside it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import ExitStatus, UsageError
from ..options import JsonOption
from ..output import Output
from ..schema import runs as schema
from ..written import check_file, writing

if TYPE_CHECKING:
    from ...checkers.target import Target
    from ...checkers.trace import Trace
    from ...machine import Model


def replay(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Compare with this target: refimpl; for an engine's trace: vllm==X, vllm@PYTHON, exec:COMMAND or "
            "python:MODULE:CLASS. A trace itself chooses none but an installed release.",
        ),
    ] = None,
    machine: Annotated[
        str | None, typer.Option(metavar="MACHINE", help="The machine, where the trace does not name a known one.")
    ] = None,
    itf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the trace there in the Informal Trace Format.")
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write what an engine does there as a script that shows the fault without kvproof, for the engine's "
            "own interpreter.",
        ),
    ] = None,
    json: JsonOption = None,
) -> int:
    """Run a trace again and report the first thing that is wrong."""
    output = Output(json)
    check_file("--itf", itf)
    check_file("--script", script)
    from ...checkers.replay import replay as replay_trace
    from ...checkers.replay import scope_of, setting_of
    from ...checkers.trace import read_trace, write_itf
    from ...harness.machines import KNOWN, REFUTED, find_machine
    from ...machine import Model

    recorded = read_trace(trace)
    of_engine = recorded.level != "sanitizer" and machine is None and "setup" in recorded.dialect
    if script is not None and not of_engine:
        raise UsageError(
            f"{trace} is not replayed as what an engine did, of which alone there are scripts; leave --script out"
        )
    if recorded.level == "sanitizer":
        from ..incident_replay import replay_incident

        return replay_incident(output, str(trace), recorded, target, itf)
    if of_engine:
        from ..engine_replay import replay_engine

        return replay_engine(output, str(trace), recorded, target, itf, script)
    by_class = {cls: name for name, (_, cls) in (KNOWN | REFUTED).items()}
    by_level = recorded.level if recorded.level in KNOWN else "pool" if recorded.subject == "refimpl" else None
    by_machine = by_class.get(str(recorded.dialect.get("machine")))
    name = machine or by_class.get(recorded.subject) or by_machine or by_level
    if name is None:
        raise UsageError(
            f"{trace} was recorded on {recorded.subject}, which is no known machine; "
            "name it with --machine FILE.py:CLASS"
        )
    model = Model.of(find_machine(name))
    if recorded.initial is not None:
        with _about(trace):
            first = _first(model, recorded)
        if all(first.get(name) == value for name, value in recorded.initial.items()):
            recorded.initial = None  # A target shows some of the variables only; these are as they are at first.
    setting = None
    if target is not None:
        from ...harness.levels import level_for

        if recorded.initial is not None:
            raise UsageError(f"{trace} does not begin in the first state, where a target does; leave --target out")
        with _about(trace):
            described = setting_of(recorded)
        if target != "refimpl" and described is not None:
            _in_dialect_of(target, described, recorded)
        try:
            kind = level_for(model.machine).setting
            with _about(trace):
                setting = kind.load(described) if described is not None else kind.of_scope(scope_of(model, recorded))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else error
            raise UsageError(f"{trace}: the reference implementation cannot be made for this trace: {why}") from error
    if itf is not None:
        with writing(itf):
            write_itf(itf, recorded)
    with _target(target, model) as make_target, _about(trace):
        done = replay_trace(model, recorded, make_target, setting)
    where = model.name if target is None else f"{model.name} and {target}"
    if done.problem is None:
        output.line(f"{trace}: {done.operations} operations on {where}: nothing is wrong")
    else:
        output.line(f"{trace}: {done.done} of {done.operations} operations on {where}, then:")
        for line in f"{done.problem.kind}: {done.problem.text}".split("\n"):
            output.line(f"  {line}")
        for line in done.problem.around:
            output.tables.print(line, markup=False, highlight=False)
        if recorded.note:
            output.line(f"  the trace was recorded with the note: {recorded.note}")
    found = done.problem
    problem = None if found is None else schema.MachineProblem(kind=found.kind, at=found.at, text=found.text)
    output.report(schema.Replay(trace=str(trace), operations=done.operations, done=done.done, problem=problem))
    return ExitStatus.HOLDS if done.problem is None else ExitStatus.REFUTED


def _in_dialect_of(target: str, setting: dict[str, Any], recorded: "Trace") -> None:
    """Let a run of the pool be one in a release's own dialect (P10): what it does otherwise by policy is no difference.

    Raises:
        UsageError: there is no such release.
    """
    from msgspec import UNSET

    from ...differential.catalog import LOCKSTEPS
    from ..hunting import open_build

    build = open_build(target)
    params = setting.get("params", {})
    split = LOCKSTEPS[build.name].splits(build.version, caching=params.get("caching") is not False)
    if params.get("split") != split:
        setting["params"]["split"] = split
        for operation in recorded.operations:
            operation.snapshot = UNSET  # Those of another dialect.


@contextmanager
def _about(trace: Path) -> Iterator[None]:
    """Let what is wrong with a trace begin with its file."""
    from ...checkers.trace import TraceError

    try:
        yield
    except TraceError as error:
        raise TraceError(f"{trace}: {error}") from error


@contextmanager
def _target(name: str | None, model: "Model") -> "Iterator[Callable[[Any], Target] | None]":
    """What makes the target of this name, to be compared with this machine; None when none is named.

    Raises:
        UsageError: there is no such target.
    """
    if name is None:
        yield None
    elif name == "refimpl":
        from ...harness.levels import level_for

        yield level_for(model.machine).target
    else:
        from ...differential.catalog import LOCKSTEPS
        from ..hunting import open_build

        if model.name != "Pool":
            raise UsageError(f"{name} is compared with machine Pool, not with {model.name}; use --target refimpl")
        build = open_build(name)
        with LOCKSTEPS[build.name].targets(build) as make_target:
            yield make_target


def _first(model: "Model", recorded: "Trace") -> dict[str, Any]:
    """Return the machine's own first state in the trace's scope."""
    from ...checkers.replay import scope_of
    from ...machine.concrete import Concrete

    concrete = Concrete(model, scope_of(model, recorded))
    return concrete.describe(concrete.initial())
