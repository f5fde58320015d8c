"""What is on both sides of a scheduler: the model worker behind it, and the clients before it."""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace

import torch
from sglang.srt.managers.io_struct import AbortReq, FlushCacheReqOutput
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor.model_runner_components.ngram_embedding_manager import NgramEmbeddingManager
from sglang_memory import Memory

__all__ = ["EOS", "Model", "Outbox"]

EOS = 3
"""The token that ends a text. A vocabulary has three others."""

_NO_NGRAMS = NgramEmbeddingManager(
    **{field.name: None for field in dataclasses.fields(NgramEmbeddingManager) if field.default is dataclasses.MISSING}
)
"""Not enabled; before 0.5.21 it asks for one more size."""


class Model:
    """A model worker that tells what a forward pass reads and writes, and samples what it is given."""

    drafts = accepted = 0
    """How many tokens a pass verifies of a request that decodes, and how many drafts among them are right."""
    drafter = "ngram"
    """What proposes them."""

    def __init__(self, tell: Callable, sampled: Callable[[int], int], context: int) -> None:
        """``sampled`` is asked for the token of the i-th row of a batch; ``context`` is the longest text, in tokens."""
        self._tell, self._sampled = tell, sampled
        self.memory: Memory
        """Where each request's tokens are: the release's own table and allocators."""
        self.host = None
        """The host tier below it, if there is one."""
        self.model_config = SimpleNamespace(
            is_generation=True,
            is_multimodal=False,
            is_encoder_decoder=False,
            hf_eos_token_id={EOS},
            hf_config=SimpleNamespace(architectures=["None"]),
            hf_text_config=SimpleNamespace(),
            vocab_size=EOS + 1,
            context_len=context,
            think_end_ids=None,
            self_opened_think_start_ids=None,
            use_ngram_embedding=False,
            _resolved_model_impl="sglang",
        )
        self.model_runner = SimpleNamespace(
            forward_stream=torch.cpu.Stream(),
            attn_backend=SimpleNamespace(),
            prefill_aware_swa=False,
            ngram_embedding_manager=_NO_NGRAMS,
            decode_cuda_graph_runner=None,
            shared_read_done_event=None,
        )

    def forward_batch_generation(self, batch, **_how) -> GenerationBatchResult:
        """Tell what is computed, and return what each row samples."""
        if self.host is not None:
            # The release's own copy of states waits for the load that its batch begins with; what follows does here.
            self.host.begins(batch.hicache_consumer_index)
        if batch.forward_mode.is_extend():  # A batch of 0.5.19 that decodes names the copies of its prefill still.
            self.memory.copy_states(batch)
        if self.host is not None and batch.hicache_consumer_index >= 0:
            self.host.wait(batch.hicache_consumer_index)
        ends = batch.seq_lens.tolist()
        counts = list(batch.extend_lens) if batch.forward_mode.is_extend() else [1] * len(ends)
        tokens, slots = batch.input_ids.tolist(), batch.out_cache_loc
        launched = []
        for req, row, end, count in zip(batch.reqs, batch.req_pool_indices.tolist(), ends, counts, strict=True):
            run, tokens = tokens[:count], tokens[count:]
            written, slots = slots[:count], slots[count:]
            self.run(req, row, end - count, run, written)
            launched.append((req, req.retraction_count, end))
        sampled = torch.tensor([self._sampled(at) for at in range(len(ends))], dtype=torch.int64)
        result = GenerationBatchResult(next_token_ids=sampled)
        result.launched = launched
        return result

    def run(self, req, row: int, start: int, tokens: list[int], written) -> None:
        """Tell that a pass computes a request's ``tokens`` from position ``start`` on.

        It attends to what the request's row has of the tokens before, and writes the slots that it is told to.
        """
        memory = self.memory
        before = memory.rows.req_to_token[row, :start].long()
        states = [memory.own_states(req.kv)] if memory.states else []
        if not req.admitted:
            req.admitted = True
            limit = max(0, len(req.origin_input_ids) + len(req.output_ids) - memory.left)
            if req.session is None:
                self._tell("lookup", req.rid, start, 0, limit)
            self._tell("found", req.rid, memory.attended(before) + states, start)
        tables = memory.attended(torch.cat([before, written.long()])) + states
        for g, table in enumerate(tables):
            self._tell("table", req.rid, g, 0, table)
        for own in states:
            self._tell("state", req.rid, len(tables) - 1, own[0] if start else None, [[own[0], start + len(tokens)]])
        self._tell("compute", req.rid, start, tokens)


class Outbox:
    """Where a scheduler sends what clients and callers are told: their answers, and which requests are over."""

    def __init__(self) -> None:
        self.answers: dict[str, list[int]] = {}
        """What clients have got so far."""
        self.counts: dict[str, tuple[int, int, int]] = {}
        """What they were told last: tokens of the prompt, those of it that were cached, and those that were made."""
        self.flushed = False
        """Whether the last flush was done."""
        self._ends: list[tuple[str, str]] = []
        self.send_to_tokenizer = self.send_to_detokenizer = self
        self.send_metrics_from_scheduler = self.recv_from_rpc = None

    def send_output(self, output, _about=None) -> None:
        """Take a message."""
        if isinstance(output, AbortReq):
            self._ends.append((output.rid, "aborted"))
        elif isinstance(output, FlushCacheReqOutput):
            self.flushed = output.success
        elif hasattr(output, "finished_reasons"):
            counts = zip(output.prompt_tokens, output.cached_tokens, output.completion_tokens, strict=True)
            self.counts.update(zip(output.rids, counts, strict=True))
            for r, tokens, reason in zip(output.rids, output.output_ids, output.finished_reasons, strict=True):
                self.answers.setdefault(r, []).extend(tokens)
                if reason is not None:
                    self._ends.append((r, "aborted" if reason["type"] == "abort" else "finished"))

    def take(self) -> list[tuple[str, str]]:
        """The requests that are over, and how, since the last call."""
        ends, self._ends = self._ends, []
        return ends
