"""A model worker whose passes verify drafts, as a release's worker of n-grams does that proposes one chain of them.

A draft that is taken leaves what it wrote where it is to be; what one that is not taken wrote is written over by the
next pass. Which drafts are right, and what the model samples behind them, is given.
"""

from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache import allocation
from sglang.srt.mem_cache.allocation_sizing import get_req_to_token_extra_context_len
from sglang.srt.speculative.ngram_info import NgramVerifyInput
from sglang_model import EOS, Model

__all__ = ["Drafting", "beyond", "fields"]


def _assign(rows, table, starts, ends, slots, _count: int) -> None:
    """Write new slots behind those that rows have, row by row, as the release's kernel does."""
    for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
        table[row, start:end], slots = slots[: end - start].to(table.dtype), slots[end - start :]


allocation.assign_req_to_token_pool_func = _assign  # There is one for a GPU, and one that a CPU's build has.


def fields(drafts: int) -> dict[str, Any]:
    """What a release's configuration says of so many tokens that a pass verifies: the last one that was sampled, and
    drafts behind it; 0: no drafts."""
    if not drafts:
        return {"speculative_algorithm": None, "speculative_num_draft_tokens": None, "speculative_num_steps": None}
    return {
        "speculative_algorithm": "NGRAM",
        "speculative_num_draft_tokens": drafts,
        "speculative_eagle_topk": 1,
        "speculative_num_steps": drafts,
    }


def beyond() -> int:
    """The slots that a request's row has beyond the longest text, as a release's server makes it."""
    return get_req_to_token_extra_context_len()


@dataclass
class _Verified:
    """What became of a request's drafts in a pass."""

    run: list[int]
    """The tokens that it computed."""
    sampled: list[int]
    """The drafts that were right, and the token behind them."""


class Drafting(Model):
    """A model worker, and the drafter before it."""

    primary_draft_kv_pool = None
    """N-grams have no layers of their own."""

    def forward_batch_generation(self, batch, on_publish=None, **_how) -> GenerationBatchResult:
        """Tell what is computed, and return what each row samples: of a prompt one token, else a run of them."""
        if batch.forward_mode.is_extend():
            result = super().forward_batch_generation(batch)
            lengths, runs = batch.seq_lens.clone(), [[token] for token in result.next_token_ids.tolist()]
        else:
            result, runs = self._verify(batch)
            lengths = batch.seq_lens + torch.tensor([len(run) for run in runs])
        if on_publish is not None:
            on_publish(lengths)
        padded = [token for run in runs for token in run + [0] * (self.drafts - len(run))]
        result.accept_lens = torch.tensor([len(run) for run in runs], dtype=torch.int32)
        result.new_seq_lens, result.speculative_num_draft_tokens = lengths, self.drafts
        result.next_draft_input = NgramVerifyInput(
            draft_token_num=self.drafts,
            new_seq_lens=lengths,
            accept_tokens=torch.tensor(padded, dtype=torch.int32),
            accept_lens=result.accept_lens,
        )
        if not batch.forward_mode.is_extend():
            result.next_token_ids = result.next_draft_input.accept_tokens
        return result

    def _verify(self, batch) -> tuple[GenerationBatchResult, list[list[int]]]:
        """Tell what a pass computes that verifies drafts."""
        runs, launched = [], []
        rows = zip(batch.reqs, batch.req_pool_indices.tolist(), batch.seq_lens.tolist(), strict=True)
        for at, (req, row, start) in enumerate(rows):
            done = self._verified(at, self._last(batch, at, req))
            self.run(req, row, start, done.run, self.memory.rows.req_to_token[row, start : start + self.drafts])
            runs.append(done.sampled)
            launched.append((req, req.retraction_count, start + len(done.sampled)))
        result = GenerationBatchResult(next_token_ids=None)
        result.launched = launched
        return result, runs

    def _last(self, batch, at: int, req) -> int:
        """The last token of a request: with passes that overlap, the request has not heard of those of the last one."""
        told = batch.spec_info
        count = 0 if told is None or not batch.enable_overlap else int(told.accept_lens[at])
        if count:
            return int(told.accept_tokens[at * self.drafts + count - 1])
        return (list(req.origin_input_ids) + list(req.output_ids))[-1]

    def _verified(self, at: int, last: int) -> _Verified:
        right = min(self.accepted, self.drafts - 1)
        sampled = [self._sampled(at + i) for i in range(right + 1)]
        wrong = [(sampled[-1] + 1) % EOS] * (self.drafts - 1 - right)
        return _Verified([last, *sampled[:right], *wrong], sampled)

    # ---------------------------------------------------------------------------------------------- a drafter

    def on_verify_complete_cpu(self, _correct, batch_size: int = 0) -> None:
        """A result was processed."""

    def clear_cache_pool(self) -> None:
        """The cache is flushed."""
