"""Sight: which rules a run could judge, by what was told in it, and why not the others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .activity import Activity
from .oracles.told_blocks import tells_tokens
from .record import Answer, Effect, Step, World
from .shapes import DIALECT, KEEPS

__all__ = ["OF_HOSTS", "OF_TREES", "RULES", "Sight", "said"]

_NEEDS: dict[str, tuple[str, ...]] = {
    "P1": ("device.ref", "device.free"),
    "P2": ("device.ref", "tables"),
    "P3": ("device.ref", "device.free"),
    "P4": ("null", "device.free"),
    "P5": ("device.cached", "device.hashes"),
    "P6": ("device.cached", "table", "compute"),
    "P7": ("device.free", "device.cached", "dialect take", "one group"),
    "P10": ("device.free", "tables", "dialect free", "one group"),
    "P11": ("evict", "hits"),
    "P12": ("stored", "boundary", "device.cached"),
    "P13": ("keys", "own keys"),
    "P14": ("lookup",),
    "P14 (nothing less)": ("lookup", "again", "kept"),
    "P15": ("refusal", "tables", "device.cached"),
    "E3": ("stored", "event tokens", "keys"),
    "H8": ("tables",),
    "L1": ("drain",),
    "L2": ("drain", "device.ref"),
    "O10": ("reset", "hits"),
}
"""What must be told at least once before a rule is judged at all."""

RULES = tuple(_NEEDS)
"""The rules that a world with one tier is judged by; a hit must be no longer, and nothing less, than what is cached."""

OF_HOSTS: dict[str, tuple[str, ...]] = {
    "P6 (host)": ("host.cached",),
    "O1 (host counts)": ("host.ref", "host.free"),
    "O3": ("copy",),
    "O6": ("host.cached", "lookup", "loads"),
    "O8": ("copy",),
    "O9": ("eager", "host.cached", "device.cached", "drain"),
    "M1": ("host.cached", "dialect host"),
    "M2": ("mirror", "host.cached", "device.cached", "dialect host"),
    "M3": ("mirror", "host.cached", "device.cached", "dialect host"),
    "M4": ("host.cached", "dialect host"),
    "M5": ("reload", "device.cached", "dialect host", "one group"),
    "M6": ("reload", "keys", "host.cached", "device.cached", "dialect host", "one group"),
}
"""The same, for worlds with a second tier."""

OF_TREES: dict[str, tuple[str, ...]] = {
    "R1": ("tree.nodes",),
    "R2": ("evicted",),
    "R3": ("tree.locks",),
    "R4": ("matched",),
    "R5": ("inserted",),
    "R6": ("evicted", "locks"),
    "R6 (order)": ("evicted", "locks", "order"),
    "R7": ("checks_in", "tree.locks"),
    "R8": ("page stored",),
    "P6": ("found", "compute"),
    "P13": ("tenants",),
    "H8": ("tables",),
    "L1": ("drain",),
    "L2": ("drain",),
}
"""What must be told of a prefix tree, before a rule is judged."""

_OPERATIONS = ("evict", "drain", "reset", "mirror")

_OF_TREE_NOTES = ("order", "locks", "checks_in")

_WORDS = {
    "tenants": "no request was of a tenant",
    "null": "there is no null block",
    "event tokens": "no event stored told tokens",
    "tables": "no state shows block tables",
    "refusal": "nothing was refused",
    "dialect take": "the world's notes name no order of taking",
    "dialect free": "the world's notes name no order of freeing",
    "dialect host": "the world's notes do not call the host a mirror",
    "loads": "the world's notes name no tier that lookups go on to",
    "eager": "the world's notes name no tier that stores everything",
    "own keys": "keys stand for the tokens themselves, so that they name nothing else",
    "reload": "nothing was copied back from the host",
    "again": "no lookup asked for what had been computed before",
    "one group": "it is judged of one group of full attention alone",
    "hits": "no state shows cached of the device, and no lookup found anything",
    "kept": "no state shows cached of the device, and the world's notes do not say that all is kept",
}


@dataclass
class Sight:
    """What was told, over all answers of a run."""

    told: set[str] = field(default_factory=set)
    rules: Mapping[str, tuple[str, ...]] | None = None
    """What each rule needs, where that is not as for a world of blocks."""

    def see(self, answer: Answer, activity: Activity) -> None:
        """Take in an answer, and what happened up to it."""
        world = answer.world
        if world is None:
            return
        if activity.asked_again:
            self.told.add("again")
        tiers = dict(zip(world.tiers, ("device", "host"), strict=False))
        self.told.update(self._of_world(world))
        for step in answer.steps:
            self.told.update(effect[0] for effect in step.effects if effect and isinstance(effect[0], str))
            if "event tokens" not in self.told and any(map(tells_tokens, step.effects)):
                self.told.add("event tokens")
            if "hits" not in self.told and any(_hits(effect) for effect in step.effects):
                self.told.add("hits")
            if "tenants" not in self.told and any(_names_tenant(effect) for effect in step.effects):
                self.told.add("tenants")
            if "reload" not in self.told and any(_reloads(effect, tiers) for effect in step.effects):
                self.told.add("reload")
            if step.skipped:
                continue
            self.told.add(step.op)
            if step.result is False:
                self.told.add("refusal")
            self.told.update(_of_state(step, tiers))

    def _of_world(self, world: World) -> Iterator[str]:
        if len(world.tiers) > 1:
            yield "host"
        if any(tier.null is not None for tier in world.tiers.values()):
            yield "null"
        if [group.kind for group in world.groups] == ["full"]:
            yield "one group"
        yield from (f"dialect {name}" for name, value in world.dialect.items() if value in DIALECT.get(name, ()))
        if world.dialect.get("keep") in KEEPS:
            yield "kept"
        if world.notes.get("keys") != "tokens":
            yield "own keys"
        yield from (name for name in ("eager", "loads") if world.notes.get(name))
        yield from (name for name in _OF_TREE_NOTES if world.notes.get(name))

    @property
    def judged(self) -> list[str]:
        """The rules that were judged."""
        return [rule for rule, needs in self._rules().items() if self.told.issuperset(needs)]

    @property
    def unjudged(self) -> dict[str, str]:
        """The rules that were not, and what was not told, in words."""
        return {rule: ", ".join(map(said, needs)) for rule, needs in self.missing.items()}

    @property
    def missing(self) -> dict[str, list[str]]:
        """The rules that were not judged, and what each of them needs and was not told."""
        missing = {rule: [need for need in needs if need not in self.told] for rule, needs in self._rules().items()}
        return {rule: needs for rule, needs in missing.items() if needs}

    def _rules(self) -> Mapping[str, tuple[str, ...]]:
        if self.rules is not None:
            return self.rules
        return {**_NEEDS, **(OF_HOSTS if "host" in self.told else {})}


def _names_tenant(effect: Effect) -> bool:
    """Whether a request arrives that is of a tenant."""
    what = effect[2] if len(effect) > 2 and effect[0] == "request" else None
    return isinstance(what, dict) and bool(what.get("salt") or what.get("adapter"))


def _hits(effect: Effect) -> bool:
    """Whether a lookup hands out blocks: what is found says what is cached, also where no state shows it."""
    tables = effect[2] if len(effect) > 2 and effect[0] == "found" else None
    return isinstance(tables, list) and any(tables)


def _reloads(effect: Effect, tiers: Mapping[str, str]) -> bool:
    """Whether something is copied from the second tier to the first."""
    pairs = effect[1] if len(effect) > 1 and effect[0] == "copied" else None
    return isinstance(pairs, list) and any(
        isinstance(pair, list) and [tiers.get(str(name)) for name in pair[::2]] == ["host", "device"] for pair in pairs
    )


def _of_state(step: Step, tiers: dict[str, str]) -> Iterator[str]:
    if step.state is None:
        return
    if step.state.tables:
        yield "tables"
    if (tree := step.state.tree) is not None:
        if tree.nodes is not None:
            yield "tree.nodes"
        if tree.evictable is not None or any(node.lock is not None for node in tree.nodes or ()):
            yield "tree.locks"
    for tier, pool in step.state.pools.items():
        if tier in tiers:
            yield from (f"{tiers[tier]}.{name}" for name in pool.__struct_fields__ if getattr(pool, name) is not None)
            if tiers[tier] == "device" and pool.cached is not None:
                yield from ("kept", "hits")


def said(need: str) -> str:
    """In words, what was not told."""
    if need in _WORDS:
        return _WORDS[need]
    if "." in need:
        tier, name = need.split(".")
        return f"no state shows {name} of the {tier}"
    return f"{need} was never done" if need in _OPERATIONS else f"no effect {need} was told"
