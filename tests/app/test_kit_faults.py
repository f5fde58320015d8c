"""Where the judge itself fails, a hunt goes on: that is told as a fault of kvproof, with its case, and never as one of
the engine."""

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kvproof.checkers.trace import read_trace
from kvproof.cli import main as cli
from kvproof.cli.campaign.store import Asked, Slice, Store, Stretch
from kvproof.cli.campaign.summary import summary
from kvproof.cli.gaps import Gap
from kvproof.engines.driver import requests
from kvproof.errors import ExitStatus
from kvproof.judge.ghost import Ghost
from kvproof.judge.record import Step, World
from kvproof.judge.violation import KIT, Violation
from kvproof.testing import BlockManager, Request
from kvproof.testing.fuzzing import fuzz_manager

FAKE = Path(__file__).parents[1] / "engines/fakes/requests_driver.py"


class Astray:
    """An oracle with a fault of its own: it looks for something that nobody has, once a request has ended."""

    def __init__(self, _world: World) -> None:
        pass

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Fail where a request ends."""
        if step.op == "finish" and not step.skipped:
            yield dict[str, Violation]()["what is not there"]


@pytest.fixture(autouse=True)
def judged_astray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the judge of drivers and of managers in Python have that oracle."""
    monkeypatch.setattr(requests, "_ORACLES", (*requests._ORACLES, Astray))


def fuzzed(capsys: pytest.CaptureFixture[str], *options: str, traces: Path) -> tuple[int, dict[str, Any], str]:
    """Exit status, report and all that was said of a hunt of the driver."""
    target = "exec:" + shlex.join([sys.executable, str(FAKE), *options])
    status = cli.run(["fuzz", target, "--examples", "60", "--jobs", "1", "--traces", str(traces), "--json", "-"])
    shown = capsys.readouterr()
    return status, json.loads(shown.out), " ".join(shown.err.split())


def test_it_is_a_fault_of_kvproof_and_no_finding(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, told, said = fuzzed(capsys, traces=tmp_path)
    assert status == ExitStatus.UNUSABLE
    assert (told["findings"], told["examples"]) == ([], 60)
    (gap,) = [gap for gap in told["gaps"] if gap["fault"]]
    assert "kvproof's own judge fails, KeyError: 'what is not there' (test_kit_faults.py:" in gap["why"]
    assert "report it with its trace" in gap["mend"]
    assert "not judged: level requests, cases like one of" in said
    (trace,) = map(read_trace, tmp_path.iterdir())
    assert [operation.op for operation in trace.operations if operation.op == "finish"] == ["finish"]
    assert len(trace.operations) <= 3, "it is made small as findings are"
    again = ["replay", str(next(tmp_path.iterdir())), "--target", trace.subject]
    assert cli.run(again) == ExitStatus.UNUSABLE
    assert "kit judge" in capsys.readouterr().out


def test_what_the_engine_does_wrong_is_found_all_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, told, _ = fuzzed(capsys, "--engine-fault", "keep-hash", traces=tmp_path)
    assert status == ExitStatus.REFUTED
    assert "P6" in {finding["rule"] for finding in told["findings"]}
    assert KIT not in {finding["rule"] for finding in told["findings"]}
    assert any(gap["fault"] for gap in told["gaps"])


def test_the_test_of_a_manager_in_python_fails_by_it() -> None:
    class Plain(BlockManager):
        """A manager that gives each request blocks of its own, and finds nothing."""

        dialect: ClassVar = {}

        def __init__(self, blocks: int, block_tokens: int) -> None:
            self.size, self.left, self.tables = block_tokens, [*range(blocks)], dict[str, list[int]]()

        def allocate(self, request: Request, tokens: int) -> list[int] | None:
            table = self.tables.setdefault(request.name, [])
            more = max(0, -(-tokens // self.size) - len(table))
            if more > len(self.left):
                return None
            table += [self.left.pop() for _ in range(more)]
            return table

        def free(self, request: Request) -> None:
            self.left += self.tables.pop(request.name, [])

    (text,) = fuzz_manager(Plain, examples=60).broken["L2"]
    assert "kvproof's own judge fails, KeyError" in text


def test_a_campaign_tells_it_beside_what_was_judged(tmp_path: Path) -> None:
    store = Store.begun(tmp_path / "c", Asked(["toy==1.0"]))
    whole, fault = Stretch("toy", 9, 90), Gap("level toy", "kvproof's own judge fails", "report it", fault=True)
    store.finish("a", slice_of(Stretch("toy", 9, 90, gaps=[fault])))
    assert summary(store, [], [], 0).gaps == [Gap("toy==1.0, level toy", fault.why, fault.mend, fault=True)]
    store.finish("b", slice_of(whole))
    assert [gap.why for gap in summary(store, [], [], 0).gaps] == [fault.why]


def slice_of(stretch: Stretch) -> Slice:
    """A slice that did this."""
    return Slice("toy==1.0", (stretch.level,), 1.0, 1.0, 0.0, [stretch])
