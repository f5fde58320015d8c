"""The rules of KV caching, by name: what the machines write down, what findings cite, and where each comes from.

Words. *Block*: one unit of device KV memory. *Host block*: the same on the host. *Request*: a sequence of tokens with a
block table for each group. *Block hash*: the chained key of a full block, of all tokens up to its end and of all else
that changes its KV. *Cached*: registered in the prefix map. *Free queue*: blocks without a reference, in the order of
eviction. *Transfer*: an asynchronous copy between tiers. *Group*: layers that share one kind of block table. *Step*: a
scheduled forward pass; scheduling it and processing its result are two moments. *Dialect*: a legitimate difference of
policy between engines or releases, which machines take as a parameter.

Rules are judged on sequences of legal calls. A caller that frees what it does not hold breaks its own side first.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ORIGINS", "RULES", "SUBJECTS", "Origin", "Rule"]


@dataclass(frozen=True)
class Origin:
    """Where rules come from: an engine's source, a change that was reviewed, or this kit."""

    name: str
    link: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule.

    ``code`` is its name in docstrings, findings and tests; ``sentence`` what findings say was broken; ``more`` what
    else belongs to it.
    """

    code: str
    sentence: str
    more: str = ""

    @property
    def subject(self) -> str:
        """The letter of its code."""
        return self.code[0]

    @property
    def origin(self) -> Origin:
        """Where it comes from."""
        return ORIGINS[_OWN.get(self.code, self.subject)]


SUBJECTS = {
    "P": "The block pool",
    "M": "Mirror and reload",
    "O": "Asynchronous offload",
    "D": "Pin and demote",
    "G": "Tiers in virtual time",
    "H": "Hybrid groups and connectors",
    "R": "The prefix tree",
    "L": "Liveness",
    "E": "Streams of KV events",
}
"""What the letter of a code stands for."""

ORIGINS = {
    "P": Origin("vLLM V1, `BlockPool`", "https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/block_pool.py"),
    "M": Origin("BLIS, the mirror model of vLLM V1", "https://github.com/inference-sim/inference-sim/pull/638"),
    "O": Origin("vLLM, simple CPU offloading", "https://github.com/vllm-project/vllm/pull/37160"),
    "D": Origin("vLLM, retained prefixes by pinned blocks", "https://github.com/vllm-project/vllm/pull/40676"),
    "G": Origin("Dynamo, host offload in the mocker", "https://github.com/ai-dynamo/dynamo/pull/8184"),
    "H": Origin("vLLM, offload for hybrid models", "https://github.com/vllm-project/vllm/pull/38261"),
    "R": Origin(
        "SGLang, `RadixCache`",
        "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/mem_cache/radix_cache.py",
    ),
    "E": Origin("vLLM, KV events", "https://github.com/vllm-project/vllm/blob/main/vllm/distributed/kv_events.py"),
    "kit": Origin("kvproof: stated here first"),
}

_OWN = {"L1": "kit", "L2": "kit", "M9": "kit", "P13": "kit"}
"""Rules of which no source speaks in these words."""

_ALL = (
    # ------------------------------------------------------------------------------------------ the block pool
    Rule(
        "P1",
        "Free and referenced blocks together are all usable blocks, at every moment.",
        "Pinned blocks count as a third kind where there are any, slots that are being copied as a fourth.",
    ),
    Rule(
        "P2",
        "A block's ref_cnt is the number of its live holders, and never negative.",
        "Holders are table entries, transfers, pins of lookups, and frees that are put off. From outside an engine "
        "only some holders can be seen: then ref_cnt is at least their number.",
    ),
    Rule(
        "P3",
        "A block is in the free queue exactly when its ref_cnt is 0, once; the queue's counter is its length.",
        "With pinning: in exactly one of the free and the pinned queue.",
    ),
    Rule(
        "P4",
        "The null block is never queued, handed out or cached.",
        "Whether there is one, and whether its ref_cnt is kept, is a dialect.",
    ),
    Rule(
        "P5",
        "A block is in the prefix map under a hash exactly when it carries that hash.",
        "Several blocks may carry one hash: a lookup returns the first registered that remains. A partly filled block "
        "may be registered at several lengths.",
    ),
    Rule(
        "P6",
        "What a registered hash covers is never overwritten, and nobody is handed a block that holds another prefix.",
        "In an engine of steps, to schedule a step is to write its tokens, in the order of steps; where caching is put "
        "off, the completed load is. A copy may read a block only after the step that wrote it.",
    ),
    Rule(
        "P7",
        "An allocation is all or nothing, from the head of the free queue.",
        "With fewer blocks free it is refused and changes nothing; else the first ones are taken, in order, and each "
        "loses its hashes.",
    ),
    Rule(
        "P8",
        "Everything that a lookup found is held before anything is allocated for that request.",
        "A block leaves the free queue when its first holder arrives.",
    ),
    Rule(
        "P9",
        "A free decides per block, once, when its count reaches 0.",
        "Also where one call names a block twice, for two holds. A free without a hold is an error of the caller's and "
        "changes nothing.",
    ),
    Rule(
        "P10",
        "Freed blocks go where the release's order says, one call per group, last block first.",
        "A dialect: `append` puts all at the tail; `split` puts blocks without a hash at the head as one run, those "
        "with one at the tail. Later releases put all at the head where caching is off.",
    ),
    Rule(
        "P11",
        "Evict removes hashes only; reset happens only when nothing is held, and else changes nothing.",
    ),
    Rule(
        "P12",
        "Replaying the KV events gives exactly the set of keys for which a lookup succeeds.",
        "A key is a hash, a group and a medium. A removal is told when the last copy goes. A parent that is named is "
        "the key of the block before, and was told before it; since then only an evict, a reset or a window may have "
        "removed that one.",
    ),
    Rule(
        "P13",
        "A hash key stands for one content: tokens, adapter, salt and multimodal items never collide.",
        "Kinds are tagged, so that none passes for another, and keys are the same in every process.",
    ),
    Rule(
        "P14",
        "A lookup for n tokens never returns more than n - 1.",
        "The last token is computed again for its logits. Nor does it return less than is cached: it ends there, or at "
        "the first hash that is not cached. A request that asks that nothing be read for it gets nothing.",
    ),
    Rule(
        "P15",
        "Counters never go back, a refused admission counts nothing, and a request counts once.",
        "A refusal changes no other request's table, and no hash. It may have released blocks that left the window, "
        "or hold pins of its lookup. Hits and queries of a request count once, when it is scheduled. A clear says how "
        "much went. A client is told as cached what its request found, and as made what it gets.",
    ),
    # ------------------------------------------------------------------------------------------ mirror and reload
    Rule(
        "M1",
        "A release moves nothing to the host.",
        "Freed blocks keep their hashes on the device.",
    ),
    Rule(
        "M2",
        "Mirroring stores or touches every full, hashed block of the batch, and only reads the device.",
        "It runs after each step, before finished requests are released. What is stored or touched stands at the tail "
        "of the host's order, as the batch has it; partial and unhashed blocks are passed over.",
    ),
    Rule(
        "M3",
        "The host never holds more than its capacity; storing into a full host drops the least recently used entry.",
        "Nor has a model worker more encodings of multimodal items than its cache has room for.",
    ),
    Rule(
        "M4",
        "A reload walks the request's own prefix only; no other entry of the host is touched.",
        "From its first hash that is not on the device, up to the limit of P14; it ends at the first hash that is on "
        "neither tier.",
    ),
    Rule(
        "M5",
        "A reload takes the head of the free queue, drops its hashes, copies, registers, and touches the host block.",
    ),
    Rule(
        "M6",
        "A reload destroys no hash that it, or the lookup that it serves, relies on.",
        "Every block of the prefix that is on the device is held before the first reload, also one behind a gap; each "
        "reloaded block is held at once and handed to the request. The bound is what is free after that. The dialect "
        "`blis` reloads first and claims afterwards, and is refuted.",
    ),
    Rule(
        "M7",
        "Reloading takes a base latency and a transfer time for each block, and reading the sum clears it.",
        "The base is at least 0, the bandwidth finite and more than 0.",
    ),
    Rule(
        "M8",
        "A reloaded block counts as one hit, not as two.",
        "Thrash rate is what the host evicted over what was mirrored; 0 where nothing was.",
    ),
    Rule(
        "M9",
        "With one order of admissions and ends, and no transfer time, a host tier never lowers the hits of a trace.",
        "False for the dialect `blis`, and for a walk past the limit of P14.",
    ),
    # ------------------------------------------------------------------------------------------ asynchronous offload
    Rule("O1", "The host tier is a block pool too: its counts, queue and map obey P1 to P11."),
    Rule(
        "O2",
        "A store holds its source and its destination until it completes; then both references go, once each.",
        "The host block is registered under the hash that the content had when it was copied.",
    ),
    Rule("O3", "A block is stored once: not while its store is in flight, not while the host has it."),
    Rule(
        "O4",
        "Every block that is computed is offered once; or, lazily, what stands near the head of the free queue.",
        "The lazy walk goes on from a cursor, and begins anew where the cursor's block has left the queue since.",
    ),
    Rule(
        "O5",
        "Host blocks that a lookup found stay pinned until the load is planned, and while it runs.",
        "Or until the request's next lookup, its end, its preemption or a reset. A connector that was not chosen "
        "lets go when another is.",
    ),
    Rule(
        "O6",
        "A host hit is bounded before the lookup, so that all groups stay aligned.",
        "Whoever waits for a storage below the host, alone, finds all that it has.",
    ),
    Rule(
        "O7",
        "Completions may come in any order; a stale or repeated one changes nothing.",
        "A transfer of several workers is complete when all have reported, exactly once.",
    ),
    Rule(
        "O8",
        "Preempt, abort and finish may come any moment: nothing leaks, no block of an unfinished copy is reused.",
        "No copy writes to what a step under way still writes. The engine goes on stepping while transfers are "
        "pending, also without any request.",
    ),
    Rule(
        "O9",
        "At rest, every full computed block of a finished request was stored, unless the host had no room.",
        "What a tree stores of a node it stores with the node's window and state, and what it has on a host goes on to "
        "the storage below that, where there is one.",
    ),
    Rule("O10", "A reset that answers true leaves both tiers empty; one that answers false changes neither."),
    Rule("O11", "A failed load gives back its pins, and the request computes again what is not there."),
    Rule(
        "O12",
        "A store offer evicts nothing that it names or that is in use; it is refused only when too little can go.",
        "A refusal changes nothing. No more is evicted than the offer needs, and by LRU nothing that was used after "
        "what stays. Where keys must be seen several times, only those that were are stored.",
    ),
    # ------------------------------------------------------------------------------------------ pin and demote
    Rule(
        "D1",
        "A block is exactly one of free, pinned and referenced; ref_cnt counts users, never pins.",
        "Only a block with a hash is pinned.",
    ),
    Rule(
        "D2",
        "An allocation takes from the free queue only; demoting moves the oldest pinned blocks to its tail, in order.",
        "Their marks go, their hashes stay until a block is used again, so that it can still be hit.",
    ),
    Rule(
        "D3",
        "A touched block leaves whichever queue it is in and keeps its mark; a later release takes it back there.",
        "Evict and reset clear the mark and put the block at the head of the free queue.",
    ),
    Rule(
        "D4",
        "A window's drop of enough blocks pins the newest window of those with a hash, and frees the older ones.",
        "A smaller drop marks nothing, and groups with full attention are as they were.",
    ),
    Rule(
        "D5",
        "An admission that free and pinned blocks cover demotes exactly what is missing and succeeds; else nothing.",
    ),
    Rule("D6", "With pinning off, every step is that of the pool, the order of the queue included."),
    Rule(
        "D7",
        "No block that a scheduled, unprocessed step still reads is given up.",
        "The window of position p covers the positions from p - W + 1 to p. What lies behind it is given up before its "
        "request is refused more; a dialect keeps it.",
    ),
    # ------------------------------------------------------------------------------------------ virtual time
    Rule(
        "G1",
        "A slot that is copied is free only when its copy has completed; copies in flight make no room.",
        "When nothing can run, time goes to the earliest deadline; without one, that is reported as a stall.",
    ),
    Rule(
        "G2",
        "A link is shared evenly by its transfers, moves no more than its bandwidth, and finishes none faster than it.",
        "A bandwidth of 0 or less, or an unknown one, means at once.",
    ),
    Rule(
        "G3",
        "Time never runs backward; completions come in their order, ties by id, and ids are unique over all links.",
    ),
    Rule("G4", "A batch is one transfer, and live and virtual runs of one trace tell one story."),
    Rule(
        "G5",
        "A swap-in covers the contiguous hits from the device's first miss to the host's, and is promoted once.",
        "To ask what is present changes nothing.",
    ),
    Rule("G6", "What lands on the host is told once, and so is what leaves it."),
    Rule("G7", "Offload for an engine that cannot do it is refused; configured off, the tier does not exist."),
    Rule("G8", "A worker sees of a shared tier exactly what had landed by the time it looks."),
    # ------------------------------------------------------------------------------------------ hybrid groups
    Rule(
        "H1",
        "Sizes of hashes, chunks and groups are positive and fit each other, or are refused at the start.",
    ),
    Rule(
        "H2",
        "What some tokens store, and what the stored chunks give back, never exceed each other, and are monotone.",
        "A prefix is a boundary at which every group has a state that can be used.",
    ),
    Rule("H3", "A configuration under which nothing can ever be stored is reported at the start."),
    Rule(
        "H4",
        "A hit of L tokens means that every group has what it needs of L.",
        "Where groups disagree after a load, it is the greatest boundary that all have.",
    ),
    Rule(
        "H5",
        "Of several connectors the one with the greatest weighted match loads, the first on a tie; all of them store.",
        "One that has not answered blocks no other. In the dialect `first`, the first hit in order wins. Work beyond a "
        "bound is put off, never dropped silently.",
    ),
    Rule(
        "H6",
        "A load past its time is cancelled, and what was prepared for it is released; a late end changes nothing.",
    ),
    Rule(
        "H7",
        "A step that waits for a load computes nothing; one with external tokens ends where the whole count aligns.",
    ),
    Rule("H8", "No physical block appears twice across one request's groups."),
    Rule("H9", "A stored file that is stale or of the wrong size fails its load; nothing is read past its end."),
    # ------------------------------------------------------------------------------------------ the prefix tree
    Rule(
        "R1",
        "Edges are whole pages, at least one; siblings differ in their first page; namespaces share nothing.",
        "A page that is not full is never the tree's. What tells namespaces apart: P13.",
    ),
    Rule(
        "R2",
        "Every slot is free, in one tree node, one request's own, or being copied; never in two places.",
        "Free, evictable, protected, private and copied slots together are all slots, and nothing is freed twice.",
    ),
    Rule(
        "R3",
        "A node's lock_ref is the number of live locks at it and below; a lock is released exactly once.",
        "It is never negative, and a parent's is at least the sum of its children's. Evictable is what no lock covers, "
        "protected the rest.",
    ),
    Rule(
        "R4",
        "A match returns the longest cached prefix of whole pages, short of the last token where that is computed.",
        "To split a node changes neither content nor locks, sizes nor order.",
    ),
    Rule(
        "R5",
        "An insert adopts what the tree does not have; the caller learns how much it had, and frees that once.",
        "Inserting twice is inserting once.",
    ),
    Rule(
        "R6",
        "Eviction frees leaves without a lock, in the policy's order, until enough is free or none is left.",
        "A node goes as a whole, and its parent may be the next leaf. Never what is locked, has a child, or is being "
        "copied.",
    ),
    Rule(
        "R7",
        "What a request computed becomes the tree's when it checks in, and its lock moves once.",
        "Finished or not; one that is aborted or retracted, at any moment, leaves nothing behind.",
    ),
    Rule(
        "R8",
        "Replaying a tree's events gives exactly the prefixes that it has, page by page.",
        "As P12; a parent is reported before its children, and removed after them.",
    ),
    Rule(
        "R9",
        "A node has all of its window and state values or none; a match ends where each component is usable.",
        "What it lost (a tombstone) owns no slot. A lock of a window covers the window, one of a state its node alone; "
        "a copy of a state is owned by exactly one.",
    ),
    Rule(
        "R10",
        "A node of a tree with a host tier is whole on one of the tiers; what a copy reads or writes stays held.",
        "On the device it stands behind a prefix that stands there. A load holds its node on the host, a store on the "
        "device, until the copy is over; one that fails leaves nothing behind.",
    ),
    Rule(
        "R11",
        "Two implementations of one tree agree call by call.",
        "In results and slots, in the order of eviction, in events and sizes.",
    ),
    # ------------------------------------------------------------------------------------------ liveness
    Rule(
        "L1",
        "A request that alone fits the pool ends some day.",
        "In every reachable state some admitted request can finish.",
    ),
    Rule(
        "L2",
        "While anything is held or under way, something can still complete; at rest, nothing is held.",
        "Each release or completion lowers a measure, and a reset is possible where it is 0.",
    ),
    # ------------------------------------------------------------------------------------------ streams of events
    Rule(
        "E1",
        "Sequence numbers rise by one; a gap is reported, or closed by a replay; nothing is applied twice.",
        "Each publisher has a row of its own and speaks for one rank. Number 0 again is a publisher that begins anew.",
    ),
    Rule(
        "E2",
        "What is removed was stored.",
        "Told by rank, medium and group, as P12. To be stored twice is allowed where copies of a hash are kept.",
    ),
    Rule(
        "E3",
        "A parent is cached when a child is stored, the tokens fill the blocks, and a hash names one content for ever.",
        "The content: parent, tokens and further keys. Where blocks leave a window, their children may outlive them; a "
        "parent in any group of the rank will do.",
    ),
    Rule(
        "E4",
        "AllBlocksCleared clears the media of its own rank, and no other's.",
    ),
    Rule(
        "E5",
        "A listener reads all forms that releases write, and what it cannot read it reports without stopping.",
        "Batches and events as arrays or maps, hashes as numbers or bytes; fields that it does not know are tolerated "
        "and counted.",
    ),
)

RULES: dict[str, Rule] = {rule.code: rule for rule in _ALL}
"""All rules by code, in their order."""
