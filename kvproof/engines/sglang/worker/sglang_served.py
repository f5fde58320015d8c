"""The release's own `Scheduler`, made ready to serve on a machine without a GPU.

Its steps, its event loops, the batches, the processing of results and its own checks at idle are the release's. The
model worker, the sockets and the configuration of a model are stood in for.
"""

from collections import deque
from types import SimpleNamespace
from typing import ClassVar

import torch
from sglang.srt.managers import scheduler as release
from sglang.srt.mem_cache.allocation_sizing import get_req_to_token_extra_context_len
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.runtime_context import get_context
from sglang_alone import GROUP, RANKS, join
from sglang_drafts import algorithm
from sglang_drift import lora_names, made_params, make_requests
from sglang_memory import STATES_PER_ROW, Memory

__all__ = ["Served", "Told", "configure"]

_BESIDE_A_PROMPT = 5
"""Tokens that a release's model worker keeps free beside the longest prompt."""

torch.set_grad_enabled(False)


def configure(**fields) -> None:
    """Set fields of the release's configuration; what was set before is gone."""
    get_context().override("kvproof", **fields)


class Told(release.Req):
    """A request that tells when it is made, and when it is retracted."""

    admitted = False
    """Whether a pass of it was launched since it came or came back."""
    listener: ClassVar
    """Who hears of it: of a worker's requests, the same for all."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.listener.arrives(self)

    def reset_for_retract(self) -> None:
        """Give up what was computed."""
        super().reset_for_retract()
        self.admitted = False
        self.listener.retracted(self.rid)


class _Loop:
    """An attribute that an event loop asks at the beginning of each round: true but for the first time."""

    def __get__(self, served, _owner=None):
        served.rounds -= 1
        return served.rounds < 0

    def __set__(self, served, _value) -> None:
        """A release sets it to go on."""


class _Kept:
    """An attribute that an event loop makes anew when it begins; it begins anew for each round here."""

    def __get__(self, served, _owner=None):
        return served.results

    def __set__(self, served, _value) -> None:
        """What is queued stays."""


class Served(release.Scheduler):
    """A scheduler that goes one round at a time."""

    gracefully_exit = _Loop()
    result_queue = _Kept()

    def __init__(self, options, worker, channels, listener) -> None:
        """``worker`` stands in for the model and ``channels`` for sockets; ``listener`` hears what happens."""
        self.rounds, self.results, self.listener = 0, deque(), listener
        Told.listener = listener
        make_requests(Told)
        # What a release's own begins with.
        self.is_initializing, self.forward_ct, self.processed_tokens_counter = True, 0, 0
        self.server_args = get_context().server_args
        join(self)
        schedule = release.get_schedule()
        self.schedule_policy = schedule.schedule_policy
        self.enable_priority_scheduling = schedule.enable_priority_scheduling
        self.abort_on_priority_when_disabled = schedule.abort_on_priority_when_disabled
        self.schedule_low_priority_values_first = schedule.schedule_low_priority_values_first
        self.priority_scheduling_preemption_threshold = schedule.priority_scheduling_preemption_threshold
        self.enable_lora = self.enable_lora_overlap_loading = False
        self.enable_overlap = not schedule.disable_overlap_schedule
        self.enable_overlap_mlx = self.enable_pdmux = False
        self.skip_tokenizer_init, self.stream_interval = True, 1
        self.spec_algorithm = algorithm(options.drafts, options.drafter)
        self.page_size = schedule.page_size
        self.enable_hierarchical_cache = options.host is not None
        self.enable_lmcache = self.enable_session_radix_cache = False
        self.enable_hicache_storage = release.get_memory().hicache_storage_backend is not None
        self.enable_unified_cache_external_linker = False
        self.enable_decode_hicache = self.enable_hisparse = self.enable_unified_memory = False
        self.max_recv_per_poll, self.max_new_tokens_limit = -1, None
        self.attn_dp_enabled = self.enable_dp_attention = False  # As it was called before 0.5.22.
        self.model_config = worker.model_config
        self.init_metrics_collector(*RANKS)
        self.ipc_channels, self.recv_from_tokenizer, self.load_snapshot_writer = channels, None, None
        self.idle_sleeper = None
        self.tokenizer = self.processor = None
        self.is_generation = True
        self._make_worker(options, worker)
        self._make_cache(options)
        self.init_hisparse_coordinator()
        self.decode_offload_manager = None
        self.init_running_status()
        self.init_chunked_prefill()
        self.dynamic_chunk_sizer, self.enable_dynamic_chunking = None, False  # The latter before 0.5.20.
        self.init_diffusion_llm()
        self.init_metrics_reporter(*RANKS)
        self.scheduler_stage_metrics = getattr(self.metrics_reporter, "scheduler_stage_metrics", None)  # Since 0.5.20.
        self.init_kv_events_publisher()
        self.init_schedule_policy()
        self.memory_saver_adapter = None
        self.recv_skipper = self.input_blocker = None
        self.init_profiler()
        self.maybe_init_rust_server()
        # For other servers it asks how large the states of a drafter are, and so for the drafter's model.
        drafting, self.spec_algorithm = self.spec_algorithm, algorithm(0)
        self.init_disaggregation()
        self.spec_algorithm = drafting
        self.init_overlap()
        self.maybe_init_ngram_embedding()
        self.init_deterministic_inference_config()
        self.init_weight_updater()
        self.init_request_dispatcher()
        self.init_lora_drainer()
        self.init_lora_overlap_loader()
        self.init_grammar_manager()
        self.scripted_scheduler_hook = None
        self.request_receiver = SimpleNamespace(recv_requests=lambda local_reqs=(): [*local_reqs])
        self.init_dp_attn_adapter()
        self.init_pool_stats_observer()
        self.init_invariant_checker()
        self.init_load_publisher()
        self.init_load_inquirer()
        self.init_output_streamer()
        self.init_batch_result_processor()
        self.is_initializing = False

    def _make_worker(self, options, worker) -> None:
        """What `init_model_worker` sets, with the sizes that a release's worker makes of the pool's."""
        self.tp_worker = self.model_worker = worker
        self.draft_worker, self.external_corpus_manager = worker if options.drafts else None, None
        capacity = options.page * options.pages
        self.max_total_num_tokens = capacity
        self.max_prefill_tokens = release.get_schedule().max_prefill_tokens
        self.max_running_requests = min(options.rows, options.states // STATES_PER_ROW or options.rows)
        self.max_queued_requests = release.get_schedule().max_queued_requests
        self.max_req_len = min(options.context, capacity) - 1
        self.max_req_input_len = self.max_req_len - _BESIDE_A_PROMPT
        self.device, self.random_seed = "cpu", 0
        self.schedule_stream = torch.cpu.Stream()
        self.forward_stream = worker.model_runner.forward_stream
        self.min_free_slots_delayer = None
        self.pad_input_ids_func = None
        for name in ("tp", "attn_tp", "attn_cp", "dp_tp"):
            setattr(self, f"{name}_group", GROUP)
            setattr(self, f"{name}_cpu_group", None)
        self.pp_group = self.world_group = GROUP
        self.require_mlp_sync = False
        self._war_barrier_enabled = False

    def _make_cache(self, options) -> None:
        """What `build_kv_cache` makes of a model with full attention, and with a sliding window or states besides."""
        self.kv_event_lora_names = lora_names()
        row = options.context + get_req_to_token_extra_context_len()
        self.memory = memory = Memory(options.memory, options.rows, row)
        self.is_hybrid_swa, self.is_hybrid_ssm = bool(memory.window), bool(memory.states)
        self.sliding_window_size = memory.window or None
        self.full_tokens_per_layer = memory.page * memory.pages if memory.window else None
        self.swa_tokens_per_layer = memory.page * memory.window_pages if memory.window else None
        self.token_to_kv_pool_allocator, self.req_to_token_pool = memory.allocator, memory.rows
        self.disable_radix_cache = False
        params = made_params(
            options.core,
            self.kv_event_lora_names,
            req_to_token_pool=self.req_to_token_pool,
            token_to_kv_pool_allocator=self.token_to_kv_pool_allocator,
            page_size=options.page,
            eviction_policy=release.get_memory().radix_eviction_policy,
            enable_kv_cache_events=options.events,
            tree_components=memory.components,
            sliding_window_size=self.sliding_window_size,
            chunked_prefill_size=release.get_schedule().chunked_prefill_size,
            is_eagle=memory.pairs,
        )
        self.tree_cache = UnifiedRadixCache(params)
        self.host = None if options.host is None else options.host(self.tree_cache, params, memory, self.listener.tell)

    def round(self) -> None:
        """Go one round of the release's own event loop."""
        self.rounds = 1
        # It looks for conversations that ended once a second; a round takes as long as we like.
        self.session_controller._last_reap_time = float("-inf")
        if self.enable_overlap:
            self.event_loop_overlap()
        else:
            self.event_loop_normal()

    def _create_generation_req(self, _recv_req, *args, **kwargs):
        """Make the release's object for a request."""
        return Told(*args, **kwargs)

    def process_batch_result(self, batch, result) -> None:
        """Process the result of a pass."""
        due = self.listener.processing(result.launched)
        super().process_batch_result(batch, result)
        self.listener.processed(due)
