"""The checks that `conformance` makes of a driver, one method each: what it asks, and what must come back."""

import random
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from ...judge.activity import Activity
from ...judge.record import Answer, Capabilities, Case, PoolState, Step
from ...judge.shapes import KEEPS, problem_of_dialect, problem_of_world, problems
from ...judge.sight import Sight
from ...judge.story import Story, asked
from ..cases import Op
from ..session import Exchange, Session
from ..verdicts import close
from .requests import LEVEL, OPERATIONS, OPTIONS, SEVERAL, TENANTS, closing, draw, tenants_of

__all__ = ["Battery", "HangError", "NotApplicableError"]

_CASES = 6
"""Cases of each family."""

_HANGS = 2
"""After so many messages without an answer in time nothing more is asked."""

_OUTSIDE = {"level": "there is no such level", "setup": {}, "ops": []}


class NotApplicableError(Exception):
    """A check does not concern this driver; the text says why."""


class HangError(Exception):
    """The driver has not answered, again."""


_ONCE: list[Op] = [
    ("start", {"request": "r0", "prompt": [0, 0], "most": 1}),
    ("step", {"request": "r0", "most": 1}),
    ("grow", {"request": "r0", "tokens": [1]}),
    ("fork", {"request": "r0", "child": "r2"}),
    ("abort", {"request": "r2"}),
    ("preempt", {"request": "r0"}),
    ("resume", {"request": "r0"}),
    ("finish", {"request": "r0"}),
    ("start", {"request": "r1", "prompt": [0]}),
    ("abort", {"request": "r1"}),
]
"""What a request can go through: what is drawn may leave out what a driver with few operations seldom does."""


def _loads(blocks: int, size: int) -> list[Op]:
    """What a request stores and another one drives out of the device comes back from the host."""
    prompt = [0] * (2 * size + 1)
    return [
        ("start", {"request": "r0", "prompt": prompt}),
        *[("mirror", {"requests": ["r0"]})] * 3,
        ("finish", {"request": "r0"}),
        ("start", {"request": "r1", "prompt": [1] * blocks * size}),
        ("finish", {"request": "r1"}),
        *[("mirror", {"requests": []})] * 3,
        ("start", {"request": "r2", "prompt": prompt}),
        ("loaded", {"pick": 0, "failed": 0}),
    ]


