"""What cvc5 says of every obligation that Z3 proves: `python benchmarks/prove_second_opinion.py [MACHINE]...`.

cvc5 gets each obligation as SMT-LIB text, with few facts and then with more, and some seconds for all of them; whether
actions are possible and counts are what the laws say, it is asked too. A table of agreements: proved by both, by Z3
only (cvc5 does not know in time), and what one proves and the other refutes, of which there must be nothing.
"""

from __future__ import annotations

import argparse

from kvproof.checkers.prove import How, prove_machines
from kvproof.harness.machines import KNOWN, find_machine


def main() -> None:
    """Ask both, compare, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="*", default=[], help="by name; all if none is given")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds for one obligation (default 5)")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    print("| machine | obligations | both | Z3 only | cvc5 only | contradictions | cvc5, computing |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name in given.machines or list(KNOWN):
        machine = find_machine(name)
        answers = []
        for solver in ("z3", "cvc5"):
            (report,) = prove_machines([machine], How(solver=solver, timeout=given.timeout), jobs=given.jobs)
            answers.append(
                ({(o.action, n, o.goal): o.verdict for n, o in enumerate(report.obligations)}, report.seconds)
            )
        (z3, _), (cvc5, seconds) = answers
        both = sum(z3[k] == cvc5.get(k) == "proved" for k in z3)
        first = sum(z3[k] == "proved" and cvc5.get(k) == "unknown" for k in z3)
        second = sum(z3[k] == "unknown" and cvc5.get(k) == "proved" for k in z3)
        against = sum({z3[k], cvc5.get(k)} == {"proved", "refuted"} for k in z3)
        print(f"| {name} | {len(z3)} | {both} | {first} | {second} | {against} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
