"""A model worker whose passes verify drafts, as a release's workers do whose drafter proposes one chain of them.

A draft that is taken leaves what it wrote where it is to be; what one that is not taken wrote is written over by the
next pass. Which drafts are right, and what the model samples behind them, is given. What a drafter's own layers write
is not told.
"""

from typing import Any

import torch
from sglang.srt.managers import overlap_utils
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache import allocation
from sglang.srt.speculative.eagle_info import EagleDraftInput
from sglang.srt.speculative.ngram_info import NgramVerifyInput
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang_model import EOS, Model

__all__ = ["DRAFTERS", "Drafting", "algorithm", "fields"]

DRAFTERS = {"ngram": "NGRAM", "eagle": "EAGLE"}
"""What drafts, and what a release calls it: n-grams of what was said, or layers that read what the model computes."""


def _assign(rows, table, starts, ends, slots, _count: int) -> None:
    """Write new slots behind those that rows have, row by row, as the release's kernel does."""
    for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
        table[row, start:end], slots = slots[: end - start].to(table.dtype), slots[end - start :]


def _gather(indices, *buffers) -> tuple:
    """Return these rows of each buffer that there is."""
    return tuple(None if buffer is None else buffer[indices] for buffer in buffers)


# What a GPU's kernels do, or those of a build for a CPU.
allocation.assign_req_to_token_pool_func = _assign
overlap_utils.gather_spec_extras = _gather
torch.Tensor.record_stream = lambda _tensor, _stream: None  # Asked before 0.5.22, and a processor has one stream.


def fields(drafts: int, drafter: str) -> dict[str, Any]:
    """What a release's configuration says of so many tokens that a pass verifies: the last one that was sampled, and
    drafts behind it; 0: no drafts."""
    return {
        "speculative_algorithm": DRAFTERS[drafter] if drafts else None,
        "speculative_num_draft_tokens": drafts or None,
        "speculative_eagle_topk": 1 if drafts else None,
        "speculative_num_steps": drafts - (drafter == "eagle") if drafts else None,
    }


def algorithm(drafts: int, drafter: str = "ngram") -> SpeculativeAlgorithm:
    """A release's own word for who drafts; without drafts for nobody."""
    return SpeculativeAlgorithm.from_string(fields(drafts, drafter)["speculative_algorithm"])


class Drafting(Model):
    """A model worker, and the drafter before it."""

    primary_draft_kv_pool = None
    """Nobody looks into a drafter's memory."""

    def forward_batch_generation(self, batch, on_publish=None, **_how) -> GenerationBatchResult:
        """Tell what is computed, and return what each row samples: of a prompt one token, else a run of them."""
        is_prompt = batch.forward_mode.is_extend()
        if is_prompt:
            result = super().forward_batch_generation(batch)
            runs = [[token] for token in result.next_token_ids.tolist()]
        else:
            result, runs = self._verify(batch)
        counts = torch.tensor([len(run) for run in runs], dtype=torch.int32)
        lengths = batch.seq_lens + (0 if is_prompt else counts)
        if on_publish is not None:
            on_publish(lengths)
        padded = torch.tensor([token for run in runs for token in run + [0] * (self.drafts - len(run))])
        result.new_seq_lens, result.speculative_num_draft_tokens = lengths, self.drafts
        result.next_draft_input = self._next_input(runs, padded, counts, lengths)
        if not is_prompt:
            result.next_token_ids, result.accept_lens = padded, counts
        return result

    def _verify(self, batch) -> tuple[GenerationBatchResult, list[list[int]]]:
        """Tell what a pass computes that verifies drafts; return what each row samples: the drafts that were right,
        and the token behind them."""
        runs, launched = [], []
        right = min(self.accepted, self.drafts - 1)
        rows = zip(batch.reqs, batch.req_pool_indices.tolist(), batch.seq_lens.tolist(), strict=True)
        for at, (req, row, start) in enumerate(rows):
            sampled = [self._sampled(at + i) for i in range(right + 1)]
            wrong = [(sampled[-1] + 1) % EOS] * (self.drafts - 1 - right)
            slots = self.memory.rows.req_to_token[row, start : start + self.drafts]
            self.run(req, row, start, [self._last(batch, at, req), *sampled[:right], *wrong], slots)
            runs.append(sampled)
            launched.append((req, req.retraction_count, start + len(sampled)))
        result = GenerationBatchResult(next_token_ids=None)
        result.launched = launched
        return result, runs

    def _last(self, batch, at: int, req) -> int:
        """The last token of a request: with passes that overlap, the request has not heard of those of the last one."""
        told = batch.spec_info
        if self.drafter == "eagle":
            return int(told.bonus_tokens[at])
        count = 0 if told is None or not batch.enable_overlap else int(told.accept_lens[at])
        if count:
            return int(told.accept_tokens[at * self.drafts + count - 1])
        return (list(req.origin_input_ids) + list(req.output_ids))[-1]

    def _next_input(self, runs: list[list[int]], padded, counts, lengths):
        """What the drafter of a release's next pass is told."""
        if self.drafter == "eagle":
            nothing = torch.zeros((len(runs), 1))
            return EagleDraftInput(
                bonus_tokens=torch.tensor([run[-1] for run in runs], dtype=torch.int32),
                topk_p=nothing,
                topk_index=nothing.long(),
                hidden_states=nothing,
            )
        return NgramVerifyInput(
            draft_token_num=self.drafts, new_seq_lens=lengths, accept_tokens=padded.int(), accept_lens=counts
        )

    # ---------------------------------------------------------------------------------------------- a drafter

    def on_verify_complete_cpu(self, _correct, batch_size: int = 0) -> None:
        """A result was processed."""

    def clear_cache_pool(self) -> None:
        """The cache is flushed."""
