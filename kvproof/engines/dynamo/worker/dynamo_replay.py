"""The level ``replay`` of Dynamo: its mocker replays a trace of requests in virtual time and reports on each.

The mocker is compiled and shows nothing while it runs, so there is one operation, and no state of blocks.
"""

import json
import os
import tempfile

from dynamo import _core
from level import Level, Refused

__all__ = ["ReplayLevel"]


class ReplayLevel(Level):
    """A mocker with the configuration ``engine``, which is the mocker's own; a row of a trace names its blocks."""

    def __init__(self, setup: dict) -> None:
        super().__init__()
        self.config = {"engine": setup["engine"]}
        try:
            engine = _core._normalize_mocker_config(self.config)["engine"]
        except ValueError as error:
            raise Refused(str(error)) from error
        block, offload = engine["block_size"], engine.get("native_host_offload")
        self.block = block
        self.world = {
            "groups": [{"kind": "full", "block": block}],
            "tiers": {"device": {"blocks": engine["num_gpu_blocks"]}}
            | ({"host": {"blocks": offload["num_host_blocks"], "by_key": True}} if offload else {}),
            "hash_block": block,
            "notes": {"engine": engine},
        }

    def state(self) -> dict:
        """Return nothing: the mocker shows no state."""
        return {"pools": {}}

    def op_replay(self, args: dict) -> dict:
        """Replay the trace of ``rows``; how full the device is, is told every ``sample_ms`` of the mocker's time."""
        rows, sample_ms = args["rows"], args["sample_ms"]
        args.clear()
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.jsonl")
            with open(trace, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            result = _core.run_mocker_trace_replay(
                [trace],
                extra_engine_args=self.config,
                trace_block_size=self.block,
                capture_per_request=True,
                capture_telemetry=True,
                telemetry_sample_interval_ms=sample_ms,
            )
        return {
            "requests": result.per_request,
            "summary": result.summary,
            "samples": result.telemetry["samples"],
            "names": _names([row["hash_ids"] for row in rows], self.block),
        }


def _names(prompts: list[list[int]], block: int) -> list[list[int]]:
    """Return the mocker's own names of the blocks of each prompt: it breaks ties by them.

    A block of a trace becomes tokens that are all its number, numbers counted from 0 in order of appearance. A name is
    a hash of those and of the name of the block before.
    """
    numbers: dict[int, int] = {}
    names = []
    for prompt in prompts:
        chain: list[int] = []
        for number in prompt:
            own = _hash([numbers.setdefault(number, len(numbers))] * block)
            chain.append(_hash([*_halves(chain[-1]), *_halves(own)]) if chain else own)
        names.append(chain)
    return names


def _hash(tokens: list[int]) -> int:
    return _core.compute_block_hash_for_seq(tokens, len(tokens))[0]


def _halves(number: int) -> tuple[int, int]:
    """Return 64 bits as two tokens, as they lie in memory."""
    return number & 0xFFFFFFFF, number >> 32
