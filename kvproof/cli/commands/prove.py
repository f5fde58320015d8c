"""``kvproof prove``: every property of a machine, for any number of blocks, requests and hashes."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...errors import UsageError
from .. import gaps
from ..options import LONGEST, JsonOption
from ..output import Output
from ..schema import machines as schema
from ..written import check_folder, writing

if TYPE_CHECKING:
    from ...checkers.prove import ProveReport
    from ...checkers.records import Obligation
    from ...checkers.solvers import Verdict
    from ...checkers.texts import Text
    from ...machine import Machine

FreshOption = Annotated[bool, typer.Option("--fresh", help="Believe nothing that an earlier run has proved.")]

VERDICTS: "tuple[Verdict, ...]" = ("proved", "refuted", "unknown")


def prove(
    machine: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MACHINE]...", help="Machines by name, or FILE.py:CLASS; all if none is named."),
    ] = None,
    solver: Annotated[Literal["z3", "cvc5"], typer.Option(help="Who decides the obligations.")] = "z3",
    timeout: Annotated[
        float, typer.Option(min=0.001, max=LONGEST, metavar="SECONDS", help="For one obligation.")
    ] = 10.0,
    smt2: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write every obligation there, as SMT-LIB, a folder for each machine."),
    ] = None,
    traces: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write each counterexample there, as a trace.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    fresh: FreshOption = False,
    sketch: Annotated[
        bool, typer.Option("--sketch", help="Write down, beside each machine, what its slow proofs needed.")
    ] = False,
    json: JsonOption = None,
) -> int:
    """Prove a machine for any size; show the smallest counterexample to what does not hold."""
    output = Output(json)
    check_folder("--traces", traces)
    check_folder("--smt2", smt2)
    reports = prove_all(
        output, machine or [], solver=solver, timeout=timeout, jobs=jobs, fresh=fresh or sketch, sketching=sketch
    )
    show(output, reports)
    if sketch:
        _write_sketches(output, machine or [], reports)
    if smt2 is not None:
        _write_obligations(output, machine or [], smt2)
    if traces is not None:
        _write_traces(output, reports, traces)
    report = to_json(reports)
    output.report(report)
    return verdict(output, reports, report.gaps)


def prove_all(
    output: Output,
    names: list[str],
    *,
    solver: Literal["z3", "cvc5"] = "z3",
    timeout: float = 10.0,
    jobs: int | None = None,
    fresh: bool = False,
    sketching: bool = False,
) -> "list[ProveReport]":
    """Prove the machines of these names (all known ones if there are none), with progress.

    ``fresh``: nothing is believed that an earlier run has proved. ``sketching``: sketches of proofs are made, not used.

    Raises:
        UsageError: a machine, the solver or the store of proofs cannot be used.
    """
    if solver == "cvc5" and importlib.util.find_spec("cvc5") is None:
        raise UsageError("cvc5 is not installed; install it with pip install 'kvproof[cvc5]'")
    machines, text = _machines(names)
    from ...checkers.proofs import Proofs, StoreError
    from ...checkers.prove import How, prove_machines
    from ...checkers.sketches import SketchError

    try:
        store = None if fresh or solver != "z3" else Proofs(_store())
        how = How(solver, timeout, store, sketching=sketching, text=text)
        with output.progress("proving") as advance:
            return prove_machines(machines, how, jobs=jobs, apart=True, on_progress=advance)
    except StoreError as error:
        raise UsageError(f"{error}; or ask everything anew with --fresh") from error
    except SketchError as error:
        raise UsageError(str(error)) from error


def _machines(names: list[str]) -> "tuple[list[type[Machine]], Text]":
    """The machines of these names, and the text that those of the specification are made of."""
    from ...checkers.texts import imported_text

    with imported_text("kvproof.spec", "kvproof.machine") as text:
        from ...harness.machines import find_machines

        return find_machines(names), text


def _write_sketches(output: Output, names: list[str], reports: "list[ProveReport]") -> None:
    """Write the sketches of each machine's proofs; those of a machine that needs none go."""
    from ...checkers.sketches import as_text, file_for
    from ...checkers.trace import write_atomically
    from ...harness.machines import find_machines

    for machine, report in zip(find_machines(names), reports, strict=True):
        file = file_for(machine)
        if file is None:
            continue
        with writing(file):
            if report.sketches:
                file.parent.mkdir(exist_ok=True)
                write_atomically(file, as_text(report.sketches))
                output.tables.print(f"  sketches: {file}", markup=False)
            else:
                file.unlink(missing_ok=True)


