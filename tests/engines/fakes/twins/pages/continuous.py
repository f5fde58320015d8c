"""In place of the release's manager and what is behind it: requests in rounds over a cache, under the same calls.

Who finds no room takes the blocks of who came last and is not in the batch. That one goes to the host, or begins anew,
if there is no room either, behind what it has generated. Where batches are prepared before the last one is over, its
tokens are known to the device alone: a request goes on behind them, and what came of them is looked at a round later.
"""

import queue
import threading
from dataclasses import replace
from types import SimpleNamespace

import torch
from offloading import Host
from releases import GenerationOutput, RequestState
from transformers_options import Options
from transformers_pool import Allocators

__all__ = ["ContinuousBatchingManager", "infer_max_single_request_tokens"]

_MOST = 256
"""Tokens of a request, where windows hold any number."""


class Cache(Allocators):
    """A cache for the requests of a batch."""

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, kwargs: dict) -> tuple:
        """The same for each request in turn; ``cu_seq_lens_k`` says where what each reads ends."""
        parts, ends, first = [], [0], 0
        for length, index in kwargs["parts"]:
            rows = slice(first, first + length)
            parts.append(super().update(keys[:, :, rows], values[:, :, rows], layer, index))
            ends.append(ends[-1] + parts[-1][0].shape[2])
            first += length
        kwargs["cu_seq_lens_k"] = torch.tensor(ends)
        return tuple(torch.cat(states, dim=2) for states in zip(*parts, strict=True))

    def part_of(self, r: str, past: int, length: int) -> tuple[int, dict]:
        """A request's part of a batch: how many tokens, and where they read and write."""
        reads, writes = [[] for _ in self.cache_allocators], [[] for _ in self.cache_allocators]
        self.extend_read_and_write_indices(r, past, length, reads, writes)
        return length, {"read_index": [*map(torch.tensor, reads)], "write_index": [*map(torch.tensor, writes)]}

    def has_room(self, state: RequestState, tokens: int) -> bool:
        """Give blocks for so many more tokens, for which what is kept for its content goes."""
        return self.can_store_request_tokens(state, tokens) or (
            self.evict_cached_blocks() and self.can_store_request_tokens(state, tokens)
        )

    def free_part(self) -> float:
        """The part of the cache that is free."""
        self.pool.try_to_free_sectors()
        return self.pool.num_free_sectors / self.num_sectors


