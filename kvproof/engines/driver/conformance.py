"""Conformance: whether a driver speaks the protocol of `docs/protocol.md`, sentence by sentence.

It judges the words, not the engine: a driver may pass and tell of a faulty engine, or fail and drive a sound one. Each
check passes, fails with what was seen, or does not apply to what the driver says it can do.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ...judge.sight import Sight
from ..session import Session
from .battery import Battery, HangError, NotApplicableError

__all__ = ["CHECKS", "Check", "ConformanceReport", "Outcome", "check"]


@dataclass(frozen=True)
class Check:
    """Something that every driver must do."""

    name: str
    asks: str
    """What must hold, in a few words."""
    mend: str
    """How to mend it, in one sentence."""


@dataclass(frozen=True)
class Outcome:
    """What came of a check."""

    check: Check
    verdict: str
    """``passed``, ``failed``, ``not applicable`` or ``not asked``."""
    detail: str = ""
    """What was seen, or why it does not apply."""


@dataclass
class ConformanceReport:
    """What came of all checks."""

    engine: str
    version: str
    outcomes: list[Outcome] = field(default_factory=list)
    messages: int = 0
    sight: Sight = field(default_factory=Sight)
    seconds: float = 0.0

    @property
    def failed(self) -> list[Outcome]:
        """The checks that failed, or could not be made."""
        return [outcome for outcome in self.outcomes if outcome.verdict in ("failed", "not asked")]


CHECKS = (
    Check(
        "hello",
        "the hello has all its fields, and no others",
        "Say the hello as docs/protocol.md has it, field by field, with capabilities.requests.",
    ),
    Check(
        "quiet",
        "standard output holds answers only",
        "Print whatever else there is to say to standard error.",
    ),
    Check(
        "unknown level",
        "a level that there is not is refused",
        'Answer {"id", "refused": "why"} where the level is none of the hello\'s.',
    ),
    Check(
        "bad setup",
        "a setup that makes no sense is refused",
        'Answer {"id", "refused": "why"} where blocks or block_tokens are not above 0.',
    ),
    Check(
        "unknown option",
        "an option of a setup that is not known is refused",
        'Answer {"id", "refused": "why"} where the setup has a field that you do not know.',
    ),
    Check(
        "usual setups",
        "the setups that the hello promises are taken",
        "Take them, or leave their options or block_tokens out of the hello.",
    ),
    Check(
        "message numbers",
        "an answer has its message's number",
        "Copy the id of the message to its answer as it is; it may be any whole number.",
    ),
    Check(
        "answers",
        "an answer has a world and a step for each operation",
        'Answer {"id", "world", "steps"} with one step for each operation, in order.',
    ),
    Check(
        "worlds",
        "worlds are what the setup asked for",
        "Name the tier device first, with as many usable blocks as the setup says (for each group, at most), a null "
        "block in addition.",
    ),
    Check(
        "effects",
        "effects have their fields, numbers in range",
        "Number blocks and groups from 0 and keys as they are met, and tell a request before what happens to it.",
    ),
    Check(
        "states",
        "states have their fields, numbers in range",
        "Give each tier its pool, ref one number per block, and tables the running requests and no others.",
    ),
    Check(
        "visible",
        "what is told is what the hello calls visible",
        "List in visible, per tier, exactly the fields that states have; leave the others out.",
    ),
    Check(
        "story",
        "what happened to each request is told",
        "Tell request, keys, lookup, table, compute and end as docs/protocol.md has them for each operation.",
    ),
    Check(
        "results",
        "operations answer what they must",
        'Answer true or false where room is asked for, {"left", "pending", "steps"} to drain, true or false to reset.',
    ),
    Check(
        "rest",
        "drain leaves what it says",
        "Let drain end all requests, waiting ones too, and count in left those that it cannot end.",
    ),
    Check(
        "every operation",
        "each operation of the hello can be done",
        "Do it, or leave it out of the hello's operations.",
    ),
    Check(
        "skipping",
        "what has nothing to act on is skipped",
        'Answer "skipped": true, call nothing and change nothing, where the request is not there.',
    ),
    Check(
        "snapshots",
        "states come when they are asked for",
        "Heed snapshots (none, digest, full) and full_at.",
    ),
    Check(
        "digests",
        "digests are equal exactly where states are",
        "Make the digest from the whole state, in an order of its own that does not change.",
    ),
    Check(
        "same again",
        "the same message, the same answer",
        "Make everything anew for each message, numbers of keys too.",
    ),
    Check(
        "fresh process",
        "the same answer in a fresh process",
        "Let nothing depend on the time, on addresses, on process numbers or on the order of a hash table.",
    ),
    Check(
        "keep and more",
        "what is kept goes on as if there were one message",
        "After a message with keep, go on with the same system at a message with more.",
    ),
    Check(
        "forgets",
        "without keep nothing is kept",
        "Refuse more where the last message had no keep, or ended with an error.",
    ),
    Check(
        "stream",
        "steps are said one by one when asked",
        'With stream, say {"step": ...} as soon as it is done, before the whole answer.',
    ),
    Check(
        "errors",
        "what fails is an error of its step",
        'Answer {"type", "message", "where"} as the error of the step, the last one, and go on with the next message.',
    ),
    Check(
        "unknown fields",
        "fields of later are left alone",
        "Ignore fields of a message that you do not know; only those of a setup are refused.",
    ),
    Check(
        "hits",
        "the same prompt again, with room, is found",
        'Look prompts up before they are computed; or let the world\'s notes say {"dialect": {"keep": "none"}}.',
    ),
    Check(
        "events",
        "KV events come with boundaries",
        "Tell boundary behind the events of each operation, or leave events out of the hello's options.",
    ),
)
"""All checks, in their order: each is the method of `Battery` that has its name."""


def check(session: Session, on_progress: Callable[[int, str], None] = lambda _n, _name: None) -> ConformanceReport:
    """Make all checks.

    Raises:
        WorkerError: the driver cannot be started, or says no hello of this protocol.
    """
    began = time.monotonic()
    hello = session.hello
    report = ConformanceReport(hello.engine, hello.version)
    battery = Battery(session)
    hung = False
    for number, about in enumerate(CHECKS):
        on_progress(number, about.name)
        if hung:
            report.outcomes.append(Outcome(about, "not asked", "it had not answered earlier messages in time"))
            continue
        try:
            problem: str | None = getattr(battery, about.name.replace(" ", "_"))()
            outcome = Outcome(about, "failed", problem) if problem else Outcome(about, "passed")
        except NotApplicableError as why:
            outcome = Outcome(about, "not applicable", str(why))
        except HangError as why:
            hung = True
            outcome = Outcome(about, "failed", str(why))
        except (LookupError, TypeError, ValueError, AttributeError) as why:
            # Answers are looked at as they came: anything may stand where something else should.
            outcome = Outcome(about, "failed", f"what it said cannot be followed ({type(why).__name__}: {why})")
        report.outcomes.append(outcome)
    report.seconds, report.messages, report.sight = time.monotonic() - began, battery.messages, battery.sight
    return report
