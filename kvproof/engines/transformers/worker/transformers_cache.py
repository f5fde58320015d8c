"""The levels ``manager`` and ``pool`` of Transformers: its cache, and its allocators and pool by themselves.

``setup`` is `transformers_options.Options`. Both are called as the release's scheduler and processor call them: look a
prefix up, store some tokens, run them, register what they filled; fork, free, evict. One request is run at a time.
"""

import torch
from level import SKIPPED, Level
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.distributed import DistributedHelper
from transformers.generation.continuous_batching.requests import RequestState
from transformers_cpu import without_accelerator
from transformers_drift import refuse_what_has_drifted
from transformers_memory import Keys, Memory, decoded, stamped
from transformers_options import DTYPE, Options, continuous_batching, model_config
from transformers_pool import Allocators

__all__ = ["ManagerLevel", "PoolLevel"]


class CacheLevel(Level):
    """A cache and the requests in it."""

    def __init__(self, options: Options, cache) -> None:
        super().__init__()
        self._options, self._cache = options, cache
        self._keys = Keys()
        self._memory = Memory([*cache.cache_allocators.values()], len(options.layers), self._keys)
        self._requests: dict[str, RequestState] = {}
        self._added = self._passes = 0
        self.world = {
            "groups": options.groups,
            "tiers": {"device": {"blocks": cache.num_sectors * self._memory.per_sector}},
            "hash_block": options.page,
            "exact": True,
            "notes": {"dialect": {} if options.shares else {"keep": "none"}},
        }

    # Operations

    def op_start(self, args: dict):
        """A request with these ``tokens`` comes, and its prefix is looked up."""
        r, prompt = f"r{self._added}", args["tokens"]
        self._added += 1
        args["request"] = r
        self._arrive(r, prompt)
        state = self._requests[r] = RequestState(request_id=r, initial_tokens=prompt, max_new_tokens=None)
        if self._cache.use_prefix_sharing:
            state.position_offset = self._cache.search_prefix_match(r, prompt)
            self._memory.tell_lookup(self.tell, r, state.position_offset, len(prompt) - 1)
        return self._done(state.position_offset)

    def op_grow(self, args: dict):
        """The next tokens of a request are run: at most ``most`` of its prompt, or a new ``token``."""
        state = self._picked(args)
        if state is None:
            return SKIPPED
        past = state.position_offset
        tokens = (state.initial_tokens + state.generated_tokens)[past : past + max(1, args.get("most", 1))]
        fresh = [] if tokens else [args.get("token", 0)]
        tokens = tokens or fresh
        if not self._cache.can_store_request_tokens(state, len(tokens)):
            return False
        if fresh:
            self._append(state, fresh)
        filled = self._cache.count_new_complete_blocks(state, len(tokens))
        self._run(state, tokens)
        state.position_offset += len(tokens)
        self._cache.mark_complete_blocks(state, filled)
        self.tell("processed", state.request_id, state.position_offset)
        return self._done(True)

    def op_fork(self, args: dict):
        """A request goes on ``times`` more times, as far as there is room."""
        state = self._picked(args)
        if state is None or not state.position_offset:
            return SKIPPED
        self._cache.pool.try_to_free_sectors()
        names = [f"r{self._added + i}" for i in range(args.get("times", 1))]
        copies = {kind: ([], []) for kind in self._cache.cache_allocators}
        forked = self._cache.prepare_fork_request(state, names, copies)
        for name in forked:
            self._added += 1
            self._requests[name] = state.fork(name)
            self._arrive(name, state.initial_tokens + state.generated_tokens)
        self._cache.perform_cache_copy(copies)
        return self._done(len(forked))

    def op_finish(self, args: dict):
        """A request is over; with ``drop`` its blocks are not kept for their content."""
        state = self._picked(args)
        if state is None:
            return SKIPPED
        self._cache.free_blocks(state.request_id, no_cache=bool(args.get("drop")))
        self._end(state.request_id)
        return self._done(None)

    def op_evict(self, _args: dict):
        """What is only kept for its content is forgotten."""
        return self._done(self._cache.evict_cached_blocks())

    def op_tidy(self, _args: dict):
        """Sectors without a block in use go back."""
        self._cache.pool.try_to_free_sectors()
        return self._done(None)

    def op_reset(self, _args: dict):
        """All requests end, and all is forgotten."""
        self._cache.reset()
        for r in [*self._requests]:
            self._end(r)
        return self._done(True)

    def op_drain(self, _args: dict):
        """All requests end."""
        for r in [*self._requests]:
            self._cache.free_blocks(r)
            self._end(r)
        return self._done({"left": 0, "pending": 0, "steps": 0})

    # What happens

    def _picked(self, args: dict) -> RequestState | None:
        if not self._requests:
            return None
        state = [*self._requests.values()][args.get("pick", 0) % len(self._requests)]
        args["request"] = state.request_id
        return state

    def _arrive(self, r: str, tokens: list[int]) -> None:
        self.tell("request", r, {"tokens": tokens[:]})
        self.tell("keys", r, 0, self._keys.of(tokens, self._options.page))

    def _append(self, state: RequestState, tokens: list[int]) -> None:
        state.generated_tokens += tokens
        self.tell("append", state.request_id, tokens)
        self.tell(
            "keys",
            state.request_id,
            0,
            self._keys.of(state.initial_tokens + state.generated_tokens, self._options.page),
        )

    def _run(self, state: RequestState, tokens: list[int]) -> None:
        """A forward pass writes stamps and reads back what it attends to."""
        r, past, number = state.request_id, state.position_offset, self._passes
        self._passes += 1
        self.tell("ran", r, number, past, tokens, None)
        kinds = self._cache.cache_allocators
        reads, writes = [[] for _ in kinds], [[] for _ in kinds]
        self._cache.extend_read_and_write_indices(r, past, len(tokens), reads, writes)
        index = {"read_index": [*map(torch.tensor, reads)], "write_index": [*map(torch.tensor, writes)]}
        # What only kernels want, by the release's names.
        lengths = {kind: torch.zeros(1) for kind in kinds}
        positions = [*range(past, past + len(tokens))]
        for layer in range(len(self._options.layers)):
            kwargs = {**index, "cu_seq_lens_k": lengths, "max_length_k": dict.fromkeys(kinds, 0)}
            states = self._cache.update(*stamped([number] * len(tokens), positions, layer), layer, kwargs)
            self.tell("read", r, layer, decoded(*(state[0, 0] for state in states), layer))

    def _end(self, r: str) -> None:
        del self._requests[r]
        self.tell("end", r, "finished")

    def _done(self, result):
        """Tell what changed in block tables, and in pages that have a hash."""
        self._memory.tell_tables(self.tell)
        return result

    def state(self) -> dict:
        """The state of the pool and of the requests."""
        return {
            "pools": {"device": self._memory.device(self._cache.pool)},
            "tables": self._memory.tables(),
            "running": len(self._requests),
        }


class ManagerLevel(CacheLevel):
    """The release's cache."""

    def __init__(self, setup: dict) -> None:
        refuse_what_has_drifted()
        without_accelerator()
        options = Options.of(setup)
        helper = DistributedHelper(None, None)
        settings = continuous_batching(options)
        settings.max_memory_percent = 0.5
        cache = PagedAttentionCache(model_config(options), settings, torch.device("cpu"), helper, dtype=DTYPE)
        super().__init__(options, cache)


class PoolLevel(CacheLevel):
    """The release's allocators and their pool, without its cache."""

    def __init__(self, setup: dict) -> None:
        refuse_what_has_drifted()
        options = Options.of(setup)
        super().__init__(options, Allocators(options))
