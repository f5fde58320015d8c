"""Known faults of real block managers, by name: each would have been told by a rule, and a broken copy here has it.

B are faults of released vLLM, S those in the history of the changes that the rules come from. A checker that knows just
these is worth nothing; they are what the rules are measured by.
"""

from __future__ import annotations

from dataclasses import dataclass

from .rules import ORIGINS

__all__ = ["FAULTS", "Fault"]

_VLLM = "https://github.com/vllm-project/vllm/issues/"
_BLIS = "https://github.com/inference-sim/inference-sim/issues/"


@dataclass(frozen=True)
class Fault:
    """One fault.

    ``where`` names the function or the part that had it, ``rules`` the rules that it breaks; ``releases`` are the first
    and the last release in which it was seen, and the first without it.
    """

    code: str
    where: str
    sentence: str
    rules: tuple[str, ...]
    releases: str = ""
    link: str = ""


def _vllm(code: str, where: str, sentence: str, rules: str, releases: str, issue: int | None = None) -> Fault:
    return Fault(code, where, sentence, tuple(rules.split()), releases, "" if issue is None else f"{_VLLM}{issue}")


def _seed(code: str, subject: str, sentence: str, rules: str, issue: int | None = None) -> Fault:
    origin = ORIGINS[subject]
    link = origin.link if issue is None else f"{_BLIS}{issue}"
    return Fault(code, origin.name, sentence, tuple(rules.split()), link=link)


