"""``kvproof explore``: every reachable state of a machine in one scope."""

import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import UsageError
from .. import gaps
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
from ..output import Output
from ..schema import machines as schema
from ..written import check_file, writing

if TYPE_CHECKING:
    from ...checkers.confirming import ErrorTrace, TraceStep
    from ...checkers.explore import ExploreReport
    from ...checkers.trace import Trace
    from ...machine import Machine
    from ...machine.scope import Scope


FEW_STATES = 50_000
"""Before there are more, a guess of how many there will be is worth nothing."""

MOST_CHOICES = 5_000
"""So many steps are tried in every state without being asked twice; to prepare them takes half a minute."""


def explore(
    machine: MachineArgument,
    size: SizeOption = None,
    device: Annotated[str, typer.Option(help="Where states are computed: cpu or cuda.")] = "cpu",
    free_order: FreeOrderOption = "split",
    null_block: NullBlockOption = None,
    caching: CachingOption = True,
    seed: SeedOption = 0,
    given: SetOption = None,
    params: ParamsOption = None,
    max_states: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after so many states (then the answer is 3).")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="GIB",
            help="Stop when the states take so much (then the answer is 3). Default: half of what is free.",
        ),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Go on where far more states are to be expected than memory holds.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the trace of the first violation there.")
    ] = None,
    json: JsonOption = None,
) -> int:
    """Visit every reachable state; a violation comes with a shortest trace."""
    output = Output(json)
    check_file("--trace", trace)
    from ...harness.machines import find_machine
    from ...harness.scopes import asked_scope

    kind = find_machine(machine)
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
    max_bytes = None if memory is None else round(memory * 2**30)
    report = run(output, machine, kind, scope, device=device, max_states=max_states, max_bytes=max_bytes, anyway=anyway)
    show(output, [report])
    if trace is not None and report.violations:
        from ...checkers.trace import write_trace

        with writing(trace):
            write_trace(trace, to_trace(report, scope.params))
            output.tables.print(f"trace: {trace}", markup=False)
    written = to_json(report, machine)
    output.report(written)
    return gaps.conclude(output, found=bool(report.violations), gaps=written.gaps)


def run(
    output: Output,
    label: str,
    machine: "type[Machine]",
    scope: "Scope",
    *,
    device: str = "cpu",
    max_states: int | None = None,
    max_bytes: int | None = None,
    anyway: bool = False,
) -> "ExploreReport":
    """Explore with progress.

    Raises:
        UsageError: the scope is too small for what the machine does, or the device is not there.
    """
    import torch

    from ...checkers.explore import explore as explore_machine
    from ...checkers.growth import expected
    from ...machine.scope import ScopeError

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"--device {device}: torch sees no CUDA device here; use --device cpu")
    if device.split(":")[0] not in ("cpu", "cuda"):
        raise UsageError(f"--device {device} is unknown; use cpu or cuda")
    if not anyway:
        _check_choices(machine, scope)
    with output.progress(f"exploring {label}") as advance:
        began, levels = time.perf_counter(), dict[int, int]()

        def on_progress(states: int, transitions: int, depth: int) -> None:
            levels[depth] = states
            speed = states / (time.perf_counter() - began)
            # The level that is under way says nothing yet.
            guess = gaps.about(expected([0, 1, *list(levels.values())[:-1]])) if states > FEW_STATES else ""
            text = f"{states:,} states ({speed:,.0f}/s), {transitions:,} transitions, depth {depth}"
            advance(states, None, f"exploring {label}: {text}" + (f", perhaps {guess} states in all" if guess else ""))

        try:
            return explore_machine(
                machine,
                scope,
                device=device,
                max_states=max_states,
                max_bytes=max_bytes,
                anyway=anyway,
                on_progress=on_progress,
            )
        except ScopeError as error:
            raise UsageError(str(error)) from error


def _check_choices(machine: "type[Machine]", scope: "Scope") -> None:
    """Begin nothing that would be prepared for longer than anybody waits.

    Raises:
        UsageError: there is too much to try in each state.
    """
    from ...checkers.growth import choices
    from ...machine import Model

    tried = choices(Model.of(machine), scope)
    action, most = max(tried.items(), key=lambda item: item[1], default=("", 0))
    if sum(tried.values()) > MOST_CHOICES:
        raise UsageError(
            f"scope {','.join(f'{sort}={size}' for sort, size in scope.sizes.items())}: action {action} alone has "
            f"{most:,} choices of arguments, to be tried in every state; give smaller sizes, or --anyway"
        )