class Scheduler:
    """Who is active, and who waits; both in order."""

    def __init__(self, cache: Cache, host: Host, options: Options) -> None:
        self._cache, self._host, self._options = cache, host, options
        self.active_requests: dict[str, RequestState] = {}
        self.waiting_requests: dict[str, RequestState] = {}
        self._batch: list[SimpleNamespace] = []
        self._alone = ""

    def batch(self) -> list[SimpleNamespace]:
        """The requests of the next batch, each with how many of its tokens are run."""
        self._batch, preempted, starved = [], False, False
        for state in self._in_turn():
            length = self._length(state) if state.request_id in self.active_requests else 0
            while length and not (fits := self._cache.has_room(state, length)) and self._preempted(state):
                preempted = True
            if length and fits:
                self._add(state, length)
            starved |= length > 0 and not fits
        if not self._batch and starved and len(self.active_requests) == 1:
            # All others are preempted, and it lies in so many sectors that they have no room for it.
            (self._alone,) = self.active_requests
            self._begin_anew(self._alone)
        if not (self._batch and preempted):
            self._admit()
        return self._batch

    def _in_turn(self) -> list[RequestState]:
        """Those that generate before those whose prompts are computed, or behind them."""
        first = self._options.scheduler == "fifo"
        return sorted(self.active_requests.values(), key=lambda state: (state.left() == 1) != first)

    def _length(self, state: RequestState) -> int:
        """How many tokens a request may run. Of one that is continued several times the last one is left to each."""
        if len(self._batch) == self._options.requests or state.ends_with_what_is_under_way():
            return 0
        if state.num_children and state.left() == 1:
            self._fork(state)
        left = state.left() - 1 if state.num_children else state.left()
        return min(left, self._options.batch - sum(future.length for future in self._batch))

    def _add(self, state: RequestState, length: int) -> None:
        filled = self._cache.count_new_complete_blocks(state, length)
        if state.request_id in self._host:
            self._host.restore(state.request_id)
            filled = {kind: count + state.position_offset // self._options.page for kind, count in filled.items()}
        self._batch.append(
            SimpleNamespace(
                state=state,
                past=state.position_offset,
                length=length,
                filled=filled,
                has_new_token=length == state.left(),
                epoch=state.epoch,
            )
        )

    def _admit(self) -> None:
        """Those that wait, in turn, as long as there is room."""
        for state in sorted(self.waiting_requests.values(), key=RequestState.came):
            if self._batch and (self._one_by_one() or self._cache.free_part() < (self._options.margin or 0)):
                return
            if self._cache.use_prefix_sharing and state.request_id not in self._host:
                state.position_offset = self._cache.search_prefix_match(state.request_id, state.tokens())
            length = self._length(state)
            if not length or not self._cache.has_room(state, length):
                self._let_go(state)
                return
            self.active_requests[state.request_id] = self.waiting_requests.pop(state.request_id)
            self._add(state, length)

    def _one_by_one(self) -> bool:
        """Whether nobody may come beside another one, until who began anew for its sectors is over."""
        return self._alone in self.active_requests or self._alone in self.waiting_requests

    def _preempted(self, needy: RequestState) -> bool:
        """Who came last, behind the needy one, and is not in the batch begins anew; whether there is such one."""
        safe = [future.state.request_id for future in self._batch]
        later = [s for s in self.active_requests.values() if s.came() > needy.came() and s.request_id not in safe]
        if not later:
            return False
        self._begin_anew(max(later, key=RequestState.came).request_id)
        return True

    def _begin_anew(self, r: str) -> None:
        state = self.active_requests.pop(r)
        if not state.num_children:  # Its continuations begin where its blocks are on the device.
            self._host.store(r)
        self._let_go(state)
        state.epoch += 1
        if self._cache.fault != "forgets who is preempted":
            self.waiting_requests[r] = state

    def _let_go(self, state: RequestState) -> None:
        self._cache.free_blocks(state.request_id)
        if state.request_id not in self._host and self._cache.fault != "goes on behind":
            state.position_offset = 0

    def _fork(self, state: RequestState) -> None:
        """Its continuations are requests from now on; those that there is no room for wait."""
        names = [f"{state.request_id}__child#{i}" for i in range(state.num_children)]
        state.num_children = 0
        copies = {kind: ([], []) for kind in self._cache.cache_allocators}
        forked = self._cache.prepare_fork_request(state, names, copies) if state.position_offset else []
        self._cache.perform_cache_copy(copies)
        self.active_requests |= {name: state.fork(name) for name in forked}
        for name in names[len(forked) :]:
            self.waiting_requests[name] = state.fork(name)
            self.waiting_requests[name].position_offset = 0

    def has(self, state: RequestState) -> bool:
        """Whether a request is neither over nor cancelled."""
        r = state.request_id
        return r in self.active_requests or r in self.waiting_requests

    def end(self, r: str) -> None:
        """A request goes away; so do its continuations that have not begun."""
        self._host.drop(r)
        self.waiting_requests.pop(r, None)
        if self.active_requests.pop(r, None) is not None:
            self._cache.free_blocks(r)

    def cancel(self, r: str) -> None:
        """The same before it is over."""
        if self._cache.fault != "keeps what is cancelled" or r not in self.active_requests:
            self.end(r)
        else:
            del self.active_requests[r]


class Processor:
    """Batches, one after the other; or each is prepared and run before what came of the last one is looked at."""

    def __init__(self, options: Options) -> None:
        self.use_async_batching = options.asynchronous
        self.cache = Cache(options)
        self.offloading_manager = Host(self.cache, options.host)
        self.scheduler = Scheduler(self.cache, self.offloading_manager, options)
        self.inputs_and_outputs = SimpleNamespace(requests_in_batch=[], swap_io_pairs=lambda: None)
        self._under_way: list[SimpleNamespace] = []
        self.output_router = SimpleNamespace(output_queue=queue.Queue())

    def has_pending_requests(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.scheduler.active_requests or self.scheduler.waiting_requests)

    def run(self, model) -> bool:
        """Run the next batch, if there is one, and see what came of it, or of the last one; whether there was one."""
        last = self._under_way
        self._under_way = self.inputs_and_outputs.requests_in_batch = self.scheduler.batch()
        ran = bool(self._under_way)
        if ran:
            self._pass(model, self._under_way)
        if self.use_async_batching:
            self._look(last)
        else:
            self.update_batch()
        return ran

    def update_batch(self) -> None:
        """See what came of the batch that is under way."""
        last, self._under_way = self._under_way, []
        self._look(last)

    def _pass(self, model, batch: list[SimpleNamespace]) -> None:
        tokens, positions, ends = [], [], [0]
        for future in batch:
            tokens += future.state.tokens()[future.past : future.past + future.length]
            positions += range(future.past, future.past + future.length)
            ends.append(len(tokens))
        sampling = [end - 1 for future, end in zip(batch, ends[1:], strict=True) if future.has_new_token]
        logits = model(
            input_ids=torch.tensor([tokens]),
            position_ids=torch.tensor([positions]),
            cu_seq_lens_q=torch.tensor(ends),
            logits_indices=torch.tensor(sampling),
            cache=self.cache,
            parts=[self.cache.part_of(future.state.request_id, future.past, future.length) for future in batch],
        ).logits[0]
        for future, end in zip(batch, ends[1:], strict=True):
            future.state.position_offset += future.length
            if future.has_new_token:
                future.state.under_way.append(int(logits[end - 1].argmax()))

    def _look(self, batch: list[SimpleNamespace]) -> None:
        for future in [future for future in batch if self.scheduler.has(future.state)]:
            state = future.state
            if future.epoch == state.epoch:  # Else its blocks are others.
                self.cache.mark_complete_blocks(state.until(future.past + future.length), future.filled)
            if future.has_new_token:
                state.generated_tokens.append(state.under_way.pop(0))
                if state.is_over():
                    self.scheduler.end(state.request_id)
                    self.deliver(state)

    def deliver(self, state: RequestState, error: str | None = None) -> None:
        """A client gets what a request has generated."""
        output = GenerationOutput(state.request_id, state.initial_tokens, state.generated_tokens, error)
        self.output_router.output_queue.put(output)


class ContinuousBatchingManager:
    """What a client calls."""

    def __init__(self, model, generation: SimpleNamespace, config: SimpleNamespace) -> None:
        self._model = model
        self._children = generation.num_return_sequences - 1
        self._options = Options(
            layers=tuple({"full_attention": "full"}.get(kind, "window") for kind in model.config.layer_types),
            page=config.page_size,
            blocks=config.num_blocks,
            window=model.config.sliding_window or 1,
            sharing=config.allow_block_sharing,
            batch=config.max_batch_tokens,
            requests=config.max_requests_per_batch,
            scheduler=config.scheduler_type,
            margin=config.safety_margin,
            asynchronous=config.use_async_batching,
        )
        self._options = replace(
            self._options, host=int(config.cpu_offload_space * 2**30) // self._options.bytes_per_sector
        )
        self._wake_up_loop = threading.Event()
        self.batch_processor: Processor | None = None
        self.current_batch = 0
        self._new: list[RequestState] = []
        self._number = 0
        self.cancel_queue: queue.Queue[str] = queue.Queue()

    def add_request(self, prompt: list[int], request_id: str, max_new_tokens: int, eos_token_id: int) -> None:
        """A request comes; the next round takes it in."""
        self._number += 1
        self._new.append(
            RequestState(
                request_id,
                prompt,
                max_new_tokens,
                eos_token_id=eos_token_id,
                num_children=self._children,
                number=self._number,
            )
        )

    def cancel_request(self, request_id: str) -> None:
        """The next round cancels it."""
        self.cancel_queue.put(request_id)

    def _create_batch_processor(self) -> Processor:
        if self.batch_processor is None:
            return Processor(self._options)
        self.batch_processor.cache.reset()
        return self.batch_processor

    def _generation_loop_body(self, processor: Processor, bootstrapping: bool) -> None:
        processor.scheduler.waiting_requests |= {state.request_id: state for state in self._new}
        self._new = []
        while not self.cancel_queue.empty():
            processor.scheduler.cancel(self.cancel_queue.get())
        self.current_batch += processor.run(self._model)

    def _fail_all_remaining_requests(self, error: Exception, processor: Processor) -> None:
        scheduler = processor.scheduler
        for r in (*scheduler.active_requests, *scheduler.waiting_requests):
            processor.cache.free_blocks(r)
            processor.offloading_manager.drop(r)
        for state in (*scheduler.active_requests.values(), *scheduler.waiting_requests.values(), *self._new):
            processor.deliver(state, str(error))
        scheduler.active_requests.clear()
        scheduler.waiting_requests.clear()
        self._new = []


def infer_max_single_request_tokens(cache: Cache) -> int:
    """How long a request may be that has an empty cache for itself."""
    kinds = cache.cache_allocators.values()
    return max(n for n in range(_MOST) if cache.pool.has_room([a.wanted(n, 0) for a in kinds]))
