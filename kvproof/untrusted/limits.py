"""How much of what others send is taken: every bound, with its reason.

A file may be a gift or a trap. What is beyond a bound is refused with a sentence before it costs memory or time; the
bounds are far above anything that the kit writes, or that production traces hold.
"""

from typing import Final

# --------------------------------------------------------------------------------------------------- any JSON

DEPTH: Final = 64
"""How deeply values may be nested. The deepest that the kit writes is 9; functions that walk values recurse."""

DIGITS: Final = 40
"""Digits of a number. Those of 128 bits have 39; arithmetic with numbers of any length takes any time."""

VALUES: Final = 4_000_000
"""Values in what is read at once. Each takes up to some hundred bytes, however short its text is."""

WRITER_SECONDS: Final = 10
"""How long a pipe that is named as a file is waited for, if nobody has it open to write."""

# --------------------------------------------------------------------------------------------------- traces

TRACE_BYTES: Final = 64 * 2**20
"""A trace. The longest that the kit writes (long cases with states of large pools) have a few megabytes."""

OPERATIONS: Final = 100_000
"""Operations of a trace. Runs of the fuzzers have up to some hundred, and each costs a check of all properties."""

ELEMENTS: Final = 1000
"""Elements of one sort, in a trace. Scopes that are explored or fuzzed have up to ten, counterexamples fewer."""

ENTRIES: Final = 100_000
"""Entries of all maps and queues of a machine, in a trace: what a state takes, and what every check walks."""

NUMBER: Final = 10**12
"""How far numbers of a scope go, in a trace: ``Int``, and the fineness of ``Real``."""

COUNTED: Final = 10**6
"""A parameter that an implementation is made with: capacities, costs, lengths, windows."""

# --------------------------------------------------------------------------------------------------- workloads

WORKLOAD_LINE: Final = 2**20
"""Bytes of a line of a workload. The longest of the public production traces have 3 kB."""

PROMPT_TOKENS: Final = 2**24
"""Tokens of a prompt. They are made when it is replayed, four bytes each."""

REQUESTS: Final = 10_000_000
"""Requests of a workload."""

BLOCKS: Final = 50_000_000
"""Blocks of a pool that is made, and of all requests of a workload together: some gigabytes of bookkeeping."""

MILLISECONDS: Final = 10**16
"""A timestamp: three hundred thousand years, which hold those that are wrongly in microseconds since 1970 too."""

ANSWER_TOKENS: Final = 2**31
"""Tokens of an answer."""

# --------------------------------------------------------------------------------------------------- small files

KNOWN_BYTES: Final = 2**18
"""A list of known findings; an entry has some hundred bytes."""

DOTS: Final = 64
"""Dots in a line of it. A TOML reader takes time and memory by the square of the parts of a dotted key."""

RANGE_LETTERS: Final = 200
"""A range of releases, as in ``>=0.19,<0.24``: it is read by regular expressions."""

PARAMS_BYTES: Final = 16 * 2**20
"""The values of a machine's parameters."""

RECORD_BYTES: Final = 2**16
"""What the engine store notes of a release: three names."""

# --------------------------------------------------------------------------------------------------- engines

ANSWER_BYTES: Final = 256 * 2**20
"""A line that a worker says: the state of a pool of some million blocks."""

ANSWER_VALUES: Final = 32_000_000
"""Values in such a line."""

STREAMED_LINES: Final = 100_000
"""Lines that a worker may say before an answer."""

NAMES: Final = 1000
"""Levels, operations, options, tiers and groups that an engine may name."""

NAME_LETTERS: Final = 200
"""Letters of such a name."""

BLOCK_TOKENS: Final = 2**17
"""Tokens of a block or a chunk: a block of ghost content takes eight bytes for each."""

TABLE: Final = 10_000_000
"""Entries of a block table."""

# --------------------------------------------------------------------------------------------------- event streams

EVENT_BATCH_BYTES: Final = 32 * 2**20
"""A batch of KV events. A step that caches a prompt of a million tokens publishes some megabytes."""

EVENT_HASH_BYTES: Final = 128
"""A block's hash. Those that engines publish have 8 or 32."""

EVENT_PLACES: Final = 10_000
"""Ranks, media, groups and sizes of blocks together, in a stream; an engine has some of each."""

EVENT_BLOCKS: Final = 20_000_000
"""Blocks that a stream says are cached: some gigabytes of bookkeeping. The pools of large engines have a million."""

EVENT_TOPIC_BYTES: Final = 2**12
"""The topic of a message."""

EVENT_MAP_BYTES: Final = 2**30
"""A map of cached blocks, which an engine's driver tells."""

EVENT_LINE: Final = 8 * 2**20
"""A line of a router's own record of events."""

# --------------------------------------------------------------------------------------------------- what is shown

SHOWN_LETTERS: Final = 20_000
"""Letters of one line that is shown: some screens full."""