def show(output: Output, reports: "list[ExploreReport]", labels: list[str] | None = None) -> None:
    """Print a line a scope, under these labels if there are any, and each violation with its trace."""
    from rich import box
    from rich.table import Table

    output.tables.print("Every reachable state of a small scope, every property in each:")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("machine")
    for column in ("states", "transitions", "depth", "violations", "memory", "seconds"):
        table.add_column(column, justify="right")
    for label, r in zip(labels or [r.machine for r in reports], reports, strict=True):
        memory = f"{r.peak_bytes / 2**20:,.1f} MiB"
        states = f"{r.states:,}" + ("" if r.complete else "+")
        table.add_row(
            label, states, f"{r.transitions:,}", str(r.depth), str(len(r.violations)), memory, f"{r.seconds:.2f}"
        )
    output.tables.print(table)
    for r in reports:
        for way, violations in groupby(r.violations, key=lambda found: found.trace):
            _show_violations(output, r.machine, way, list(violations))
        if r.unreached and r.complete:
            output.tables.print(f"{r.machine}: not reached in this scope: {', '.join(r.unreached)}", markup=False)
        if r.never and r.complete:
            numbers = f" ({gaps.NO_NEGATIVE})" if r.numbered else ""
            text = f"{r.machine}: never possible in this scope: {', '.join(r.never)}{numbers}"
            output.tables.print(text, markup=False)
        elif r.given_numbers and r.complete:
            text = f"{r.machine}: numbers that an action is given are 0 to {r.sizes['Int']} here, and never negative"
            output.tables.print(text, markup=False)


def _show_violations(
    output: Output, machine: str, way: "Sequence[TraceStep]", violations: "Sequence[ErrorTrace]"
) -> None:
    """Print what does not hold after these steps, the steps, and the states around the last of them."""
    for found in violations:
        output.tables.print(f"{machine}: {found.kind} {found.rule} {found.name} {found.values or ''}", markup=False)
    lines = [
        f"  {number}. {s.action}({', '.join(f'{k}={v}' for k, v in s.args.items())})" for number, s in enumerate(way, 1)
    ]
    back = violations[0].returns_to
    if back is not None:
        lines.append(
            f"  and again from step {back + 1} on, for ever: the goal of {violations[0].name} is never reached"
        )
    for line in (*lines, *violations[0].around):
        output.tables.print(line, markup=False, highlight=False)


def to_trace(report: "ExploreReport", params: dict[str, Any]) -> "Trace":
    """Return the trace of the first violation."""
    from ...checkers.trace import Operation, Trace

    found = report.violations[0]
    operations = [
        Operation(op=s.action, args=dict(s.args), **({} if s.state is None else {"snapshot": s.state}))
        for s in found.trace
    ]
    again = "" if found.returns_to is None else f" by going round for ever from operation {found.returns_to + 1} on"
    note = f"breaks {found.rule} {found.name}{again}"
    return Trace(report.machine, "machine", operations, dict(report.sizes), params, note=note, initial=found.initial)


def to_json(report: "ExploreReport", label: str) -> schema.Explore:
    """Return the report for programs; ``label`` is what its gaps are about."""
    return schema.Explore(
        machine=report.machine,
        sizes=report.sizes,
        states=report.states,
        transitions=report.transitions,
        properties=report.properties,
        depth=report.depth,
        violations=[
            schema.Violation(
                kind="step" if v.kind == "cycle" else v.kind,
                name=v.name,
                rule=v.rule,
                values=v.values,
                trace=[(s.action, s.args) for s in v.trace],
                returns_to=v.returns_to,
            )
            for v in report.violations
        ],
        unreached=report.unreached,
        never=report.never,
        complete=report.complete,
        explored_depth=report.explored_depth,
        stopped=report.stopped,
        expected_states=report.expected,
        limit_bytes=report.limit_bytes,
        peak_bytes=report.peak_bytes,
        seconds=report.seconds,
        gaps=list(gaps.of_exploration(report, label)),
    )
