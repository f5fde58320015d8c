"""The level ``scheduler`` of Transformers: its manager, processor, scheduler and offloading, with a model that we play.

``setup`` is `transformers_options.Options`. A step is one round of the release's own generation loop; requests come in
and are cancelled by the manager's public calls. Of the loop the thread is ours: its rounds, how it ends and begins.
"""

from types import SimpleNamespace

from level import SKIPPED, Level, Refused
from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager
from transformers.generation.continuous_batching.model_runner import infer_max_single_request_tokens
from transformers.generation.continuous_batching.requests import GenerationOutput
from transformers_cpu import without_accelerator
from transformers_drift import refuse_what_has_drifted
from transformers_memory import Keys, Memory
from transformers_model import Model
from transformers_options import EOS, Options, continuous_batching, model_config

__all__ = ["SchedulerLevel"]

MOST = 12
"""So many requests there are at once: what is left at the end of a case takes no longer than an operation may."""
FRUITLESS = 300
"""A drain gives up when no request has ended in so many steps; one that runs alone takes a tenth of it."""
IDLE = 6
"""A drain gives up when so many steps in a row did nothing."""


class SchedulerLevel(Level):
    """A manager whose thread does not run, and what a client of it sees of its requests."""

    def __init__(self, setup: dict) -> None:
        super().__init__()
        refuse_what_has_drifted()
        without_accelerator()
        self._options = options = Options.of(setup)
        config = model_config(options)
        self._model = Model(config, self.tell)
        generation = SimpleNamespace(
            do_sample=False, max_new_tokens=1, eos_token_id=None, num_return_sequences=options.sequences
        )
        try:
            self._manager = ContinuousBatchingManager(self._model, generation, continuous_batching(options))
        except ValueError as error:  # Of a configuration; it says which value is out of bounds.
            raise Refused(str(error)) from error
        self._processor = self._manager._create_batch_processor()
        self._manager.batch_processor, self._manager.current_batch = self._processor, 0
        self._scheduler, self._cache = self._processor.scheduler, self._processor.cache
        self._model.requests = self._in_batch
        self._begun = not self._processor.use_async_batching
        """Whether a batch is under way, or none ever is when a round begins."""
        self._keys = Keys()
        self._memory = Memory([*self._cache.cache_allocators.values()], len(options.layers), self._keys)
        self._most = infer_max_single_request_tokens(self._cache)
        self._tokens: dict[str, list[int]] = {}
        """Of each request, the tokens that were told."""
        self._asked: dict[str, tuple[int, int, int | None]] = {}
        self._alive: dict[str, None] = {}
        """Requests of which the client waits for an output."""
        self._children: dict[str, list[str]] = {}
        """The names of a request's further continuations, by the release's rule."""
        self._seen: set[str] = set()
        """Requests that the scheduler has had; a continuation comes up when its prompt is computed."""
        self._added = 0
        self._observe()
        sectors = self._memory.per_sector
        tiers = {"device": {"blocks": self._cache.num_sectors * sectors}}
        host = self._processor.offloading_manager._cpu_pool
        if host is not None:
            tiers["host"] = {"blocks": host.num_sectors * sectors}
        sharing = self._cache.use_prefix_sharing
        self.world = {
            "groups": options.groups,
            "tiers": tiers,
            "hash_block": options.page,
            "exact": True,
            "notes": {"longest": self._most, "dialect": {} if sharing else {"keep": "none"}},
        }

    # Operations

    def op_add(self, args: dict):
        """Add a request: ``tokens``, ``most`` (tokens to generate), ``stop`` (a token ends it)."""
        most = max(1, args.get("most", 1))
        room = self._most - most
        # No request that long fits the cache, whatever its prompt.
        if room < 1 or len(self._alive) + self._options.sequences > MOST:
            return SKIPPED
        prompt = args["tokens"][:room] or [0]
        r = f"r{self._added}"
        self._added += 1
        stop = EOS if args.get("stop") else None
        self._children[r] = [f"{r}__child#{i}" for i in range(self._options.sequences - 1)]
        for name in (r, *self._children[r]):
            self._tokens[name], self._asked[name] = list(prompt), (len(prompt), most, stop)
            self._alive[name] = None
            self.tell("request", name, {"tokens": list(prompt)})
            self.tell("keys", name, 0, self._keys.of(prompt, self._options.page))
        args["request"] = r
        self._manager.add_request(prompt, request_id=r, max_new_tokens=most, eos_token_id=-1 if stop is None else stop)
        return r

    def op_cancel(self, args: dict):
        """Cancel a request that is not over: ``pick`` says which. One that is to be continued several times is
        cancelled with all its continuations that have not begun: their names are not known yet."""
        known = [r for r in self._alive if r in self._children or r in self._seen]
        if not known:
            return SKIPPED
        r = known[args.get("pick", 0) % len(known)]
        args["request"] = r
        self._manager.cancel_request(r)
        for name in (r, *self._children.get(r, ())):
            if name == r or (name in self._alive and name not in self._seen):
                self._end(name, "aborted")
        return r

    def op_step(self, args: dict):
        """One round of the loop, in which ``token`` is sampled (`Model.token`)."""
        if not self._alive and self._manager.cancel_queue.empty():
            return SKIPPED
        return self._step(args.get("token", 0))

    def op_stop(self, args: dict):
        """Stop the manager, ``hard`` or when all is done, and start it again."""
        if not args.get("hard"):
            self._drain()
        self._flush()
        self._manager._fail_all_remaining_requests(RuntimeError("stopped"), self._processor)
        self._look()
        for r in [*self._alive]:
            self._end(r, "aborted")
        self._manager._create_batch_processor()
        self._memory.tell_tables(self.tell)
        return True

    def op_reset(self, _args: dict):
        """Nothing: a client cannot ask for an empty cache."""
        return SKIPPED

    def op_drain(self, _args: dict):
        """Go on until every request has its output, or nothing more happens."""
        steps = self._drain()
        return {"left": len(self._alive), "pending": 0, "steps": steps}

    def _drain(self) -> int:
        steps = idle = fruitless = 0
        while (self._alive or self._processor.has_pending_requests()) and idle < IDLE and fruitless < FRUITLESS:
            before = len(self._alive)
            idle = 0 if self._step(steps) else idle + 1
            fruitless = fruitless + 1 if len(self._alive) == before else 0
            steps += 1
        # What was cancelled last is cleared by one round more.
        self._step(0)
        self._flush()
        self._look()
        self._memory.tell_tables(self.tell)
        return steps

    # The loop

    def _step(self, token: int) -> bool:
        """One round; whether a batch was run."""
        self._model.token = token % (EOS + 4)
        self._manager._wake_up_loop.set()  # It waits for nothing.
        before = self._manager.current_batch
        self._manager._generation_loop_body(self._processor, bootstrapping=not self._begun)
        ran = self._manager.current_batch > before
        self._begun = self._begun or ran
        self._look()
        self._memory.tell_tables(self.tell)
        return ran

    def _flush(self) -> None:
        """As the loop ends: a batch that is under way is processed."""
        if self._processor.use_async_batching and self._begun:
            self._processor.inputs_and_outputs.swap_io_pairs()
            self._processor.update_batch()
            self._begun = False

    def _in_batch(self) -> list:
        """The requests of the batch that is about to run, in its order. One of them may be over before the round is:
        only here is told which blocks it was handed."""
        self._memory.tell_tables(self.tell)
        inputs = self._processor.inputs_and_outputs
        pairs = getattr(inputs, "io_pairs", None)
        return (inputs if pairs is None else pairs[inputs.current_pair].host_io).requests_in_batch

    # What a client sees

    def _observe(self) -> None:
        """Hear of every lookup."""
        search = self._cache.search_prefix_match

        def observed(request_id: str, prompt_ids: list[int]) -> int:
            found = search(request_id, prompt_ids)
            self._memory.tell_lookup(self.tell, request_id, found, len(prompt_ids) - 1)
            return found

        self._cache.search_prefix_match = observed

    def _look(self) -> None:
        """Tell what requests have become."""
        scheduler = self._scheduler
        for states in (scheduler.active_requests, scheduler.waiting_requests):
            for r, state in states.items():
                self._seen.add(r)
                if r in self._alive:
                    self._grow(r, state.initial_tokens + state.generated_tokens)
        outputs = self._processor.output_router.output_queue
        while not outputs.empty():
            self._deliver(outputs.get_nowait())

    def _deliver(self, output: GenerationOutput) -> None:
        r = output.request_id
        if r not in self._alive:  # It was cancelled meanwhile.
            return
        self._seen.add(r)
        if output.error is not None:
            self._end(r, "aborted")
            return
        self._grow(r, output.prompt_ids + output.generated_tokens)
        self.tell("output", r, *self._asked[r], output.prompt_ids[:], output.generated_tokens[:])
        self._end(r, "finished")

    def _grow(self, r: str, tokens: list[int]) -> None:
        known = self._tokens[r]
        if len(tokens) > len(known):
            self.tell("append", r, tokens[len(known) :])
            page = self._options.page
            first = len(known) // page
            self._tokens[r] = known + tokens[len(known) :]
            if len(tokens) // page > first:
                self.tell("keys", r, first, self._keys.of(self._tokens[r], page)[first:])

    def _end(self, r: str, how: str) -> None:
        del self._alive[r]
        self.tell("end", r, how)

    # State

    def state(self) -> dict:
        """The state of the pools and of the requests."""
        pools = {"device": self._memory.device(self._cache.pool)}
        holds = {}
        offloading = self._processor.offloading_manager
        if offloading._cpu_pool is not None:
            pools["host"] = self._memory.host(offloading._cpu_pool)
            holds["host"] = [
                page
                for blocks in offloading._request_id_to_cpu_blocks.values()
                for page in self._memory.pages(
                    "host", {self._cache.cache_allocators[name].index: ids for name, ids in blocks.items()}
                )
            ]
        return {
            "pools": pools,
            "tables": self._memory.tables(),
            "holds": holds,
            "waiting": len(self._scheduler.waiting_requests),
            "running": len(self._scheduler.active_requests),
            "pending": 0,
        }