class Battery:
    """The checks, and what they share. Each returns what is wrong; nothing when all is well."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.messages = 0
        """How many were said."""
        self.sight = Sight()
        self.activity = Activity()
        self._hangs = 0
        self._told: list[tuple[Case, dict[str, Any]]] | None = None
        self._read: list[tuple[Case, Answer]] | None = None

    # --------------------------------------------------------------------------------------------------- asking

    @property
    def capabilities(self) -> Capabilities:
        """What the driver says it can do; what the rest of the checks need."""
        found = self.session.hello.capabilities.get(LEVEL)
        if found is None or not {"start", "finish"} <= set(found.operations):
            raise NotApplicableError("the hello does not say that the driver can start and finish requests")
        return msgspec.structs.replace(
            found,
            operations=[name for name in found.operations if name in OPERATIONS],
            block_tokens=tuple(n for n in found.block_tokens if n > 0) or (2,),
            tokens_per_grow=max(1, found.tokens_per_grow),
        )

    def say(self, message: dict[str, Any]) -> Exchange:
        """Say a message; a driver that hangs again and again is left alone."""
        done = self.session.exchange(message)
        self.messages += 1
        if done.failure is not None and done.failure.kind == "hang":
            self._hangs += 1
            if self._hangs >= _HANGS:
                raise HangError(done.failure.text)
        return done

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | str:
        """Say a message; return the answer, without its number, or what is wrong."""
        done = self.say(message)
        if done.failure is not None:
            return done.failure.text
        return {name: value for name, value in done.answer.items() if name != "id"}

    def setup(self, **more: Any) -> dict[str, Any]:
        """A usual setup."""
        return {"blocks": 6, "block_tokens": self.capabilities.block_tokens[0], **more}

    def cases(self) -> Iterator[Case]:
        """A case with every operation, and cases of all families that the driver can do, the same in every run."""
        can = self.capabilities
        once = [(name, args) for name, args in _ONCE if name in can.operations]
        yield close(Case(LEVEL, self.setup(), once), closing(can))
        more: dict[str, Any] = {"events": True} if "events" in can.options else {}
        if "host_blocks" in can.options:
            more["host_blocks"] = 4
        if {"loaded", "mirror"} <= {*can.operations}:
            setup = self.setup(host_blocks=16)
            yield close(Case(LEVEL, setup, _loads(setup["blocks"], setup["block_tokens"])), closing(can))
        families = {"mirror" if "host_blocks" in more else "plain": self.setup(**more)}
        families["tight"] = self.setup(**more) | {"blocks": 2}
        if tenants_of(can):
            families["tenants"] = self.setup(**more)
        if "caching" in can.options:
            families["uncached"] = self.setup(caching=False)
        for name, setup in families.items():
            for seed in range(_CASES):
                play = random.Random(seed).randbytes(5 * 40)
                yield close(draw(can, name, setup, play), closing(can))

    def told(self) -> list[tuple[Case, dict[str, Any]]]:
        """The cases and the answers as they were said, states in full."""
        if self._told is None:
            found = []
            for case in self.cases():
                answer = self.answer(_message(case))
                if isinstance(answer, str):
                    raise NotApplicableError(f"there is no answer to look at: {answer}")
                found.append((case, answer))
            self._told = found
        return self._told

    def read(self) -> list[tuple[Case, Answer]]:
        """The cases and the answers, typed."""
        if self._read is None:
            try:
                self._read = [(case, _typed(answer)) for case, answer in self.told()]
            except msgspec.ValidationError as error:
                raise NotApplicableError(f"the answers cannot be read ({error})") from error
            self._read = [(case, answer) for case, answer in self._read if answer.world is not None]
            for _, answer in self._read:
                self.activity.see(answer)
                self.sight.see(answer, self.activity)
        if not self._read:
            raise NotApplicableError("no setup was taken")
        return self._read

    def steps(self) -> Iterator[tuple[Case, Answer, int, Step]]:
        """All steps of all answers."""
        for case, answer in self.read():
            for number, step in enumerate(answer.steps):
                yield case, answer, number, step

    # --------------------------------------------------------------------------------------------------- the checks

    def hello(self) -> str | None:
        """The hello has the fields that it must have, and no others."""
        said: Any = self.session.said_hello["hello"]
        found = self.session.hello
        if not found.engine or not found.version:
            return "engine or version is empty"
        if LEVEL not in found.levels:
            return f"its levels are {found.levels}, without {LEVEL!r}"
        unknown = set(said) - {"protocol", "engine", "version", "levels", "capabilities"}
        can = found.capabilities.get(LEVEL)
        if can is None:
            return f"it has no capabilities for level {LEVEL!r}"
        unknown |= set(said["capabilities"][LEVEL]) - set(Capabilities.__struct_fields__)
        unknown |= set(can.operations) - {*OPERATIONS, *SEVERAL}
        unknown |= set(can.options) - set(OPTIONS)
        unknown |= set(can.tenants) - set(TENANTS)
        unknown |= {name for names in can.visible.values() for name in names} - set(PoolState.__struct_fields__)
        unknown |= set(can.visible) - {"device", "host"}
        if unknown:
            return f"it says {', '.join(sorted(map(repr, unknown)))}, which the protocol does not know"
        if not {"start", "finish"} <= set(can.operations):
            return "its operations lack start or finish"
        if min(can.block_tokens, default=0) < 1 or can.tokens_per_grow < 1:
            return "block_tokens and tokens_per_grow must be 1 or more"
        return None

    def quiet(self) -> str | None:
        """Nothing but answers stands on standard output."""
        done = self.say(_OUTSIDE)
        time.sleep(0.1)
        said = b"" if done.failure is not None else self.session.idle()
        if said:
            self.session.close()
            return f"after an answer it went on to say {said[:80]!r}"
        return None if done.failure is None else done.failure.text

    def unknown_level(self) -> str | None:
        """A level that the driver does not have is refused."""
        return _not_refused(self.answer(_OUTSIDE))

    def bad_setup(self) -> str | None:
        """A setup that makes no sense is refused."""
        ops = [["start", {"request": "r0", "prompt": [0]}]]
        return _not_refused(self.answer({"level": LEVEL, "setup": self.setup(blocks=0), "ops": ops}))

    def unknown_option(self) -> str | None:
        """An option that the driver does not know is refused: it must not be taken for one that was heeded."""
        return _not_refused(self.answer({"level": LEVEL, "setup": self.setup(no_such_option=1), "ops": []}))

    def usual_setups(self) -> str | None:
        """The setups that the hello promises are taken."""
        done: dict[str, Any] = {}
        for case in self.cases():
            key = str(case.setup)
            if key not in done:
                done[key] = self.answer({"level": LEVEL, "setup": case.setup, "ops": []})
                if isinstance(done[key], str):
                    return f"setup {case.setup}: {done[key]}"
                if "world" not in done[key]:
                    return f"setup {case.setup} is answered with {_short(done[key])}"
        return None

    def message_numbers(self) -> str | None:
        """An answer has the number of its message, whatever that is."""
        for number in (0, 7_000_000_001):
            done = self.say({**_OUTSIDE, "id": number})
            if done.failure is not None:
                return f"message {number}: {done.failure.text}"
        return None

    def answers(self) -> str | None:
        """Answers have a world and one step for each operation, up to the first error."""
        for case in self.cases():
            answer = self.answer(_message(case))
            if isinstance(answer, str):
                return answer
            if set(answer) != {"world", "steps"}:
                return f"an answer has the fields {sorted(answer)}, and not id, world, steps"
            try:
                read = _typed(answer)
            except msgspec.ValidationError as error:
                return f"an answer cannot be read: {error}"
            unknown = {name for step in answer["steps"] for name in step} - set(Step.__struct_fields__)
            if unknown:
                return f"steps have fields that the protocol does not know: {', '.join(sorted(unknown))}"
            names = [step.op for step in read.steps]
            wanted = [name for name, _ in case.ops]
            ended = bool(read.steps) and read.steps[-1].error is not None
            if names != (wanted[: len(names)] if ended else wanted):
                return f"{len(wanted)} operations were asked, and {len(names)} steps do not fit them"
        return None

    def worlds(self) -> str | None:
        """Worlds are well-formed, and what the setup asks for."""
        for case, answer in self.read():
            world = answer.world
            assert world is not None
            wrong = problem_of_world(world) or problem_of_dialect(world)
            if wrong is not None:
                return wrong
            tiers = list(world.tiers.values())
            usable = tiers[0].blocks - (tiers[0].null is not None)
            asked = case.setup["blocks"]
            if not asked <= usable <= asked * len(world.groups):
                return f"{asked} usable blocks were asked, and the device has {usable}"
            host = case.setup.get("host_blocks", 0)
            if (len(tiers) > 1) != bool(host):
                return f"the setup has {host} host blocks, and the world {len(tiers)} tiers"
            if world.groups[0].block != case.setup["block_tokens"]:
                return f"{case.setup['block_tokens']} tokens a block were asked, the world has {world.groups[0].block}"
        return None

    def effects(self) -> str | None:
        """Effects have their fields, and numbers in range."""
        return self._shapes("effect")

    def states(self) -> str | None:
        """States have their fields, and numbers in range."""
        return self._shapes("state") or next(self._uncounted(), None)

    def _shapes(self, kind: str) -> str | None:
        for case, answer in self.read():
            assert answer.world is not None
            for problem in problems(answer.world, answer.steps):
                if problem.kind == kind:
                    return f"after {asked(case, problem.step)}: {problem.text}"
        return None

    def _uncounted(self) -> Iterator[str]:
        for case, answer, number, step in self.steps():
            state = step.state
            if state is None and step.error is None and not step.skipped:
                yield f"after {asked(case, number)} no state was told, though all were asked for"
            elif state is not None:
                assert answer.world is not None
                if missing := set(answer.world.tiers) - set(state.pools):
                    yield f"after {asked(case, number)} there is no pool {', '.join(sorted(missing))}"
                if len(state.tables) != state.running:
                    yield (
                        f"after {asked(case, number)} {state.running} requests run, and there are tables of "
                        f"{len(state.tables)}"
                    )

    def visible(self) -> str | None:
        """What the hello calls visible is told, and nothing else is."""
        declared = self.capabilities.visible
        for case, answer, number, step in self.steps():
            assert answer.world is not None
            for tier, pool in step.state.pools.items() if step.state is not None else ():
                told = {name for name in pool.__struct_fields__ if getattr(pool, name) is not None}
                for name in sorted(told ^ set(declared.get(tier, ()))):
                    how = "told and not declared" if name in told else "declared and not told"
                    return f"after {asked(case, number)} {name} of the {tier} is {how}"
        return None

    def story(self) -> str | None:
        """What happened is told: arrival, lookup, table, forward passes and end of each request."""
        for case, answer in self.read():
            wrong = next(Story(case).told(answer.steps), None)
            if wrong is not None:
                return wrong
        return None

    def results(self) -> str | None:
        """Operations answer with what they must."""
        for case, _, number, step in self.steps():
            if step.skipped or step.error is not None:
                continue
            if step.op in ("start", "resume", "step", "grow", "fork", "reset") and not isinstance(step.result, bool):
                return f"{asked(case, number)} answered {_short(step.result)}, and not true or false"
            if step.op == "drain":
                result = step.result
                if not isinstance(result, dict) or not all(
                    type(result.get(name)) is int for name in ("left", "pending")
                ):
                    return f"drain answered {_short(result)}, and not {{left, pending, steps}}"
        return None

    def rest(self) -> str | None:
        """After a drain that left nothing, nothing is there."""
        self._must_have("drain")
        for case, _, number, step in self.steps():
            if step.op == "drain" and step.state is not None and isinstance(step.result, dict):
                there = step.state.running + step.state.waiting
                if there != step.result.get("left"):
                    return f"{asked(case, number)} left {step.result.get('left')} requests, and {there} are there"
        return None

    def every_operation(self) -> str | None:
        """Every operation that the hello names can be done."""
        done = {step.op for _, _, _, step in self.steps() if not step.skipped and step.error is None}
        missing = [name for name in self.capabilities.operations if name not in done]
        return f"never done: {', '.join(missing)} (skipped or failed each time)" if missing else None

    def skipping(self) -> str | None:
        """An operation on a request that is not there is skipped and changes nothing."""
        for name in ("finish", "grow", "fork", "step", "resume", "abort", "preempt", "cut"):
            if name not in self.capabilities.operations:
                continue
            more: dict[str, dict[str, Any]] = {
                "grow": {"tokens": [0]},
                "cut": {"tokens": [0]},
                "fork": {"child": "r1"},
                "step": {"most": 1},
            }
            args = {"request": "nobody", **more.get(name, {})}
            first = ["start", {"request": "r0", "prompt": [0, 1, 2]}]
            answer = self.answer({"level": LEVEL, "setup": self.setup(), "ops": [first, [name, args]]})
            if isinstance(answer, str):
                return answer
            steps = answer.get("steps", [])
            if len(steps) != 2 or steps[1].get("skipped") is not True:
                return f"{name} of a request that never came is answered with {_short(steps[1:])}"
            if steps[1].get("state") not in (None, steps[0].get("state")):
                return f"{name} of a request that never came changes the state"
        return None

    def snapshots(self) -> str | None:
        """States come when they are asked for, and not else."""
        case, answer = self.told()[0]
        full = [step.get("state") for step in answer["steps"]]
        at = [1, len(full) - 1]
        for snapshots in ("none", "digest"):
            found = self.answer(_message(case, snapshots=snapshots, full_at=at))
            if isinstance(found, str):
                return found
            states = [step.get("state") for step in found["steps"]]
            if states != [state if number in at else None for number, state in enumerate(full)]:
                where = [number for number, state in enumerate(states) if state is not None]
                return f"with snapshots {snapshots!r} and full_at {at}, steps {where} have states (or other ones)"
            digests = [number for number, step in enumerate(found["steps"]) if step.get("digest")]
            if snapshots == "none" and digests:
                return "with snapshots 'none' there are digests"
        return None

    def digests(self) -> str | None:
        """Digests are equal exactly where states are."""
        case, answer = self.told()[0]
        full = [msgspec.json.encode(step.get("state"), order="sorted") for step in answer["steps"]]
        found = self.answer(_message(case, snapshots="digest"))
        if isinstance(found, str):
            return found
        digests = [step.get("digest") for step in found["steps"]]
        if not all(isinstance(digest, str) and digest for digest in digests):
            return f"step {next(n for n, d in enumerate(digests) if not d)} has no digest"
        pairs = set(zip(full, digests, strict=False))
        if len(pairs) != len(set(full)) or len(pairs) != len(set(digests)):
            return f"{len(set(full))} different states have {len(set(digests))} different digests"
        return None

    def same_again(self) -> str | None:
        """The same message gives the same answer, whatever came before."""
        return self._again(self.told()[::-1])

    def fresh_process(self) -> str | None:
        """The same message gives the same answer in a fresh process."""
        told = self.told()
        for each in told[:: len(told) // 4 or 1]:
            self.session.close()
            wrong = self._again([each])
            if wrong is not None:
                return wrong
        return None

    def _again(self, told: list[tuple[Case, dict[str, Any]]]) -> str | None:
        for case, answer in told:
            again = self.answer(_message(case))
            if again != answer:
                return f"a message is answered otherwise than before: {_difference(answer, again)}"
        return None

    def keep_and_more(self) -> str | None:
        """A system that is kept goes on as if there had been one message."""
        case, answer = self.told()[0]
        half = len(case.ops) // 2
        first = self.answer({**_message(case), "ops": case.ops[:half], "keep": True})
        rest: list[Any] = []
        for ops in (case.ops[half:-1], case.ops[-1:]):
            more = self.answer({"more": ops, "snapshots": "full"})
            if isinstance(more, str) or "steps" not in more:
                return f"more is answered with {_short(more)}"
            rest += more["steps"]
        if isinstance(first, str):
            return first
        if first.get("steps", []) + rest != answer["steps"]:
            return "in three messages, kept from one to the next, the operations go otherwise than in one"
        return None

    def forgets(self) -> str | None:
        """Without keep nothing is kept, nor after an error."""
        start = [["start", {"request": "r0", "prompt": [0]}]]
        usual = {"level": LEVEL, "setup": self.setup(), "ops": start}
        for why, message in (
            ("no keep", usual),
            ("an error", {**usual, "ops": [*start, ["no such operation", {}]], "keep": True}),
        ):
            self.answer({**usual, "keep": True})  # This is kept until the next message.
            self.answer(message)
            wrong = _not_refused(self.answer({"more": start}))
            if wrong:
                return f"after a message with {why}, more: {wrong}"
        return None

    def stream(self) -> str | None:
        """With stream, each step is said before the answer, as it stands there."""
        case, answer = self.told()[0]
        done = self.say({**_message(case), "stream": True})
        if done.failure is not None:
            return done.failure.text
        if done.before != answer["steps"]:
            return f"{len(answer['steps'])} steps were done, {len(done.before)} said before the answer (or other ones)"
        if done.answer.get("steps") != answer["steps"]:
            return "with stream, the answer is another one"
        return None

    def errors(self) -> str | None:
        """An operation that the driver does not have is an error of its step, the last one; the driver goes on."""
        start = ["start", {"request": "r0", "prompt": [0]}]
        ops = [start, ["no such operation", {}], ["finish", {"request": "r0"}]]
        answer = self.answer({"level": LEVEL, "setup": self.setup(), "ops": ops})
        if isinstance(answer, str):
            return answer
        try:
            steps = _typed(answer).steps
        except msgspec.ValidationError as error:
            return f"the answer cannot be read: {error}"
        if len(steps) != 2 or steps[1].error is None:
            return f"an operation that there is not is answered with {_short(answer.get('steps', [])[1:])}"
        if not steps[1].error.type or not steps[1].error.message:
            return f"the error says no type or no message: {steps[1].error}"
        after = self.answer({"level": LEVEL, "setup": self.setup(), "ops": [start]})
        return f"after an error: {after}" if isinstance(after, str) else None

    def unknown_fields(self) -> str | None:
        """Fields of a message that the driver does not know are left alone."""
        case, answer = self.told()[0]
        found = self.answer({**_message(case), "a_field_of_later": {"x": 1}})
        return None if found == answer else f"a message with a field of later is answered with {_short(found)}"

    def hits(self) -> str | None:
        """The same prompt again, with room for it, is found: while the first request runs, or when it has ended."""
        setup = self.setup()
        size = setup["block_tokens"]
        prompt = [n % 3 for n in range(2 * size + 1)]
        names = ("first", "beside it", "after it")
        ops: list[Op] = [("start", {"request": name, "prompt": prompt}) for name in names]
        ops[2:2] = [("finish", {"request": name}) for name in names[:2]]
        answer = self.answer(_message(Case(LEVEL, setup, ops)))
        if isinstance(answer, str):
            return answer
        try:
            read = _typed(answer)
        except msgspec.ValidationError as error:
            return f"the answer cannot be read: {error}"
        keep = read.world.notes.get("dialect", {}).get("keep") if read.world is not None else None
        if keep == "none":
            raise NotApplicableError("the world's notes say that nothing is kept")
        found = {effect[1]: effect[2] for step in read.steps for effect in step.effects if effect[0] == "lookup"}
        said = f"of a prompt of {len(prompt)} tokens, asked for again, {found.get(names[1], 0)} are found {names[1]}"
        said += f" and {found.get(names[2], 0)} {names[2]}"
        if keep in KEEPS and any(found.get(name, 0) < 2 * size for name in names[1:]):
            return f"{said}; all that is kept are {2 * size}"
        return None if any(found.get(name, 0) for name in names[1:]) else said

    def events(self) -> str | None:
        """KV events, where the driver has them, come with boundaries."""
        if "events" not in self.capabilities.options:
            raise NotApplicableError("the driver has no option events")
        kinds: set[str] = set()
        open_since: str | None = None
        for case, _, number, step in self.steps():
            if not case.setup.get("events"):
                continue
            for effect in step.effects:
                kinds.add(effect[0])
                if effect[0] in ("stored", "removed", "cleared"):
                    open_since = asked(case, number)
                elif effect[0] == "boundary":
                    open_since = None
            if open_since is not None and step.error is None:
                return f"the events of {open_since} have no boundary behind them"
        missing = {"stored", "removed", "boundary"} - kinds
        return f"never told: {', '.join(sorted(missing))}" if missing else None

    def _must_have(self, operation: str) -> None:
        if operation not in self.capabilities.operations:
            raise NotApplicableError(f"the driver has no operation {operation}")


def _message(case: Case, **more: Any) -> dict[str, Any]:
    return {"level": case.level, "setup": case.setup, "ops": case.ops, "snapshots": "full", **more}


def _typed(answer: dict[str, Any]) -> Answer:
    return msgspec.convert({"id": 0, **answer}, Answer)


def _not_refused(answer: dict[str, Any] | str) -> str | None:
    """What is wrong with an answer that must be a refusal."""
    if isinstance(answer, str):
        return answer
    why = answer.get("refused")
    return None if isinstance(why, str) and why and len(answer) == 1 else f"it is answered with {_short(answer)}"


def _difference(one: Any, other: Any, where: str = "answer") -> str:
    """Where two answers differ first."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            if one.get(name) != other.get(name):
                return _difference(one.get(name), other.get(name), f"{where}.{name}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            if a != b:
                return _difference(a, b, f"{where}[{number}]")
    return f"{where} was {_short(one)} and is {_short(other)}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else text[:117] + "..."
