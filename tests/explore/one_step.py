"""Exported models, changed so that they begin in given states and take one step: any state can be looked at.

What is compared with the concrete interpreter then does not depend on what a machine happens to reach.
"""

from __future__ import annotations

import operator
import os
import random
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kvproof.checkers.export import Setting, Tla, promela, tla
from kvproof.machine import Bool, Machine, Real
from kvproof.machine.batched import Batched
from kvproof.machine.concrete import Concrete, IllFormed, State
from kvproof.machine.scope import Scope, ScopeError
from kvproof.machine.terms import name_of

from .outside import Described, Flat, as_flat, compile_spin, dumped, flat, tlc_dump, tlc_output, told
from .saying import saying

Move = tuple[str, tuple[int, ...]]
IMPOSSIBLE, WRONG = "impossible", "wrong"


@dataclass(frozen=True)
class Seen:
    """What became of one step: why there is none, or the state after it, and the properties of steps that it breaks."""

    after: Flat | str
    broken: frozenset[str] = frozenset()


class Ours:
    """The concrete interpreter. A step that is ill-formed or leaves the scope is wrong.

    So is one that needs a finer number on its way than the scope has, which only the batched interpreter notices.
    """

    def __init__(self, machine: type[Machine], scope: Scope) -> None:
        self.setting = Setting(machine, scope)
        self.concrete = Concrete(self.setting.model, scope)
        self.batched = Batched(self.setting.model, scope)
        self.is_exact = any(m.to is Real for m in self.setting.model.maps.values())

    def moves(self) -> list[Move]:
        """Every action with every choice of its arguments."""
        actions = self.setting.model.actions.values()
        return [(a.name, args) for a in actions for args in self.setting.every(type(p) for p in a.params)]

    def step(self, state: Described, move: Move) -> Seen:
        before = self.concrete.state(state)
        try:
            words = self.batched.pack([before])
            if self.is_exact:  # also on the way to what makes the step impossible
                list(self.batched.moves(words, only=move))
            if not self.concrete.is_enabled(before, *move):
                return Seen(IMPOSSIBLE)
            after, outcome = self.concrete.after(before, *move)
            self.batched.pack([after])
            broken = self.concrete.step_violations(before, after, *move, outcome.result)
        except (IllFormed, ScopeError):
            return Seen(WRONG)
        return Seen(flat(self.setting, self.concrete.describe(after)), frozenset(v.prop.name for v in broken))

    def starts(self, number: int, random_: random.Random) -> list[Described]:
        """States to begin in: any, and such as are reached."""
        return [(self._reached if i % 2 else self._any)(random_) for i in range(number)]

    def _any(self, random_: random.Random) -> Described:
        return arbitrary(self.setting, random_)

    def _reached(self, random_: random.Random) -> Described:
        """After a random walk that does nothing wrong."""
        state = self.concrete.describe(self.concrete.initial())
        for _ in range(random_.randint(0, 25)):
            moves = self.moves()
            random_.shuffle(moves)
            possible = (m for m in moves if self.step(state, m).after not in (IMPOSSIBLE, WRONG))
            move = next(possible, None)
            if move is None:
                break
            state = self.concrete.describe(self.concrete.after(self.concrete.state(state), *move)[0])
        return {n: v for n, v in state.items() if n not in self.setting.model.params}

    def some_moves(self, state: Described, number: int, random_: random.Random) -> list[Move]:
        """Moves to look at: mostly such as are possible."""
        moves = self.moves()
        random_.shuffle(moves)
        moves.sort(key=lambda m: self.step(state, m).after == IMPOSSIBLE)
        return moves[:number]

    def broken(self, state: Described) -> frozenset[str] | None:
        """The invariants that the state breaks, or of which the scope cannot tell; none where one has no value."""
        there = self.concrete.state(state)
        try:
            broken = frozenset(v.prop.name for v in self.concrete.violations(there))
        except IllFormed:
            return None
        return broken | {name for name, alone in self._one_by_one.items() if _is_too_coarse(alone, there)}

    @cached_property
    def _one_by_one(self) -> dict[str, Batched]:
        """For each invariant that may need finer numbers than the scope has the interpreter that notices it."""
        invariants = self.setting.model.of_kind("invariant") if self.is_exact else ()
        return {
            p.name: Batched(saying(self.setting.model, partial(operator.is_, p)), self.setting.scope)
            for p in invariants
        }

    def flat(self, state: Described) -> Flat:
        """The state, to compare by."""
        return flat(self.setting, self.concrete.describe(self.concrete.state(state)))


