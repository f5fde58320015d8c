"""What a test asserts in one line: of a block manager, that it keeps the rules; of a machine, that it is right."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..judge.record import Case
from .manager import BlockManager

if TYPE_CHECKING:
    from ..machine import Machine
    from ..machine.scope import Scope
    from .fuzzing import Fuzzed
    from .subjects import Adapter

__all__ = ["assert_explored", "assert_fuzzed", "assert_lockstep", "assert_played", "assert_proved"]


def assert_fuzzed(
    manager: Adapter, *, examples: int | None = None, seconds: float | None = None, seed: int = 0
) -> None:
    """Fuzz a manager or a tree, and fail with the story of each rule that it breaks, and a test to keep.

    Args:
        manager: the subclass.
        examples: how many cases; 1,000 where neither this nor ``seconds`` is said.
        seconds: the most time.
        seed: chooses the cases.

    Raises:
        AssertionError: it breaks a rule, or nothing could be judged.
        UsageError: it lacks what every manager has.
    """
    from .fuzzing import EXAMPLES, SECONDS, fuzz_manager

    examples = EXAMPLES if examples is None and seconds is None else examples
    _assert_unbroken(
        fuzz_manager(manager, examples=examples, seconds=SECONDS if seconds is None else seconds, seed=seed)
    )


def assert_lockstep(manager: type[BlockManager], *, examples: int = 100, seconds: float = 20.0, seed: int = 0) -> None:
    """Fuzz a manager beside machine P, the block pool of the specification, and fail where the two differ.

    Where the rules leave a choice, P makes one, and the manager must make it too: after each step its reference counts,
    its free queue and its prefix map are exactly P's. Blocks come from the head of the queue, freed ones go where
    ``dialect["free"]`` says, every full block that is computed is registered (a second one of the same tokens too, and
    the first of them is found), nothing is refused for which there is room.

    Args:
        manager: the subclass; it has ``lookup``, ``ref_counts``, ``free_queue`` and ``cached``.
        examples: how many cases.
        seconds: the most time.
        seed: chooses the cases.

    Raises:
        AssertionError: they differ, or the manager breaks a rule.
        UsageError: the manager does not tell what is compared.
    """
    from .fuzzing import fuzz_manager

    _assert_unbroken(fuzz_manager(manager, examples=examples, seconds=seconds, seed=seed, lockstep=True))


def _assert_unbroken(fuzzed: Fuzzed) -> None:
    stories = [story for of_rule in fuzzed.broken.values() for story in of_rule]
    assert not stories, "\n" + "\n".join(stories)
    assert fuzzed.report.steps, f"nothing was done with {fuzzed.kind.__qualname__}: {fuzzed.report.refusal}"


def assert_played(
    manager: Adapter,
    setup: Mapping[str, Any],
    operations: Sequence[tuple[str, Mapping[str, Any]]],
    *,
    lockstep: bool = False,
) -> None:
    """Play one sequence of operations, such as a finding gives, and fail with the story of the first rule that breaks.

    Args:
        manager: the subclass.
        setup: ``blocks``, ``block_tokens``, and what the manager takes besides.
        operations: their names and arguments, as docs/protocol.md has them for the level ``requests``; of a tree, as
            its findings have them.
        lockstep: beside machine P too, as `assert_lockstep` does.

    Raises:
        AssertionError: a rule is broken, or the manager does not take the setup.
        UsageError: it lacks what every manager has.
    """
    from ..engines.verdicts import judged_in
    from .fuzzing import judged_beside
    from .isolated import session_of
    from .subjects import subject_of
    from .telling import story

    subject = subject_of(manager)
    case = Case(subject.level, dict(setup), [(op, dict(args)) for op, args in operations])
    session = session_of(manager)
    found, answer = (judged_beside(session) if lockstep else judged_in(session, subject.more_oracles))(case, ())
    assert answer.refused is None, f"{manager.__qualname__} does not take this setup: {answer.refused}"
    assert found is None, "\n" + story(manager, case, found)


def assert_proved(machine: type[Machine], *, timeout: float = 10.0, jobs: int | None = 1) -> None:
    """Prove all that a machine promises, for any size, and fail with the counterexample to what does not hold.

    Args:
        machine: a subclass of `kvproof.Machine`.
        timeout: seconds of computing for one obligation.
        jobs: how many processes; none: one for each core.

    Raises:
        AssertionError: something is refuted, not decided, or there is nothing to prove.
        MachineError: the machine has a mistake.
    """
    from ..checkers.prove import prove

    report = prove(machine, timeout=timeout, jobs=jobs)
    lines = [f"{report.machine} is not proved:"]
    for o in report.obligations:
        if o.verdict != "proved":
            lines += [f"{o.verdict}: {report.machine}.{o.action}: {o.rule} {o.goal} ({o.line})", *o.note.splitlines()]
            lines += [o.counterexample.render()] if o.counterexample is not None else []
    if not report.properties or not report.actions:
        lines.append("it has no property or no action; give it an @invariant and an @action")
    assert report.holds, "\n".join(lines)


def assert_explored(
    machine: type[Machine],
    scope: Scope | None = None,
    *,
    max_states: int | None = None,
    never: Collection[str] = (),
    **sizes: int,
) -> None:
    """Visit every reachable state of a small scope, and fail with a shortest way to what does not hold.

    Args:
        machine: a subclass of `kvproof.Machine`.
        scope: sizes and parameters, for a machine that has parameters of its own.
        max_states: fail when there are more.
        never: actions that need not be possible in any state of this scope; all others must be, as what is said of
            their steps would be said of none. Numbers that an action is given are 0 to ``Int``, and none is negative.
        sizes: how many elements each sort has, by name: ``Block=3``, and numbers, ``Int=4``; in place of a scope.

    Raises:
        AssertionError: a property is violated, what must be reachable is not, an action is never possible, or not all
            states were visited.
        UsageError: the sizes do not fit the machine, or it has no action of a name under ``never``.
        ScopeError: a number leaves the scope; give ``Int`` a greater size.
    """
    from ..checkers.explore import explore
    from ..errors import UsageError
    from ..harness.scopes import find_scope

    if scope is None:
        scope = find_scope(machine, sizes, split=True, null=None, caching=True, seed=0)

    unknown = [name for name in never if name not in scope.model.actions]
    if unknown:
        raise UsageError(f"{machine.__name__} has no action {unknown[0]}, which need never be possible")
    report = explore(machine, scope, max_states=max_states)
    lines = [f"{report.machine} at {report.sizes}: {report.states:,} states, {report.transitions:,} transitions"]
    lines += map(str, report.violations)
    if report.complete and report.unreached:
        lines.append(f"not reached in this scope: {', '.join(report.unreached)}")
    impossible = [name for name in report.never if name not in never]
    if report.complete and impossible:
        numbers = " (no negative number is tried)" if report.numbered else ""
        lines.append(f"never possible in this scope: {', '.join(impossible)}{numbers}; give larger sizes, or never=(…)")
    if not report.complete and not report.violations:
        lines.append("not all states were visited; give smaller sizes, or a larger max_states")
    if not report.properties or not report.transitions:
        lines.append("nothing was judged: the machine has no property, or no action is possible")
    assert len(lines) == 1, "\n".join(lines)
