"""``kvproof leeway``: what the actions of a machine could do otherwise, and all its promises would still be kept."""

from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import ExitStatus
from ..options import LONGEST, JsonOption
from ..output import Advance, Output
from ..schema.machines import Leeway, Open

if TYPE_CHECKING:
    from ...checkers.left_open import LeftOpen
    from ...machine import Machine


def leeway(
    machine: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MACHINE]...", help="Machines by name, or FILE.py:CLASS; all if none is named."),
    ] = None,
    size: Annotated[int, typer.Option(min=1, max=4, metavar="N", help="Elements of each sort.")] = 2,
    timeout: Annotated[
        float, typer.Option(min=0.001, max=LONGEST, metavar="SECONDS", help="For one map or queue of one action.")
    ] = 3.0,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A map or queue that is left open on purpose; may be given again."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    json: JsonOption = None,
) -> int:
    """Show what actions could do otherwise and keep all promises: there, a promise is missing."""
    output = Output(json)
    from ...harness.machines import find_machines

    machines = find_machines(machine or [])
    with output.progress("looking") as advance:
        found = _look(machines, size, timeout, jobs, advance)
    allowed = set(allow or [])
    told = [Open(machine=m, action=o.action, name=o.name, what=o.what) for m, o in found if o.name not in allowed]
    opened = [o for o in told if o.what is not None]
    output.tables.print(_heading(len(opened), len(machines)))
    for machine_name, one in found:
        if one.name not in allowed:
            output.line(f"{machine_name}: {one}")
    output.report(Leeway(machines=[m.__name__ for m in machines], size=size, allowed=sorted(allowed), left_open=told))
    if opened:
        return ExitStatus.REFUTED
    return ExitStatus.UNDECIDED if told else ExitStatus.HOLDS


def _heading(opened: int, machines: int) -> str:
    where = "one machine" if machines == 1 else f"{machines} machines"
    if not opened:
        return f"Nothing was found that the actions of {where} could do otherwise."
    return f"{opened:,} times an action of {where} could do something else, and keep all that is promised:"


def _look(
    machines: "list[type[Machine]]", size: int, seconds: float, jobs: int | None, advance: Advance
) -> "list[tuple[str, LeftOpen]]":
    """What is left open, machine by machine, action by action."""
    from ...checkers.processes import each_by
    from ...machine import Model

    tasks = [(n, action) for n, machine in enumerate(machines) for action in Model.of(machine).actions]
    found: dict[tuple[int, str], list[LeftOpen]] = {}
    with each_by((machines, size, seconds), jobs, most=len(tasks)) as each:
        for done, (number, action, of_action) in enumerate(each(_look_at, tasks), 1):
            found[number, action] = of_action
            advance(done, len(tasks), f"{machines[number].__name__}.{action}")
    return [(machines[n].__name__, one) for n, action in tasks for one in found[n, action]]


def _look_at(
    work: "tuple[list[type[Machine]], int, float]", number: int, action: str
) -> "tuple[int, str, list[LeftOpen]]":
    from ...checkers.left_open import left_open
    from ...machine import Model

    machines, size, seconds = work
    return number, action, [*left_open(Model.of(machines[number]), action, size=size, seconds=seconds)]
