"""The checker, written for speed, says of random streams what the plainest judge says: each fault, where it is."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kvproof.events import faults
from kvproof.events.checking import Checker, Dialect
from kvproof.events.wire import Cleared, Event, Removed, Stored

from .plain_judge import Told, judge
from .streams import Message, arrivals

DIALECTS = [Dialect(copies, parents) for copies in ("last", "counted", "single") for parents in ("held", "told")]
KEYS = 12
MEDIA = ("GPU", "GPU", None, "CPU")


class Streams:
    """Streams that are right most of the time: few keys, of known contents, in a few places, with faults in between."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.places: dict[tuple[str | None, int | None], list[int]] = {}

    def event(self) -> Event:
        draw = self.draw
        if draw.random() < 0.02:
            return Cleared(draw.choice(["CPU", None]))
        where = (draw.choice(MEDIA), draw.choice((None, 0)))
        held = self.places.setdefault(where, [])
        if held and draw.random() < 0.35:
            gone = draw.sample(held, min(len(held), draw.randint(1, 2)))
            self.places[where] = [key for key in held if key not in gone]
            return Removed([key + self.odd(KEYS) for key in gone], *where)
        first = draw.randint(1, KEYS)
        keys = list(range(first, min(KEYS, first + draw.randint(0, 3)) + 1))
        held += keys
        tokens = tuple(token for key in keys for token in (key, key + self.odd(1)))
        adapter, further = self.odd(1) or None, [["image"] if self.odd(1) else None for _ in keys]
        return Stored(
            [key + self.odd(1) for key in keys],
            None if first == 1 else first - 1 + self.odd(30),
            tokens[self.odd(1) :] if draw.random() < 0.9 else (),
            2,
            adapter,
            where[0],
            extra_keys=draw.choice([further, further, None]),
            group_idx=where[1],
            kv_cache_spec_kind=draw.choice([None, None, "sliding_window"]),
        )

    def odd(self, by: int) -> int:
        """By how much something is not as it should be: nothing, nearly always."""
        return by if self.draw.random() < 0.02 else 0

    def messages(self) -> list[Message]:
        numbers = Counter({source: self.draw.choice((0, 0, 5)) for source in ("one", "other")})
        messages: list[Message] = []
        for _ in range(30):
            if messages and self.odd(1):
                messages.append(self.draw.choice(messages))
                continue
            source = self.draw.choice(("one", "other"))
            if self.odd(1):
                numbers[source] = self.draw.choice((0, numbers[source] + 2))
            messages.append(Message(source, numbers[source], 0, [self.event() for _ in range(self.draw.randint(0, 6))]))
            numbers[source] += 1
        return messages


def told(messages: list[Message], dialect: Dialect) -> list[Told]:
    found: list[Told] = []
    checker = Checker(dialect, lambda f: found.append((f.rule, f.kind, f.event, f.number or 0, f.source)))
    for arrival in arrivals(messages):
        checker.take(arrival)
    return found


def test_the_checker_says_what_the_plainest_judge_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_SHOWN_OF_A_KIND", 10**6)
    met: Counter[str] = Counter()
    for seed in range(600):
        dialect = DIALECTS[seed % len(DIALECTS)]
        messages = Streams(seed).messages()
        due = list(judge(messages, dialect))
        assert told(messages, dialect) == due, f"seed {seed}"
        met.update(kind for _, kind, *_ in due)
    elsewhere = {"other rank", "clears another rank", "malformed", "damaged", "truncated"}
    assert met.keys() == faults.ROUTER.keys() - elsewhere