def _is_too_coarse(judge: Batched, state: State) -> bool:
    """The scope has not the numbers that are needed to judge the state."""
    words = judge.pack([state])
    try:
        judge.broken(words)
    except ScopeError:
        return True
    return False


def arbitrary(setting: Setting, random_: random.Random) -> Described:
    """Any values in the scope, and any elements in any order in the queues."""
    model, scope = setting.model, setting.scope
    state: Described = {}

    def nested(kinds: Sequence[type], one: Any) -> Any:
        return [nested(kinds[1:], one) for _ in range(scope.size(kinds[0]))] if kinds else one()

    def value(mapping: Any) -> Any:
        lo, hi = setting.bounds(mapping)
        number = random_.randint(lo, hi)
        if mapping.to is Real:
            return str(Fraction(number, setting.unit))
        return bool(number) if mapping.to is Bool else None if number == -1 else number

    for name in setting.state():
        mapping = model.maps[name]
        state[name] = nested(mapping.kinds, lambda m=mapping: value(m))
    for name, queue in model.queues.items():
        elements = range(scope.size(queue.of))
        queues = [random_.sample(elements, random_.randint(0, len(elements))) for _ in setting.every(queue.kinds)]
        state[name] = queues if queue.kinds else queues[0]
    return state


# ------------------------------------------------------------------------------------------------ Spin


class SpinSteps:
    """A verifier that begins in one of the states, and takes one step: which ones, its environment says."""

    def __init__(self, setting: Setting, starts: Sequence[Described], folder: Path) -> None:
        self.setting, self.folder = setting, folder
        self.numbers: dict[str, int] = {}
        text = promela(setting)
        for prop in (*setting.invariants, *setting.steps):
            # A property that fails, or cannot be judged, is told, and the run goes on.
            coarse = f"{prop.name} is judged of a number that is no multiple of 1/Real"
            ends = [f'BROKEN {what}\\n"); assert(false)' for what in (f"{prop.rule} {prop.name}", coarse)]
            assert any(end in text for end in ends) or not re.search(rf"\b{prop.name}\b", text.split("init {")[1])
            for end in ends:
                text = text.replace(end, f'BROKEN-PROPERTY {prop.name}\\n")')
        asked = "; ".join(f'now.{n}_ = atoi(getenv("{n.upper()}"))' for n in ("start", "move"))
        text = text.replace("#define none 255\n", "#define none 255\nbyte phase_;\nint start_, move_;\n", 1)
        text = text.replace('printf("STATE\\n");', 'printf("PHASE %d\\nSTATE\\n", phase_);', 1)
        text = re.sub(r'^  :: d_step \{ (.*?) -> printf\("STEP (.*?)\\n"\);', self._asked, text, flags=re.MULTILINE)
        begins = "\n".join(self._begin(i, s) for i, s in enumerate(starts))
        text = text.replace("init {\n  do\n", f"init {{\n  c_code {{ {asked}; }};\n  do\n{begins}\n", 1)
        self.pan = compile_spin(text, folder, "-DPRINTF", defines=["DUMP"])

    def _asked(self, option: re.Match[str]) -> str:
        # One step may have several options: where asking whether it is possible goes wrong, there is one for that.
        number = self.numbers.setdefault(option[2], len(self.numbers))
        wanted = f"phase_ == 1 && move_ == {number} && {option[1]}"
        return f'  :: d_step {{ ({wanted}) -> phase_ = 2; printf("STEP {option[2]}\\n");'

    def _begin(self, number: int, state: Described) -> str:
        numbers = _numbers(self.setting, state)
        sets = "; ".join(f"s_{name}[{i}] = {v}" for name, values in numbers.items() for i, v in enumerate(values))
        return f"  :: d_step {{ (phase_ == 0 && start_ == {number}) -> phase_ = 1; {sets} }}"

    def run(self, start: int, move: Move | None) -> tuple[str, list[str]]:
        """What is printed; split into what comes before the step and what comes after it."""
        number = -1 if move is None else self.numbers.get(self._label(move), -1)
        environment = {**os.environ, "START": str(start), "MOVE": str(number)}
        command = [str(self.pan), "-w10", "-m50"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True, env=environment)
        return done.stdout, done.stdout.split("STEP ")

    def _label(self, move: Move) -> str:
        names = [name_of(p) for p in self.setting.model.actions[move[0]].params]
        return f"{move[0]}({', '.join(f'{n}={v}' for n, v in zip(names, move[1], strict=True))})"

    def step(self, start: int, move: Move) -> Seen:
        """What becomes of one step."""
        output, parts = self.run(start, move)
        if len(parts) == 1:
            assert "errors: 0" in output, output
            return Seen(IMPOSSIBLE)
        after = parts[1].split("PHASE 2", 1)
        if len(after) == 1:
            assert "BROKEN " in parts[1], output
            assert "errors: 1" in output, output
            return Seen(WRONG)
        assert "errors: 0" in output, output
        (state,) = dumped(self.setting, after[1].split("PHASE")[0])
        return Seen(as_flat(state), frozenset(re.findall(r"BROKEN-PROPERTY (\w+)", after[0])))

    def broken(self, start: int) -> tuple[Flat, frozenset[str]]:
        """The state in which it begins, and the invariants that this breaks."""
        output, _ = self.run(start, None)
        there = output.split("PHASE 1", 1)[1].split("PHASE 0", 1)[0]
        (state,) = dumped(self.setting, there)
        return as_flat(state), frozenset(re.findall(r"BROKEN-PROPERTY (\w+)", there))


