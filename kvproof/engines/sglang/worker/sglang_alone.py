"""A process that is alone: what a release asks of ranks and groups of processes, in its own words.

Since 0.5.21 its context has them all; before, a scheduler is told its ranks, and has them in a record of its own.
"""

import importlib
import importlib.util
from types import SimpleNamespace

from sglang.srt.runtime_context import get_parallel

__all__ = ["GROUP", "RANKS", "join"]

_RECORD = "sglang.srt.distributed.parallel_state_wrapper"
_HAS_RECORD = importlib.util.find_spec(_RECORD) is not None

RANKS = (0, 0, None) if _HAS_RECORD else ()
"""What a scheduler is told of itself where it begins: its ranks among tensors, stages and copies of the model."""

GROUP = SimpleNamespace(cpu_group=None, world_size=1, first_rank=0, is_first_rank=True, is_last_rank=True)
"""A group of processes of which there is one."""

_ANSWERS = {
    **dict.fromkeys(("pp_rank", "attn_tp_rank", "attn_cp_rank", "attn_dp_rank", "tp_rank"), 0),
    **dict.fromkeys(("tp_group", "attn_tp_group", "attn_cp_group", "pp_group"), GROUP),
}

if _HAS_RECORD:
    _widths = dict.fromkeys(("attn_tp_size", "attn_dp_size", "attn_dcp_size"), 1)
    _lasting = get_parallel().override(**_ANSWERS, **_widths)  # Whoever lets go of it ends it.
    _lasting.__enter__()
else:
    get_parallel().override_permanently(**_ANSWERS, dp_rank=None)


def join(scheduler) -> None:
    """Give a scheduler its record of ranks, where it has one."""
    if _HAS_RECORD:
        scheduler.ps = importlib.import_module(_RECORD).ParallelState.trivial(dp_rank=None)