_ALL = (
    _vllm(
        "B1",
        "KVCacheCoordinator.allocate_new_computed_blocks",
        "External blocks of one group are taken from the queue before the hits of another are held: one block twice in "
        "one request.",
        "P8 H8",
        "0.19.0 to 0.22.1, not in 0.24.0",
        44409,
    ),
    _vllm(
        "B2",
        "KVCacheManager.remove_skipped_blocks",
        "A block that left the window is freed by the count of tokens that were hoped for, while a scheduled step "
        "still reads it.",
        "D7",
        "0.19.0 to 0.24.0, not in 0.26.0",
        47728,
    ),
    _vllm(
        "B3",
        "prepare_store of the LRU and ARC offload managers",
        "To make room, a key that the same call offers is evicted.",
        "O12",
        "0.11.0 to 0.17.1, not in 0.19.0",
        35846,
    ),
    _vllm(
        "B4",
        "prepare_store with store_threshold",
        "A resident key is evicted by the very offer that names it, since it is below the threshold.",
        "O12",
        "0.28.0 to 0.30.0, not in 0.32.0",
    ),
    _vllm(
        "B5",
        "generate_block_hash_extra_keys",
        "An adapter's name and a cache salt of the same letters give the same key: one tenant hits another's blocks.",
        "P13 P6",
        "0.13.0 to 0.30.0, not in 0.32.0",
        44701,
    ),
    _vllm(
        "B6",
        "can_fit_full_sequence",
        "A request that gives up what leaves its window is judged by its whole length, and never admitted.",
        "L1",
        "0.19.0, not in 0.20.2",
        40946,
    ),
    _vllm(
        "B7",
        "BlockPool.free_blocks",
        "A block that one call names twice is queued twice: the counter and the queue part.",
        "P3 P9",
        "0.11.0 to 0.22.1, not in 0.24.0",
        42571,
    ),
    _vllm(
        "B8",
        "_prepare_eager_store_specs",
        "A block is stored a second time while its first store is on the way.",
        "O3",
        "0.19.0 to 0.20.2, not in 0.22.1",
        41289,
    ),
    _vllm(
        "B9",
        "evict of the ARC offload manager",
        "It refuses an offer though enough entries could go, when its target is larger than what the first list has.",
        "O12",
        "0.19.0 to 0.28.0, not in 0.30.0",
        55461,
    ),
    _vllm(
        "B10",
        "SimpleCPUOffloadScheduler",
        "What the last step of a request completed is never stored.",
        "O9",
        "0.19.0 to 0.28.0, not in 0.30.0",
        53532,
    ),
    _vllm(
        "B11",
        "OffloadingConnector",
        "A request is preempted while a store reads its blocks: they are handed out, and the store is lost.",
        "O8 O2",
        "0.11.0 to 0.13.0, not in 0.17.1",
        29870,
    ),
    _vllm(
        "B12",
        "OffloadingConnector",
        "A preempted request is admitted again before its flushed store is reported: an assertion ends the engine.",
        "O8",
        "0.22.1, not in 0.24.0",
        46014,
    ),
    _vllm(
        "B13",
        "OffloadingConnector",
        "The abort of a request that was never scheduled ends the engine.",
        "O8",
        "0.26.0, not in 0.28.0",
        49146,
    ),
    _vllm(
        "B14",
        "Scheduler",
        "Loads reserve only the prefix that they load: two requests wait for each other's blocks for ever.",
        "L1",
        "0.22.1, not in 0.24.0",
        44560,
    ),
    _vllm(
        "B15",
        "BlockPool._emit_block_removed_events",
        "A removal is reported while another copy of the hash can still be hit.",
        "P12",
        "all releases up to 0.33.0",
        55092,
    ),
    _vllm(
        "B16",
        "BlockPool.free_blocks",
        "Two frees for one hold make ref_cnt -1 without a word; what goes wrong comes later and elsewhere.",
        "P9 P2",
        "all releases up to 0.33.0; the fault is the caller's",
    ),
    _seed("S1", "M", "A release takes the hash off the device's map: the hit rate collapses.", "M1", 511),
    _seed(
        "S2",
        "M",
        "A reload walks all host blocks instead of the request's prefix, and drives out what it just loaded.",
        "M4 M6",
        510,
    ),
    _seed(
        "S3",
        "M",
        "A reload that covers the whole range succeeds without holding the blocks; one that covers a part loses them "
        "to the same request's allocation.",
        "M6 P8",
        646,
    ),
    _seed("S4", "M", "Hits are counted twice, and the test of conservation compares a total with itself.", "M8"),
    _seed("S5", "M", "A popped block that is filled from the host keeps its old hash in the map.", "M5 P5"),
    _seed(
        "S6",
        "D",
        "A reference is the pin: a drop by two undoes another request's touch, and a count below zero loses the block.",
        "D1 P2",
    ),
    _seed("S7", "D", "The pinned queue has stale entries: a block that is demoted is in use.", "D3 P3"),
    _seed("S8", "D", "A gate refuses an admission without demoting anything: the engine hangs.", "D5"),
    _seed("S9", "D", "What left the window is taken off the map, so that the pin keeps what nobody can hit.", "D4 P5"),
    _seed(
        "S10",
        "O",
        "Host blocks that a lookup found are evicted before the load; a preempted request keeps its old counts.",
        "O5 O8 P15",
    ),
    _seed("S11", "O", "Lazy offload never stores the prefix that all requests share.", "O4"),
    _seed("S12", "O", "A hit that is shortened by a token after the lookup is none for a window.", "O6"),
    _seed("S13", "G", "A device slot is free before its copy ends: there is room that is not there.", "G1"),
    _seed("S14", "G", "Every transfer has all of the bandwidth, and a batch has no size in virtual time.", "G2 G4"),
    _seed("S15", "G", "Transfers share numbers: a completion wakes another one.", "G3"),
    _seed("S16", "H", "Groups disagree: the computed count is set back, and the external one is not.", "H4"),
    _seed("S17", "H", "One connector's 'not yet' holds up all others.", "H5"),
    _seed("S18", "H", "A load never ends, or ends after its time is up.", "H6"),
    _seed("S19", "H", "A planner counts a chunk that the tokens do not fill.", "H2"),
)

FAULTS: dict[str, Fault] = {fault.code: fault for fault in _ALL}
"""All faults by code, in their order."""