def _numbers(setting: Setting, state: Described) -> dict[str, list[int]]:
    """A state as the numbers of the exported variables."""
    numbers: dict[str, list[int]] = {}
    for name, values in dict(flat(setting, state)).items():
        queue = setting.model.queues.get(name)
        if queue is not None:
            capacity = setting.scope.size(queue.of)
            numbers[name] = [v for q in values for v in (*q, *[255] * (capacity - len(q)))]
            numbers[f"{name}_n"] = [len(q) for q in values]
            continue
        is_exact = setting.model.maps[name].to is Real
        numbers[name] = [255 if v is None else int(Fraction(v) * setting.unit) if is_exact else int(v) for v in values]
    return numbers


# ------------------------------------------------------------------------------------------------ TLC


def tlc_steps(
    setting: Setting, starts: Sequence[Described], moves: Sequence[tuple[int, Move]], folder: Path
) -> tuple[dict[int, tuple[Flat, frozenset[str]]], dict[tuple[int, Move], Seen]]:
    """TLC from all these states, with these moves from each: what it says of each.

    Returns the states in which it begins, with the invariants that each breaks, and what becomes of each step that is
    possible.
    """
    module = tla(setting)
    text = _one_step(setting, module.module, starts, moves)
    output = tlc_output(Tla(module.name, text, "INIT Begin\nNEXT One\n"), folder, "-dump", "states")
    assert "No error has been found" in output, output[-3000:]
    judged: dict[int, tuple[Flat, frozenset[str]]] = {}
    seen: dict[tuple[int, Move], Seen] = {}
    for values in tlc_dump(folder / "states.dump"):
        state, start, said = as_flat(told(setting, values)), values["x_start"], frozenset(values["x_said"])
        if not values["x_move"]:
            judged[start] = (state, said)
            continue
        name, *args = values["x_move"]
        is_wrong = (values["wrong"] != "" and not said) or any(" " in s for s in said)
        seen[start, (name, tuple(map(int, args)))] = Seen(WRONG) if is_wrong else Seen(state, said)
    return judged, seen


