"""The model that we play: it writes stamps through the release's own cache, and tells what it reads back."""

from types import SimpleNamespace

import torch
from transformers import LogitsProcessorList
from transformers_memory import decoded, stamped
from transformers_options import DTYPE, EOS, VOCABULARY

__all__ = ["Model"]


class Model:
    """What the release takes for a model. `requests` says whose tokens the batch has, in its order."""

    dtype = DTYPE
    device = torch.device("cpu")
    _supports_flash_attn = True

    def __init__(self, config, tell) -> None:
        self.config = config
        self.token = 0
        """What the requests of a batch sample: this token and those after it, in turns; from `VOCABULARY` on one of
        them the token that ends a request."""
        self.requests = lambda: ()
        self._tell = tell
        self._passes = 0

    def eval(self) -> "Model":
        """Be itself."""
        return self

    def _get_logits_processor(self, _generation_config) -> LogitsProcessorList:
        return LogitsProcessorList()

    def __call__(self, **batch) -> SimpleNamespace:
        """A forward pass over a batch."""
        tokens, positions = batch["input_ids"][0].tolist(), batch["position_ids"][0].tolist()
        ends = batch["cu_seq_lens_q"].tolist()
        sampling = batch["logits_indices"].tolist()
        logits = torch.zeros(1, len(tokens), VOCABULARY)
        pass_of, told = [], []
        for i, future in enumerate(self.requests()):
            first, end = ends[i], ends[i + 1]
            told.append(future.state.request_id if end > first else None)
            if end == first:
                continue
            token = None
            if future.has_new_token and end - 1 in sampling:
                token = EOS if self.token == VOCABULARY + i else (self.token + i) % EOS
                logits[0, end - 1, token] = 1.0
            self._tell("ran", future.state.request_id, self._passes, positions[first], tokens[first:end], token)
            pass_of += [self._passes] * (end - first)
            self._passes += 1
        for layer in range(self.config.num_hidden_layers):
            kwargs = dict(batch)
            states = batch["cache"].update(*stamped(pass_of, positions, layer), layer, kwargs)
            stamps = decoded(*(state[0, 0] for state in states), layer)
            ends_read = kwargs["cu_seq_lens_k"].tolist()
            for i, r in enumerate(told):
                if r is None:  # Nothing of it is in the batch.
                    continue
                self._tell("read", r, layer, stamps[ends_read[i] : ends_read[i + 1]])
        return SimpleNamespace(logits=logits)
