"""A failing run as a short Python script, and as a trace.

The script needs the implementation and its adapter, not the machine: what the machine expects stands in it as plain
values.
"""

import pprint
from collections.abc import Sequence
from typing import Any

from ..machine.concrete import Concrete
from ..machine.scope import plain
from ..machine.terms import name_of
from .lockstep import Call, Divergence
from .target import Setting, Target, nested, observable
from .trace import Operation, Trace

__all__ = ["named_args", "to_script", "to_trace"]

# What was seen stands in it as literals only: it may hold any text, and none of it must become Python.
_HEAD = '''"""Written by kvproof: a run in which the implementation differs from the specification.

Run it: it fails for as long as they differ.
"""

found = {found}

setting = {setting}

{preamble}


def call(action, args, *, possible=True):
    answer = (target.apply if possible else target.refuse)(action, args)
    said = answer.refused or "-> " + repr(answer.result)
    print("{{:<50}} {{}}".format(target.spell(action, args), said), *answer.events)
    return answer


def by_kind(events):
    return sorted(map(repr, events))


'''


def to_trace(
    spec: Concrete, target: Target, calls: Sequence[Call], *, seed: int | None, note: str, kit: str = ""
) -> Trace:
    """The run as the machine sees it: results, and what can be observed after each operation."""
    scope = spec.scope
    state = spec.initial()

    def snapshot() -> dict[str, Any]:
        described = spec.describe(state)
        return {name: described[name] for name in target.fields}

    initial = snapshot()
    operations: list[Operation] = []
    for call in calls:
        result: Any = {"refused": True}
        if not call.probe:
            result = plain(spec.apply(state, call.action, call.args).result)
        operations.append(Operation(call.action, named_args(spec, call), result, snapshot()))
    return Trace(
        subject=target.name,
        level=target.level,
        operations=operations,
        sizes=dict(scope.sizes),
        dialect={"machine": spec.model.name, "params": dict(scope.params), "setting": target.setting.describe()},
        kit=kit,
        seed=seed,
        note=note,
        initial=initial,
    )


def named_args(spec: Concrete, call: Call) -> dict[str, int]:
    """The arguments of a call by the names that the machine gives them."""
    names = [name_of(p) for p in spec.model.actions[call.action].params]
    return dict(zip(names, call.args, strict=True))


def to_script(spec: Concrete, target: Target, setting: Setting, calls: Sequence[Call], found: Divergence) -> str:
    """Python text that makes the calls, prints them, and asserts what the machine expects of the last one."""
    described = pprint.pformat(setting.describe(), width=118, compact=True, sort_dicts=False)
    lines = [_HEAD.format(found=repr(str(found).splitlines()[0]), setting=described, preamble=target.preamble())]
    state = spec.initial()
    for number, call in enumerate(calls, start=1):
        made = f"call({call.action!r}, {call.args!r}{', possible=False' if call.probe else ''})\n"
        lines.append(f"answer = {made}" if number == len(calls) else made)
        if not call.probe:
            outcome = spec.apply(state, call.action, call.args)
    if calls and not calls[-1].probe:
        lines.append("assert answer.refused is None, answer.refused\n")
        lines.append(f"assert answer.result == {outcome.result!r}, answer.result\n")
        lines.append(f"assert by_kind(answer.events) == by_kind({list(outcome.events)!r}), answer.events\n")
    fields = nested(spec.scope, observable(type(target), spec.scope, state))
    lines.append(_ending(found, calls, fields))
    return "".join(lines)


def _ending(found: Divergence, calls: Sequence[Call], fields: dict[str, Any]) -> str:
    """What must hold in the end."""
    text = ""
    if calls and calls[-1].probe:
        if found.oracle == "refusal":
            text += "assert answer.refused is not None, 'done, though it is not possible'\n"
        text += "assert answer.events == (), answer.events\n"
        if found.oracle == "stray":
            text += "done = target.strays()\nassert not done, done\n"
    names = [found.oracle, *found.also] if found.oracle in fields else []
    if names:
        text += "observed = target.observe()\n"
    for name in names:
        text += f"assert observed[{name!r}] == {fields[name]!r}, observed[{name!r}]\n"
    return text
