"""What cvc5 says of every obligation that Z3 proves: `python benchmarks/prove_second_opinion.py [MACHINE]...`.

cvc5 gets each obligation as SMT-LIB text, with few facts and then with more, and some seconds for all of them: first,
where that is written down, with the facts that a proof by Z3 needed. What it has proved of one machine it is not asked
again where another has the same goal beside the same facts. Whether actions are possible and counts are what the laws
say, it is asked too. A table of agreements: proved by both, by Z3 only (cvc5 does not know in time), and what one
proves and the other refutes, of which there must be nothing.
"""

from __future__ import annotations

import argparse

from kvproof.checkers.prove import How, ProveReport, prove_machines
from kvproof.checkers.solvers import Verdict
from kvproof.harness.machines import KNOWN, find_machine


def main() -> None:
    """Ask both, compare, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="*", default=[], help="by name; all if none is given")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds for one obligation (default 5)")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    names = given.machines or list(KNOWN)
    machines = [find_machine(name) for name in names]
    hows = (How(solver=solver, timeout=given.timeout) for solver in ("z3", "cvc5"))
    both_reports = [prove_machines(machines, how, jobs=given.jobs) for how in hows]
    print("| machine | obligations | both | Z3 only | cvc5 only | contradictions | cvc5, computing |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, by_z3, by_cvc5 in zip(names, *both_reports, strict=True):
        z3, cvc5 = verdicts(by_z3), verdicts(by_cvc5)
        both = sum(z3[k] == cvc5.get(k) == "proved" for k in z3)
        first = sum(z3[k] == "proved" and cvc5.get(k) == "unknown" for k in z3)
        second = sum(z3[k] == "unknown" and cvc5.get(k) == "proved" for k in z3)
        against = sum({z3[k], cvc5.get(k)} == {"proved", "refuted"} for k in z3)
        print(f"| {name} | {len(z3)} | {both} | {first} | {second} | {against} | {by_cvc5.seconds:.0f} s |")


def verdicts(report: ProveReport) -> dict[tuple[str, int, str], Verdict]:
    """What became of each obligation, by its place, number and goal."""
    return {(o.action, n, o.goal): o.verdict for n, o in enumerate(report.obligations)}


if __name__ == "__main__":
    main()
