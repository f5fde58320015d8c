"""Requests of the level ``tree``: the release's own, what a case asks for, and what the model worker knows of each."""

import hashlib

import sglang_calls as calls
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang_drift import made_tokens, named
from sglang_record import record_of

__all__ = ["Pass", "Played", "Tenant", "tenant_of"]

_NAMES = (None, "a", "b")
"""One alphabet for adapters, salts and labels: a key that mixes them up shall be found out."""

Tenant = tuple
"""Adapter, salt and label (the caller's ``extra_key``), by name; None for one that is not named."""


class Played:
    """A request: the release's object, and how far it is."""

    def __init__(self, r: str, tokens: list[int], tenant: Tenant, priority: int, session: str | None = None) -> None:
        adapter, salt, label = tenant
        self.r, self.tenant = r, tenant
        self.req = Req(
            r,
            "",
            made_tokens(tokens),
            SamplingParams(max_new_tokens=1 << 20),
            lora_id=None if adapter is None else _id(adapter),
            **named(salt, label),
            priority=priority,
            **({} if session is None else {"session_id": session}),
        )
        self.status = "waiting"
        self.in_flight = 0
        """Forward passes that are scheduled, and their results not processed."""
        self.epoch = 0
        """How often it was retracted: what was scheduled before is stale."""
        self.ending = None
        """Why the next token is the last one, if it is."""

    @property
    def tokens(self) -> list[int]:
        """Prompt and output."""
        return [*self.req.origin_input_ids, *self.req.output_ids]

    @property
    def kv(self):
        """What it holds."""
        return record_of(self.req)

    @property
    def computed(self) -> int:
        """So many of them have their KV, or will when the pass in flight is over."""
        return self.kv.kv_committed_len

    @property
    def prefilling(self) -> bool:
        """Not all tokens that it came, or came back, with are computed."""
        end = calls.extended_to(self.req)
        return end is None or end < len(self.req.full_untruncated_fill_ids)


class Pass:
    """A scheduled forward pass of one request."""

    def __init__(self, x: Played, epoch: int, end: int, token: int, extends: bool) -> None:
        self.x, self.epoch, self.end = x, epoch, end
        self.token = token
        """What it samples, if its request's tokens are all computed then."""
        self.extends = extends
        """It is of a prompt, or of what came back with a retracted request."""
        self.checked_in = False


def _id(name: str) -> str:
    """An adapter's id: 32 hexadecimal digits, as a release makes them."""
    return hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()


def tenant_of(args: dict) -> Tenant:
    """The tenant that an operation asks for."""
    return tuple(_NAMES[args.get(what, 0) % len(_NAMES)] for what in ("adapter", "salt", "label"))
