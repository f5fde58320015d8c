"""Whole requests over the manager: tokens in, cached prefixes reused, the rest computed, full blocks registered.

The life of a request::

    add_request -> schedule -> compute -> (append -> compute)* -> finish
                      ^            |
                      +- preempt --+

``schedule`` is where the cache is consulted and room is taken, all or nothing; ``compute`` is the forward pass, which
writes KV and makes what it completed hittable. A long prompt may be served in steps: ``schedule`` and ``extend`` take
room for as many tokens as a step's budget allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from ..errors import RefusedError
from ..payload import prefix_digests, root_digest
from .blocks import blocks_for, full_blocks, lookup_limit, position_of
from .keys import NO_EXTRAS, TOKEN_BYTES, ExtraKeys, Tokens, block_extras, block_key, chain_keys, encode_tokens
from .manager import KVCacheManager, RequestId


@dataclass(slots=True)
class _Request:
    """What is known of one request, inside the manager or waiting."""

    ids: bytearray | None
    """Its tokens as little-endian uint32; ``None`` when only keys were given."""
    extras: ExtraKeys
    num_tokens: int
    max_tokens: int
    keys: list[bytes] = field(default_factory=list)
    num_computed: int = 0
    num_registered: int = 0
    """Leading blocks that carry their key because of this request, or were hits."""
    digest: int = 0
    """The prefix digest at ``num_computed``; kept only with a payload."""


class RequestFlow:
    """Drives a ``KVCacheManager`` by tokens. Requests that wait are known here and not inside the manager."""

    def __init__(self, manager: KVCacheManager) -> None:
        """Drive ``manager``; nobody else may."""
        self.manager = manager
        self._requests: dict[RequestId, _Request] = {}

    def add_request(
        self, request_id: RequestId, tokens: Tokens, extras: ExtraKeys = NO_EXTRAS, max_new_tokens: int = 0
    ) -> bool:
        """Make a request known and hash its full blocks; ``False`` if it could never fit, and nothing changed.

        Args:
            request_id: a name that no present request has.
            tokens: the prompt, at least one token (``keys.Tokens``: uint32 bytes are fastest).
            extras: what else its KV depends on.
            max_new_tokens: the most tokens that ``append`` will add.
        """
        ids = encode_tokens(tokens)
        num_tokens = len(ids) // TOKEN_BYTES
        if not self._check_new(request_id, num_tokens, max_new_tokens):
            return False
        keys = chain_keys(ids, self.manager.block_tokens, extras)
        request = _Request(bytearray(ids), extras, num_tokens, num_tokens + max_new_tokens, keys)
        self._requests[request_id] = request
        return True

    def add_hashed_request(
        self, request_id: RequestId, num_tokens: int, keys: Sequence[bytes], max_new_tokens: int = 0
    ) -> bool:
        """Make a request known by ready keys of its full blocks; ``False`` if it could never fit.

        Only without a payload: KV is a function of tokens, and there are none. Blocks that ``append`` completes get
        no key.
        """
        if self.manager.payload is not None:
            raise RefusedError("a payload is written from tokens: use add_request")
        if not self._check_new(request_id, num_tokens, max_new_tokens):
            return False
        if len(keys) != full_blocks(num_tokens, self.manager.block_tokens):
            raise RefusedError(f"{len(keys)} keys are given for {num_tokens} tokens")
        self._requests[request_id] = _Request(None, NO_EXTRAS, num_tokens, num_tokens + max_new_tokens, list(keys))
        return True

    def schedule(
        self, request_id: RequestId, *, full_sequence: bool = False, budget_tokens: int | None = None
    ) -> int | None:
        """Take hits and room for a waiting request; return the hit tokens (P8, P14).

        Args:
            request_id: a request that waits.
            full_sequence: also require that all tokens that it will ever have would fit now.
            budget_tokens: take room for at most so many tokens that were not hit, by default for all; ``extend`` takes
                room for further ones.

        Each of these gates asks for its whole demand: the blocks to take and the found ones that nobody holds, since
        touching takes those out of their queue. All or nothing: ``None`` if the blocks that nobody holds do not cover
        it, and then nothing is touched, demoted or counted (P15). If they do, the found ones are touched first, and
        then a pool that pins demotes what is still missing, no more (D5).
        """
        request = self._waiting(request_id)
        if budget_tokens is not None and budget_tokens < 1:
            raise RefusedError(f"a step computes at least one token, got a budget of {budget_tokens}")
        manager = self.manager
        pool = manager.pool
        block_tokens = manager.block_tokens
        limit = min(lookup_limit(request.num_tokens, block_tokens), len(request.keys))
        found = manager.find(request.keys, limit)
        end = request.num_tokens
        if budget_tokens is not None:
            end = min(end, manager.reach(request.keys, limit) * block_tokens + budget_tokens)
        step_blocks, need = blocks_for(end, block_tokens), blocks_for(request.max_tokens, block_tokens)
        wanted = need if full_sequence else step_blocks
        if wanted - len(found) + len(set(filter(pool.is_unreferenced, found))) > pool.num_reclaimable:
            return None
        manager.admit(request_id, need)
        hits = manager.hit(request_id, request.keys, limit)
        pool.make_room(max(0, wanted - hits))
        brought = self._bring(request_id, request, min(limit, step_blocks))
        manager.allocate(request_id, max(0, step_blocks - hits - brought))
        request.num_registered = hits
        self._set_computed(request, hits * block_tokens)
        return request.num_computed

    def extend(self, request_id: RequestId, budget_tokens: int) -> bool:
        """Take room for the next ``budget_tokens`` tokens of a scheduled request that are not computed, if it has them.

        ``False``, and nothing changed, if the blocks that nobody holds do not cover it now (D5).
        """
        request = self._scheduled(request_id)
        if budget_tokens < 1:
            raise RefusedError(f"a step computes at least one token, got a budget of {budget_tokens}")
        end = min(request.num_computed + budget_tokens, request.num_tokens)
        fresh = blocks_for(end, self.manager.block_tokens) - self.manager.num_positions(request_id)
        return self.manager.allocate(request_id, max(0, fresh)) is not None

    def compute(self, request_id: RequestId, num_tokens: int | None = None) -> int:
        """Compute the next ``num_tokens`` tokens of a scheduled request, by default all; return how many there were.

        Only tokens that have room can be computed: ``schedule`` takes it for all of them, unless it is given a budget.
        Each token's KV is written, then every block that became full is registered under its key.
        """
        request = self._scheduled(request_id)
        manager = self.manager
        start = request.num_computed
        end = min(request.num_tokens, manager.num_positions(request_id) * manager.block_tokens)
        if num_tokens is not None:
            end = min(end, start + num_tokens)
        if end < start:
            raise RefusedError(f"cannot compute {num_tokens} tokens")
        if manager.payload is not None and request.ids is not None and end > start:
            new_ids = bytes(request.ids[start * TOKEN_BYTES : end * TOKEN_BYTES])
            digests = prefix_digests(new_ids, request.extras, start=start, previous=request.digest)
            manager.write_run(request_id, start, digests)
            request.digest = int(digests[-1])
        request.num_computed = end
        if manager.pool.caching:
            block_tokens = manager.block_tokens
            full = min(full_blocks(end, block_tokens), len(request.keys))
            parent = request.keys[request.num_registered - 1] if request.num_registered else None
            for position in range(request.num_registered, full):
                key = request.keys[position]
                manager.register(request_id, position, key, parent, block_tokens)
                parent = key
            request.num_registered = max(request.num_registered, full)
        return end - start

    def append(self, request_id: RequestId, token: int) -> bool:
        """Add a generated token to a scheduled request; ``False``, and nothing changed, if its block cannot be had.

        The token's own KV is written by the next ``compute``. Refused while tokens before it have no room.
        """
        request = self._scheduled(request_id)
        block_tokens = self.manager.block_tokens
        if self.manager.num_positions(request_id) < blocks_for(request.num_tokens, block_tokens):
            raise RefusedError(f"request {request_id!r} has no room for all of its {request.num_tokens} tokens")
        if request.num_tokens >= request.max_tokens:
            raise RefusedError(f"request {request_id!r} has all of its {request.max_tokens} tokens")
        encoded = encode_tokens([token])
        position, slot = position_of(request.num_tokens, block_tokens)
        if slot == 0 and self.manager.allocate(request_id, 1) is None:
            return False
        request.num_tokens += 1
        if request.ids is not None:
            request.ids += encoded
            if slot == block_tokens - 1:
                first = position * block_tokens * TOKEN_BYTES
                extras = block_extras(request.extras, position, block_tokens, block_tokens)
                parent = request.keys[-1] if request.keys else None
                request.keys.append(block_key(parent, bytes(request.ids[first:]), extras))
        return True

    def preempt(self, request_id: RequestId) -> None:
        """Take all blocks from a scheduled request; it waits again, with the tokens that it has by now."""
        request = self._scheduled(request_id)
        self.manager.preempt(request_id)
        request.num_computed = request.num_registered = 0

    def finish(self, request_id: RequestId) -> None:
        """Let a request leave for good, at whatever length; one that waits is aborted."""
        if self._request(request_id) and self.manager.is_inside(request_id):
            self.manager.finish(request_id, abort=True)
        else:
            self.manager.forget(request_id)
        del self._requests[request_id]

    def num_tokens(self, request_id: RequestId) -> int:
        """Return the tokens of a request: its prompt and what was appended."""
        return self._request(request_id).num_tokens

    def num_computed(self, request_id: RequestId) -> int:
        """Return the leading tokens of a request whose KV is in its blocks, computed or hit."""
        return self._request(request_id).num_computed

    def keys(self, request_id: RequestId) -> tuple[bytes, ...]:
        """Return the keys of the full blocks of a request, computed or not."""
        return tuple(self._request(request_id).keys)

    def digests(self, request_id: RequestId) -> Tensor:
        """Return the prefix digests of all tokens of a request, from its tokens alone: int64 ``[num_tokens]``."""
        request = self._request(request_id)
        if request.ids is None:
            raise RefusedError(f"request {request_id!r} has no tokens")
        return prefix_digests(bytes(request.ids), request.extras)

    def mismatches(self, request_id: RequestId, start: int = 0) -> list[int]:
        """Return the computed tokens of a scheduled request whose KV, read through its table, is not theirs (P6).

        With ``start``, only tokens from that one on are read: those before it may have been dropped.
        """
        request = self._scheduled(request_id)
        payload = self.manager.payload
        if payload is None:
            raise RefusedError("there is no payload")
        table = self.manager.table(request_id)
        if start < 0:
            raise RefusedError(f"there is no token {start}")
        places = [position_of(token, self.manager.block_tokens) for token in range(start, request.num_computed)]
        blocks = [table[position] for position, _ in places]
        slots = [slot for _, slot in places]
        wrong = payload.mismatches(blocks, slots, self.digests(request_id)[start : request.num_computed])
        return [start + index for index in wrong]

    def _bring(self, request_id: RequestId, request: _Request, limit: int) -> int:  # noqa: ARG002
        """Take room for blocks that will come from elsewhere, behind the hits; return how many there are: here none.

        For flows with another tier. ``limit`` is the most positions that hits and these may fill.
        """
        return 0

    def _set_computed(self, request: _Request, num_tokens: int) -> None:
        """Take note that the leading ``num_tokens`` tokens of a request need no computing."""
        request.num_computed = num_tokens
        if self.manager.payload is not None:
            request.digest = root_digest(request.extras)
            if num_tokens and request.ids is not None:
                request.digest = int(prefix_digests(bytes(request.ids[: num_tokens * TOKEN_BYTES]), request.extras)[-1])

    def _check_new(self, request_id: RequestId, num_tokens: int, max_new_tokens: int) -> bool:
        """Refuse a request that means nothing; tell whether this one could ever fit the pool."""
        if request_id in self._requests:
            raise RefusedError(f"request {request_id!r} is known already")
        if num_tokens < 1 or max_new_tokens < 0:
            raise RefusedError(f"a request has a prompt; got {num_tokens} tokens and {max_new_tokens} more")
        return blocks_for(num_tokens + max_new_tokens, self.manager.block_tokens) <= self.manager.pool.usable

    def _request(self, request_id: RequestId) -> _Request:
        """Return a request that must be known."""
        request = self._requests.get(request_id)
        if request is None:
            raise RefusedError(f"request {request_id!r} is not known")
        return request

    def _waiting(self, request_id: RequestId) -> _Request:
        """Return a request that must wait."""
        request = self._request(request_id)
        if self.manager.is_inside(request_id):
            raise RefusedError(f"request {request_id!r} is scheduled already")
        return request

    def _scheduled(self, request_id: RequestId) -> _Request:
        """Return a request that must be scheduled."""
        request = self._request(request_id)
        if not self.manager.is_inside(request_id):
            raise RefusedError(f"request {request_id!r} is not scheduled")
        return request
