"""``kvproof prove``: every property of a machine, for any number of blocks, requests and hashes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import ExitStatus, UsageError
from ..options import JsonOption
from ..output import Output

if TYPE_CHECKING:
    from ..checkers.prove import ProveReport


def prove(
    machine: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MACHINE]...", help="Machines by name, or FILE.py:CLASS; all if none is named."),
    ] = None,
    solver: Annotated[Literal["z3", "cvc5"], typer.Option(help="Who decides the obligations.")] = "z3",
    timeout: Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="For one obligation.")] = 10.0,
    smt2: Annotated[Path | None, typer.Option(metavar="DIR", help="Write every obligation there, as SMT-LIB.")] = None,
    traces: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write each counterexample there, as a trace.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Ask everything of each machine, also what it has from others unchanged.")
    ] = False,
    json: JsonOption = None,
) -> int:
    """Prove a machine for any size; show the smallest counterexample to what does not hold."""
    output = Output(json)
    reports = prove_all(output, machine or [], solver=solver, timeout=timeout, smt2=smt2, jobs=jobs, alone=alone)
    show(output, reports)
    if traces is not None:
        _write_traces(output, reports, traces)
    output.report(to_json(reports))
    return verdict(reports)


def prove_all(
    output: Output,
    names: list[str],
    *,
    solver: Literal["z3", "cvc5"] = "z3",
    timeout: float = 10.0,
    smt2: Path | None = None,
    jobs: int | None = None,
    alone: bool = False,
) -> "list[ProveReport]":
    """Prove the machines of these names (all known ones if there are none), with progress.

    What a machine has unchanged from those that it extends is proved there: they come first, named or not.
    """
    from ..checkers.heritage import bases
    from ..checkers.prove import prove as prove_machine
    from ..machines import KNOWN, find_machine

    if smt2 is not None and smt2.exists() and not smt2.is_dir():
        raise UsageError(f"--smt2 {smt2} is a file; name a folder")
    if solver == "cvc5":
        import importlib.util

        if importlib.util.find_spec("cvc5") is None:
            raise UsageError("cvc5 is not installed; install it with pip install 'kvproof[cvc5]'")
    reports: list[ProveReport] = []
    proved = []
    for machine in map(find_machine, names or list(KNOWN)):
        for kind in (machine,) if alone else (*bases(machine)[::-1], machine):
            if kind in proved:
                continue
            proved.append(kind)
            with output.progress(f"proving {kind.__name__}") as advance:
                reports.append(
                    prove_machine(
                        kind, solver=solver, timeout=timeout, smt2=smt2, jobs=jobs, alone=alone, on_progress=advance
                    )
                )
    return reports


def show(output: Output, reports: "list[ProveReport]") -> None:
    """Print a line a machine, and what was not proved in full."""
    from rich import box
    from rich.table import Table

    output.tables.print("Proved for any number of blocks, requests and hashes, in every dialect:")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("machine", "obligations", "proved", "refuted", "unknown", "inherited", "slowest", "seconds"):
        table.add_column(column, justify="left" if column == "machine" else "right")
    for r in reports:
        counts = [str(r.count(v)) for v in ("proved", "refuted", "unknown")]
        inherited = str(r.inherited) if r.inherited else ""
        table.add_row(r.machine, str(len(r.obligations)), *counts, inherited, f"{r.slowest:.2f} s", f"{r.seconds:.2f}")
    output.tables.print(table)
    for r in reports:
        for o in r.obligations:
            if o.verdict != "proved":
                output.tables.print(f"{o.verdict}: {r.machine}.{o.action}: {o.rule} {o.goal} ({o.line})", markup=False)
                if o.note:
                    output.tables.print(f"  {o.note}", markup=False)
                if o.counterexample is not None:
                    output.tables.print(o.counterexample.render(), markup=False, highlight=False)


def to_json(reports: "list[ProveReport]") -> dict[str, Any]:
    """Return the reports as DESIGN lays them out for programs."""
    return {
        "obligations": sum(len(r.obligations) for r in reports),
        "proved": sum(r.count("proved") for r in reports),
        "refuted": sum(r.count("refuted") for r in reports),
        "unknown": sum(r.count("unknown") for r in reports),
        "seconds": sum(r.seconds for r in reports),
        "machines": [
            {
                "machine": r.machine,
                "seconds": r.seconds,
                "inherited": r.inherited,
                "bases": sorted(r.bases),
                "obligations": [
                    {
                        "action": o.action,
                        "goal": o.goal,
                        "rule": o.rule,
                        "verdict": o.verdict,
                        "seconds": o.seconds,
                        "line": o.line,
                        "note": o.note,
                        "counterexample": None if o.counterexample is None else o.counterexample.render(),
                    }
                    for o in r.obligations
                ],
            }
            for r in reports
        ],
    }


def verdict(reports: "list[ProveReport]") -> int:
    """Return the exit status: a refutation outweighs an open question."""
    if any(r.count("refuted") for r in reports):
        return ExitStatus.REFUTED
    return ExitStatus.UNDECIDED if any(r.count("unknown") for r in reports) else ExitStatus.HOLDS


def _write_traces(output: Output, reports: "list[ProveReport]", folder: Path) -> None:
    from ..checkers.trace import write_trace

    folder.mkdir(parents=True, exist_ok=True)
    for r in reports:
        for number, o in enumerate(o for o in r.obligations if o.counterexample is not None):
            assert o.counterexample is not None
            path = folder / f"{r.machine}-{o.action.replace(' ', '_')}-{number}.jsonl"
            write_trace(path, o.counterexample.trace)
            output.tables.print(f"  trace: {path}", markup=False)
