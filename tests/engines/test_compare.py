"""`kvproof compare`: an engine beside the reference implementation, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvproof.cli import comparing
from kvproof.cli import main as cli
from kvproof.differential.outcome import Disagreement, Outcome
from kvproof.engines import hunt as engines_hunt
from kvproof.engines.catalog import ENGINES
from kvproof.engines.report import Finding
from kvproof.engines.session import Session
from kvproof.engines.store import StoreError, resolve
from kvproof.judge.record import Answer, Case, Step

from .toys import cases


def needs(target: str) -> None:
    try:
        resolve(target, list(ENGINES))
    except StoreError as error:
        pytest.skip(str(error))


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    status = cli.run(["compare", *arguments, "--json", "-"])
    said = capsys.readouterr()
    return status, json.loads(said.out), said.err


@pytest.mark.parametrize(
    ("target", "counted"),
    [("vllm==0.33.0", "blocks stored"), ("dynamo==1.6.1", "tokens reused"), ("sglang==0.5.23", "tokens found")],
)
def test_the_newest_releases_agree(target: str, counted: str, capsys: pytest.CaptureFixture[str]) -> None:
    needs(target)
    status, report, _ = compared(capsys, target, "--examples", "80", "--time", "200")
    assert status == 0
    assert report["disagreements"] == []
    assert report["compared"] > report["steps"] / 2
    assert report["counts"][counted] > 20


def test_an_old_release_disagrees_and_its_case_shows_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs("vllm==0.20.2")
    status, report, said = compared(
        capsys, "vllm==0.20.2", "--profile", "simple-eager", "--examples", "20", "--traces", str(tmp_path)
    )
    assert status == 1
    assert "holds.device" in {found["what"] for found in report["disagreements"]}
    assert "they differ: operation" in said
    path = next(tmp_path.glob("*holds.device*"))
    status, again, _ = compared(capsys, "vllm==0.20.2", "--subject", "offload", "--case", str(path))
    assert (status, again["examples"], len(again["disagreements"])) == (1, 1, 1)
    assert again["disagreements"][0]["what"] == "holds.device"


def test_who_ends_a_comparison_does_not_end_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("vllm==0.20.2")
    hunt = engines_hunt.hunt

    def ended(*args: Any, share: Any, **how: Any) -> Any:
        def found(findings: list[Finding]) -> list[Finding]:
            share(findings)
            if findings:
                raise KeyboardInterrupt
            return []

        return hunt(*args, share=found, **how)

    monkeypatch.setattr(comparing, "hunt", ended)
    asked = ["compare", "vllm==0.20.2", "--profile", "simple-eager", "--examples", "20", "--traces", str(tmp_path)]
    assert cli.run(asked) == 130
    said = capsys.readouterr()
    (path, *_) = tmp_path.iterdir()
    assert "they differ: operation" in said.out
    assert str(path) in said.out
    status, again, _ = compared(capsys, "vllm==0.20.2", "--subject", "offload", "--case", str(path))
    assert (status, len(again["disagreements"])) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["exec:true"],
            "compare takes releases, not exec:COMMAND or python:MODULE:CLASS; kvproof fuzz judges a driver of your own",
        ),
        (["vllm==99.0"], "vllm==99.0 is not installed; run: kvproof engines install vllm==99.0"),
        (["other==1.0"], "'other==1.0': kvproof cannot use other here; it can use vllm, dynamo and sglang"),
        (["vllm==0.33.0", "--case", "none.jsonl"], "none.jsonl"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["compare", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_an_unknown_part_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    needs("vllm==0.33.0")
    assert cli.run(["compare", "vllm==0.33.0", "--subject", "mocker"]) == 2
    assert "has no subject mocker; of vllm there is offload" in capsys.readouterr().err
    assert cli.run(["compare", "vllm==0.33.0", "--profile", "none"]) == 2
    assert "subject offload has no profile none; it has simple-eager" in capsys.readouterr().err


class Parting:
    """A comparison in which nothing is ever compared, or which differs behind two operations."""

    LEVEL = "toy"

    def __init__(self, differs: bool) -> None:
        self.differs = differs

    def profiles(self, _release: str) -> Any:
        return {"toy": cases()}

    def compare(self, _session: object, case: Case) -> Outcome:
        answer = Answer(0, steps=[Step(op, args) for op, args in case.ops])
        outcome = Outcome(case, answer, len(case.ops), parted="policies")
        if self.differs and len(case.ops) > 2:
            outcome.disagreement = Disagreement(2, case.ops[2][0], "sum", 1, 2)
        return outcome


@pytest.mark.parametrize(("differs", "status"), [(False, 3), (True, 1)])
def test_a_comparison_that_compares_nothing_says_so(
    differs: bool, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kvproof.cli import comparing

    from .toys import toy

    monkeypatch.setattr(comparing, "subject_of", lambda *_: (None, "toy", Parting(differs)))
    monkeypatch.setattr(Session, "of", lambda *_: toy())
    code, report, said = compared(capsys, "toy==1.0", "--examples", "30", "--time", "5")
    assert code == status
    assert report["parted"] == {"policies": report["examples"]}
    if differs:
        assert all(found["steps"] == 3 for found in report["disagreements"])
    else:
        assert "nothing was compared: policies" in said
