"""Reading block-hash traces in the format of the Mooncake project, and the tokens that they stand for.

A line is one request: ``timestamp`` (ms), ``input_length``, ``output_length``, and ``hash_ids``, one per block of 512
prompt tokens, the last of which is usually partial. A hash id stands for the same 512 tokens wherever it occurs.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import msgspec
import numpy as np
from msgspec import Meta

from ..errors import UsageError
from ..untrusted import limits
from ..untrusted.opening import open_untrusted
from ..untrusted.reading import UnreadableError, decode_json

BLOCK_TOKENS = 512
"""The tokens that one hash id stands for."""

MAX_HASH_IDS = 2**32 // BLOCK_TOKENS
"""How many different hash ids there may be, so that every token is a number of its own in 32 bits."""

_Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _Line(msgspec.Struct):
    """One line of the file; fields beside these are not looked at."""

    timestamp: Annotated[int, Meta(ge=0, le=limits.MILLISECONDS)]
    input_length: Annotated[int, Meta(ge=1, le=limits.PROMPT_TOKENS)]
    output_length: Annotated[int, Meta(ge=0, le=limits.ANSWER_TOKENS)]
    hash_ids: list[_Natural]


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a trace."""

    index: int
    """Its place in the file, from 0; the name that targets know it by."""
    timestamp: int
    """When it arrived, in milliseconds."""
    length: int
    """Tokens of its prompt."""
    output_length: int
    """Tokens of its answer."""
    blocks: tuple[int, ...]
    """The hash id of each block, numbered anew in order of first appearance in the file."""

    @property
    def full_blocks(self) -> int:
        """How many of the blocks are full: those have a key and may be cached."""
        return self.length // BLOCK_TOKENS

    @property
    def lookup_limit(self) -> int:
        """The most blocks that a lookup may return: the last token is always recomputed (P14)."""
        return (self.length - 1) // BLOCK_TOKENS

    def tokens(self) -> bytes:
        """Return the prompt as little-endian 32-bit token ids.

        Token ``t`` of the block with number ``i`` is ``512 i + t``, so that two blocks share no token, and the last
        block is cut where the prompt ends.
        """
        first = np.asarray(self.blocks, dtype="<u4")[:, np.newaxis] * np.uint32(BLOCK_TOKENS)
        ids = (first + np.arange(BLOCK_TOKENS, dtype="<u4")).reshape(-1)
        return ids[: self.length].tobytes()


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests of a file, in order of arrival."""

    name: str
    requests: tuple[Request, ...]

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all requests together."""
        return sum(request.length for request in self.requests)

    @property
    def total_blocks(self) -> int:
        """Blocks of all requests together. A pool of that size never has to reuse a block: it is unlimited."""
        return sum(len(request.blocks) for request in self.requests)

    @property
    def distinct_blocks(self) -> int:
        """How many different hash ids occur."""
        return 1 + max(max(request.blocks) for request in self.requests)

    @property
    def largest_request(self) -> int:
        """The blocks of the longest prompt."""
        return max(len(request.blocks) for request in self.requests)


def read_workload(path: str | os.PathLike[str], *, limit: int | None = None) -> Workload:
    """Return the requests in the file at ``path``, or its first ``limit`` ones.

    Raises:
        UsageError: the file cannot be read, is beyond the limits, or a line is not a request of this format (the
            message names the line).
    """
    requests: list[Request] = []
    numbers: dict[int, int] = {}
    latest = total = 0
    try:
        with open_untrusted(path) as file:
            for number, text in enumerate(_lines(file, limit), start=1):
                where = f"{path}, line {number}"
                line = _decode(text, where)
                expected = -(-line.input_length // BLOCK_TOKENS)
                if len(line.hash_ids) != expected:
                    raise UsageError(
                        f"{where}: {line.input_length} prompt tokens need {expected} hash ids, one per "
                        f"{BLOCK_TOKENS} tokens, and the line has {len(line.hash_ids)}; correct the line"
                    )
                if len(set(line.hash_ids)) < expected:
                    raise UsageError(
                        f"{where}: a hash id stands twice in one request, and stands for all that comes before it too; "
                        "correct the line"
                    )
                if line.timestamp < latest:
                    raise UsageError(f"{where}: earlier than the line before it; sort the file by timestamp")
                latest = line.timestamp
                blocks = tuple([numbers.setdefault(hash_id, len(numbers)) for hash_id in line.hash_ids])
                total += len(blocks)
                if len(numbers) > MAX_HASH_IDS:
                    raise UsageError(f"{where}: more than {MAX_HASH_IDS} different hash ids; use --limit {number - 1}")
                if total > limits.BLOCKS or number > limits.REQUESTS:
                    most = f"{limits.BLOCKS:,} blocks or {limits.REQUESTS:,} requests"
                    raise UsageError(f"{where}: more than {most} in all; use --limit {number - 1}")
                requests.append(Request(number - 1, line.timestamp, line.input_length, line.output_length, blocks))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error}); give the path of a trace file") from error
    if not requests:
        raise UsageError(f"{path} holds no requests; give a trace file with one request a line")
    return Workload(Path(path).name, tuple(requests))


def _lines(file: IO[bytes], limit: int | None) -> Iterator[bytes]:
    """Yield the lines of a file, or its first ``limit`` ones; of a line that is too long, no more than shows it."""
    left = limit
    while left is None or left > 0:
        line = file.readline(limits.WORKLOAD_LINE + 1)
        if not line:
            return
        yield line
        left = None if left is None else left - 1


def _decode(text: bytes, where: str) -> _Line:
    """Return one line, or say what about it is wrong."""
    if len(text) > limits.WORKLOAD_LINE:
        raise UsageError(f"{where}: longer than {limits.WORKLOAD_LINE:,} bytes; give a file with one request a line")
    try:
        return decode_json(text, _Line)
    except UnreadableError as error:
        raise UsageError(
            f"{where}: {error}; a line is an object with timestamp, input_length, output_length and hash_ids"
        ) from error
