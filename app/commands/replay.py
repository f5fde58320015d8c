"""``kvproof replay``: a trace once more, on the specification and, if one is named, on a target beside it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ExitStatus, UsageError
from ..options import JsonOption
from ..output import Output

if TYPE_CHECKING:
    from ..checkers.trace import Trace
    from ..machine import Model


def replay(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.")],
    target: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="Compare with this target: refimpl; for an engine's trace: vllm==VERSION."),
    ] = None,
    machine: Annotated[
        str | None, typer.Option(metavar="MACHINE", help="The machine, where the trace does not name a known one.")
    ] = None,
    itf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the trace there in the Informal Trace Format.")
    ] = None,
    json: JsonOption = None,
) -> int:
    """Run a trace again and report the first thing that is wrong."""
    output = Output(json)
    from ..checkers.replay import replay as replay_trace
    from ..checkers.replay import scope_of, setting_of
    from ..checkers.trace import read_trace
    from ..machine import Model
    from ..machines import KNOWN, find_machine

    recorded = read_trace(trace)
    if machine is None and "setup" in recorded.dialect:
        from ..engine_replay import replay_engine

        return replay_engine(output, str(trace), recorded, target, itf)
    by_class = {cls: name for name, (_, cls) in KNOWN.items()}
    name = machine or by_class.get(recorded.subject) or ("pool" if recorded.subject == "refimpl" else None)
    if name is None:
        raise UsageError(
            f"{trace} was recorded on {recorded.subject}, which is no known machine; "
            "name it with --machine FILE.py:CLASS"
        )
    model = Model.of(find_machine(name))
    make_target, setting = None, None
    if target is not None:
        if target != "refimpl":
            raise UsageError(f"there is no target {target}; this release drives refimpl, the reference implementation")
        from ..pool_target import PoolTarget
        from ..worlds import World

        if recorded.initial is not None and recorded.initial != _first(model, recorded):
            raise UsageError(f"{trace} does not begin in the first state, where a target does; leave --target out")
        described = setting_of(recorded)
        try:
            setting = World.load(described) if described is not None else World.of_scope(scope_of(model, recorded))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{trace}: the reference implementation cannot be made for this trace: {error}") from error
        make_target = PoolTarget
    if itf is not None:
        import msgspec

        from ..checkers.trace import to_itf, write_atomically

        write_atomically(itf, msgspec.json.encode(to_itf(recorded)) + b"\n")
    done = replay_trace(model, recorded, make_target, setting)
    where = model.name if target is None else f"{model.name} and {target}"
    if done.problem is None:
        output.tables.print(
            f"{trace}: {done.operations} operations on {where}: nothing is wrong", markup=False, highlight=False
        )
    else:
        output.tables.print(
            f"{trace}: {done.done} of {done.operations} operations on {where}, then:", markup=False, highlight=False
        )
        output.tables.print(f"  {done.problem.kind}: {done.problem.text}", markup=False, highlight=False)
        if recorded.note:
            output.tables.print(
                f"  the trace was recorded with the note: {recorded.note}", markup=False, highlight=False
            )
    problem = (
        None if done.problem is None else {"kind": done.problem.kind, "at": done.problem.at, "text": done.problem.text}
    )
    output.report({"trace": str(trace), "operations": done.operations, "done": done.done, "problem": problem})
    return ExitStatus.HOLDS if done.problem is None else ExitStatus.REFUTED


def _first(model: "Model", recorded: "Trace") -> dict[str, Any]:
    """Return the machine's own first state in the trace's scope."""
    from ..checkers.replay import scope_of
    from ..machine.concrete import Concrete

    concrete = Concrete(model, scope_of(model, recorded))
    return concrete.describe(concrete.initial())
