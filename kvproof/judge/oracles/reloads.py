"""Reloads from a mirrored host (M4, M5, M6): what an admission brings back, where to, and what that may cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..ghost import Ghost
from ..record import SEVERAL, Step
from ..violation import Violation, of_block, of_key, of_request

__all__ = ["ADMITS", "Reload", "reloads_of"]

ADMITS = ("start", "resume", "step", "grow", "cut")
"""What a request begins or goes on with: moments at which its prefix may be reloaded."""

_MANY = ("drain", *SEVERAL)
"""Operations that do many others."""

Keys = Mapping[int, set[int]]
"""Blocks of the device, with the keys that each is cached under."""


@dataclass(frozen=True)
class Reload:
    """A host entry that is copied to the device."""

    key: int
    block: int


def reloads_of(
    step: Step, ghost: Ghost, reloads: Sequence[Reload], device: tuple[Keys, Keys], host: set[int], size: int, tier: str
) -> Iterator[Violation]:
    """What is wrong with the reloads of a step.

    Args:
        step: what was done.
        ghost: who the requests are, and their keys.
        reloads: what was copied from the host to the device, in order.
        device: the keys of the device's blocks, before the step and behind it.
        host: the keys that the host had before it.
        size: the tokens of a block.
        tier: what the device is called.
    """
    if not reloads or step.op in _MANY:
        return
    before, after = device
    for reload in reloads:
        about = (of_block(tier, reload.block), of_key(reload.key))
        text = f"{step.op} reloads key {reload.key} into block {reload.block}"
        if step.op not in ADMITS:
            yield Violation("M4", "reload outside of an admission", f"{text}, and admits nothing", about=about)
        elif step.result is False:
            continue  # It is judged as a refusal that changes something.
        elif old := (before.get(reload.block, set()) & after.get(reload.block, set())) - {reload.key}:
            what = f"{text}, and the block is still cached as key {min(old)}"
            yield Violation("M5", "what a reload leaves", what, ("old",), about)
        elif reload.key not in after.get(reload.block, ()):
            what = f"{text}, and the block is not cached as that"
            yield Violation("M5", "what a reload leaves", what, ("new",), about)
    r = str(step.args.get("request"))
    request = ghost.requests.get(r)
    if step.op not in ADMITS or request is None or not request.keys:
        return
    for reload in reloads:
        if reload.key not in request.keys:
            text = f"{step.op} of {r} reloads key {reload.key}, and its prefix has keys {request.keys}"
            whose = (of_key(reload.key), of_request(r), of_block(tier, reload.block))
            yield Violation("M4", "reload of another prefix", text, about=whose)
    yield from _destroyed(step, r, request.keys[: (request.tokens - 1) // size], reloads, before, host, tier)


def _destroyed(
    step: Step, r: str, prefix: Sequence[int], reloads: Sequence[Reload], before: Keys, host: set[int], tier: str
) -> Iterator[Violation]:
    """M6: no reload takes the last block of a key that the lookup found: up to its limit (P14), behind gaps that the
    host fills too, and not behind the first key that is on neither tier."""
    blocks: dict[int, set[int]] = {}
    for block, keys in before.items():
        for key in keys:
            blocks.setdefault(key, set()).add(block)
    taken = {reload.block for reload in reloads}
    back = {reload.key for reload in reloads}
    for key in prefix:
        if key not in blocks and key not in host:
            return
        if key in blocks and key not in back and taken >= blocks[key]:
            block = min(blocks[key])
            text = f"a reload for {step.op} of {r} takes block {block}, in which key {key} of its own prefix is cached"
            about = (of_block(tier, block), of_request(r), of_key(key))
            yield Violation("M6", "reload over its own prefix", text, about=about)
            return
