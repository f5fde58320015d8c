"""``kvproof rules``: what must hold, where that comes from, and what keeps it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import ExitStatus, UsageError
from ..options import JsonOption
from ..output import Output
from ..schema import holdings as schema

if TYPE_CHECKING:
    from ...spec.faults import Fault
    from ...spec.rules import Rule
    from ..keepers import Keepers


def rules(
    codes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CODE]...", help="Rules as P6, all of a subject as P, known faults as B5 or S."),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a page: all that is known of them.")] = False,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="As a page: rules and machines, and how each rule is kept by each.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --matrix: mutants, as kvproof mutate --record keeps them."),
    ] = None,
    json: JsonOption = None,
) -> int:
    """Show the rules by name: all of them in a sentence each, or those that are named with what keeps them."""
    output = Output(json)
    from ...spec.faults import FAULTS
    from ...spec.rules import RULES, SUBJECTS

    faults, codes = _faults(codes or [])
    for fault in faults:
        _show_fault(output, fault)
    if faults and not codes:
        output.report(schema.Rules(rules=[], faults=[_fault(fault) for fault in faults], of=len(RULES)))
        return ExitStatus.HOLDS
    wanted = _wanted(codes)
    if matrix:
        _show_matrix(output, wanted, record)
    elif record is not None:
        raise UsageError("--record has no use without --matrix; give both, or none")
    elif markdown:
        from ..rules_page import page

        for line in page(wanted).splitlines():
            output.line(line)
    elif not codes:
        for subject, title in SUBJECTS.items():
            output.line(f"{title}:")
            for rule in wanted:
                if rule.subject == subject:
                    output.line(f"  {rule.code:4} {rule.sentence}")
        output.line("kvproof rules CODE says more of one, and what keeps it; kvproof rules B S tells of known faults.")
    if codes or json is not None:
        from ..keepers import keepers

        kept = keepers()
        if codes and not (markdown or matrix):
            for rule in wanted:
                _show(output, rule, kept[rule.code])
        output.report(
            schema.Rules(
                rules=[_rule(rule, kept[rule.code]) for rule in wanted],
                faults=[_fault(fault) for fault in faults or ([] if codes else FAULTS.values())],
                of=len(RULES),
            )
        )
    return ExitStatus.HOLDS


def _show_matrix(output: Output, rules: list["Rule"], record: Path | None) -> None:
    """Write the page.

    Raises:
        UsageError: the record is none.
    """
    from ...checkers.mutation.record import Record, RecordError
    from ..matrix_page import matrix

    if record is not None and not record.is_file():
        raise UsageError(f"--record {record} is not there; kvproof mutate --record {record} writes it")
    try:
        judged = list(Record(record).known.values())
    except RecordError as error:
        raise UsageError(f"--record: {error}") from error
    for line in matrix(rules, judged).splitlines():
        output.line(line)


def _faults(codes: list[str]) -> tuple[list["Fault"], list[str]]:
    """The known faults that are named, and the codes that name none."""
    from ...spec.faults import FAULTS

    named = {c: [f for f in FAULTS.values() if c.upper() in (f.code, f.code[0])] for c in codes}
    return [fault for found in named.values() for fault in found], [c for c, found in named.items() if not found]


def _show_fault(output: Output, fault: "Fault") -> None:
    output.line(f"{fault.code}: {fault.sentence}")
    output.line(f"  in: {fault.where}{f' ({fault.releases})' if fault.releases else ''}")
    output.line(f"  breaks: {', '.join(fault.rules)}")
    if fault.link:
        output.line(f"  link: {fault.link}")


def _wanted(codes: list[str]) -> list["Rule"]:
    """The rules that are named; all, where none is.

    Raises:
        UsageError: there is none of that name.
    """
    from ...spec.rules import RULES, SUBJECTS

    found: dict[str, Rule] = {}
    for code in (c.upper() for c in codes):
        named = [r for r in RULES.values() if code in (r.code, r.subject)]
        if not named:
            subjects = ", ".join(f"{letter} ({title.lower()})" for letter, title in SUBJECTS.items())
            raise UsageError(
                f"{code} is no rule; name one as P6, or all of a subject: {subjects}; or a known fault as B5"
            )
        found |= {rule.code: rule for rule in named}
    return list(found.values()) if codes else list(RULES.values())


def _show(output: Output, rule: "Rule", kept: "Keepers") -> None:
    output.line(f"{rule.code}: {rule.sentence}")
    if rule.more:
        output.line(f"  {rule.more}")
    output.line(f"  from: {rule.origin.name}{f', {rule.origin.link}' if rule.origin.link else ''}")
    for title, rows in (
        ("proved", kept.proved),
        ("promised", kept.promised),
        ("reached", kept.reached),
        ("assumed", kept.assumed),
    ):
        for machine, names in rows.items():
            output.line(f"  {title} of {machine}: {', '.join(names)}")
    if kept.levels:
        output.line(f"  fuzzed at the levels {', '.join(kept.levels)} of the reference implementation")
    if kept.oracles:
        output.line(f"  judged on engines by the oracles {', '.join(kept.oracles)}")
    if kept.streams:
        output.line("  judged on streams by kvproof events")


def _rule(rule: "Rule", kept: "Keepers") -> schema.Rule:
    return schema.Rule(
        code=rule.code,
        sentence=rule.sentence,
        more=rule.more or None,
        origin=schema.Origin(name=rule.origin.name, link=rule.origin.link or None),
        proved=kept.proved,
        reached=kept.reached,
        assumed=kept.assumed,
        levels=kept.levels,
        oracles=kept.oracles,
        streams=bool(kept.streams),
        promised=kept.promised,
    )


def _fault(fault: "Fault") -> schema.Fault:
    return schema.Fault(
        code=fault.code,
        where=fault.where,
        sentence=fault.sentence,
        rules=list(fault.rules),
        releases=fault.releases,
        link=fault.link,
    )
