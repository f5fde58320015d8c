"""A replay on releases of vLLM: the hits are, to the last token, those of the reference implementation."""

from pathlib import Path

import pytest

from kvproof.engines.dialects import DialectError
from kvproof.workload.engine_target import EngineTarget
from kvproof.workload.replay import Replay, Result
from kvproof.workload.requests import read_workload
from kvproof.workload.target import RefimplTarget

from .installed import session
from .toys import toy

HEAD = Path(__file__).parents[2] / "benchmarks" / "data" / "conversation_head.jsonl"


def figures(result: Result) -> tuple[object, ...]:
    return result.violation, result.hit_tokens, result.block_operations, result.waits, result.turned_away


@pytest.mark.parametrize("version", ["0.16.0", "0.33.0"])
@pytest.mark.parametrize("overlap", [False, True])
def test_hits_are_those_of_the_reference_implementation(version: str, overlap: bool) -> None:
    work = read_workload(HEAD, limit=60)
    for capacity in (250, 700):
        target = EngineTarget(session(version), work, capacity)
        seen = Replay(work, target, check="sampled").run(overlap=overlap)
        reference = RefimplTarget(capacity, free_order=target.free_order)
        assert figures(seen) == figures(Replay(work, reference, check="end").run(overlap=overlap))
        assert seen.violation is None


def test_an_engine_of_which_no_dialect_is_known_is_refused() -> None:
    with toy() as fake, pytest.raises(DialectError, match=r"the dialects of fake are not known, only those of vllm"):
        EngineTarget(fake, read_workload(HEAD, limit=1), 100)