def _one_step(setting: Setting, text: str, starts: Sequence[Described], moves: Sequence[tuple[int, Move]]) -> str:
    text = re.sub(r"^VARIABLES (.*)$", r"VARIABLES \1, x_start, x_move, x_said", text, count=1, flags=re.MULTILINE)
    text = text.replace("Wrong(x) ==", "Wrong(x) == x_said' = {} /\\", 1)
    head, next_ = text.split("\nNext ==\n")
    broken = " \\cup ".join(["{}", *(f'(IF {p.name} THEN {{}} ELSE {{"{p.name}"}})' for p in setting.invariants)])
    begins = " \\/ ".join(f"(x_start = {i} /\\ {_equals(setting, s)})" for i, s in enumerate(starts))
    asked = ", ".join(f'<<{i}, <<"{name}"{"".join(f", {a}" for a in args)}>>>>' for i, (name, args) in moves)
    calls = [_call(setting, line.strip()[2:].strip()) for line in next_.splitlines() if line.strip().startswith("\\/")]
    return "\n".join(
        [
            re.sub(r"^  /\\ wrong' = (IF .*)$", _said, head, flags=re.MULTILINE).replace(
                '  /\\ wrong\' = ""', "  /\\ wrong' = \"\" /\\ x_said' = {}"
            ),
            f"Asked == {{{asked}}}",
            f'Begin ==\n  /\\ x_move = <<>> /\\ wrong = ""\n  /\\ ({begins})\n  /\\ x_said = {broken}',
            "One ==",
            *(f"  \\/ {c}" for c in calls),
            "====",
        ]
    )


def _said(line: re.Match[str]) -> str:
    """What a step breaks, all of it: the last word of a property, or a sentence."""
    checks = re.findall(r'IF ~\((.*?)\) THEN "([^"]*)" ELSE ', line[1])
    parts = [
        f'(IF {c} THEN {{}} ELSE {{"{says if says.startswith("a value of ") else says.rsplit(" ", 1)[-1]}"}})'
        for c, says in checks
    ]
    return line[0] + "\n  /\\ x_said' = " + " \\cup ".join(["{}", *parts])


def _equals(setting: Setting, state: Described) -> str:
    """The variables have these values."""
    parts = []
    for name, values in dict(flat(setting, state)).items():
        declared: Any = setting.model.queues[name] if name in setting.model.queues else setting.model.maps[name]
        texts = [_text(setting, declared, v) for v in values]
        parts.append(f"{name} = {_nested(setting, declared.kinds, texts)}")
    return " /\\ ".join(parts)


def _text(setting: Setting, declared: Any, value: Any) -> str:
    if isinstance(value, tuple):
        return f"<<{', '.join(map(str, value))}>>"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if value is None:
        return "none"
    return str(int(Fraction(value) * setting.unit) if declared.to is Real else value)


def _nested(setting: Setting, kinds: Sequence[type], texts: Sequence[str]) -> str:
    if not kinds:
        return texts[0]
    size = setting.scope.size(kinds[0])
    stride = len(texts) // size
    keys = ["FALSE", "TRUE"] if kinds[0] is Bool else list(map(str, range(size)))
    parts = [_nested(setting, kinds[1:], texts[i * stride : (i + 1) * stride]) for i in range(size)]
    return f"({' @@ '.join(f'{k} :> {part}' for k, part in zip(keys, parts, strict=True))})"


def _call(setting: Setting, call: str) -> str:
    """One action of `Next`, taken only from a start, and where it is fine there."""
    match = re.fullmatch(r"(?:\\E (.*) : )?(\w+)(?:\((.*)\))?", call)
    assert match is not None, call
    bound, name, args = match[1], match[2], match[3]
    kinds = [type(p) for p in setting.model.actions[name].params]
    given = [a.strip() for a in args.split(",")] if args else []
    numbers = [f"(IF {a} THEN 1 ELSE 0)" if k is Bool else a for a, k in zip(given, kinds, strict=True)]
    move = f"<<{', '.join([f'{chr(34)}{name}{chr(34)}', *numbers])}>>"
    asked = f"x_move = <<>> /\\ <<x_start, {move}>> \\in Asked /\\ x_move' = {move} /\\ x_start' = x_start"
    body = f"{asked} /\\ {call.split(' : ')[-1]}"
    return f"(\\E {bound} : {body})" if bound else f"({body})"