def _write_obligations(output: Output, names: list[str], folder: Path) -> None:
    """Write what was asked of each machine: what `kvproof export --to smt2` writes."""
    from ...checkers.export import write_obligations
    from ...harness.machines import find_machines

    for machine in find_machines(names):
        there = folder / machine.__name__
        try:
            with output.progress(f"writing {there}") as advance:
                write_obligations(machine, there, on_progress=advance)
        except OSError as error:
            raise UsageError(f"--smt2 {there} cannot be written ({error.strerror or error}); name another") from error


def _store() -> Path:
    """Where proofs are kept from run to run."""
    import platformdirs

    return Path(os.environ.get("KVPROOF_PROOFS") or Path(platformdirs.user_cache_dir("kvproof"), "proofs.sqlite"))


def show(output: Output, reports: "list[ProveReport]") -> None:
    """Print a line a machine, and what was not proved in full."""
    from rich import box
    from rich.table import Table

    output.tables.print(_heading(reports))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("machine")
    for column in ("actions", "properties", "obligations", "proved", "refuted", "unknown", "slowest", "computing"):
        table.add_column(column, justify="right")
    for r in reports:
        asked = (r.actions, r.properties, len(r.obligations), *(r.count(v) for v in VERDICTS))
        table.add_row(r.machine, *map(str, asked), f"{r.slowest:.2f} s", f"{r.seconds:.2f} s")
    output.tables.print(table)
    for line in _asides(reports):
        output.tables.print(line, highlight=False, soft_wrap=True)
    for r in reports:
        for o in r.obligations:
            if o.verdict != "proved":
                output.line(f"{o.verdict}: {r.machine}.{o.action}: {o.rule} {o.goal} ({o.line})")
                for line in o.note.splitlines():
                    output.line(f"  {line}")
                if o.counterexample is not None:
                    output.tables.print(o.counterexample.render(), markup=False, highlight=False)


def _heading(reports: "list[ProveReport]") -> str:
    """What the table shows: that something holds for any size is said only where all of it does."""
    held = sum(r.holds for r in reports)
    if held == len(reports):
        return "Proved for any number of blocks, requests and hashes, in every dialect:"
    if not any(r.count("refuted") for r in reports):
        return f"{held} of {len(reports)} machines are proved for any size; the others are not decided:"
    return f"{held} of {len(reports)} machines are proved for any size; what is refuted has a counterexample below:"


def _asides(reports: "list[ProveReport]") -> Iterator[str]:
    """What the numbers do not say by themselves."""
    left = sum(r.left_to_exploration for r in reports)
    if left:
        yield f"{left} more properties say what must be reachable: those are judged by kvproof explore, not by a proof"
    recalled = sum(r.recalled for r in reports)
    if recalled:
        total = sum(len(r.obligations) for r in reports)
        yield f"{recalled:,} of {total:,} were known: the same goal beside the same facts had been proved before"


def to_json(reports: "list[ProveReport]") -> schema.Prove:
    """Return the reports for programs."""
    return schema.Prove(
        obligations=sum(len(r.obligations) for r in reports),
        proved=sum(r.count("proved") for r in reports),
        refuted=sum(r.count("refuted") for r in reports),
        unknown=sum(r.count("unknown") for r in reports),
        seconds=sum(r.seconds for r in reports),
        machines=[
            schema.ProvedMachine(
                machine=r.machine,
                seconds=r.seconds,
                actions=r.actions,
                properties=r.properties,
                left_to_exploration=r.left_to_exploration,
                untouched=r.untouched,
                recalled=r.recalled,
                obligations=[_obligation(o) for o in r.obligations],
            )
            for r in reports
        ],
        gaps=[gap for report in reports for gap in gaps.of_proof(report)],
    )


def _obligation(o: "Obligation") -> schema.Obligation:
    return schema.Obligation(
        action=o.action,
        goal=o.goal,
        rule=o.rule,
        verdict=o.verdict,
        seconds=o.seconds,
        line=o.line,
        note=o.note,
        counterexample=None if o.counterexample is None else o.counterexample.render(),
    )


def verdict(output: Output, reports: "list[ProveReport]", missing: "list[gaps.Gap]") -> int:
    """Say what was not judged, and return the exit status: a refutation outweighs an open question."""
    refuted = any(r.count("refuted") for r in reports)
    return gaps.conclude(output, found=refuted, gaps=missing, undecided=not all(r.holds for r in reports))


def _write_traces(output: Output, reports: "list[ProveReport]", folder: Path) -> None:
    from ...checkers.trace import write_trace

    for r in reports:
        for number, o in enumerate(o for o in r.obligations if o.counterexample is not None):
            assert o.counterexample is not None
            path = folder / f"{r.machine}-{o.action.replace(' ', '_')}-{number}.jsonl"
            with writing(path):
                folder.mkdir(parents=True, exist_ok=True)
                write_trace(path, o.counterexample.trace)
                output.tables.print(f"  trace: {path}", markup=False)
