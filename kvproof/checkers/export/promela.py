"""A machine in one scope as a Promela model, for Spin.

Every action with every choice of its arguments is one step: a condition, and what it does. A state of the machine is
one state of the model, because whatever else there is (temporaries, scratch maps, copies of the state before) is back
at one value when a step ends. One more option, always possible, changes nothing and judges the state.
"""

from __future__ import annotations

from collections.abc import Sequence

from .bounded import Expr
from .promela_file import PromelaFile, narrowest, refusing, said
from .promela_steps import Step
from .promela_terms import Array, Terms
from .setting import Refused, Setting

__all__ = ["promela"]

HOW = (
    "spin -a FILE && gcc -O1 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m1000000",
    "`states, stored` is the number of reachable states, `states, matched` that of transitions and one more.",
    "With -DBFS for gcc a failed assertion has a short trail: `spin -t FILE` prints its steps, and what is broken.",
    "With -DDUMP for spin and -DPRINTF for gcc every state is printed.",
)

QUEUE = """\
inline push_back_NAME(begin, size, x) { NAME[begin + size] = x; size++ }
inline push_front_NAME(begin, size, x) {
  i_ = size;
  do :: i_ > 0 -> NAME[begin + i_] = NAME[begin + i_ - 1]; i_-- :: else -> break od;
  NAME[begin] = x; size++
}
inline push_before_NAME(begin, size, anchor, x) {
  i_ = size;
  do :: NAME[begin + i_ - 1] != anchor -> NAME[begin + i_] = NAME[begin + i_ - 1]; i_-- :: else -> break od;
  NAME[begin + i_] = NAME[begin + i_ - 1]; NAME[begin + i_ - 1] = x; size++; i_ = 0
}
inline remove_NAME(begin, size, x) {
  i_ = 0;
  do :: NAME[begin + i_] != x -> i_++ :: else -> break od;
  do :: i_ + 1 < size -> NAME[begin + i_] = NAME[begin + i_ + 1]; i_++ :: else -> break od;
  NAME[begin + i_] = none; size--; i_ = 0
}"""
"""What is done to the queue NAME. The variable `i_` counts places."""


def promela(setting: Setting) -> str:
    """The Promela text.

    Raises:
        Refused: the scope is too large to be written out, or needs numbers that Promela does not have.
    """
    steps = PromelaFile(setting)
    for act in setting.model.actions.values():
        plan = setting.plan(act)
        for args in setting.every(type(p) for p in act.params):
            with refusing(act.name, act.line):
                Step(steps, plan, args).write()
    head = "".join(f" * {line}".rstrip() + "\n" for line in setting.header(HOW))
    # What the steps need is known when they are written.
    lines = [*_declarations(steps), "init {", "  do", *_judge(steps), *steps.lines, "  od", "}"]
    return f"/*\n{head} */\n" + "\n".join(lines) + "\n"


def _declarations(file: PromelaFile) -> list[str]:
    """Everything that stands before the process."""
    lines = ["#define none 255"]
    for name, (kind, values) in file.declared.items():
        lines.append(f"{kind} {name}[{len(values)}] = {_listed(name, values)};")
    lines += [f"{narrowest(lo, hi)} t_{number};" for number, (lo, hi) in enumerate(file.temporaries)]
    queues = list(file.setting.model.queues)
    return [*lines, *["byte i_;"][: len(queues)], *(QUEUE.replace("NAME", file.array(q).name) for q in queues)]


def _listed(name: str, values: Sequence[Expr]) -> str:
    """First values as Promela takes them: a list has no negative numbers."""
    if all(v.lo >= 0 for v in values):
        return f"{{{', '.join(v.text for v in values)}}}"
    if len(set(values)) == 1:
        return str(values[0].lo)
    raise Refused(f"the first values of {name} are negative and differ, which is not covered")


def _judge(steps: PromelaFile) -> list[str]:
    """The option that changes nothing: it judges the state, and prints it where that is asked."""
    file = PromelaFile(steps.setting)
    arrays = {name: cells for name, cells in file.state.cells.items() if isinstance(cells, Array)}
    file.put("  :: d_step {")
    file.put("#ifdef DUMP")
    file.put('    printf("STATE\\n");')
    for name, array in arrays.items():
        values = "".join(f", {array.name}[{i}]" for i in range(array.count))
        file.put(f'    printf("{said(name)}{" %d" * array.count}\\n"{values});')
    file.put("#endif")
    for name, array in arrays.items():
        _look_at(file, name, array)
    for prop in file.setting.invariants:
        with refusing(prop.name, prop.line):
            file.judge(prop, Terms(file.setting, file.state, file.state), {}, "    ")
    file.put("    skip }")
    return file.lines


def _look_at(file: PromelaFile, name: str, array: Array) -> None:
    """Every value lies in the scope. Spin takes what nothing looks at out of the state, so everything is looked at."""
    model, hi, may_be_none = file.setting.model, array.hi, False
    if name in model.maps:
        hi, may_be_none = file.setting.bounds(model.maps[name])[1], model.maps[name].is_optional
    elif name in model.queues:
        hi, may_be_none = file.setting.scope.size(model.queues[name].of) - 1, True
    entries = [f"{array.name}[{i}]" for i in range(array.count)]
    if may_be_none:
        fits = " && ".join(f"({e} <= {hi} || {e} == none)" for e in entries)
    else:
        fits = " && ".join(f"0 <= {e} && {e} <= {hi}" for e in entries)
    says = f'printf("BROKEN a value of {said(name)} leaves the scope\\n"); assert(false)'
    file.put(f"    if :: ({fits}) -> skip :: else -> {says} fi;")
