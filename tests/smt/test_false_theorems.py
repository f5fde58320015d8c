"""Small machines that state something false: runs show it, and no proof denies it; their true mutants are proved."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import ProveReport, prove
from kvproof.machine import Machine, MachineError, Model

from .false_theorems import (
    corpus,
    finite,
    inheritance,
    kept,
    lasting,
    loops,
    lost,
    misread,
    parts,
    passed_over,
    put_off,
    python,
    queues,
    rounds,
    silent,
    truths,
    values,
)
from .random_machines.walking import walk

MODULES = (
    finite,
    inheritance,
    kept,
    lasting,
    loops,
    lost,
    misread,
    parts,
    passed_over,
    put_off,
    python,
    queues,
    rounds,
    silent,
    truths,
    values,
)
"""Each registers its machines when it is imported."""

SCOPES = 40
"""In so many small scopes a run that breaks something is looked for."""


def asked(machine: type[Machine]) -> ProveReport:
    return prove(machine, jobs=1, timeout=3)


@pytest.mark.slow
@pytest.mark.parametrize("case", corpus.FALSE, ids=lambda case: case.machine.__name__)
def test_a_run_shows_that_it_is_false(case: corpus.False_) -> None:
    assert case.broken in walk(case.machine, 0, rounds=SCOPES).violations


@pytest.mark.parametrize("case", corpus.FALSE, ids=lambda case: case.machine.__name__)
def test_what_is_false_is_refuted(case: corpus.False_) -> None:
    report = asked(case.machine)
    assert not report.holds
    refuted = [o for o in report.obligations if o.verdict == "refuted" and o.counterexample is not None]
    assert any(o.counterexample is not None and o.counterexample.replayed for o in refuted)


@pytest.mark.parametrize("case", corpus.REFUSED, ids=lambda case: case.make.__name__)
def test_what_would_be_lost_is_refused(case: corpus.Refused) -> None:
    with pytest.raises(MachineError) as caught:
        Model.of(case.make())
    assert case.says in str(caught.value)
    module = case.make.__module__.rpartition(".")[2]
    assert str(caught.value).startswith(f"{module}.py:{caught.value.line.number}")
    code = case.make.__code__
    assert caught.value.line.file == code.co_filename


@pytest.mark.slow
@pytest.mark.parametrize("machine", corpus.TRUE, ids=lambda machine: machine.__name__)
def test_no_run_breaks_the_true_mutant(machine: type[Machine]) -> None:
    assert not walk(machine, 0, rounds=SCOPES).violations


@pytest.mark.parametrize("machine", corpus.TRUE, ids=lambda machine: machine.__name__)
def test_the_true_mutant_is_proved(machine: type[Machine]) -> None:
    report = asked(machine)
    assert [(o.action, o.goal, o.verdict, o.note) for o in report.obligations if o.verdict != "proved"] == []
    assert report.holds


@pytest.mark.parametrize("machine", finite.VACUOUS, ids=lambda machine: machine.__name__)
def test_what_is_said_of_nothing_is_not_proved(machine: type[Machine]) -> None:
    """Where only infinitely many elements would do, everything is tried before that is `unknown`."""
    assert not prove(machine, jobs=1, timeout=0.5).holds


def test_every_class_of_defect_has_its_machines() -> None:
    for module in MODULES:
        own = module.__name__
        false = [c for c in corpus.FALSE if c.machine.__module__ == own]
        refused = [c for c in corpus.REFUSED if c.make.__module__ == own]
        assert len(false) + len(refused) >= 8, own
